"""As-of joins of two tables whose predicate is nothing but equalities: one pass in the order of time, not all pairs.

A search would find every partner of an r to keep the latest one. Here a hash table has the latest s of each key.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np
import pyarrow as pa

from streamjoin.codegen.program import Part
from streamjoin.codegen.records import Array
from streamjoin.intake.columns import physical_columns
from streamjoin.intake.prepare import times_of
from streamjoin.kinds import BACKWARD, FORWARD
from streamjoin.plan.columns import SIDES
from streamjoin.plan.plan import Plan
from streamjoin.predicate.tree import literal
from streamjoin.predicate.types import BOOL
from streamjoin.results.computed import Computed
from streamjoin.tables.crew import PART, Crew
from streamjoin.tables.latest import Stretch, find_keys, latest, number_keys
from streamjoin.tables.memory import room
from streamjoin.tables.sort import order_of

TRUE = literal(True, BOOL)
AS_OF = "as-of"  # the shape
PARTS = 4  # for every worker, where keys are few


def possible(plan: Plan) -> bool:
    """Is it the latest or the next s of the same key, whatever else the rows have?"""
    if not plan.kind.take.timely or plan.window.by_rows:
        return False
    exact = [node for node in plan.analysis.exact if node != TRUE]
    return len(exact) == len(plan.analysis.equalities) and all(node.op == "eq" for node in exact)


class AsOf:
    """One as-of join of two tables, on all cores: every step in parts."""

    def __init__(self, plan: Plan, tables: tuple[pa.Table, pa.Table], crew: Crew) -> None:
        self._plan, self._tables, self._crew = plan, tables, crew
        self._times = tuple(times_of(plan, side, table) for side, table in enumerate(tables))
        (words_r, keep_r), (words_s, keep_s) = crew.each(self._side, [(0,), (1,)])
        self._numbers, self._keys = _numbered((words_r, words_s), (keep_r, keep_s), crew)

    def partners(self) -> Array:
        """By row of r: the row of s that is taken, -1 if there is none."""
        take, (times_r, times_s) = self._plan.kind.take.name, self._times
        n, nothing = len(times_r), np.zeros(0, np.int64)
        if not len(times_s):
            return np.full(n, -1)
        limits = [room(n, np.int64) if take != other else nothing for other in (FORWARD, BACKWARD)]

        def bounds(begin: int, end: int) -> tuple[Array, Array, Array]:
            own = times_r[begin:end]
            since, until = self._plan.window.bounds("r", own.copy(), 0)
            return own, since, until

        def limit(begin: int, end: int) -> None:
            own, since, until = bounds(begin, end)
            if take != FORWARD:
                np.minimum(own, until, out=limits[0][begin:end])
            if take != BACKWARD:
                np.maximum(own, since, out=limits[1][begin:end])

        blocks = _blocks(n)
        self._crew.each(limit, blocks)
        before, after = (
            self._search(limits[backwards], backwards) if len(limits[backwards]) else nothing for backwards in (0, 1)
        )
        ends = int(times_s.min()), int(times_s.max())

        def settle(begin: int, end: int) -> None:
            own, since, until = bounds(begin, end)
            back, forth = before[begin:end], after[begin:end]
            if take != FORWARD and since.max() > ends[0]:
                back[(back >= 0) & (times_s[back] < since)] = -1
            if take != BACKWARD and until.min() < ends[1]:
                forth[(forth >= 0) & (times_s[forth] > until)] = -1
            if take not in (BACKWARD, FORWARD):
                # Differences of times may need more than 63 bits: as unsigned integers they wrap to what they are.
                past = own.view(np.uint64) - times_s[back].view(np.uint64)
                ahead = times_s[forth].view(np.uint64) - own.view(np.uint64)
                np.copyto(back, forth, where=(back < 0) | ((forth >= 0) & (ahead < past)))

        self._crew.each(settle, blocks)
        return after if take == FORWARD else before

    def _search(self, limits: Array, backwards: int) -> Array:
        """The last s up to every limit, or the first one from it on.

        Every stretch of r looks at the s that come among it. Where that is not enough, the last ones of the stretches
        before it are.
        """
        crew, times, n = self._crew, self._times[1], len(limits)
        own, order = _order(limits, crew), _order(times, crew)
        numbers_r, numbers_s = self._numbers
        found = room(n, np.int64)
        count = 1
        if n >= PART and crew.workers > 1:
            count = max(crew.workers, min(PARTS * crew.workers, n // max(self._keys, 1)))
        stretches = Stretch.array(count)
        for k, stretch in enumerate(stretches):
            stretch.first, stretch.last, stretch.backwards = n * k // count, n * (k + 1) // count, backwards
            if k:
                place = n - 1 - stretch.first if backwards else stretch.first
                edge = limits[own[place] if len(own) else place]
                come = _come(times, order, int(edge), backwards)
                stretch.first_s = stretches[k - 1].last_s = come
        stretches[-1].last_s = len(times)
        lasts = [np.full(max(self._keys, 1), -1) for _ in stretches]
        crew.each(
            latest,
            [
                (stretch, numbers_r, own, limits, numbers_s, order, times, last, found)
                for stretch, last in zip(stretches, lasts, strict=True)
            ],
        )

        def carry_on(first: int, last: int, carried: Array) -> None:
            begin, end = (n - last, n - first) if backwards else (first, last)
            rows = own[begin:end] if len(own) else slice(begin, end)
            alone = np.flatnonzero((found[rows] < 0) & (numbers_r[rows] >= 0))
            missing = own[begin:end][alone] if len(own) else alone + begin
            found[missing] = carried[numbers_r[missing]]

        carried, later = lasts[0], []
        for stretch, last in zip(stretches[1:], lasts[1:], strict=True):
            later.append((int(stretch.first), int(stretch.last), carried))
            carried = np.where(last >= 0, last, carried)
        crew.each(carry_on, later)
        return found

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

            crew.each(number, [(side, *block) for side in (0, 1) for block in _blocks(len(keep[side]))])
            return numbers, high - low + 1
    keys, slots, count = number_keys(words[1], keep[1], numbers[1])
    crew.each(find_keys, [(words[0], keep[0], keys, slots, *part, numbers[0]) for part in crew.cut(len(keep[0]))])
    return numbers, int(count)


def _blocks(n: int) -> list[tuple[int, int]]:
    """Rows in parts that are small enough for a cache."""
    return [(begin, min(begin + PART, n)) for begin in range(0, n, PART)]


def _order(times: Array, crew: Crew) -> Array:
    """Rows in the order of time, of equal times the first one first; of no length if that is how they stand."""

    def rising(begin: int, end: int) -> bool:
        return bool((times[begin + 1 : end + 1] >= times[begin : min(end, len(times) - 1)]).all())

    order = None if all(crew.each(rising, _blocks(len(times)))) else order_of(times, crew)
    return np.zeros(0, np.uint32) if order is None else order


def _come(times: Array, order: Array, limit: int, backwards: int) -> int:
    """How many s there are up to a limit, or from it on."""

    def at(place: int) -> int:
        return int(times[order[place] if len(order) else place])

    n = len(times)
    return n - bisect_left(range(n), limit, key=at) if backwards else bisect_right(range(n), limit, key=at)
