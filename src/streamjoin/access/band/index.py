"""Band access: runs ordered by bin, in reserved address space whose pages are allocated when they are needed.

This file has the arrays of a segment; its operations are compiled, see `access/band/runs.py`.
"""

from __future__ import annotations

import mmap
import os

import numpy as np

from streamjoin.access.band.bins import TOLD_APART, TUPLES_PER_BIN
from streamjoin.access.band.memory import BLOCK, GRANULE
from streamjoin.access.band.merge import AT_ONCE, PIECE
from streamjoin.access.band.records import MOST_MERGES, Band, Merge, Run
from streamjoin.access.band.runs import build, expire, insert
from streamjoin.access.band.search import FEW, aim, find
from streamjoin.access.movable import Movable
from streamjoin.access.records import Probing
from streamjoin.access.segment import Search
from streamjoin.access.simd import LANES
from streamjoin.access.tape import Tape
from streamjoin.access.tuples import HIGH, LOW, Shape, Tuples, addresses
from streamjoin.codegen.intrinsics import FARTHEST
from streamjoin.codegen.records import Array, address

FIRST_CAPACITY = 128 * BLOCK
MOST_POSITIONS = 1 << 32
NURSERY_SIZE = 16 * AT_ONCE
RUNS = 64
NEVER = 1 << 62
CROWDED = 64  # a grid is uneven if the bin of a tuple has more tuples than this, on average,
UNEVEN = 16.0  # and this many times as many as if all bins were equal


class BandSegment(Movable):
    """Runs ordered by bin. `band` is its whole state, for compiled code."""

    find = find
    enter = insert
    forget = expire
    first_room = FIRST_CAPACITY

    def __init__(self, shape: Shape, tape: Tape | None = None, way: int = -1) -> None:
        super().__init__(shape)
        self.band = Band.new()
        self.band.dims, self.band.keyed, self.band.page = shape.dims, shape.keyed, mmap.PAGESIZE
        self.band.probe_width[:] = np.nan
        self.band.look = NEVER
        self._merges = Merge.array(MOST_MERGES)
        self._seen = np.zeros((MOST_MERGES, TOLD_APART // 64 if shape.keyed else 1), np.uint64)
        self._target = np.empty(PIECE, np.uint32)
        self.band.merges, self.band.target = address(self._merges), address(self._target)
        self.band.seen, self.band.seen_words = address(self._seen), self._seen.shape[1]
        self._use_index(self.band, Run.array(RUNS))
        self._reserve(FIRST_CAPACITY)
        aim.address  # noqa: B018  compiled now, like the others, not during the first push
        if tape is not None:
            self.attach(tape)

    def attach(self, tape: Tape) -> None:
        super().attach(tape)
        self.record.chunks, self.record.chunk = tape.record.chunks, tape.chunk

    def __len__(self) -> int:
        return int(self.band.live)

    @property
    def nbytes(self) -> int:
        return int(self.band.held_count * BLOCK * self._position_bytes)

    @property
    def merges(self) -> Array:
        """The merges under way."""
        return self._merges[: self.band.merge_count]

    @property
    def entered(self) -> int:
        return int(self.band.entered)

    @property
    def uneven(self) -> bool:
        """Do the grids of the runs leave too many tuples in the same bins?"""
        counts = []
        for run in self.runs[: self.band.run_count - self.band.raw]:
            bins = int(run.buckets * run.bins[: self.shape.dims].prod())
            starts = self.arrays[-1][int(run.directory) : int(run.directory) + bins + 1]
            counts.append(np.diff(starts.astype(np.int64)))
        return uneven(counts)

    def tuples(self) -> Tuples:
        """All tuples, the oldest run first; of the boxes, the ends that are stored."""
        shape, count = self.shape, len(self.shape.columns)
        there = np.concatenate([np.arange(run.begin, run.end) for run in self.runs])
        length = np.repeat(np.arange(len(self.runs)), self.runs["end"] - self.runs["begin"])
        kept = [array[there] for array in self.arrays[:-1]]
        coord, (at, low, *key) = np.array(kept[count : count + shape.dims]), kept[count + shape.dims :]
        wide = self.runs["width"][length, : shape.dims].T
        lo, hi = boxes_of(coord, wide, shape)
        number = self._numbers(low)
        order = np.argsort(number)
        whole = Tuples(
            tuple(kept[:count]), lo, hi, coord, wide.max(axis=1).astype(np.float32),
            key[0] if key else np.zeros(len(at), np.uint32), at, at, at, number,
        )  # fmt: skip
        return whole.take(order)

    def build(self, window: Tuples) -> None:
        """Becomes one run over a window of at least one tuple."""
        self._clear(_rounded_up(len(window), BLOCK))
        self.offer(window)
        build(self.address)

    def expect(self, probes: Tuples) -> None:
        """The bins of the first runs are chosen for them."""
        search, order = Probing.new(), np.empty(len(probes), np.uint32)
        search.batch, search.stored, search.end = address(probes.record), self.address, len(probes)
        search.order = address(order)
        aim(address(search))

    def make_room(self, count: int) -> None:
        """The first call, at some ten thousand tuples, copies the window into a reservation of more address space than
        this machine has memory. There is no second call unless the system grants less than that.
        """
        band = self.band
        if band.run_count + 1 >= band.run_room and not band.starved:
            self._more_runs()
            return
        least = 2 * (int(band.capacity) + min(count, AT_ONCE))
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

    def aim(self, batch: Tuples, search: Search) -> Tuples:
        """Puts the probes into the order of the bins. Each is read once per run, so a copy in order pays."""
        n, order = len(batch), search.order(len(batch))
        aim(search.address)
        if n < FEW:
            return batch
        batch = batch.probing(order[:n], self.shape.keyed)
        order[:n] = np.arange(n, dtype=np.uint32)
        return batch

    def _clear(self, room: int) -> None:
        band = self.band
        band.run_count = band.closed = band.raw = band.live = band.merge_count = band.taken = 0
        self._reserve(room)

    def _grow(self, capacity: int) -> None:
        """Moves to larger arrays; every tuple keeps its position."""
        before = self.arrays
        self._reserve(capacity)
        used = [*self.runs, *(merge.result for merge in self.merges)]
        for run in used:
            begin, end = int(run.begin), int(run.end)
            for old, new in zip(before[:-1], self.arrays[:-1], strict=True):
                new[..., begin:end] = old[..., begin:end]
            entries = slice(begin // 2, _rounded_up(end, GRANULE) // 2)
            self.arrays[-1][entries] = before[-1][entries]
            self.held[begin // BLOCK : (end - 1) // BLOCK + 1] = True
        self.band.held_count = int(self.held.sum())
        self.band.top = max((_rounded_up(int(run.end), BLOCK) for run in used), default=0)

    def _reserve(self, capacity: int) -> None:
        """Allocates new arrays: columns, coordinates by dimension, at, number, keys, directory."""
        shape, band, record = self.shape, self.band, self.record
        columns = [np.empty(capacity, dtype) for dtype in shape.columns]
        coord = np.empty((shape.dims, capacity + LANES), np.float32)  # a vector may read beyond the last tuple
        at, number = np.empty(capacity, np.int64), np.empty(capacity, np.uint32)
        key = [np.empty(capacity, np.uint32)] * shape.keyed
        directory = np.empty(capacity // 2, np.uint32)
        self.arrays: tuple[Array, ...] = (*columns, *coord, at, number, *key, directory)
        self.held = np.zeros(capacity // BLOCK, np.bool_)
        self._columns = addresses(self.arrays)
        self._columns["each"][-1] = 2  # of the directory, for each position
        band.columns, band.column_count = address(self._columns), len(self._columns)
        band.coord, band.stride, band.directory = address(coord), capacity + LANES, address(directory)
        band.key, band.held = address(key[0]) if key else 0, address(self.held)
        band.capacity, band.nursery = capacity, min(NURSERY_SIZE, capacity // 2)
        band.starved = band.held_count = band.top = 0
        record.room, record.columns, record.coord, record.stride = capacity, band.columns, band.coord, band.stride
        record.at, record.number, record.key = address(at), address(number), band.key

    @property
    def _position_bytes(self) -> float:
        """Bytes of one position in all columns, and of its share of the directory, which keys may fill completely."""
        directory = 2 if self.shape.keyed else 4 / TUPLES_PER_BIN
        return float(self._columns["each"][:-1].sum()) + directory


def uneven(counts: list[Array]) -> bool:
    """Are there too many tuples in the bins of most tuples? `counts`: by run, the tuples in each bin.

    >>> uneven([np.full(1000, 4)] * 8), uneven([np.full(1000, 4)] * 7 + [np.array([4000] + [0] * 999)])
    (False, True)
    """
    together = sum(float((run.astype(np.float64) ** 2).sum() / max(run.sum(), 1)) for run in counts)
    alike = sum(float(run.mean()) for run in counts)
    return together > CROWDED and together > UNEVEN * alike


def boxes_of(coord: Array, wide: Array, shape: Shape) -> tuple[Array, Array]:
    """Boxes from the corner that a segment stores, the lower one or else the upper one, and their widths."""
    lo, hi = np.full_like(coord, -FARTHEST), np.full_like(coord, FARTHEST)
    for d in range(len(coord)):
        kinds = [kind for dim, kind in shape.ends if dim == d] or [LOW, HIGH]
        if LOW in kinds:
            lo[d] = coord[d]
        if kinds == [HIGH]:
            hi[d] = coord[d]
        elif HIGH in kinds:
            hi[d] = np.nextafter((coord[d] + wide[d]).astype(np.float32), np.float32(np.inf))
    return lo, hi


def _address_space() -> int:
    """Bytes to reserve for a window: more than it can ever fill, so that it is not moved again."""
    return 2 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _rounded_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


SEGMENT = BandSegment
