"""The sequential join: one worker, two windows. Baseline, and the local join of every other algorithm.

         r ──▶ insert ──▶ [ window r ] ◀── scan, expire ──┐
               └──────▶ scan, expire ──▶ [ window s ] ◀── insert ◀── s

Kang, Naughton, Viglas: Evaluating window joins over unbounded streams; in the improved form of DP-Join 4.4.3.
An arrival is (1) inserted into its own window, (2) compared with the other window, (3) the other window's expired
tuples are forgotten: one scan per arrival, of the window that is in the cache anyway, instead of two.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamjoin.access.segment import Search, Segment
from streamjoin.access.tuples import Tuples
from streamjoin.codegen.records import Array


class Kang:
    """The windows of both sides, 0 (r) and 1 (s), and what arrivals of each need to probe."""

    def __init__(self, segments: tuple[Segment, Segment], searches: tuple[Search, Search]) -> None:
        self.segments = segments
        self.searches = searches

    def arrive(self, side: int, batch: Tuples) -> Iterator[tuple[Array, Array]]:
        """Steps 1 and 2 for a batch of arrivals. Yields the numbers of matching (r, s) tuples."""
        self.segments[side].insert(batch)
        for arrived, stored in self.searches[side].probe(self.segments[1 - side], batch):
            yield (stored, arrived) if side else (arrived, stored)

    def expire(self, side: int, horizon: int) -> None:
        """Step 3: tuples of a side whose place lies below the horizon will meet no further arrival."""
        self.segments[side].expire(horizon)

    @property
    def comparisons(self) -> int:
        """Pairs that were compared so far."""
        return sum(search.comparisons for search in self.searches)
