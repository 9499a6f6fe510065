"""Both sides sorted for a shape: the keys, and all columns that are read in their order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from streamjoin.access.inequality import fill, levels_of, nothing_behind, top_of
from streamjoin.codegen.records import Array
from streamjoin.plan.shape import BOTH, MOST_STRIPS, SCAN, TREE, Axis, Shape
from streamjoin.plan.statistics import Dimension, Ends, Values
from streamjoin.tables.crew import Crew
from streamjoin.tables.keys import digits, end_keys, hash_digits, places_of, widest
from streamjoin.tables.memory import room
from streamjoin.tables.side import Side
from streamjoin.tables.sort import in_order


@dataclass(frozen=True)
class Sorted:
    """A side in order: the first and last key of its tuples, and their former positions (None: unchanged)."""

    side: Side
    starts: Array  # one vector of the highest key behind the last one
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
    behind: Array
    limits: Array


@dataclass(frozen=True)
class Layout:
    """Two sides, ready to be searched."""

    r: Sorted
    s: Sorted
    offsets: tuple[int, ...]  # by how much keys of s lie above those of r, where partners may be
    tree: Tree | None = None

    def without_order(self) -> Layout:
        """The same for a search that needs positions alone; it frees memory for the results."""
        return replace(self, r=replace(self.r, order=None), s=replace(self.s, order=None))


def lay_out(shape: Shape, r: Side, s: Side, dimensions: tuple[Dimension, ...], crew: Crew) -> Layout | None:
    """Sorts both sides; None if some interval is so long that strips are of no use."""
    if shape.kind == SCAN:
        none = np.zeros(0, np.int64)
        return Layout(Sorted(r, none, none, None), Sorted(s, none, none, None), (0,))
    offsets = _offsets(shape, dimensions, crew)
    if offsets is None:
        return None
    ends = [[(dimension.r, dimension.s)[k] for dimension in dimensions] for k in (0, 1)]
    tasks = [(shape, side, ends[k], k) for k, side in enumerate((r, s))]
    sides = crew.sides(_sorted, tasks, (len(r), len(s)))
    tree = _tree(shape, sides[0], sides[1], dimensions, crew) if shape.kind == TREE else None
    # Keys replace ends and hashes, whose memory the results need.
    found = [replace(side, side=replace(side.side, ends=(), key=None)) for side in sides]
    return Layout(found[0], found[1], offsets, tree)


def _offsets(shape: Shape, dimensions: tuple[Dimension, ...], crew: Crew) -> tuple[int, ...] | None:
    """All that the cells of partners may lie apart, by the longest intervals there are."""
    choices = []
    for axis, shift in zip(shape.strips, _shifts(shape), strict=True):
        dimension = dimensions[axis.dimension]
        strips = []
        for low, high in (dimension.s, dimension.r):
            assert low is not None and high is not None
            if low is high:
                strips.append(0)
                continue
            lows, highs = digits(low, axis, 0), digits(high, axis, 0)
            strips.append(max(crew.each(widest, [(lows, highs, *part) for part in crew.cut(len(low))])))
        if sum(strips) >= 2 * MOST_STRIPS:
            return None
        choices.append([apart << shift for apart in range(-strips[0], strips[1] + 1)])
    return tuple(sum(parts) for parts in product(*choices))


def _shifts(shape: Shape) -> list[int]:
    """By how many bits the cells of each of the strips lie above the axis."""
    shifts, shift = [], shape.axis.bits if shape.axis else 0
    for axis in reversed(shape.strips):
        shifts.append(shift)
        shift += axis.bits
    return shifts[::-1]


def _sorted(shape: Shape, side: Side, ends: list[Ends], which: int, crew: Crew) -> Sorted:
    """A side in the order of its keys; the keys' ends are the keys themselves if all of them are points."""
    n, axis = len(side), shape.axis
    axis_bits = axis.bits if axis else 0
    bits = axis_bits + sum(strip.bits for strip in shape.strips)
    columns = []
    if side.key is not None and shape.hash_bits:
        columns.append(hash_digits(side.key, shape.hash_bits, bits))
        bits += shape.hash_bits
    for strip, shift in zip(shape.strips, _shifts(shape), strict=True):
        columns += _digits(ends[strip.dimension][0], strip, shift)
    low, high = _swept(shape, ends, which)
    if axis is not None:
        columns += _digits(low, axis, 0)
    starts, order = in_order(np.concatenate(columns) if columns else digits_of_nothing(), max(bits, 1), n, crew)
    if axis is None or low is high:
        return Sorted(side, starts, starts, order)
    stops = room(n, starts.dtype)
    if high is None:
        np.bitwise_or(starts[:n], starts.dtype.type((1 << axis_bits) - 1), out=stops)
    else:
        column, before = digits(high, axis, 0), np.zeros(0, np.uint32) if order is None else order
        crew.each(end_keys, [(starts, before, column, axis_bits, *part, stops) for part in crew.cut(n)])
    return Sorted(side, starts, stops, order)


def _digits(values: Values | None, axis: Axis, shift: int) -> list[Array]:
    return [] if values is None else [digits(values, axis, shift)]


def digits_of_nothing() -> Array:
    """No column at all: every key is zero."""
    return digits(Values(np.zeros(0)), Axis(0, 0.0, 1.0, 1), 0)[:0]


def _swept(shape: Shape, ends: list[Ends], which: int) -> Ends:
    """What the keys of a side begin and end with on the axis.

    In a tree, keys of s are one end of its intervals, and ranges of r go on to the last key.
    """
    if shape.axis is None:
        return None, None
    low, high = ends[shape.axis.dimension]
    if shape.kind != TREE or shape.ordered_by == BOTH:
        return low, high
    own = ends[shape.axis.dimension][shape.ordered_by if which == 1 else 1 - shape.ordered_by]
    return (own, own) if which == 1 else (own, None)


def _tree(shape: Shape, r: Sorted, s: Sorted, dimensions: tuple[Dimension, ...], crew: Crew) -> Tree:
    assert shape.inequality is not None
    d, end = shape.inequality
    own, limits = dimensions[d].s[end], dimensions[d].r[1 - end]
    assert own is not None and limits is not None
    levels = levels_of(len(s.side))
    kind = np.float64 if shape.limit is None else np.uint32
    values, limit = room(int(levels[-1]), kind), room(len(r.side), kind)
    axis = shape.limit or Axis(d, 0.0, -1.0 if end else 1.0, 0)
    for found, order, out in ((own, s.order, values), (limits, r.order, limit)):
        column, before = digits(found, axis, 0), np.zeros(0, np.uint32) if order is None else order
        crew.each(places_of, [(column, before, *part, out) for part in crew.cut(len(found))])
    values[len(own) : levels[1]] = top_of(values)
    fill(values, levels, top_of(values))
    return Tree(values, levels, nothing_behind(values, levels), limit)
