"""Rows that lie beyond all rows of the other side are left out before anything is sorted.

An r can match only if it begins before the last s ends, and ends after the first s begins, in every dimension. A sample
tells whether there are enough such rows to look for.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from streamjoin.codegen.records import Array
from streamjoin.plan.statistics import Dimension, Values
from streamjoin.tables.crew import Crew
from streamjoin.tables.side import Side, only

WORTH = 0.1  # the part of the sample's rows that must lie beyond the others
ROUNDS = 2  # of each side: what is left of one side has narrower bounds

Dimensions = tuple[Dimension, ...]


def prune(r: Side, s: Side, on: Callable[[Side, Side], Dimensions], crew: Crew) -> tuple[Side, Side, Dimensions]:
    """Both sides without rows that lie beyond the other one, and their dimensions, which `on` tells."""
    dimensions, pruned = on(r, s), 0
    for turn in range(2 * ROUNDS):
        which = turn % 2
        if turn > pruned + 1:
            break  # both sides were looked at as they are
        if not len(r) or not len(s) or not any(_promising(dimension, which) for dimension in dimensions):
            continue
        found = [part for dimension in dimensions for part in _limits(dimension, which)]
        n = len(s if which else r)

        def inside(begin: int, end: int, found: list[_Limit] = found) -> Array:
            masks = [compare(values.array[begin:end], limit) for values, compare, limit in found]
            return np.flatnonzero(np.logical_and.reduce(masks)) + begin

        positions = np.concatenate(crew.each(inside, crew.cut(n))).astype(np.uint32)
        if len(positions) < n:
            r, s = (r, only(s, positions)) if which else (only(r, positions), s)
            dimensions, pruned = on(r, s), turn
    return r, s, dimensions


_Limit = tuple[Values, Callable[[Array, float], Array], float]


def _promising(dimension: Dimension, which: int) -> bool:
    """Do many of the sample's rows of a side lie beyond those of the other one?"""
    (low, high), (other_low, other_high) = dimension.sample[which], dimension.sample[1 - which]
    beyond = 0.0
    if low is not None and other_high is not None:
        beyond += float((low > other_high.max()).mean())
    if high is not None and other_low is not None:
        beyond += float((high < other_low.min()).mean())
    return beyond > WORTH


def _limits(dimension: Dimension, which: int) -> list[_Limit]:
    """What the ends of a side's intervals are compared with."""
    own, other = (dimension.r, dimension.s) if which == 0 else (dimension.s, dimension.r)
    found: list[_Limit] = []
    if own[0] is not None and other[1] is not None:
        found.append((own[0], np.less_equal, _limit(own[0], other[1], np.max)))
    if own[1] is not None and other[0] is not None:
        found.append((own[1], np.greater_equal, _limit(own[1], other[0], np.min)))
    return found


def _limit(own: Values, other: Values, extreme: Callable[[Array], float]) -> float:
    """The other side's extreme value, as own values are counted before their bias is added."""
    found = extreme(other.array)
    if not own.whole and not other.whole:
        return float(found)
    if own.whole and other.whole:
        return int(found) + other.bias - own.bias
    if other.whole:  # as both are compared elsewhere
        return float(int(found) + other.bias)
    return float("inf") if extreme is np.max else float("-inf")
