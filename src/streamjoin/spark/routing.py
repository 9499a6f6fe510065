"""Who meets whom on a cluster: every tuple is sent to some cells, and every matching pair is found in exactly one.

    groups           the hash of the equality keys, or the bucket of a band, modulo the number of groups
    rows x columns   inside a group: an r goes to one row and all of its columns, an s to one column and all of its rows

        group 0        group 1        group 2
       s     s
       ▼     ▼
   r ▶ [0] [1]    r ▶ [4] [5]        [8] [9]         a grid is one group, a plain hash has groups of one cell;
       [2] [3]        [6] [7]       [10] [11]        what lies between spreads a hot value over a whole group

A band puts a tuple into every bucket that its box touches. Two boxes that touch have a first bucket in common, the
larger one of their first buckets: there, and nowhere else, the pair counts. Buckets have no end; that they wrap around
the groups lets tuples meet in vain, never twice.

A join that decides about the tuples of one side gives each of them one home. In buckets that is the bucket of its lower
end; a tuple of the other side goes to every bucket in which one that touches it may be at home.

All of it follows from the tuples' content: a replay routes as the first run did.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from streamjoin.codegen.intrinsics import FARTHEST
from streamjoin.codegen.records import Array
from streamjoin.errors import DataError

FARTHEST_BUCKET = float(2**61)  # the distance of two of them still fits 64 bits
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
ROUNDING = 2.0**-21  # of a coordinate and a width: more than float32 changes them by
PERIOD = 100_800  # divisible by every number up to 10, by 12, 15, 16, 20, 24, 32, 48, 50, 64, 96, 100, 200, ...


@dataclass(frozen=True)
class Routed:
    """Copies of tuples on their way: row number in the batch, cell, and the first bucket of the tuple's box."""

    row: Array  # int64
    cell: Array  # int64
    first: Array | None  # int64, only where there are buckets


@dataclass(frozen=True)
class Router:
    """Where tuples go. `kind` is "hash", "range" or "grid"; `width` is that of a bucket on the axis `dimension`.

    With range buckets each tuple of the side `home`, if there is one, goes to one bucket. Its box is no wider than
    `home_width`, except for rounding and for `slack`, the part of a coordinate by which its ends were moved outwards.
    If they were moved, an unbounded box belongs to a tuple without partners, whose value is NaN or infinite.
    """

    kind: str
    groups: int = 1
    rows: int = 1
    columns: int = 1
    dimension: int = 0
    width: float = 1.0
    home: str = ""
    home_width: float = 0.0
    slack: float = 0.0

    @property
    def shared(self) -> bool:
        """May a pair meet in several cells, and count in one of them?"""
        return self.kind == "range" and not self.home

    @property
    def cells(self) -> int:
        return self.groups * self.rows * self.columns

    def route(self, side: str, key: Array, lo: Array, hi: Array, content: Array) -> Routed:
        """The copies of a batch, given its key hashes, its boxes, and 64 bits of hash of each tuple's content."""
        first = None
        row = np.arange(len(content), dtype=np.int64)
        if self.kind == "range" and side == self.home:
            self._check(lo[self.dimension], hi[self.dimension])
            group = self.bucket(lo[self.dimension]) % self.groups
        elif self.kind == "range":
            begin, end = self.bucket(self._low(lo[self.dimension])), self.bucket(hi[self.dimension])
            count = np.clip(end - begin + 1, 1, self.groups)
            row = np.repeat(row, count)
            step = np.arange(len(row), dtype=np.int64) - np.repeat(np.cumsum(count) - count, count)
            first = begin[row]
            group = (first % self.groups + step) % self.groups
        elif self.kind == "hash":
            group = ((key.astype(np.uint64) * GOLDEN) >> np.uint64(32)).astype(np.int64) % self.groups
        else:
            group = np.zeros(len(content), np.int64)
        mixed = content.astype(np.int64).view(np.uint64) * GOLDEN
        dealt, fan = (self.rows, self.columns) if side == "r" else (self.columns, self.rows)
        share = ((mixed >> np.uint64(40 if side == "r" else 16)) % np.uint64(dealt)).astype(np.int64)[row]
        corner = group * (self.rows * self.columns) + (share * self.columns if side == "r" else share)
        stride = 1 if side == "r" else self.columns
        copies = (corner[:, None] + stride * np.arange(fan, dtype=np.int64)).ravel()
        return Routed(np.repeat(row, fan), copies, None if first is None else np.repeat(first, fan))

    def _low(self, lo: Array) -> Array:
        """From where on tuples at home may touch a box that begins at `lo`."""
        if not self.home_width:
            return lo
        low = lo.astype(np.float64)
        begin: Array = low - self.home_width - 2 * self._blur(low)
        return begin

    def _blur(self, low: Array) -> Array:
        """By how much a box may be wider than `home_width`."""
        blur: Array = (ROUNDING + 2 * self.slack) * (np.abs(low) + self.home_width)
        return blur

    def _check(self, lo: Array, hi: Array) -> None:
        """Tuples at home are not wider than the other side was told."""
        low = lo.astype(np.float64)
        wide = hi - low
        wrong = wide > (self.home_width + self._blur(low) if self.home_width else 0.0)
        if self.slack:
            wrong &= ~((low <= -FARTHEST) & (hi >= FARTHEST))
        if wrong.any():
            at = int(np.argmax(wrong))
            raise DataError(
                f"a tuple of {self.home} looks at values from {low[at]:g} to {float(hi[at]):g}, farther than "
                f"{self.home_width:g}, the width of its band: its value is too large to compute with; filter such "
                f"values out, or start with a new checkpoint folder and split={self.cells}, which copies to all cells"
            )

    def bucket(self, coordinate: Array) -> Array:
        """The bucket of a coordinate: monotone, so that boxes that touch have touching ranges of buckets."""
        place = np.floor(coordinate.astype(np.float64) / self.width)
        return np.clip(place, -FARTHEST_BUCKET, FARTHEST_BUCKET).astype(np.int64)

    def counts(self, cell: int, first_r: Array, first_s: Array) -> Array:
        """Which pairs, given the first buckets of both tuples, count in this cell and not in another."""
        here: Array = np.maximum(first_r, first_s) % self.groups == cell // (self.rows * self.columns)
        return here

    def leads(self, side: str, cell: int, first: Array | None, n: int) -> Array:
        """Which of n tuples are at home in this cell, so that each is counted once however many copies there are."""
        group, place = divmod(cell, self.rows * self.columns)
        edge = place % self.columns if side == "r" else place // self.columns
        if edge:
            return np.zeros(n, np.bool_)
        return np.ones(n, np.bool_) if first is None else first % self.groups == group

    def replication(self, widths: tuple[float | None, float | None] = (0.0, 0.0)) -> tuple[float, float]:
        """Copies per tuple of r and of s, given the widths of their boxes."""
        touched = [1.0, 1.0]
        if self.kind == "range":
            touched = [min(float(self.groups), 1 + (width or 0.0) / self.width) for width in widths]
        if self.home:
            touched["rs".index(self.home)] = 1.0
        return touched[0] * self.columns, touched[1] * self.rows


def shape(cells: int, rate_r: float = 1.0, rate_s: float = 1.0) -> tuple[int, int]:
    """Rows and columns of the grid of this many cells with the fewest copies: the slower stream is copied more often.

    >>> shape(12), shape(12, rate_r=9, rate_s=1), shape(2)
    ((4, 3), (12, 1), (2, 1))
    """
    pairs = [(rows, cells // rows) for rows in range(cells, 0, -1) if cells % rows == 0]
    return min(pairs, key=lambda pair: rate_r * pair[1] + rate_s * pair[0])


def default_split(cells: int) -> int:
    """The number of cells that share one key or bucket: about the root of all, with few copies and few cells left over.

    >>> [default_split(cells) for cells in (1, 2, 3, 4, 6, 7, 8, 16, 64, 200)]
    [1, 2, 3, 2, 2, 3, 4, 4, 8, 12]
    """

    def cost(split: int) -> tuple[float, int]:
        copies, used = sum(shape(split)), cells - cells % split
        return copies / used, -split

    root = math.sqrt(cells)
    return min(range(math.ceil(0.8 * root), min(cells, math.floor(2 * root)) + 1), key=cost)


@dataclass(frozen=True)
class Axis:
    """Range buckets for tuples at home, as in Router."""

    dimension: int
    width: float
    home_width: float
    slack: float


def homes(kind: str, cells: int, split: int | None, owners: tuple[bool, bool], axis: Axis | None = None) -> Router:
    """A router by hash, by buckets, or a grid, in which a tuple of the sides `owners` goes to one cell: its home.

    The cell that decides about a tuple must see all its partners. So only the other side is copied; if both sides have
    homes, nothing is, and tuples of one key stay together.

    >>> router = homes("hash", 8, None, (True, False))
    >>> router.kind, router.groups, router.rows, router.columns, homes("grid", 8, None, (False, True)).columns
    ('hash', 2, 4, 1, 8)
    """
    few = default_split(cells) if kind == "hash" else max(shape(default_split(cells)))  # as many copies as for pairs
    each = 1 if all(owners) else cells if kind == "grid" else min(split or few, cells)
    groups = 1 if kind == "grid" else cells // each
    if groups == 1:
        kind = "grid"
    grid = (1, each) if owners[1] else (each, 1)
    if kind == "range" and axis is not None:
        home = "s" if owners[1] else "r"
        return Router(kind, groups, *grid, axis.dimension, axis.width, home, axis.home_width, axis.slack)
    return Router(kind, groups, *grid)


def divide(
    kind: str, cells: int, split: int | None, rates: tuple[float, float], width: float, dimension: int
) -> Router:
    """The router of a kind over about this many cells: groups of `split` cells each, never more than requested."""
    if kind == "grid":
        return Router("grid", 1, *shape(cells, *rates))
    each = min(split or default_split(cells), cells)
    if each > cells // 2:  # a single group is a grid
        return Router("grid", 1, *shape(each, *rates))
    return Router(kind, cells // each, *shape(each, *rates), dimension, width)


@lru_cache
def cell_keys(cells: int) -> tuple[int, ...]:
    """The values that stand for cells in the shuffle: Spark hashes that of cell i to partition i modulo their number.

    That holds for every number of partitions that divides PERIOD, and the values do not depend on it: a query finds
    its cells again whatever the settings are.
    """
    found: dict[int, int] = {}
    start, step = 0, 1 << 20
    while len(found) < cells:
        values = np.arange(start, start + step, dtype=np.int64)
        place = _murmur3(values.astype(np.uint32)).astype(np.int64) % PERIOD
        for value in values[place < cells]:
            found.setdefault(int(place[value - start]), int(value))
        start += step
    return tuple(found[cell] for cell in range(cells))


def _murmur3(values: Array) -> Array:
    """Spark's hash of an INT, seed 42, as a signed number."""

    def rotated(x: Array, by: int) -> Array:
        return (x << np.uint32(by)) | (x >> np.uint32(32 - by))

    k = rotated(values * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    h = rotated(np.uint32(42) ^ k, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    h = h ^ np.uint32(4)
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return (h ^ (h >> np.uint32(16))).view(np.int32)
