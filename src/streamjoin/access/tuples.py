"""Tuples in arrays: the shape of a side's tuples, and a batch of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from streamjoin.access.records import Batch, Column
from streamjoin.codegen.records import Array, address

# Kinds of values of an end. The limit of a value is a probe's upper corner, or its lower one negated.
LOW, HIGH, COORD, COORD_NEGATED = range(4)  # lower corner, upper corner negated; for points, the coordinate alone


@dataclass(frozen=True)
class Shape:
    """The shape of one side's tuples in a segment."""

    columns: tuple[np.dtype[np.generic], ...]
    dims: int
    keyed: bool
    ends: tuple[tuple[int, int], ...] = ()  # dimension and kind of the ends that boxes have; (): all

    @property
    def raw_bytes(self) -> int:
        """Bytes of one tuple's predicate columns and its `at`."""
        return sum(column.itemsize for column in self.columns) + 8


@dataclass(frozen=True)
class Tuples:
    """A batch of one side, ready to be inserted and to probe the other side."""

    columns: tuple[Array, ...]
    lo: Array  # float32 (dims, n)
    hi: Array
    coord: Array  # float32 (dims, n): the coordinates by which a segment orders
    width: Array  # float32 (dims): the widest box of the batch
    key: Array  # uint32
    at: Array  # int64
    since: Array  # int64
    until: Array  # int64
    number: Array  # int64

    def __len__(self) -> int:
        return len(self.at)

    def take(self, order: Array) -> Tuples:
        """The tuples at these positions of the batch."""
        return self._take(order, ("lo", "hi", "coord", "key", "at", "since", "until", "number"))

    def part(self, begin: int, end: int) -> Tuples:
        """Tuples begin..end-1, without copying."""
        if begin == 0 and end == len(self):
            return self
        along = ("lo", "hi", "coord", "key", "at", "since", "until", "number")
        views = {name: getattr(self, name)[..., begin:end] for name in along}
        return replace(self, columns=tuple(column[begin:end] for column in self.columns), **views)

    def probing(self, order: Array, keyed: bool) -> Tuples:
        """The tuples at these positions of the batch, with the columns that probing needs."""
        return self._take(order, ("lo", "hi", "since", "until", "number", *(("key",) if keyed else ())))

    def _take(self, order: Array, parts: tuple[str, ...]) -> Tuples:
        return replace(
            self,
            columns=tuple(column[order] for column in self.columns),
            **{part: np.take(getattr(self, part), order, axis=-1) for part in parts},
        )

    @cached_property
    def record(self) -> Array:
        """The batch for kernels. The batch keeps the arrays."""
        self._hold("columns", tuple(np.ascontiguousarray(column) for column in self.columns))
        for name in ("width", "key", "at", "since", "until", "number"):
            self._hold(name, np.ascontiguousarray(getattr(self, name)))
        boxes, stride = (self.lo, self.hi, self.coord), self.coord.strides[0] // 4 if len(self.coord) else 0
        if any(len(box) and box.strides != (4 * stride, 4) for box in boxes):
            for name in ("lo", "hi", "coord"):
                self._hold(name, np.ascontiguousarray(getattr(self, name)))
            stride = len(self)
        columns = addresses(self.columns)
        self._hold("_addresses", columns)
        parts = self.lo, self.hi, self.coord, self.width, self.key, self.at, self.since, self.until, self.number
        return np.array((address(columns), stride, *map(address, parts)), Batch.dtype)

    def _hold(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)


def addresses(columns: Iterable[Array]) -> Array:
    """The Column records of arrays, for kernels. The caller must keep the arrays."""
    found = [(address(column), column.itemsize) for column in columns]
    return np.array(found, Column.dtype) if found else Column.array(1)
