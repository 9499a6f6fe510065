"""As-of joins of two tables whose predicate is nothing but equalities: one pass in the order of time, not all pairs.

A search would find every partner of an r to keep the latest one. Here a hash table has the latest s of each key.
"""

from __future__ import annotations

from collections.abc import Callable

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
from streamjoin.tables.crew import Crew
from streamjoin.tables.latest import latest

TRUE = literal(True, BOOL)
AS_OF = "as-of"  # the shape
ROOM = 2  # places of the hash table for every row of s
PART = 1 << 19  # pairs that are handed over together


def possible(plan: Plan) -> bool:
    """Is it the latest or the next s of the same key, whatever else the rows have?"""
    if not plan.kind.take.timely or plan.window.by_rows:
        return False
    exact = [node for node in plan.analysis.exact if node != TRUE]
    return len(exact) == len(plan.analysis.equalities) and all(node.op == "eq" for node in exact)


class AsOf:
    """The pairs that a choice by time is among: of every r the last partner before it, and the first one after it."""

    comparisons = 0

    def __init__(self, plan: Plan, tables: tuple[pa.Table, pa.Table], crew: Crew) -> None:
        self._plan, self._tables, self._crew = plan, tables, crew

    def each(self, consume: Callable[[Array, Array], None]) -> None:
        """Hands over the pairs."""
        plan, take = self._plan, self._plan.kind.take.name
        times_r, times_s = (times_of(plan, side, table) for side, table in zip(SIDES, self._tables, strict=True))
        since, until = plan.window.bounds("r", times_r.copy(), 0)
        sides = [self._side(side) for side in (0, 1)]
        order_s = _order(times_s)
        for backwards in (False, True):
            if take == (BACKWARD if backwards else FORWARD):
                continue
            limits = np.maximum(times_r, since) if backwards else np.minimum(times_r, until)
            partners = self._search(sides, limits, times_s, order_s, backwards)
            rows = np.flatnonzero(partners >= 0)
            at = times_s[partners[rows]]
            rows = rows[(at >= since[rows]) & (at <= until[rows])]
            for begin in range(0, len(rows), PART):
                part = rows[begin : begin + PART]
                consume(part, partners[part])

    def _search(
        self, sides: list[tuple[Array, Array]], limits: Array, times: Array, order: Array, backwards: bool
    ) -> Array:
        (words_r, keep_r), (words_s, keep_s) = sides
        found = np.full(len(limits), -1)
        own, parts = _order(limits), self._crew.workers
        size = 1 << max(int(ROOM * len(times)).bit_length(), 4)

        def run(part: int) -> None:
            slots = np.full(size, -1)
            latest(
                words_r, keep_r, own, limits, words_s, keep_s, order, times, backwards, part, parts, slots, found
            )  # fmt: skip

        self._crew.each(run, [(part,) for part in range(parts)])
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


def _order(times: Array) -> Array:
    """Rows in the order of time, of equal times the first one first."""
    if (times[1:] >= times[:-1]).all():
        return np.arange(len(times))
    return np.argsort(times, kind="stable")
