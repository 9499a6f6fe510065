"""The memory under every window store: columns that grow at the end and shrink at the front."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from streamjoin.access.layout import Probes, Stored
from streamjoin.access.simd import LANES
from streamjoin.codegen.records import Array

SLACK = 1.15  # capacity per live tuple after growing
FULL, SPARSE = 0.94, 0.3  # live parts of the capacity beyond which it grows or shrinks instead of compacting
SMALLEST = 1024


@dataclass(frozen=True)
class Shape:
    """What the tuples of one side look like to a store."""

    columns: tuple[np.dtype[np.generic], ...]
    dims: int
    keyed: bool

    @property
    def raw_bytes(self) -> int:
        """Bytes of one tuple's predicate columns and its place in the window."""
        return sum(column.itemsize for column in self.columns) + 8


@dataclass(frozen=True)
class Tuples:
    """A batch of one side, ready to be inserted and to probe the other side."""

    columns: tuple[Array, ...]
    lo: Array  # float32 (dims, n)
    hi: Array
    coord: Array  # float32 (dims, n): what a store orders by
    width: Array  # float32 (dims): the widest box of the batch
    key: Array  # uint32
    at: Array  # int64
    since: Array  # int64
    until: Array  # int64
    number: Array  # int64

    def __len__(self) -> int:
        return len(self.at)

    def take(self, order: Array) -> Tuples:
        """The tuples at these places of the batch."""
        return self._take(order, ("lo", "hi", "coord", "key", "at", "since", "until", "number"))

    def part(self, begin: int, end: int) -> Tuples:
        """Tuples begin..end-1, without copying."""
        if begin == 0 and end == len(self):
            return self
        along = ("lo", "hi", "coord", "key", "at", "since", "until", "number")
        views = {name: getattr(self, name)[..., begin:end] for name in along}
        return replace(self, columns=tuple(column[begin:end] for column in self.columns), **views)

    def probing(self, order: Array, keyed: bool) -> Tuples:
        """The tuples at these places of the batch, as far as probing needs them."""
        return self._take(order, ("lo", "hi", "since", "until", "number", *(("key",) if keyed else ())))

    def _take(self, order: Array, parts: tuple[str, ...]) -> Tuples:
        return replace(
            self,
            columns=tuple(column[order] for column in self.columns),
            **{part: np.take(getattr(self, part), order, axis=-1) for part in parts},
        )

    @property
    def probes(self) -> Probes:
        return Probes(self.lo, self.hi, self.key, self.since, self.until)


class Arena:
    """Positions begin..end-1 are live. Appending may move everything to the front; the caller learns by how much."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.begin = 0
        self.end = 0
        self.newest = 0
        self.capacity = SMALLEST
        self.stored = self._empty(SMALLEST)

    def __len__(self) -> int:
        return self.end - self.begin

    @property
    def nbytes(self) -> int:
        stored = self.stored
        arrays = (*stored.columns, stored.coord, stored.key, stored.at, stored.number)
        return sum(array.nbytes for array in arrays)

    def append(self, batch: Tuples) -> int:
        """Adds a batch at the end. Returns how far the older tuples moved towards the front."""
        shift = self._make_room(len(batch))
        begin, end = self.end, self.end + len(batch)
        stored = self.stored
        for column, new in zip(stored.columns, batch.columns, strict=True):
            column[begin:end] = new
        stored.coord[:, begin:end] = batch.coord[: self.shape.dims]
        stored.at[begin:end] = batch.at
        stored.number[begin:end] = batch.number.astype(np.uint32)
        if self.shape.keyed:
            stored.key[begin:end] = batch.key
        self.end = end
        if len(batch):
            self.newest = max(self.newest, int(batch.number.max()))
        return shift

    def drop(self, count: int) -> None:
        """Forgets the oldest tuples."""
        self.begin += count
        if self.begin == self.end:
            self.begin = self.end = 0
            if self.capacity > SMALLEST:
                self.capacity, self.stored = SMALLEST, self._empty(SMALLEST)

    def _make_room(self, count: int) -> int:
        if self.end + count <= self.capacity:
            return 0
        shift, needed = self.begin, len(self) + count
        if self.capacity * FULL < needed or needed < self.capacity * SPARSE:
            self._resize(max(int(needed * SLACK), SMALLEST))
        else:
            self._resize(self.capacity)
        self.begin, self.end = 0, self.end - shift
        return shift

    def _resize(self, capacity: int) -> None:
        """Moves the live tuples to the front, array by array, so that at most one exists twice at a time."""
        live, begin, end = len(self), self.begin, self.end
        arrays = [*self.stored.columns, self.stored.coord, self.stored.key, self.stored.at, self.stored.number]
        self.stored = self._empty(0)  # the list alone holds the old arrays now
        same = capacity == self.capacity
        for k, old in enumerate(arrays):
            if old.shape[-1] == 1:
                continue
            padding = old.shape[-1] - self.capacity
            new = old if same else np.empty((*old.shape[:-1], capacity + padding), old.dtype)
            new[..., :live] = old[..., begin:end]
            arrays[k] = new
        width = len(self.shape.columns)
        coord, key, at, number = arrays[width:]
        self.stored = Stored(tuple(arrays[:width]), coord, key, at, number)
        self.capacity = capacity

    def _empty(self, capacity: int) -> Stored:
        shape = self.shape
        return Stored(
            tuple(np.empty(capacity, dtype) for dtype in shape.columns),
            np.empty((shape.dims, capacity + LANES), np.float32),  # a vector may read beyond the last tuple
            np.empty(capacity if shape.keyed else 1, np.uint32),
            np.empty(capacity, np.int64),
            np.empty(capacity, np.uint32),
        )
