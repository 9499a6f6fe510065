"""Streams without a window: of each key the join keeps one version of s, and those that an r may still need.

`at` of a tuple of s counts in order of arrival. From time to time the tuples that are still needed are pushed again, as
if they were new, and all tuples before them expire. So no engine has to know that there is no window. A choice that was
made before finds the same row again.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamjoin.intake.columns import physical_columns
from streamjoin.intake.prepare import Intake
from streamjoin.live.stream import Stream
from streamjoin.results.output import Output
from streamjoin.windows.every import latest

FEWEST = 1 << 12  # tuples of s below which no version is carried on


class Versions:
    """Decides when versions are carried on, and which ones."""

    def __init__(self, intake: Intake, streams: tuple[Stream, Stream], output: Output) -> None:
        self._intake, self._streams, self._output = intake, streams, output
        self._first = 0  # number of the first tuple that has not expired
        self._enough = FEWEST

    def wanted(self) -> pa.Table | None:
        """The rows of s that are needed from now on; None while too few others could be dropped."""
        rows = self._output.sides[1].rows
        if rows.next - self._first < self._enough:
            return None
        table = rows.take(np.arange(self._first, rows.next))
        keys = physical_columns(table, self._intake.program.stored["s"], "s")
        times, arrival = self._intake.times(1, table), np.arange(table.num_rows)
        needed = latest(keys, times, arrival, self._streams[0].watermark.value)
        self._enough = max(FEWEST, 2 * int(np.count_nonzero(needed)))
        if rows.next - self._first < self._enough:
            return None
        self._first = rows.next
        return table.filter(pa.array(needed))
