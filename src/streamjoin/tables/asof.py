"""As-of joins of two tables whose predicate is nothing but equalities: one pass in the order of time, not all pairs.

A search would find every partner of an r to keep the latest one. Here a hash table has the latest s of each key.
"""

from __future__ import annotations

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
from streamjoin.tables.latest import latest, number_keys

TRUE = literal(True, BOOL)
AS_OF = "as-of"  # the shape


def possible(plan: Plan) -> bool:
    """Is it the latest or the next s of the same key, whatever else the rows have?"""
    if not plan.kind.take.timely or plan.window.by_rows:
        return False
    exact = [node for node in plan.analysis.exact if node != TRUE]
    return len(exact) == len(plan.analysis.equalities) and all(node.op == "eq" for node in exact)


class AsOf:
    """One as-of join of two tables."""

    def __init__(self, plan: Plan, tables: tuple[pa.Table, pa.Table]) -> None:
        self._plan, self._tables = plan, tables
        self._times = tuple(times_of(plan, side, table) for side, table in zip(SIDES, tables, strict=True))
        self._numbers, self._keys = _numbered(*self._side(0), *self._side(1))

    def partners(self) -> Array:
        """By row of r: the row of s that is taken, -1 if there is none."""
        take, (times_r, times_s) = self._plan.kind.take.name, self._times
        if not len(times_s):
            return np.full(len(times_r), -1)
        since, until = self._plan.window.bounds("r", times_r.copy(), 0)
        before = after = np.full(0, -1)
        if take != FORWARD:
            before = self._search(np.minimum(times_r, until), backwards=False)
            before[(before >= 0) & (times_s[before] < since)] = -1
        if take != BACKWARD:
            after = self._search(np.maximum(times_r, since), backwards=True)
            after[(after >= 0) & (times_s[after] > until)] = -1
        if take in (BACKWARD, FORWARD):
            return before if take == BACKWARD else after
        # Differences of times may need more than 63 bits: as unsigned integers they wrap to what they are.
        back = times_r.view(np.uint64) - times_s[before].view(np.uint64)
        forth = times_s[after].view(np.uint64) - times_r.view(np.uint64)
        return np.where((before >= 0) & ((after < 0) | (back <= forth)), before, after)

    def _search(self, limits: Array, backwards: bool) -> Array:
        found, last = np.empty(len(limits), np.int64), np.full(max(self._keys, 1), -1)
        own, order = _order(limits), _order(self._times[1])
        latest(self._numbers[0], own, limits, self._numbers[1], order, self._times[1], backwards, last, found)
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
        return (np.stack(words, axis=1) if words else np.zeros((n, 0), np.int64)), keep


def _numbered(words_r: Array, keep_r: Array, words_s: Array, keep_s: Array) -> tuple[tuple[Array, Array], int]:
    """The keys of both sides as numbers, -1 where a row cannot have a partner; and how many keys there are."""
    known = words_s[keep_s]
    if words_s.shape[1] == 1 and len(known):
        low, high = int(known.min()), int(known.max())
        if high - low < len(known):  # close together: a key's distance from the lowest one is its number
            found = []
            for words, keep in ((words_r[:, 0], keep_r), (words_s[:, 0], keep_s)):
                inside = keep & (words >= low) & (words <= high)
                found.append(np.where(inside, words - low, -1).astype(np.int32))
            return (found[0], found[1]), high - low + 1
    numbers = np.empty(len(keep_r), np.int32), np.empty(len(keep_s), np.int32)
    return numbers, int(number_keys(words_s, keep_s, words_r, keep_r, numbers[1], numbers[0]))


def _order(times: Array) -> Array:
    """Rows in the order of time, of equal times the first one first."""
    if (times[1:] >= times[:-1]).all():
        return np.arange(len(times))
    return np.argsort(times, kind="stable")
