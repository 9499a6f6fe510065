"""The sequential join: one worker, two windows. Baseline, and the local join of every other algorithm.

         r ──▶ insert ──▶ [ window r ] ◀── scan, expire ──┐
               └──────▶ scan, expire ──▶ [ window s ] ◀── insert ◀── s

Kang, Naughton, Viglas: Evaluating window joins over unbounded streams; in the improved form of DP-Join 4.4.3.
An arrival is (1) inserted into its own window, (2) compared with the other window, (3) the other window's expired
tuples are forgotten: one scan per arrival, of the window that is in the cache anyway, instead of two.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamjoin.access.segment import Store
from streamjoin.access.tuples import Tuples
from streamjoin.codegen.records import Array
from streamjoin.predicate.tree import OTHER


class Kang:
    """The two window stores, by side."""

    def __init__(self, stores: dict[str, Store]) -> None:
        self.stores = stores

    def arrive(self, side: str, batch: Tuples) -> Iterator[tuple[Array, Array]]:
        """Steps 1 and 2 for a batch of arrivals. Yields the numbers of matching (r, s) tuples."""
        own, other = self.stores[side], self.stores[OTHER[side]]
        own.insert(batch)
        for arrived, stored in other.probe(batch):
            yield (arrived, stored) if side == "r" else (stored, arrived)

    def expire(self, side: str, horizon: int) -> None:
        """Step 3: tuples of a side whose place lies below the horizon will meet no further arrival."""
        self.stores[side].expire(horizon)
