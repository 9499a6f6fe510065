"""The join of two tables that are known as a whole.

The smaller table becomes one window store, with its place in the window as one more dimension of every box; the other
one probes it. Windows of rows depend on who arrives first, so both tables take both parts, each as the later one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.access import WHOLE
from streamjoin.access.band.index import BandStore
from streamjoin.access.segment import Store
from streamjoin.access.tuples import Tuples
from streamjoin.algorithms import ALGORITHMS, INLINE
from streamjoin.codegen.program import Program
from streamjoin.codegen.records import Array
from streamjoin.errors import SchemaError
from streamjoin.intake.frames import gather, is_foreign_frame, to_arrow
from streamjoin.intake.prepare import Intake
from streamjoin.options import TABLES, Options
from streamjoin.plan.plan import Plan, make_plan
from streamjoin.predicate.tree import OTHER

PROBES = 1 << 16  # a chunk of the probing table: its arrays stay in the cache

Sides = dict[str, Array]


def join_tables(left: Any, right: Any, options: Options) -> Any:
    """See `streamjoin.join`."""
    if is_foreign_frame(left) != is_foreign_frame(right) or (is_foreign_frame(left) and type(left) is not type(right)):
        raise SchemaError(
            f"left is a {type(left).__module__}.{type(left).__name__}, right a {type(right).__module__}."
            f"{type(right).__name__}; convert one of them so that both are of the same kind"
        )
    tables = {"r": to_arrow(left, "the left table (r)"), "s": to_arrow(right, "the right table (s)")}
    plan = make_plan(tables["r"].schema, tables["s"].schema, options.for_engine(TABLES), static=True)
    if options.ordered and plan.unit is None:
        raise SchemaError('ordered=True needs time columns; give time="ts"')
    join = _join(plan, tables)
    rows_r, rows_s = join.pairs()
    if (stats := options.stats) is not None:
        stats.update(algorithm=plan.algorithm, access=plan.access, comparisons=join.comparisons, workers=plan.workers)
        if join.workers:
            stats["per_worker"] = list(join.workers)
    if options.ordered:
        times = np.maximum(join.intake.times("r", tables["r"])[rows_r], join.intake.times("s", tables["s"])[rows_s])
        order = np.argsort(times, kind="stable")
        rows_r, rows_s = rows_r[order], rows_s[order]
    return gather(left, right, rows_r, rows_s, plan.output_names())


def _join(plan: Plan, tables: dict[str, pa.Table]) -> TableJoin:
    if ALGORITHMS[plan.algorithm].engine == INLINE:
        return TableJoin(plan, tables)
    from streamjoin.tables.replay import StreamedJoin

    return StreamedJoin(plan, tables)


class TableJoin:
    """One join of two tables, to row numbers."""

    workers: tuple[dict[str, Any], ...] = ()

    def __init__(self, plan: Plan, tables: dict[str, pa.Table]) -> None:
        self.plan = plan
        self.program: Program = plan.program()
        self.intake = Intake(
            plan, self.program, place=plan.access == WHOLE and ALGORITHMS[plan.algorithm].engine == INLINE
        )
        self.tables = tables
        self.comparisons = 0

    def pairs(self) -> tuple[Array, Array]:
        """Row numbers of the matching pairs: of r, and of s."""
        found = list(self._pairs())
        if not found:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        return np.concatenate([r for r, _ in found]), np.concatenate([s for _, s in found])

    def _pairs(self) -> Iterator[tuple[Array, Array]]:
        at, before = self._arrival()
        larger = "r" if self.tables["r"].num_rows >= self.tables["s"].num_rows else "s"
        for probing in "rs" if self.plan.window.by_arrival else larger:
            for p, w in self._meet(probing, at, before):
                yield (p, w) if probing == "r" else (w, p)

    def _arrival(self) -> tuple[Sides, Sides]:
        """By side: each row's place, and how many rows of the other side arrived before it."""
        times = {side: self.intake.times(side, self.tables[side]) for side in "rs"}
        zero = {side: np.zeros(len(times[side]), np.int64) for side in "rs"}
        if not self.plan.window.by_rows:
            return times, zero
        at, before = {}, {}
        for side in "rs":
            position = np.empty(len(times[side]), np.int64)
            position[np.argsort(times[side], kind="stable")] = np.arange(len(position))
            at[side] = position
            other = np.sort(times[OTHER[side]])
            # at equal times r arrives first
            before[side] = np.searchsorted(other, times[side], side="left" if side == "r" else "right").astype(np.int64)
        return at, before

    def _meet(self, probing: str, at: Sides, before: Sides) -> Iterator[tuple[Array, Array]]:
        """Row numbers of pairs: tuples of one side, a chunk at a time, against the other side as one window."""
        stored = OTHER[probing]
        store = self.intake.store(stored)
        window, kept = self.intake.prepare(stored, self.tables[stored], at[stored], before[stored], 0)
        row_of_stored = _row_of(kept, 0)
        for start in range(0, self.tables[probing].num_rows, PROBES):
            chunk = slice(start, start + PROBES)
            rows = self.tables[probing].slice(start, PROBES)
            probes, kept = self.intake.prepare(probing, rows, at[probing][chunk], before[probing][chunk], 0)
            if start == 0:
                _fill(store, window, probes)
            row_of_probe = _row_of(kept, start)
            for p, w in store.probe(probes):
                yield row_of_probe(p), row_of_stored(w)
        self.comparisons += store.comparisons


def _fill(store: Store, window: Tuples, probes: Tuples) -> None:
    """Puts a whole window into an empty store, given a sample of what will probe it."""
    if isinstance(store, BandStore):
        store.expect(probes)
        store.build(window)
    else:
        store.insert(window.take(np.argsort(window.at, kind="stable")))


def _row_of(kept: Array | None, first: int) -> Callable[[Array], Array]:
    """From the tuple numbers of a chunk that begins with row `first` back to row numbers."""
    if kept is None:
        return lambda numbers: numbers + first if first else numbers
    rows = np.flatnonzero(kept) + first
    return lambda numbers: rows[numbers]
