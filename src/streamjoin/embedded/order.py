"""Results in the order of their time, by punctuations: a buffer that lets go what nothing later can precede."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamjoin.core.columns import take_rows
from streamjoin.core.kernels.layout import Array

Held = tuple[pa.Table, Array, Array, Array]  # rows, their times, the numbers of the tuples they come from


class OrderBuffer:
    """Holds results until a punctuation reaches their time: tables, each in order, that lose their beginnings."""

    def __init__(self) -> None:
        self._held: list[Held] = []

    def __len__(self) -> int:
        return sum(len(times) for _, times, _, _ in self._held)

    def add(self, table: pa.Table, times: Array, r: Array, s: Array) -> None:
        order = np.argsort(times, kind="stable")
        self._held.append((take_rows(table, order), times[order], r[order], s[order]))

    def release(self, punctuation: int) -> tuple[pa.Table, Array, Array] | None:
        """The results up to the punctuation, in order, and the numbers behind them; None if there are none."""
        ready: list[Held] = []
        rest: list[Held] = []
        for table, *arrays in self._held:
            times = arrays[0]
            count = int(np.searchsorted(times, punctuation, side="right"))
            if count:
                ready.append((table.slice(0, count), times[:count], arrays[1][:count], arrays[2][:count]))
            if count < len(times):
                rest.append((table.slice(count), times[count:], arrays[1][count:], arrays[2][count:]))
        self._held = rest
        if not ready:
            return None
        times, r, s = (np.concatenate([held[k] for held in ready]) for k in (1, 2, 3))
        order = np.argsort(times, kind="stable")
        return take_rows(pa.concat_tables([held[0] for held in ready]), order), r[order], s[order]
