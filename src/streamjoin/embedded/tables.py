"""The join of two tables that are known as a whole.

The smaller table becomes one window store, with its place in the window as one more dimension of every box; the other
one probes it. Windows of rows depend on who arrives first, so both tables take both parts, each as the later one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.core.codegen import Program
from streamjoin.core.intake import Intake
from streamjoin.core.kernels.layout import Array
from streamjoin.core.plan import Plan, make_plan
from streamjoin.core.store import BandStore, Tuples
from streamjoin.embedded.frames import gather, is_foreign_frame, to_arrow
from streamjoin.errors import SchemaError

PROBES = 1 << 16


def join_tables(left: Any, right: Any, **options: Any) -> Any:
    """See `streamjoin.join`."""
    if is_foreign_frame(left) != is_foreign_frame(right) or (is_foreign_frame(left) and type(left) is not type(right)):
        raise SchemaError(
            f"left is a {type(left).__module__}.{type(left).__name__}, right a {type(right).__module__}."
            f"{type(right).__name__}; convert one of them so that both are of the same kind"
        )
    ordered = options.pop("ordered", False)
    tables = {"r": to_arrow(left, "the left table (r)"), "s": to_arrow(right, "the right table (s)")}
    plan = make_plan(tables["r"].schema, tables["s"].schema, static=True, **options)
    if ordered and plan.unit is None:
        raise SchemaError('ordered=True needs time columns; give time="ts"')
    rows_r, rows_s = TableJoin(plan, tables).pairs()
    if ordered:
        intake = Intake(plan, plan.program())
        times = np.maximum(intake.times("r", tables["r"])[rows_r], intake.times("s", tables["s"])[rows_s])
        order = np.argsort(times, kind="stable")
        rows_r, rows_s = rows_r[order], rows_s[order]
    return gather(left, right, rows_r, rows_s, plan.output_names())


class TableJoin:
    """One join of two tables, to row numbers."""

    def __init__(self, plan: Plan, tables: dict[str, pa.Table]) -> None:
        self.plan = plan
        self.program: Program = plan.program()
        self.intake = Intake(plan, self.program, place=plan.access == "band")
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
        batches, rows = {}, {}
        for side in "rs":
            table = self.tables[side]
            batches[side], kept = self.intake.prepare(side, table, at[side], before[side], 0)
            rows[side] = _row_of(kept)
        larger = "r" if len(batches["r"]) >= len(batches["s"]) else "s"
        sides = "rs" if self.plan.window.by_arrival else larger
        for probing in sides:
            stored = "s" if probing == "r" else "r"
            for p, w in self._meet(batches[probing], stored, batches[stored]):
                found = {probing: p, stored: w}
                yield rows["r"](found["r"]), rows["s"](found["s"])

    def _arrival(self) -> tuple[dict[str, Array], dict[str, Array]]:
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
            other = np.sort(times["s" if side == "r" else "r"])
            # at equal times r arrives first
            before[side] = np.searchsorted(other, times[side], side="left" if side == "r" else "right").astype(np.int64)
        return at, before

    def _meet(self, probes: Tuples, stored: str, window: Tuples) -> Iterator[tuple[Array, Array]]:
        if not len(probes) or not len(window):
            return
        store = self.intake.store(stored)
        if isinstance(store, BandStore):
            store.expect(probes)
            store.build(window)
        else:
            in_order = np.argsort(window.at, kind="stable")
            store.insert(window.take(in_order))
        for start in range(0, len(probes), PROBES):
            yield from store.probe(probes.slice(start, start + PROBES))
        self.comparisons += store.comparisons


def _row_of(kept: Array | None) -> Callable[[Array], Array]:
    """From tuple numbers back to row numbers."""
    if kept is None:
        return lambda numbers: numbers
    rows = np.flatnonzero(kept)
    return lambda numbers: rows[numbers]
