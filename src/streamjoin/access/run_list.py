"""The list of runs of a store, kept as arrays because kernels read it."""

from __future__ import annotations

import numpy as np

from streamjoin.access.layout import Runs
from streamjoin.codegen.records import Array


class RunList:
    """Runs from oldest to newest. The newest may grow, the oldest are dropped."""

    def __init__(self, dims: int) -> None:
        self._dims = dims
        self.count = 0
        self.arrays = self._allocate(16)

    def _allocate(self, room: int) -> Runs:
        wide = (room, self._dims)
        return Runs(
            begin=np.zeros(room, np.int64),
            end=np.zeros(room, np.int64),
            first_at=np.zeros(room, np.int64),
            last_at=np.zeros(room, np.int64),
            low=np.zeros(wide, np.float32),
            high=np.zeros(wide, np.float32),
            width=np.zeros(wide, np.float32),
            origin=np.zeros(wide, np.float64),
            scale=np.zeros(wide, np.float64),
            cells=np.ones(wide, np.int64),
            buckets=np.ones(room, np.int64),
            directory=np.zeros(room, np.int64),
        )

    def size(self, run: int) -> int:
        return int(self.arrays.end[run] - self.arrays.begin[run])

    def add(self, begin: int, end: int, at: Array, width: Array) -> int:
        """Appends a run over positions begin..end-1 whose places are `at`. Returns its index."""
        if self.count == len(self.arrays.begin):
            bigger = self._allocate(2 * self.count)
            for old, new in zip(self.arrays, bigger, strict=True):
                new[: self.count] = old
            self.arrays = bigger
        run = self.count
        self.arrays.begin[run], self.arrays.end[run] = begin, end
        self.arrays.first_at[run], self.arrays.last_at[run] = at.min(), at.max()
        self.arrays.width[run] = width
        self.count += 1
        return run

    def extend(self, end: int, at: Array, width: Array) -> None:
        """Makes the newest run longer by tuples at places `at`."""
        run, arrays = self.count - 1, self.arrays
        arrays.end[run] = end
        arrays.first_at[run] = min(arrays.first_at[run], at.min())
        arrays.last_at[run] = max(arrays.last_at[run], at.max())
        arrays.width[run] = np.maximum(arrays.width[run], width)

    def shift(self, distance: int) -> None:
        """Follows the arena's tuples towards the front."""
        self.arrays.begin[: self.count] -= distance
        self.arrays.end[: self.count] -= distance

    def expired(self, horizon: int) -> int:
        """How many of the oldest runs lie wholly below the horizon."""
        below = self.arrays.last_at[: self.count] < horizon
        return int(self.count if below.all() else below.argmin())

    def drop(self, runs: int) -> int:
        """Forgets the oldest runs. Returns how many tuples they held."""
        if not runs:
            return 0
        gone = int(self.arrays.end[runs - 1] - self.arrays.begin[0])
        for array in self.arrays:
            array[: self.count - runs] = array[runs : self.count].copy()
        self.count -= runs
        return gone
