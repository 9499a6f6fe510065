"""Band access: runs ordered by cell, in memory that is reserved as address space and taken as it is needed.

What happens to a window is compiled, see `access/band/runs.py`; here are its arrays.
"""

from __future__ import annotations

import mmap
import os
from dataclasses import replace
from types import ModuleType

import numpy as np

from streamjoin.access.band.bins import (
    TOLD_APART,
    TUPLES_PER_CELL,
    choose_grid,
    extent,
    new_keys,
    order_by_cell,
    total_cells,
)
from streamjoin.access.band.memory import BLOCK, GRANULE, hold
from streamjoin.access.band.runs import AT_ONCE, JOB_FIELDS, MOST_JOBS, PIECE, crowded, expire, insert
from streamjoin.access.band.search import FEW, aim, candidates, learn
from streamjoin.access.layout import (
    BEGIN,
    BOX_FIELDS,
    BUCKETS,
    CAPACITY,
    DIRECTORY,
    END,
    FIELDS,
    FIRST_AT,
    HELD,
    JOB_COUNT,
    KEYED,
    LAST_AT,
    LIVE,
    NEWEST,
    NURSERY,
    PAGE,
    RUN_COUNT,
    RUN_FIELDS,
    STARVED,
    STATE_FIELDS,
    TOP,
    WIDTH,
    Band,
    Probes,
    Ranges,
    Source,
    Stored,
)
from streamjoin.access.segment import Store, Trouble
from streamjoin.access.simd import LANES
from streamjoin.access.tuples import Shape, Tuples
from streamjoin.codegen.records import Array
from streamjoin.windows import SINCE_EVER

FIRST_CAPACITY = 128 * BLOCK
MOST_POSITIONS = 1 << 32
NURSERY_SIZE = 16 * AT_ONCE
RUNS = 64


class BandStore(Store):
    """Runs ordered by cell. `band` is all of it, for compiled code that takes over; it changes when room is made."""

    access = "band"

    def __init__(self, shape: Shape, exact: ModuleType, trouble: Trouble) -> None:
        super().__init__(shape, exact, trouble)
        self._straight = np.zeros(0, np.uint32)  # probes as they come
        self._reach = np.full(shape.dims, np.nan)
        self._clear(FIRST_CAPACITY)

    @property
    def stored(self) -> Stored:
        return self._stored

    @property
    def newest(self) -> int:
        return int(self.band.state[NEWEST])

    def __len__(self) -> int:
        return int(self.band.state[LIVE])

    @property
    def nbytes(self) -> int:
        return int(self.band.state[HELD] * BLOCK * self._position_bytes)

    def warm_up(self, empty: Tuples) -> None:
        """Has all that an insert and a probe call compiled, too: not in the middle of the first push."""
        super().warm_up(empty)
        box = np.zeros((self.shape.dims, 0), np.float32)
        nothing = replace(empty, lo=box, hi=box, coord=box, width=np.zeros(self.shape.dims, np.float32))
        self.insert(nothing)
        self.expire(SINCE_EVER)
        self._aim(nothing)
        self._candidates(nothing.probes, self._ranges, np.zeros(FIELDS, np.int64))

    def insert(self, batch: Tuples) -> None:
        source, _columns = as_source(batch)
        while not insert(self.band, source, 0, len(batch)):
            self.make_room(len(batch))

    def expire(self, horizon: int) -> None:
        expire(self.band, horizon)
        if not len(self) and self.band.state[CAPACITY] > FIRST_CAPACITY:
            self._clear(FIRST_CAPACITY, self.newest)

    def build(self, batch: Tuples) -> None:
        """Takes a window that is known as a whole, as one run."""
        n = len(batch)
        if not n:
            return
        self._clear(_rounded_up(n, BLOCK))
        band, stored, state, box = self.band, self.stored, self.band.state, self.band.boxes[0]
        extent(batch.coord, 0, n, box)
        box[WIDTH] = batch.width
        keys = new_keys(batch.key, 0, n, np.zeros(TOLD_APART // 64, np.uint64)) if self.shape.keyed else 1
        buckets = choose_grid(n, keys, box, band.reach)
        order, starts = np.empty(n, np.uint32), band.directory[: total_cells(box, buckets) + 1]
        order_by_cell(batch.coord, batch.key, 0, n, box, buckets, starts, order)
        band.runs[0, [BEGIN, END, BUCKETS, DIRECTORY]] = 0, n, buckets, 0
        band.runs[0, [FIRST_AT, LAST_AT]] = batch.at.min(), batch.at.max()
        pairs = [*zip(stored.columns, batch.columns, strict=True), *zip(stored.coord, batch.coord, strict=True)]
        pairs += [(stored.at, batch.at), (stored.number, batch.number.astype(np.uint32))]
        for to, source in pairs + [(stored.key, batch.key)] * self.shape.keyed:
            np.take(source, order, out=to[:n], mode="clip")
        state[RUN_COUNT], state[LIVE], state[NEWEST] = 1, n, batch.number.max()
        hold(state, band.held, 0, n)

    def expect(self, batch: Tuples) -> None:
        """Shows what will probe, so that the cells of the first runs are cut to it."""
        learn(self.band, batch.lo, batch.hi, 0, len(batch))

    def make_room(self, count: int) -> None:
        """Makes an insert of `count` tuples possible that was refused. The band is another one afterwards.

        The first time, at some ten thousand tuples, this copies the window into a reservation that the memory of this
        machine could not fill; there is no second time unless less than that is to be had.
        """
        band = self.band
        if crowded(band.state, band.runs) and not band.state[STARVED]:
            self._more_runs()
            return
        least = 2 * (int(band.state[CAPACITY]) + min(count, AT_ONCE))
        capacity = max(least, min(int(_address_space() / self._position_bytes), MOST_POSITIONS))
        while True:
            try:
                self._grow(_rounded_up(capacity, BLOCK))
            except MemoryError:
                capacity //= 2
                if capacity < least:
                    raise
            else:
                break

    def _clear(self, capacity: int, newest: int = 0) -> None:
        """Starts with an empty window."""
        state, dims = np.zeros(STATE_FIELDS, np.int64), self.shape.dims
        state[PAGE], state[KEYED], state[NEWEST] = mmap.PAGESIZE, self.shape.keyed, newest
        runs, boxes = np.zeros((RUNS, RUN_FIELDS), np.int64), np.zeros((RUNS, BOX_FIELDS, dims), np.float64)
        self.band, self._stored = self._arrays(capacity, state, runs, boxes)

    def _grow(self, capacity: int) -> None:
        """Moves to larger arrays; every tuple keeps its position."""
        old, old_stored = self.band, self._stored
        self.band, self._stored = self._arrays(capacity, old.state, old.runs, old.boxes)
        self.band.jobs[:], self.band.seen[:] = old.jobs, old.seen
        for k in range(-old.state[JOB_COUNT], old.state[RUN_COUNT]):
            begin, end = int(old.runs[k, BEGIN]), int(old.runs[k, END])
            for before, now in zip(_by_position(old_stored), _by_position(self._stored), strict=True):
                now[begin:end] = before[begin:end]
            entries = slice(begin // 2, _rounded_up(end, GRANULE) // 2)
            self.band.directory[entries] = old.directory[entries]
            hold(self.band.state, self.band.held, begin, end)

    def _more_runs(self) -> None:
        """Doubles the rows for runs; those of the jobs stay the last ones."""
        runs, boxes, half = self.band.runs, self.band.boxes, len(self.band.runs) // 2
        self.band = self.band._replace(
            runs=np.concatenate([runs[:half], np.zeros_like(runs), runs[half:]]),
            boxes=np.concatenate([boxes[:half], np.zeros_like(boxes), boxes[half:]]),
        )

    def _arrays(self, capacity: int, state: Array, runs: Array, boxes: Array) -> tuple[Band, Stored]:
        shape = self.shape
        stored = Stored(
            tuple(np.empty(capacity, dtype) for dtype in shape.columns),
            np.empty((shape.dims, capacity + LANES), np.float32),  # a vector may read beyond the last tuple
            np.empty(capacity if shape.keyed else 1, np.uint32),
            np.empty(capacity, np.int64),
            np.empty(capacity, np.uint32),
        )
        directory = np.empty(capacity // 2, np.uint32)
        columns = [(column, column.itemsize) for column in _by_position(stored)] + [(directory, 2)]
        state[CAPACITY], state[NURSERY] = capacity, min(NURSERY_SIZE, capacity // 2)
        state[STARVED] = state[HELD] = state[TOP] = 0
        band = Band(
            state=state,
            columns=_addresses(columns),
            coord=stored.coord,
            key=stored.key,
            runs=runs,
            boxes=boxes,
            directory=directory,
            reach=self._reach,
            jobs=np.zeros((MOST_JOBS, JOB_FIELDS), np.int64),
            seen=np.zeros((MOST_JOBS, TOLD_APART // 64 if shape.keyed else 1), np.uint64),
            held=np.zeros(capacity // BLOCK, np.bool_),
            target=np.empty(PIECE, np.uint32),
        )
        return band, stored

    @property
    def _position_bytes(self) -> float:
        """Bytes of one position in every column, and of its share of the directory, which keys may fill to the end."""
        directory = 2 if self.shape.keyed else 4 / TUPLES_PER_CELL
        return float(self.band.columns[1, :-1].sum()) + directory

    def _aim(self, batch: Tuples) -> Tuples:
        """Puts the probes into the order of the cells. They are read once per run: copying them pays."""
        n = len(batch)
        if n > len(self._straight):
            self._straight = np.arange(n, dtype=np.uint32)
        order = np.empty(n, np.uint32)
        learn(self.band, batch.lo, batch.hi, 0, n)
        aim(self.band, batch.probes, 0, n, order)
        return batch.probing(order, self.shape.keyed) if n >= FEW else batch

    def _candidates(self, probes: Probes, ranges: Ranges, cursor: Array) -> bool:
        return bool(candidates(probes, self._straight, len(probes.since), self.band, ranges, cursor))


def as_source(batch: Tuples) -> tuple[Source, tuple[Array, ...]]:
    """A batch for compiled inserts, and the columns that must outlive them: a source knows only their addresses."""
    columns = tuple(np.ascontiguousarray(column) for column in batch.columns)
    parts = batch.coord, batch.key, batch.at, batch.number, batch.width
    coord, key, at, number, width = (np.require(part, requirements=("C", "W")) for part in parts)
    addresses = _addresses([(column, column.itemsize) for column in columns])
    return Source(addresses, coord, key, at, number, width), columns


def _by_position(stored: Stored) -> list[Array]:
    """Every array that has positions, in the order of Band.columns."""
    return [*stored.columns, *stored.coord, stored.at, stored.number, *([stored.key] if len(stored.key) > 1 else [])]


def _addresses(columns: list[tuple[Array, int]]) -> Array:
    return np.array([[column.ctypes.data for column, _ in columns], [size for _, size in columns]], np.int64)


def _address_space() -> int:
    """Bytes to reserve for a window: more than it can ever fill, so that it need not be moved again."""
    return 2 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _rounded_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit
