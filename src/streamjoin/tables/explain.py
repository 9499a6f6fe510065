"""Estimates for a join of two tables, and the measurements of a run."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pyarrow as pa

from streamjoin.algorithms import ALGORITHMS, INLINE
from streamjoin.intake.lifetimes import with_lifetimes
from streamjoin.options import Options
from streamjoin.plan.explain import Explanation
from streamjoin.tables.asof import AS_OF, possible
from streamjoin.tables.crew import crew
from streamjoin.tables.join import join_tables
from streamjoin.tables.running import RUNNING, countable
from streamjoin.tables.whole import prepared


def with_estimates(found: Explanation, r: pa.Table, s: pa.Table, ordered: bool) -> Explanation:
    """An explanation with the shape that the rows suggest, and estimates of what it finds.

    The rows are prepared as for the join, and sampled; none is sorted or compared.
    """
    plan, tables = found.plan, (r, s)
    if ALGORITHMS[plan.algorithm].engine != INLINE or not r.num_rows or not s.num_rows:
        return found
    if plan.lifetimes is not None:
        tables = with_lifetimes(plan.lifetimes, *tables)
    with crew(plan.workers) as workers:
        by_key = AS_OF if possible(plan) else RUNNING if countable(plan, tables, ordered, workers) else None
        if by_key:
            return replace(found, decided={**found.decided, "shape": by_key}, shown={**found.shown, "shape": by_key})
        known = prepared(plan, tables, workers)
    shape = known.shapes()[0]
    rows, candidates, pairs = known.known.rows, round(shape.candidates), round(known.known.matching)
    estimates = {"rows": list(rows), "candidates": candidates, "pairs": pairs}
    text = f"{rows[0]:,} x {rows[1]:,} rows that may match, about {candidates:,} candidates, {pairs:,} pairs"
    return replace(
        found,
        decided={**found.decided, "shape": shape.kind, "estimated": estimates},
        shown={**found.shown, "shape": shape.kind, "estimated": text},
        reasons=(*found.reasons, shape.reason),
    )


def with_measurements(found: Explanation, left: Any, right: Any, options: Options) -> Explanation:
    """Runs the join, and adds what it measured."""
    stats: dict[str, Any] = {}
    start = time.perf_counter()
    result = join_tables(left, right, replace(options, stats=stats, analyze=False))
    measured: dict[str, Any] = {
        "seconds": time.perf_counter() - start,
        "rows": len(result),
        **{name: stats[name] for name in ("comparisons", "steps") if name in stats},
    }
    steps = ", ".join(f"{name} {seconds:.3f}" for name, seconds in stats.get("steps", {}).items())
    text = f"{measured['rows']:,} rows in {measured['seconds']:.3f} s{f' ({steps})' if steps else ''}"
    if "comparisons" in measured:
        text = f"{measured['comparisons']:,} comparisons, {text}"
    return replace(found, decided={**found.decided, "measured": measured}, shown={**found.shown, "measured": text})
