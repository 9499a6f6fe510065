"""The sequential join: one worker, two windows. Baseline, and the local join of every other algorithm.

         r ──▶ insert ──▶ [ window r ] ◀── scan, expire ──┐
               └──────▶ scan, expire ──▶ [ window s ] ◀── insert ◀── s

Kang, Naughton, Viglas: Evaluating window joins over unbounded streams; in the improved form of DP-Join 4.4.3.
An arrival is (1) inserted into its own window and (2) compared with the other window, whose expired tuples are then
(3) dropped: one scan per arrival, of the window that is in the cache anyway, instead of two.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamjoin.access.segment import Search, Segment
from streamjoin.access.tuples import Tuples
from streamjoin.codegen.records import Array


def arrive(
    side: int, batch: Tuples, segments: tuple[Segment, Segment], searches: tuple[Search, Search]
) -> Iterator[tuple[Array, Array]]:
    """Steps 1 and 2 for arrivals of side 0 (r) or 1 (s). Yields the numbers of matching (r, s) tuples."""
    segments[side].insert(batch)
    for arrived, stored in searches[side].probe(segments[1 - side], batch):
        yield (stored, arrived) if side else (arrived, stored)
