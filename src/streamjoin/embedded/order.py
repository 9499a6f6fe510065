"""Results in the order of their time, by punctuations: a buffer that lets go what nothing later can precede."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamjoin.core.columns import take_rows
from streamjoin.core.kernels.layout import Array


class OrderBuffer:
    """Holds results until a punctuation reaches their time."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []
        self._times: list[Array] = []

    def __len__(self) -> int:
        return sum(len(times) for times in self._times)

    def add(self, table: pa.Table, times: Array) -> None:
        self._tables.append(table)
        self._times.append(times)

    def release(self, punctuation: int) -> pa.Table | None:
        """The results up to the punctuation, in order; None if there are none."""
        if not self._tables or min(int(times.min()) for times in self._times) > punctuation:
            return None
        table, times = pa.concat_tables(self._tables), np.concatenate(self._times)
        order = np.argsort(times, kind="stable")
        ready = int(np.searchsorted(times[order], punctuation, side="right"))
        self._tables, self._times = [], []
        if ready < len(times):
            self.add(take_rows(table, order[ready:]), times[order[ready:]])
        return take_rows(table, order[:ready])
