"""Both sides in the order of a shape: sort keys, and all that is read in their order."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from streamjoin.access.inequality import fill, levels_of
from streamjoin.codegen.records import Array
from streamjoin.plan.shape import BOTH, HIGH, LOW, REACH, SCAN, TREE, Axis, Shape
from streamjoin.plan.statistics import Dimension
from streamjoin.tables.crew import Crew
from streamjoin.tables.keys import add_steps, widest
from streamjoin.tables.side import Side, taken
from streamjoin.tables.sort import END, in_order


@dataclass(frozen=True)
class Sorted:
    """A side in order: where the keys of its tuples begin and end, and where they stood before (None: there)."""

    side: Side
    starts: Array
    ends: Array
    order: Array | None

    def numbers(self, positions: Array) -> Array:
        """The rows of the table that stand at these positions."""
        places = positions if self.order is None else self.order[positions]
        return places if self.side.rows is None else self.side.rows[places]


@dataclass(frozen=True)
class Tree:
    """A tree of minima over s, and the limit of every r."""

    values: Array
    levels: Array
    limits: Array


@dataclass(frozen=True)
class Layout:
    """Two sides, ready to be searched."""

    r: Sorted
    s: Sorted
    offsets: tuple[int, ...]  # by how much keys of s lie above those of r, where partners may be
    tree: Tree | None = None


def lay_out(shape: Shape, r: Side, s: Side, dimensions: tuple[Dimension, ...], crew: Crew) -> Layout | None:
    """Sorts both sides; None if some interval is so long that strips are of no use."""
    if shape.kind == SCAN:
        none = np.zeros(0, np.int64)
        return Layout(Sorted(r, none, none, None), Sorted(s, none, none, None), (0,))
    offsets = _offsets(shape, dimensions, crew)
    if offsets is None:
        return None
    keys = []
    for k, side in enumerate((r, s)):
        ends = [(dimension.r, dimension.s)[k] for dimension in dimensions]
        keys.append(_keys(shape, side, ends, k, crew))
    by_end = shape.kind == TREE and shape.ordered_by == LOW  # then all ranges of r begin alike
    sorted_r, sorted_s = _sorted(r, *keys[0], by_end, crew), _sorted(s, *keys[1], False, crew)
    if shape.kind != TREE:
        return Layout(sorted_r, sorted_s, offsets)
    return Layout(sorted_r, sorted_s, offsets, _tree(shape, sorted_r, sorted_s, dimensions, crew))


def _offsets(shape: Shape, dimensions: tuple[Dimension, ...], crew: Crew) -> tuple[int, ...] | None:
    """All that the cells of partners may lie apart, by the longest intervals there are."""
    choices = []
    for axis, shift in zip(shape.strips, _shifts(shape), strict=True):
        dimension = dimensions[axis.dimension]
        reach = []
        for low, high in (dimension.s, dimension.r):
            assert low is not None and high is not None
            scale = axis.low, axis.scale, axis.most
            parts = crew.each(widest, [(low, high, *part, *scale) for part in crew.cut(len(low))])
            reach.append(0 if low is high else max(parts))
        if sum(reach) >= 2 * REACH:
            return None
        choices.append([apart << shift for apart in range(-reach[0], reach[1] + 1)])
    return tuple(sum(parts) for parts in product(*choices))


def _shifts(shape: Shape) -> list[int]:
    """By how many bits the cells of each of the strips lie above the axis."""
    shifts, shift = [], shape.axis.bits if shape.axis else 0
    for axis in reversed(shape.strips):
        shifts.append(shift)
        shift += axis.bits
    return shifts[::-1]


def _keys(
    shape: Shape, side: Side, ends: list[tuple[Array | None, Array | None]], which: int, crew: Crew
) -> tuple[Array, Array]:
    """Where the keys of tuples begin and end; the same array if all of them are points."""
    n, axis, shifts = len(side), shape.axis, _shifts(shape)
    hash_shift = (axis.bits if axis else 0) + sum(strip.bits for strip in shape.strips)
    low, high = _swept(shape, ends, which)
    starts = np.zeros(n, np.int64)
    point = axis is None or low is high
    stops = starts if point else np.empty(n, np.int64)

    def compute(begin: int, end: int) -> None:
        if side.key is not None and shape.hash_bits:
            np.right_shift(side.key[begin:end], 32 - shape.hash_bits, out=starts[begin:end])
            starts[begin:end] <<= hash_shift
        for strip, shift in zip(shape.strips, shifts, strict=True):
            _add(starts, ends[strip.dimension][0], begin, end, strip, shift)
        if axis is None:
            return
        if not point:
            stops[begin:end] = starts[begin:end]
            if high is None:
                stops[begin:end] += int(axis.most)
            else:
                _add(stops, high, begin, end, axis, 0)
        _add(starts, low, begin, end, axis, 0)

    crew.each(compute, crew.cut(n))
    return starts, stops


def _swept(
    shape: Shape, ends: list[tuple[Array | None, Array | None]], which: int
) -> tuple[Array | None, Array | None]:
    """What the keys of a side begin and end with on the axis."""
    if shape.axis is None:
        return None, None
    low, high = ends[shape.axis.dimension]
    if shape.kind != TREE or shape.ordered_by == BOTH:
        return low, high
    if which == 1:
        return (low, low) if shape.ordered_by == LOW else (high, high)
    return (None, high) if shape.ordered_by == LOW else (low, None)


def _add(keys: Array, values: Array | None, begin: int, end: int, axis: Axis, shift: int) -> None:
    if values is not None:
        add_steps(keys, values, begin, end, axis.low, axis.scale, axis.most, shift)


def _sorted(side: Side, starts: Array, stops: Array, by_end: bool, crew: Crew) -> Sorted:
    if by_end:
        ends, order = in_order(stops, crew)
        keys = np.append(taken(starts, order, crew), END)
    else:
        keys, order = in_order(starts, crew)
        ends = keys if stops is starts else taken(stops, order, crew)
    return Sorted(side, keys, ends, order)


def _tree(shape: Shape, r: Sorted, s: Sorted, dimensions: tuple[Dimension, ...], crew: Crew) -> Tree:
    assert shape.inequality is not None
    d, end = shape.inequality
    own, limits = dimensions[d].s[end], dimensions[d].r[1 - end]
    assert own is not None and limits is not None
    levels = levels_of(len(s.side))
    values = np.empty(int(levels[-1]))
    taken(own, s.order, crew, values[: len(own)])
    limits = taken(limits, r.order, crew)
    if end == HIGH:
        np.negative(values[: len(own)], out=values[: len(own)])
        limits = -limits
    values[len(own) : levels[1]] = np.inf
    fill(values, levels)
    return Tree(values, levels, limits)
