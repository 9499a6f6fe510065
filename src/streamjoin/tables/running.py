"""How many partners each r has, where equal keys and a window of time decide: one pass in the order of time.

An r has the s of its key up to the end of its window, less those before its beginning. Running counts by key tell both,
however many partners there are.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamjoin.codegen.records import Array
from streamjoin.intake.prepare import times_of
from streamjoin.plan.plan import Plan
from streamjoin.tables.by_key import ByKey, blocks, keys_decide, order, rising
from streamjoin.tables.crew import Crew
from streamjoin.tables.latest import count_until
from streamjoin.tables.memory import room

RUNNING = "running count"  # the shape


def countable(plan: Plan, tables: tuple[pa.Table, pa.Table], ordered: bool, crew: Crew) -> bool:
    """Is counting enough, and are the rows in the order of time?

    Where they do not, sorting them takes longer than to find the partners of each r in the order of keys.
    """
    if not plan.kind.counts_partners(ordered) or not keys_decide(plan):
        return False
    return all(rising(times_of(plan, side, table), crew) for side, table in enumerate(tables))


class RunningCount(ByKey):
    """One such count of two tables."""

    def counts(self) -> Array:
        """By row of r: how many partners it has."""
        times_r, times_s = self._times
        n = len(times_r)
        if not len(times_s):
            return np.zeros(n, np.int64)
        since, until = room(n, np.int64), room(n, np.int64)

        def limit(begin: int, end: int) -> None:
            _, since[begin:end], until[begin:end] = self._bounds(begin, end)

        self._crew.each(limit, blocks(n))
        counts = self._until(until, strict=0)
        if n and since.max() > times_s.min():
            counts -= self._until(since, strict=1)
        return np.maximum(counts, 0, out=counts)  # a window that ends before it begins holds nothing

    def _until(self, limits: Array, strict: int) -> Array:
        """By row of r: the number of s of its key up to its limit, or before it."""
        crew, (numbers_r, numbers_s) = self._crew, self._numbers
        own, found = order(limits, crew), room(len(limits), np.int64)
        ranges = self._row_ranges(limits, own, backwards=0, strict=strict)
        counts = [np.zeros(max(self._keys, 1), np.int64) for _ in ranges]
        crew.each(
            count_until,
            [
                (row_range, numbers_r, own, limits, numbers_s, self._order_s, self._times[1], count, found)
                for row_range, count in zip(ranges, counts, strict=True)
            ],
        )

        def add(first: int, last: int, earlier: Array) -> None:
            rows = own[first:last] if len(own) else slice(first, last)
            numbers = numbers_r[rows]
            found[rows] += np.where(numbers >= 0, earlier[numbers], 0)

        earlier, later = counts[0], []
        for row_range, count in zip(ranges[1:], counts[1:], strict=True):
            later.append((int(row_range.first), int(row_range.last), earlier))
            earlier = earlier + count
        crew.each(add, later)
        return found
