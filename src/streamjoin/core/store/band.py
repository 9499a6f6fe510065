"""Band access: runs ordered by cell, merged in tiers, dropped as a whole.

    oldest  [  closed  ][  closed  ][  closed  ][ run ][ run ][r]  newest
             about 1/PARTS of the window each    each at least GROWTH times the next

A batch becomes a small run. While the newest run is more than 1/GROWTH of the one before, the two become one, so that a
probe meets few runs. Once the newest runs together make up a part of the window, they become one that is closed: it is
merged no more, and dropped when its last tuple has expired.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

from streamjoin.core.grid import Grid, choose_grid
from streamjoin.core.kernels.band import candidates
from streamjoin.core.kernels.cells import distinct_keys, extent, order_by_cell
from streamjoin.core.kernels.layout import Array, Probes, Ranges
from streamjoin.core.kernels.scalar import FARTHEST
from streamjoin.core.store.arena import Shape, Tuples
from streamjoin.core.store.base import Store, Trouble
from streamjoin.core.store.runs import RunList

GROWTH = 2
PARTS = 4
MOST_CLOSED = 2 * PARTS
SMALL = 4096  # runs up to this size merge without regard to the window
SORT_PROBES = 256


class BandStore(Store):
    """Runs ordered by cell; see `core/kernels/band.py`."""

    access = "band"

    def __init__(self, shape: Shape, exact: ModuleType, trouble: Trouble) -> None:
        super().__init__(shape, exact, trouble)
        self._runs = RunList(shape.dims)
        self._directory = np.zeros(SMALL, np.uint32)
        self._used = 0  # entries of the directory in use
        self._closed = 0  # runs, from the oldest on, that are merged no more
        self._reach = np.full(shape.dims, np.nan)  # how wide the probes' boxes are, on average

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._directory.nbytes

    def insert(self, batch: Tuples) -> None:
        if not len(batch):
            return
        self._runs.shift(self.arena.append(batch))
        runs, size, width, first = self._runs, len(batch), batch.width, self._runs.count
        part = max(len(self) // PARTS, SMALL)
        closing = self.arena.end - self._open_from() >= part
        while first > self._closed and (closing or runs.size(first - 1) < GROWTH * size):
            first -= 1
            size += runs.size(first)
            width = np.maximum(width, runs.arrays.width[first])
        self._replace(first, [(self.arena.end - size, self.arena.end, width)])
        self._closed += closing
        if self._closed > MOST_CLOSED:
            self._consolidate(part)

    def build(self, batch: Tuples) -> None:
        """Takes a window that is known as a whole, as one run."""
        if not len(batch):
            return
        order = self._add_run(0, len(batch), batch.coord, batch.key, batch.at, batch.width)
        self.arena.fill(batch, order)

    def expect(self, batch: Tuples) -> None:
        """Shows what will probe, so that the cells of the first runs are cut to it."""
        self._learn(batch.probes)

    def expire(self, horizon: int) -> None:
        gone = self._runs.expired(horizon)
        if not gone:
            return
        self._closed = max(0, self._closed - gone)
        self.arena.drop(self._runs.drop(gone))
        kept = self._runs.arrays.directory[: self._runs.count]
        start = int(kept[0]) if len(kept) else self._used
        self._directory[: self._used - start] = self._directory[start : self._used].copy()
        kept -= start
        self._used -= start
        if not self._used:
            self._directory = np.zeros(SMALL, np.uint32)

    def _open_from(self) -> int:
        """The position at which the runs begin that may still be merged."""
        return int(self._runs.arrays.end[self._closed - 1]) if self._closed else self.arena.begin

    def _consolidate(self, part: int) -> None:
        """Joins closed runs up to a part of the window: those from before it grew to its present size."""
        arrays = self._runs.arrays
        joined: list[tuple[int, int, Array]] = []
        for run in range(self._runs.count):
            begin, end, width = int(arrays.begin[run]), int(arrays.end[run]), arrays.width[run].copy()
            if joined and run < self._closed and end - joined[-1][0] <= part:
                begin, _, before = joined.pop()
                width = np.maximum(width, before)
            joined.append((begin, end, width))
        still_open = self._runs.count - self._closed
        self._replace(0, joined)
        self._closed = self._runs.count - still_open

    def _replace(self, first: int, stretches: list[tuple[int, int, Array]]) -> None:
        """Puts new runs over the given stretches in place of run `first` and all newer ones."""
        if first < self._runs.count:
            self._used = int(self._runs.arrays.directory[first])
            self._runs.cut(first)
        for begin, end, width in stretches:
            self._build(begin, end, width)

    def _build(self, begin: int, end: int, width: Array) -> None:
        """Makes positions begin..end-1 the newest run, ordered by cell."""
        stored = self.arena.stored
        order = self._add_run(begin, end, stored.coord, stored.key, stored.at, width)
        self.arena.reorder(begin, end, order)

    def _add_run(self, begin: int, end: int, coord: Array, key: Array, at: Array, width: Array) -> Array:
        """Enters a run over positions begin..end-1. Returns the order in which its tuples must lie."""
        dims = self.arena.shape.dims
        run = self._runs.add(begin, end, at[begin:end], width)
        arrays = self._runs.arrays
        finite_low, finite_high = np.empty(dims, np.float32), np.empty(dims, np.float32)
        extent(coord, begin, end, arrays.low[run], arrays.high[run], finite_low, finite_high)
        keys = int(distinct_keys(key, begin, end)) if self.arena.shape.keyed else 1
        grid = choose_grid(end - begin, keys, finite_low, finite_high, width, self._reach)
        self._enter(run, grid)
        order = np.empty(end - begin, np.uint32)
        starts = self._directory[self._used : self._used + grid.total + 1]
        order_by_cell(coord, key, begin, end, grid.origin, grid.scale, grid.cells, grid.buckets, starts, order)
        self._used += grid.total + 1
        return order

    def _enter(self, run: int, grid: Grid) -> None:
        arrays = self._runs.arrays
        arrays.origin[run], arrays.scale[run], arrays.cells[run] = grid.origin, grid.scale, grid.cells
        arrays.buckets[run], arrays.directory[run] = grid.buckets, self._used
        needed = self._used + grid.total + 1
        if needed > len(self._directory):
            bigger = np.empty(needed + needed // 4, np.uint32)
            bigger[: self._used] = self._directory[: self._used]
            self._directory = bigger

    def _aim(self, batch: Tuples) -> Tuples:
        """Puts the probes into the order of the largest run's cells: neighbours then read what is in the cache."""
        self._learn(batch.probes)
        n, runs = len(batch), self._runs
        if n < SORT_PROBES:
            return batch
        run = int(np.argmax(runs.arrays.end[: runs.count] - runs.arrays.begin[: runs.count]))
        arrays = runs.arrays
        grid = Grid(arrays.origin[run], arrays.scale[run], arrays.cells[run], int(arrays.buckets[run])).coarser(4 * n)
        order, starts = np.empty(n, np.uint32), np.empty(grid.total + 1, np.uint32)
        order_by_cell(batch.hi, batch.key, 0, n, grid.origin, grid.scale, grid.cells, grid.buckets, starts, order)
        return batch.probing(order, self.arena.shape.keyed)

    def _learn(self, probes: Probes) -> None:
        """Follows the width of the probes' boxes: the cells of later runs are cut to it."""
        for d, (lo, hi) in enumerate(zip(probes.lo, probes.hi, strict=True)):
            span = hi - lo
            seen = span[(np.abs(lo) < FARTHEST) & (np.abs(hi) < FARTHEST)]
            if len(seen):
                mean = float(seen.mean(dtype=np.float64))
                self._reach[d] = mean if np.isnan(self._reach[d]) else 0.9 * self._reach[d] + 0.1 * mean

    def _candidates(self, probes: Probes, ranges: Ranges, cursor: Array) -> bool:
        runs = self._runs
        return bool(candidates(probes, runs.arrays, runs.count, self._directory, ranges, cursor))
