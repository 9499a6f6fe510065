"""Two tables joined by equal keys alone: keys as numbers, and ranges of rows for one pass in the order of time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import cached_property

import numpy as np
import pyarrow as pa

from streamjoin.codegen.program import Part
from streamjoin.codegen.records import Array
from streamjoin.intake.columns import physical_columns
from streamjoin.intake.prepare import times_of
from streamjoin.plan.plan import Plan
from streamjoin.predicate.tree import SIDES, literal
from streamjoin.predicate.types import BOOL
from streamjoin.results.computed import Computed
from streamjoin.tables.crew import PART, Crew
from streamjoin.tables.latest import RowRange, find_keys, number_keys
from streamjoin.tables.memory import room
from streamjoin.tables.sort import order_of

TRUE = literal(True, BOOL)
PARTS = 4  # for every worker, where keys are few


def keys_decide(plan: Plan) -> bool:
    """Do equal keys and a window of time alone decide who is a partner, apart from conditions on one side?"""
    exact = [node for node in plan.analysis.exact if node != TRUE]
    equal = len(exact) == len(plan.analysis.equalities) and all(node.op == "eq" for node in exact)
    return equal and not plan.window.by_rows


class ByKey:
    """Two such tables, on all cores: every step in parts."""

    def __init__(self, plan: Plan, tables: tuple[pa.Table, pa.Table], crew: Crew) -> None:
        self._plan, self._tables, self._crew = plan, tables, crew
        self._times = times_of(plan, 0, tables[0]), times_of(plan, 1, tables[1])
        (words_r, keep_r), (words_s, keep_s) = crew.each(self._side, [(0,), (1,)])
        self._numbers, self._keys = _numbered((words_r, words_s), (keep_r, keep_s), crew)

    @cached_property
    def _order_s(self) -> Array:
        return order(self._times[1], self._crew)

    def _bounds(self, begin: int, end: int) -> tuple[Array, Array, Array]:
        """The times of some r, and the bounds of the times of their partners."""
        own = self._times[0][begin:end]
        return own, *self._plan.window.bounds(0, own.copy(), 0)

    def _row_ranges(self, limits: Array, own: Array, backwards: int, strict: int) -> Array:
        """Ranges of the rows of r in the order of their limits, each with the s that lie within it in time."""
        crew, times, n = self._crew, self._times[1], len(limits)
        count = 1
        if n >= PART and crew.workers > 1:
            count = max(crew.workers, min(PARTS * crew.workers, n // max(self._keys, 1)))
        ranges = RowRange.array(count)
        for k, row_range in enumerate(ranges):
            row_range.first, row_range.last = n * k // count, n * (k + 1) // count
            row_range.backwards, row_range.strict = backwards, strict
            if k:
                place = n - 1 - row_range.first if backwards else row_range.first
                edge = limits[own[place] if len(own) else place]
                come = _come(times, self._order_s, int(edge), backwards, strict)
                row_range.first_s = ranges[k - 1].last_s = come
        ranges[-1].last_s = len(times)
        return ranges

    def _side(self, side: int) -> tuple[Array, Array]:
        """The key of every row in words that are equal if the keys are, and which rows can have partners at all."""
        analysis, table, letter = self._plan.analysis, self._tables[side], SIDES[side]
        keys = [pair[side] for pair in analysis.equalities]
        texts = [node for node in keys if node.typed.kind in ("string", "binary")]
        others = [node for node in keys if node not in texts]
        nodes = (*others, *analysis.filters[letter])
        n = table.num_rows
        keep = np.ones(n, np.bool_)
        words = []
        computed = Computed(nodes, *self._tables, aligned=True).rows(n)
        for k, found in enumerate(computed):
            keep &= found.valid
            if k >= len(others):
                keep &= found.values
            elif found.values.dtype.kind == "f":
                wide = found.values.astype(np.float64) + 0.0
                wide[wide != wide] = np.nan
                words.append(wide.view(np.int64))
            else:
                words.append(found.values.astype(np.int64))
        for node in texts:
            name = node.column[1]
            parts = tuple(Part(name, role, node.typed) for role in ("high", "low", "valid"))
            high, low, valid = physical_columns(table, parts, letter)
            words += [high, low]
            keep &= valid
        if len(words) == 1:
            return words[0].reshape(n, 1), keep
        return (np.stack(words, axis=1) if words else np.zeros((n, 0), np.int64)), keep


def _numbered(words: tuple[Array, Array], keep: tuple[Array, Array], crew: Crew) -> tuple[tuple[Array, Array], int]:
    """The keys of both sides as numbers, -1 where a row cannot have a partner; and how many keys there are."""
    numbers = room(len(keep[0]), np.int32), room(len(keep[1]), np.int32)
    known = words[1] if keep[1].all() else words[1][keep[1]]
    if words[1].shape[1] == 1 and len(known):
        low, high = int(known.min()), int(known.max())
        if high - low < len(known):  # close together: a key's distance from the lowest one is its number

            def number(side: int, begin: int, end: int) -> None:
                own = words[side][begin:end, 0]
                inside = keep[side][begin:end] & (own >= low) & (own <= high)
                numbers[side][begin:end] = np.where(inside, own - low, -1)

            crew.each(number, [(side, *block) for side in (0, 1) for block in blocks(len(keep[side]))])
            return numbers, high - low + 1
    keys, slots, count = number_keys(words[1], keep[1], numbers[1])
    crew.each(find_keys, [(words[0], keep[0], keys, slots, *part, numbers[0]) for part in crew.cut(len(keep[0]))])
    return numbers, int(count)


def blocks(n: int) -> list[tuple[int, int]]:
    """Rows in parts that are small enough for a cache."""
    return [(begin, min(begin + PART, n)) for begin in range(0, n, PART)]


def rising(times: Array, crew: Crew) -> bool:
    """Do the rows stand in the order of time?"""

    def part(begin: int, end: int) -> bool:
        return bool((times[begin + 1 : end + 1] >= times[begin : min(end, len(times) - 1)]).all())

    return all(crew.each(part, blocks(len(times))))


def order(times: Array, crew: Crew) -> Array:
    """Rows in the order of time, of equal times the first one first; of no length if that is how they stand."""
    found = None if rising(times, crew) else order_of(times, crew)
    return np.zeros(0, np.uint32) if found is None else found


def _come(times: Array, order: Array, limit: int, backwards: int, strict: int) -> int:
    """How many s there are up to a limit (`strict`: before it), or from it on."""

    def at(place: int) -> int:
        return int(times[order[place] if len(order) else place])

    n = len(times)
    if backwards:
        return n - bisect_left(range(n), limit, key=at)
    return (bisect_left if strict else bisect_right)(range(n), limit, key=at)
