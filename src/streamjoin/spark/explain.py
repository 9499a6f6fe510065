"""What a join of two DataFrames would do and why, in words and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from streamjoin.options import Options
from streamjoin.predicate.tree import to_sql
from streamjoin.spark.spec import JoinSpec, band_width

UNSIZED = 24  # bytes assumed for a value of a type without a fixed width


@dataclass(frozen=True)
class SparkExplanation:
    """The decisions behind a join on Spark. `str()` prints them; `to_dict()` is for programs."""

    spec: JoinSpec
    streaming: bool

    def to_dict(self) -> dict[str, Any]:
        spec, analysis = self.spec, self.spec.plan.analysis
        router = spec.router
        copies = router.replication(self._widths())
        return {
            "predicate": to_sql(analysis.tree),
            "equality_keys": [f"{to_sql(r)} = {to_sql(s)}" for r, s in analysis.equalities],
            "band_keys": [str(dimension) for dimension in analysis.dimensions],
            "residual": [to_sql(node) for node in analysis.residual],
            "window": spec.plan.window.describe(),
            "engine": "spark, streaming" if self.streaming else "spark, static",
            "routing": router.kind,
            "cells": router.cells,
            "groups": router.groups,
            "grid": [router.rows, router.columns],
            "bucket": router.width if router.kind == "range" else None,
            "replication": {"r": copies[0], "s": copies[1]},
            "state": self._state(copies) if self.streaming else None,
            "reasons": list(spec.reasons),
        }

    def _widths(self) -> tuple[float, float]:
        """Of the boxes of r and s on the axis of the buckets; what is wide is taken to be on one side."""
        dimensions, router = self.spec.plan.analysis.dimensions, self.spec.router
        width = band_width(dimensions[router.dimension]) if router.kind == "range" else None
        return 0.0, width or 0.0

    def _state(self, copies: tuple[float, float]) -> dict[str, float] | None:
        """Rows and bytes in the state at the expected rates, once the windows are full."""
        plan, rates = self.spec.plan, self.spec.rates
        stay = plan.window.retention
        if rates is None or stay is None:
            return None
        rows = {"r": rates[0] * stay.r * copies[0], "s": rates[1] * stay.s * copies[1]}
        size = {side: rows[side] * _row_bytes(plan.schemas[side]) for side in "rs"}
        return {"rows": round(sum(rows.values())), "bytes": round(sum(size.values()))}

    def __str__(self) -> str:
        facts, router = self.to_dict(), self.spec.router
        copies = facts["replication"]
        lines = [
            f"predicate    {facts['predicate']}",
            f"window       {facts['window']}",
            f"engine       {facts['engine']}",
            f"routing      {router.kind}: {router.groups} groups of {router.rows} x {router.columns}, "
            f"{router.cells} cells",
            f"copies       {copies['r']:.3g} of an r, {copies['s']:.3g} of an s",
        ]
        if self.streaming:
            state = facts["state"]
            size = state and f"{state['rows']:,} rows, about {state['bytes'] / 1e6:,.1f} MB"
            known = f"{size}, and what the watermark waits for" if size else "rate= would tell"
            lines.append(f"state        {known}")
        lines += [f"{'because' if k == 0 else '':<13}{text}" for k, text in enumerate(facts["reasons"])]
        return "\n".join(lines)

    __repr__ = __str__


def explain_frames(df_r: Any, df_s: Any, options: Options) -> SparkExplanation:
    """See `streamjoin.explain`."""
    from streamjoin.spark.dataframes import plan_frames

    return SparkExplanation(*plan_frames(df_r, df_s, options))


def _row_bytes(schema: pa.Schema) -> float:
    total = 0.0
    for t in schema.types:
        try:
            total += t.bit_width / 8
        except ValueError:
            total += UNSIZED
    return total
