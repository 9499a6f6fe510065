"""As-of joins of two tables whose predicate consists of equalities: one pass in the order of time, not all pairs.

A search would find every partner of an r to keep the latest one. Here a hash table has the latest s of each key.
"""

from __future__ import annotations

import numpy as np

from streamjoin.codegen.records import Array
from streamjoin.kinds import BACKWARD, FORWARD
from streamjoin.plan.plan import Plan
from streamjoin.tables.by_key import ByKey, blocks, keys_decide, order
from streamjoin.tables.latest import latest
from streamjoin.tables.memory import room

AS_OF = "as-of"  # the shape


def possible(plan: Plan) -> bool:
    """Does the join ask for the latest or the next s of the same key, with no other condition?"""
    return plan.kind.take.timely and keys_decide(plan)


class AsOf(ByKey):
    """One as-of join of two tables."""

    def partners(self) -> Array:
        """By row of r: the row of s that is taken, -1 if there is none."""
        take, (times_r, times_s) = self._plan.kind.take.name, self._times
        n, nothing = len(times_r), np.zeros(0, np.int64)
        if not len(times_s):
            return np.full(n, -1)
        limits = [room(n, np.int64) if take != other else nothing for other in (FORWARD, BACKWARD)]

        def limit(begin: int, end: int) -> None:
            own, since, until = self._bounds(begin, end)
            if take != FORWARD:
                np.minimum(own, until, out=limits[0][begin:end])
            if take != BACKWARD:
                np.maximum(own, since, out=limits[1][begin:end])

        parts = blocks(n)
        self._crew.each(limit, parts)
        before, after = (
            self._search(limits[backwards], backwards) if len(limits[backwards]) else nothing for backwards in (0, 1)
        )
        ends = int(times_s.min()), int(times_s.max())

        def decide(begin: int, end: int) -> None:
            own, since, until = self._bounds(begin, end)
            back, forth = before[begin:end], after[begin:end]
            if take != FORWARD and since.max() > ends[0]:
                back[(back >= 0) & (times_s[back] < since)] = -1
            if take != BACKWARD and until.min() < ends[1]:
                forth[(forth >= 0) & (times_s[forth] > until)] = -1
            if take not in (BACKWARD, FORWARD):
                # Differences of times may need more than 63 bits: as unsigned integers they wrap to what they are.
                past = own.view(np.uint64) - times_s[back].view(np.uint64)
                ahead = times_s[forth].view(np.uint64) - own.view(np.uint64)
                np.copyto(back, forth, where=(back < 0) | ((forth >= 0) & (ahead < past)))

        self._crew.each(decide, parts)
        return after if take == FORWARD else before

    def _search(self, limits: Array, backwards: int) -> Array:
        """The last s up to every limit, or the first one from it on.

        Every range of r reads the s that lie within it in time. Where these are not enough, the last s of the ranges
        before it decide.
        """
        crew, times, n = self._crew, self._times[1], len(limits)
        own, order_s = order(limits, crew), self._order_s
        numbers_r, numbers_s = self._numbers
        found, ranges = room(n, np.int64), self._row_ranges(limits, own, backwards, strict=0)
        lasts = [np.full(max(self._keys, 1), -1) for _ in ranges]
        crew.each(
            latest,
            [
                (row_range, numbers_r, own, limits, numbers_s, order_s, times, last, found)
                for row_range, last in zip(ranges, lasts, strict=True)
            ],
        )

        def carry_on(first: int, last: int, carried: Array) -> None:
            begin, end = (n - last, n - first) if backwards else (first, last)
            rows = own[begin:end] if len(own) else slice(begin, end)
            alone = np.flatnonzero((found[rows] < 0) & (numbers_r[rows] >= 0))
            missing = own[begin:end][alone] if len(own) else alone + begin
            found[missing] = carried[numbers_r[missing]]

        carried, later = lasts[0], []
        for row_range, last in zip(ranges[1:], lasts[1:], strict=True):
            later.append((int(row_range.first), int(row_range.last), carried))
            carried = np.where(last >= 0, last, carried)
        crew.each(carry_on, later)
        return found
