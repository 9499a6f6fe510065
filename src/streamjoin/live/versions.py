"""Streams without a window: of each key one version of s is kept, and those that an r may still ask for.

Tuples of s have places in the order in which they come. From time to time those that are still needed come once more,
as if they were new, and all before them expire: no engine has to know that there is no window. A choice that was made
before finds the same row again.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamjoin.codegen.records import Array
from streamjoin.intake.columns import physical_columns
from streamjoin.intake.prepare import Intake
from streamjoin.live.stream import Stream
from streamjoin.results.output import Output

FEWEST = 1 << 12  # tuples of s for which it is worth looking


class Versions:
    """Decides when versions are carried on, and which."""

    def __init__(self, intake: Intake, streams: tuple[Stream, Stream], output: Output) -> None:
        self._intake, self._streams, self._output = intake, streams, output
        self._first = 0  # number of the first tuple that has not expired
        self._enough = FEWEST

    def wanted(self) -> pa.Table | None:
        """The rows of s that are needed from now on, if there are enough of others to let these go."""
        rows = self._output.sides[1].rows
        if rows.next - self._first < self._enough:
            return None
        table = rows.take(np.arange(self._first, rows.next))
        keys = physical_columns(table, self._intake.program.stored["s"], "s")
        needed = latest(keys, self._intake.times(1, table), self._streams[0].watermark.value)
        self._enough = max(FEWEST, 2 * int(np.count_nonzero(needed)))
        if rows.next - self._first < self._enough:
            return None
        self._first = rows.next
        return table.filter(pa.array(needed))


def latest(keys: tuple[Array, ...], times: Array, passed: int) -> Array:
    """Which versions an r from a time on may ask for: of each key the last one up to that time, and all later ones.

    >>> latest((np.array([1, 1, 2, 1]),), np.array([3, 5, 4, 9]), 6).tolist()
    [False, True, True, True]
    """
    order = np.lexsort((np.arange(len(times)), times, *keys))
    replaced = times[order[1:]] <= passed  # by the next one in this order
    for key in keys:
        replaced &= key[order[1:]] == key[order[:-1]]
    needed = np.ones(len(order), np.bool_)
    needed[order[:-1]] = ~replaced
    return needed
