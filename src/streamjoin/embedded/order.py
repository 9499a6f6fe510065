"""Results in the order of their time, by punctuations: a buffer that lets go what nothing later can precede."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamjoin.core.columns import take_rows
from streamjoin.core.kernels.layout import Array


class OrderBuffer:
    """Holds results until a punctuation reaches their time: tables, each in order, that lose their beginnings."""

    def __init__(self) -> None:
        self._held: list[tuple[pa.Table, Array]] = []

    def __len__(self) -> int:
        return sum(len(times) for _, times in self._held)

    def add(self, table: pa.Table, times: Array) -> None:
        order = np.argsort(times, kind="stable")
        self._held.append((take_rows(table, order), times[order]))

    def release(self, punctuation: int) -> pa.Table | None:
        """The results up to the punctuation, in order; None if there are none."""
        ready: list[tuple[pa.Table, Array]] = []
        rest: list[tuple[pa.Table, Array]] = []
        for table, times in self._held:
            count = int(np.searchsorted(times, punctuation, side="right"))
            if count:
                ready.append((table.slice(0, count), times[:count]))
            if count < len(times):
                rest.append((table.slice(count), times[count:]))
        self._held = rest
        if not ready:
            return None
        order = np.argsort(np.concatenate([times for _, times in ready]), kind="stable")
        return take_rows(pa.concat_tables([table for table, _ in ready]), order)
