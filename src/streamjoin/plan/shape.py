"""How two whole tables are joined: which of a predicate's dimensions divide the work, by samples of the rows.

    sweep   both sides sorted by one dimension, in cells of a key hash and of strips of others: forward scans
    tree    one side sorted by a range, with a tree of minima over a second inequality, where a sweep narrows too little
    scan    every pair, in tiles

The prices are nanoseconds of one core, roughly; only their ratios matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from streamjoin.codegen.records import Array
from streamjoin.plan.statistics import SAMPLE, Dimension, share

SWEEP, TREE, SCAN = "sweep", "tree", "scan"
LOW, HIGH, BOTH = 0, 1, 2  # what the rows of s are sorted by, for a tree: their low ends, their high ends, points

SORT, PASS, PROBE, FOUND, CANDIDATE, COMPARISON = 12.0, 3.0, 250.0, 12.0, 2.5, 1.9
FINE = 4  # bits: a step is that much finer than an interval is long
BITS, HASH_BITS, STRIP_BITS, TREE_BITS = 32, 32, 14, 28  # most bits of a part of a key
PACKED = 31  # bits of a key that are sorted quickest
MIN_HASH_BITS = 8  # of a key's hash; fewer would not pay
CROWDED = 4.0  # steps between two values of a whole table, at least, for most of them to be told apart
STRIPS = 2  # dimensions that are cut into strips, at most
MOST_STRIPS = 6  # strips that an interval may touch, at most
MIN_STRIP_BITS = 5  # more than twice as many: no pair of cells is met twice
ROUNDING = 1.0001  # strips are wider by that: an interval of their width ends in the next one
USEFUL = 0.5  # strips pay if they leave less than this part of the pairs


@dataclass(frozen=True)
class Axis:
    """A dimension in steps."""

    dimension: int
    low: float
    scale: float  # steps per unit
    bits: int

    @property
    def most(self) -> float:
        return float((1 << self.bits) - 1)

    def turned(self) -> Axis:
        """The same dimension, the other way round."""
        return Axis(self.dimension, self.low + self.most / self.scale, -self.scale, self.bits)


@dataclass(frozen=True)
class Shape:
    """What was chosen, what it is expected to find, and why."""

    kind: str
    hash_bits: int = 0
    strips: tuple[Axis, ...] = ()
    axis: Axis | None = None
    ordered_by: int = BOTH  # of a tree
    inequality: tuple[int, int] | None = None  # of a tree: dimension, and which end of s is limited
    limit: Axis | None = None  # of a tree: in what steps; None: the values themselves are compared
    candidates: float = 0.0
    price: float = 0.0  # nanoseconds
    reason: str = ""


@dataclass(frozen=True)
class Tables:
    """Statistics of two tables: rows, the part of pairs with equal keys (None: no equality), the dimensions."""

    rows: tuple[int, int]
    equal: float | None
    dimensions: tuple[Dimension, ...]

    @property
    def pairs(self) -> float:
        """Pairs with equal keys."""
        return self.rows[0] * self.rows[1] * (1.0 if self.equal is None else self.equal)

    @property
    def matching(self) -> float:
        """Pairs that satisfy keys and dimensions: an estimate of the results, without the residual."""
        if not self.dimensions:
            return self.pairs
        return self.pairs * share(np.logical_and.reduce([a & b for a, b in (d.parts for d in self.dimensions)]))

    @property
    def both(self) -> int:
        return sum(self.rows)


def shapes(tables: Tables, every: bool = False) -> list[Shape]:
    """Possible shapes of a join of two tables, the cheapest first. Trees only if one may be cheapest, or if `every`."""
    pairs = float(tables.rows[0]) * tables.rows[1]
    scan = Shape(SCAN, candidates=pairs, price=pairs * COMPARISON, reason="every pair is compared, in tiles")
    found = [scan, *_sweeps(tables)]
    if every or _tree_price(tables, 0) < min(shape.price for shape in found):
        found += _trees(tables)
    return sorted(found, key=lambda shape: shape.price)


def _hash_bits(tables: Tables) -> int:
    if tables.equal is None:
        return 0
    return min(HASH_BITS, max(tables.rows).bit_length() + FINE)


def _sweeps(tables: Tables) -> Iterator[Shape]:
    useful = [d for d, dimension in enumerate(tables.dimensions) if dimension.swept < 1]
    strips = {d: strip for d in useful if (strip := _strip(tables.dimensions[d], d)) is not None}
    for swept in (None, *useful):
        for count in range(STRIPS + 1 if swept is not None else 1):
            for chosen in combinations([d for d in strips if d != swept], count):
                yield _sweep(tables, swept, [strips[d] for d in chosen])


def _sweep(tables: Tables, swept: int | None, cuts: list[_Strip]) -> Shape:
    dimensions, strips = tables.dimensions, tuple(cut.axis for cut in cuts)
    offsets, left, passes = math.prod(cut.strips for cut in cuts), 1.0, 1
    hash_bits, strip_bits = _hash_bits(tables), sum(strip.bits for strip in strips)
    axis = None
    if swept is not None:
        dimension = dimensions[swept]
        axis = _axis(dimension, swept, min(62 - hash_bits - strip_bits, BITS))
        left = dimension.swept * _left(dimension, cuts)
        passes = 2 - (dimension.is_point("r") or dimension.is_point("s"))
    rest = strip_bits + (axis.bits if axis else 0)

    def made(hash_bits: int) -> Shape:
        collisions = 0.0 if tables.equal is None else 0.5**hash_bits * tables.rows[0] * tables.rows[1]
        candidates = (tables.pairs + collisions) * left
        bits = max(hash_bits + rest, 1)
        price = tables.both * (SORT * bits / 16 + PASS * offsets * passes) + candidates * CANDIDATE
        return Shape(
            SWEEP, hash_bits, strips, axis, candidates=candidates, price=price, reason=_swept(tables, swept, strips)
        )

    # Short keys are sorted faster, which may be worth some more pairs whose hashes collide.
    choices = {hash_bits, PACKED - rest} if MIN_HASH_BITS <= PACKED - rest < hash_bits else {hash_bits}
    return min((made(bits) for bits in choices), key=lambda shape: shape.price)


def _axis(dimension: Dimension, d: int, most_bits: int) -> Axis:
    """Steps so fine that few intervals falsely seem to overlap."""
    low, high = dimension.span
    lengths = [found for side in "rs" if (found := dimension.lengths(side)) is not None and len(found)]
    typical = sum(float(np.sort(found)[len(found) // 10]) for found in lengths)
    bits = most_bits
    if typical > 0:
        bits = max(1, min(most_bits, math.ceil(math.log2((high - low) / typical)) + FINE))
    if dimension.whole:  # one step for each integer is enough
        bits = max(1, min(bits, math.ceil(math.log2(high - low + 1))))
    return Axis(d, low, ((1 << bits) - 1) / (high - low), bits)


@dataclass(frozen=True, eq=False)
class _Strip:
    """A dimension cut into strips: in which ones partners can lie, and which part of all pairs that leaves."""

    axis: Axis
    back: int
    forth: int
    share: float
    cells: tuple[Array, Array]  # of the samples

    @property
    def strips(self) -> int:
        return self.back + self.forth + 1

    def near(self, r: Array, s: Array) -> Array:
        """Which pairs of the samples lie in strips where partners can be."""
        apart: Array = self.cells[1][s] - self.cells[0][r]
        return (-self.back <= apart) & (apart <= self.forth)


def _left(dimension: Dimension, cuts: list[_Strip]) -> float:
    """Of the pairs that a sweep along a dimension visits, which part is left by strips of others.

    As many as of all pairs, or as of those of the sample: strips of a column that goes with the swept one leave more.
    """
    if not cuts:
        return 1.0
    r, s = dimension.met
    left = np.logical_and.reduce([cut.near(r, s) for cut in cuts])
    return max(math.prod(cut.share for cut in cuts), int(left.sum()) / (len(left) + 1))


def _strip(dimension: Dimension, d: int) -> _Strip | None:
    """Strips half as wide as the longest interval is long; None if they leave too much."""
    lengths = [dimension.lengths(side) for side in "rs"]
    low, high = dimension.span
    if lengths[0] is None or lengths[1] is None or not len(lengths[0]) or not len(lengths[1]):
        return None
    longest = max(float(found.max()) for found in lengths if found is not None)
    width = max(longest / 2 * ROUNDING, (high - low) / (1 << STRIP_BITS))
    count = (high - low) / width
    if count < 4:
        return None
    axis = Axis(d, low, 1 / width, max(math.ceil(math.log2(count + 1)), MIN_STRIP_BITS))
    r_low, r_high, s_low, s_high = (
        np.clip((end - axis.low) * axis.scale, 0, axis.most).astype(np.int64)
        for ends in dimension.sample
        for end in ends
        if end is not None
    )
    back, forth = int((s_high - s_low).max(initial=0)), int((r_high - r_low).max(initial=0))
    r_cells, s_cells = np.sort(r_low), np.sort(s_low)
    near = s_cells.searchsorted(r_cells + forth, "right") - s_cells.searchsorted(r_cells - back)
    inside = max(int(near.sum()), 0.5) / max(len(near) * len(s_cells), 1)
    found = _Strip(axis, back, forth, inside, (r_low, s_low))
    return found if found.strips <= MOST_STRIPS and found.share <= USEFUL else None


def _swept(tables: Tables, swept: int | None, strips: tuple[Axis, ...]) -> str:
    names = [dimension.name for dimension in tables.dimensions]
    parts = ["partitioned by a hash of the equality keys"] if tables.equal is not None else []
    parts += [f"cut into strips of {names[axis.dimension]}" for axis in strips]
    parts += [f"sorted by {names[swept]}"] if swept is not None else []
    return f"both sides {', '.join(parts) or 'as they are'}: forward scans"


def _tree_price(tables: Tables, candidates: float) -> float:
    return tables.both * 2 * SORT + tables.rows[0] * PROBE + candidates * FOUND


def _trees(tables: Tables) -> Iterator[Shape]:
    """A range of s by one dimension, and a second inequality."""
    hash_bits, dimensions = _hash_bits(tables), tables.dimensions
    for d, dimension in enumerate(dimensions):
        for by in (LOW, HIGH, BOTH):
            if by == BOTH and not dimension.is_point("s"):
                continue
            if by != BOTH and (dimension.s[by] is None or dimension.r[1 - by] is None):
                continue
            inside = dimension.parts[0] & dimension.parts[1] if by == BOTH else dimension.parts[1 - by]
            for e, other in enumerate(dimensions):
                for end in (LOW, HIGH):
                    if (d == e and by in (end, BOTH)) or other.s[end] is None or other.r[1 - end] is None:
                        continue
                    part = share(inside & other.parts[1 - end])
                    candidates = tables.pairs * part
                    price = _tree_price(tables, candidates)
                    axis = _whole_axis(dimension, d, TREE_BITS if hash_bits else PACKED)
                    reason = f"s sorted by {dimension.name}, with a tree of minima over {other.name}"
                    yield Shape(
                        TREE,
                        hash_bits,
                        (),
                        axis.turned() if by == LOW else axis,
                        by,
                        (e, end),
                        _limit(other, e, end, max(tables.rows)),
                        candidates=candidates,
                        price=price,
                        reason=reason,
                    )


def _whole_axis(dimension: Dimension, d: int, bits: int) -> Axis:
    """The whole extent of the sample in a number of bits."""
    low, high = dimension.span
    return Axis(d, low, ((1 << bits) - 1) / (high - low), bits)


def _limit(dimension: Dimension, d: int, end: int, rows: int) -> Axis | None:
    """Steps for the limits of a tree; None if an outlier would leave too few steps for the other values."""
    axis = _whole_axis(dimension, d, PACKED)
    sample = dimension.sample[1][end]
    assert sample is not None
    apart = np.diff(np.unique(np.compress(np.isfinite(sample), sample))) * axis.scale
    if len(apart) and float(np.quantile(apart, 0.1)) < CROWDED * rows / max(len(sample), SAMPLE):
        return None
    return axis.turned() if end == HIGH else axis
