"""What is shipped to the executors: the plan of a join, its routing, and the signature that the state is kept under."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from streamjoin.access import ACCESSES, WHOLE
from streamjoin.codegen.embed import fingerprint
from streamjoin.errors import OptionError, SchemaError, shown
from streamjoin.options import Options
from streamjoin.plan.columns import columns, result_schema
from streamjoin.plan.explain import Explanation
from streamjoin.plan.plan import Plan, make_plan
from streamjoin.predicate.analysis import MAX_DIMS, Analysis
from streamjoin.predicate.tree import SIDES, identity, walk
from streamjoin.predicate.tree import columns as tree_columns
from streamjoin.predicate.widths import band_width, side_width, slack
from streamjoin.results.selected import needed
from streamjoin.spark import duty as duties
from streamjoin.spark.duty import Duty, duty_of
from streamjoin.spark.routing import Axis, Router, divide, homes
from streamjoin.spark.state import CHOOSING, DECIDING, PAIRS

BANDS_PER_BUCKET = 4.0  # the width of a bucket; one tuple in four is copied
UNSIZED = 24  # bytes assumed for a value of a type without a fixed width
HIDDEN = "__streamjoin_"  # columns of ours that travel with the user's
FIRST, CONTENT, AT, BEFORE = f"{HIDDEN}first", f"{HIDDEN}content", f"{HIDDEN}at", f"{HIDDEN}before"


@dataclass(frozen=True)
class JoinSpec:
    """One join, decided."""

    plan: Plan
    router: Router
    streaming: bool
    result_time: str | None
    rates: tuple[float, float] | None
    reasons: tuple[str, ...]
    duty: Duty = duties.PAIRS
    rest: JoinSpec | None = None  # a second operator, for what the first one does not decide about

    @property
    def parts(self) -> tuple[JoinSpec, ...]:
        """The operators whose results together are the join's."""
        return (self,) if self.rest is None else (self, self.rest)

    @property
    def ranked(self) -> bool:
        """Must partners at the same time be told apart? By their content, so that a replay decides alike."""
        kind = self.plan.kind
        return not kind.take.every or any(len(found.args) == 2 for found in kind.aggregate)

    @cached_property
    def signature(self) -> dict[str, str]:
        """What must not change between two runs over the same state."""
        plan = self.plan
        function = next((node.value for node in walk(plan.analysis.tree) if node.op == "function"), None)
        code = f" {_digest(fingerprint(function))}" if function is not None else ""
        kept = {
            "format": str(self._format),
            "predicate": identity(plan.analysis.tree) + code,
            "window": plan.window.identity(),
            "columns of r": _columns(plan.schemas["r"]),
            "columns of s": _columns(plan.schemas["s"]),
            "time columns": _times(plan),
            "routing": _routing(self.router),
        }
        return {"kind": duties.identity(plan.kind, self.duty)} | kept if self.duty.deciding else kept

    @property
    def _format(self) -> int:
        if not self.duty.deciding:
            return PAIRS
        return CHOOSING if self.plan.kind.take.hastened else DECIDING

    @cached_property
    def identity(self) -> str:
        """The signature, and what else makes an engine: a key for caches."""
        plan = self.plan
        access = [len(plan.analysis.dimensions), len(plan.analysis.equalities)]
        wanted = [
            (column.name, str(column.side), str(column.node and identity(column.node))) for column in columns(plan)
        ]
        return _digest(json.dumps([self.signature, wanted, self.result_time, access]))

    @property
    def result_side(self) -> str:
        """Whose time column's type the result's has: r's, but a date cannot hold the time of a timestamp."""
        plan = self.plan
        return "s" if pa.types.is_date(plan.schemas["r"].field(plan.times["r"]).type) else "r"

    @property
    def result_type(self) -> pa.DataType:
        """Of the column `result_time`."""
        return self.plan.schemas[self.result_side].field(self.plan.times[self.result_side]).type

    def check_result_time(self) -> None:
        """Refuses a `result_time` that is the name of another column."""
        taken = {self.plan.same(column.name) for column in columns(self.plan)}
        if self.result_time is not None and self.plan.same(self.result_time) in taken:
            raise SchemaError(f'result_time="{self.result_time}" is the name of another column; choose a new one')

    def result_schema(self) -> pa.Schema:
        """Of the results, with `result_time`."""
        schema = result_schema(self.plan)
        return schema.append(pa.field(self.result_time, self.result_type)) if self.result_time else schema

    def explanation(self) -> Explanation:
        """The routing, the copies per tuple, the cells and, given a rate, the state."""
        router, copies = self.router, self._copies()
        state = self._state(copies) if self.streaming else None
        engine = f"spark, {'streaming' if self.streaming else 'static'}"
        decided: dict[str, Any] = {
            "engine": engine,
            "routing": router.kind,
            "cells": router.cells,
            "groups": router.groups,
            "grid": [router.rows, router.columns],
            "bucket": router.width if router.kind == "range" else None,
            "replication": {"r": copies[0], "s": copies[1]},
            "state": state,
        }
        shown = {
            "engine": engine,
            "routing": f"{router.kind}: {router.groups} group{'s' * (router.groups > 1)} "
            f"of {router.rows} x {router.columns}, {router.cells} cells",
            "copies": f"{copies[0]:.3g} of an r, {copies[1]:.3g} of an s",
        }
        if self.duty.deciding and self.streaming:
            decided["final"] = list(
                dict.fromkeys(line for part in self.parts for line in duties.final(self.plan.kind, part.duty))
            )
        if self.streaming:
            shown["state"] = "needs rate= to be estimated"
        if state is not None:
            size = f"{state['rows']:,} rows, about {state['bytes'] / 1e6:,.1f} MB"
            shown["state"] = f"{size}, and what the watermark waits for"
        return Explanation(self.plan, decided, shown, self.reasons, not self.streaming)

    def _copies(self) -> tuple[float, float]:
        """Per tuple of r and of s; what is wide on the axis of the buckets is taken to be on one side."""
        by_range = self.router.kind == "range"
        width = band_width(self.plan.analysis.dimensions[self.router.dimension]) if by_range else None
        wide = width or 0.0
        return self.router.replication((wide, 0.0) if self.router.home == "s" else (0.0, wide))

    def _state(self, copies: tuple[float, float]) -> dict[str, int] | None:
        """Rows and bytes in the state at the expected rates, once the windows are full."""
        retention = self.plan.window.retention
        if self.rates is None or retention is None:
            return None
        rows = self.rates[0] * retention.r * copies[0], self.rates[1] * retention.s * copies[1]
        sizes = [count * _row_bytes(self.plan.schemas[side]) for count, side in zip(rows, SIDES, strict=True)]
        return {"rows": round(sum(rows)), "bytes": round(sum(sizes))}


def make_spec(
    schema_r: pa.Schema,
    schema_s: pa.Schema,
    options: Options,
    cells: int,
    any_case: bool = True,
    streaming: bool = True,
) -> JoinSpec:
    """Checks everything and decides who meets whom."""
    plan = make_plan(schema_r, schema_s, options, static=True, endless=streaming)
    if not plan.kind.plain:  # the rest is neither shuffled nor kept
        schemas = needed_schema(plan, "r"), needed_schema(plan, "s")
        plan = make_plan(*schemas, options, static=True, endless=streaming)
    for what, wanted in ((f'take="{plan.kind.take}"', plan.kind.take.timely), ("result_time=", options.result_time)):
        if wanted and not plan.timed:
            raise SchemaError(f"{what} needs times, but {plan.timeless}")
    for side, schema in plan.schemas.items():
        taken = [name for name in schema.names if name.startswith(HIDDEN)]
        if taken:
            raise SchemaError(f"{side}.{taken[0]}: names that begin with {HIDDEN} are reserved; rename the column")
    plan = replace(plan, access=WHOLE, analysis=_limited(plan.analysis, plan.access), any_case=any_case)
    duty = duty_of(plan.kind)
    wishes = options.split, options.bucket
    if duty.deciding:
        spec = _deciding(plan, cells, duty, wishes, streaming, options)
    else:
        router, reasons = choose_router(plan.analysis, cells, *wishes, options.rates or (1.0, 1.0))
        spec = JoinSpec(plan, router, streaming, options.result_time, options.rates, reasons)
    spec.check_result_time()
    for part in spec.parts:
        part.identity  # noqa: B018  decided here, and shipped with the rest
    if any(node.op == "function" for node in walk(plan.analysis.tree)):
        _compile(plan)
    return spec


def needed_schema(plan: Plan, side: str) -> pa.Schema:
    """The columns of a side that the predicate, the window or the result has anything to do with."""
    kind, wanted = plan.kind, columns(plan)
    number = SIDES.index(side)
    nodes = [plan.analysis.tree, *([kind.take.by] if kind.take.by is not None else [])]
    nodes += [node for found in kind.aggregate for node in found.args]
    read = {name for owner, name in tree_columns(*nodes) if owner == side} | {plan.times[side]}
    if plan.lifetimes is not None:
        read |= set(plan.lifetimes.sides[number].columns.values())
    if any(node.op == "function" for node in walk(plan.analysis.tree)):
        return plan.schemas[side]  # which columns it reads is known to the compiler alone
    names = read | set(needed(wanted, number))
    found = [field for field in plan.schemas[side] if field.name in names]
    return pa.schema(found or [plan.schemas[side].field(0)])  # without columns there are no rows


def _deciding(
    plan: Plan, cells: int, duty: Duty, wishes: tuple[int | None, float | None], streaming: bool, options: Options
) -> JoinSpec:
    """A join that decides about tuples: these have one home each, and only the other side is copied."""
    split, bucket = wishes
    keyed = bool(plan.analysis.equalities)
    common = (streaming, options.result_time, options.rates)

    def router_of(part: Duty) -> Router:
        if keyed:
            return homes("hash", cells, split, part.owners)
        axis = _axis(plan.analysis, "s" if part.owners[1] else "r", bucket)
        return homes("grid" if axis is None else "range", cells, split, part.owners, axis)

    if not all(duty.owners):
        router = router_of(duty)
        return JoinSpec(plan, router, *common, (_homes(duty, router),), duty)
    if keyed or cells == 1:
        router = homes("hash" if keyed else "grid", cells, 1, duty.owners)
        return JoinSpec(plan, router, *common, ("both sides are preserved: tuples go by the hash of their keys",), duty)
    first, second = duty.halves()
    why = (
        "both sides are preserved, without an equality: one operator finds the pairs and decides about r, a second "
        "one decides about s; with cells=1 one would do"
    )
    rest = JoinSpec(plan, router_of(second), *common, (), second)
    return JoinSpec(plan, router_of(first), *common, (why,), first, rest)


def _axis(analysis: Analysis, own: str, bucket: float | None) -> Axis | None:
    """Buckets in which tuples of the side `own` have one home each, if it is known how far these look at most."""
    found = [
        (d, dim, widest)
        for d, dim in enumerate(analysis.dimensions[:MAX_DIMS])
        if dim.two_sided and (widest := side_width(dim, own)) is not None
    ]
    if bucket is not None and not found:
        raise OptionError(
            f"bucket={shown(bucket)} needs a two-sided band in which an {own} looks equally far, whatever its values, "
            "such as abs(r.x - s.a) <= 10: this join decides about it, and all its partners must come to one cell"
        )
    for d, dim, widest in found:
        width = band_width(dim)
        if bucket is not None or width is not None:
            return Axis(d, float(bucket or _bucket(width or 0.0)), widest, slack(dim, own))
    return None


def _bucket(width: float) -> float:
    """The width of a bucket, given that of the band."""
    return BANDS_PER_BUCKET * width if width > 0 else 1.0


def _homes(duty: Duty, router: Router) -> str:
    own, other = ("r", "s") if duty.owners[0] else ("s", "r")
    if router.kind == "range":
        return (
            f"decided about {own}: each goes to one bucket of {router.width:g}; {other} goes to all buckets from which "
            "one may look at it"
        )
    by = "the hash of its keys" if router.kind == "hash" else "its content"
    return f"decided about {own}: each goes to one cell, by {by}; {other} is copied"


def _compile(plan: Plan) -> None:
    """Has a Python function compiled here and now: what does not compile should fail before a query starts."""
    from streamjoin.intake.prepare import Intake

    intake = Intake(plan, plan.program(), with_at=True)
    for side in (0, 1):
        intake.search(side)


def _limited(analysis: Analysis, access: str) -> Analysis:
    """What an asked-for access path may use of the predicate; the exact test keeps all of it."""
    path = ACCESSES[access]
    return replace(
        analysis,
        dimensions=analysis.dimensions if path.by_box else (),
        equalities=analysis.equalities if path.by_key else (),
    )


def choose_router(
    analysis: Analysis, cells: int, split: int | None, bucket: float | None, rates: tuple[float, float]
) -> tuple[Router, tuple[str, ...]]:
    """Hash for equalities, range buckets for a band of known width, a grid for the rest."""
    if analysis.equalities:
        return divide("hash", cells, split, rates, 1.0, 0), ("equality keys: tuples go by the hash of their keys",)
    found = [(d, band_width(dim)) for d, dim in enumerate(analysis.dimensions[:MAX_DIMS]) if dim.two_sided]
    if bucket is not None and not found:
        raise OptionError(
            f"bucket={shown(bucket)} needs a two-sided band such as abs(r.x - s.a) <= 10 in the predicate"
        )
    if bucket is not None:
        return divide("range", cells, split, rates, float(bucket), found[0][0]), (f"bucket={bucket} was asked for",)
    for d, width in found:
        if width is not None:
            wide = _bucket(width)
            return divide("range", cells, split, rates, wide, d), (
                f"a band of width {width:g}: buckets of {wide:g}, tuples go to all that their band touches",
            )
    why = "no equality and no band of a known width" if not found else "bands of varying width (bucket= would use one)"
    return divide("grid", cells, None, rates, 1.0, 0), (f"{why}: a grid",)


def _row_bytes(schema: pa.Schema) -> float:
    total = 0.0
    for t in schema.types:
        try:
            total += t.bit_width / 8
        except ValueError:
            total += UNSIZED
    return total


def _times(plan: Plan) -> str:
    lives = plan.lifetimes
    return f"{plan.times['r']}, {plan.times['s']}" if lives is None else f"{lives.r}, {lives.s}"


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _routing(router: Router) -> str:
    grid = f"{router.groups} groups of {router.rows} x {router.columns} cells"
    home = f", homes of {router.home} that look {router.home_width!r} far" if router.home else ""
    return f"{router.kind}, {grid}, buckets of {router.width!r} on band {router.dimension}{home}"


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
