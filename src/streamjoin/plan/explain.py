"""What a join would do and why, in words and numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

import pyarrow as pa

from streamjoin.algorithms import ALGORITHMS, DEVICE, THREADS
from streamjoin.algorithms.hells import placement
from streamjoin.options import Options
from streamjoin.plan.outcome import outcome
from streamjoin.plan.plan import Plan, make_plan
from streamjoin.predicate.analysis import Dimension
from streamjoin.predicate.tree import SIDES, to_sql


@dataclass(frozen=True)
class Explanation:
    """The decisions behind a join. `str()` prints them; `to_dict()` is for programs."""

    plan: Plan
    decided: Mapping[str, Any]  # the engine's decisions, for programs
    shown: Mapping[str, str]  # the same for people, by label
    reasons: tuple[str, ...]
    static: bool = True  # of tables, not of streams

    def _outcome(self) -> dict[str, list[str]]:
        """What comes out and when. An engine may state the time more precisely."""
        found = outcome(self.plan, self.static)
        return found | ({"final": self.decided["final"]} if "final" in self.decided else {})

    def to_dict(self) -> dict[str, Any]:
        analysis = self.plan.analysis
        return {
            "predicate": to_sql(analysis.tree),
            "filters": {side: [to_sql(node) for node in nodes] for side, nodes in analysis.filters.items()},
            "equality_keys": [f"{to_sql(r)} = {to_sql(s)}" for r, s in analysis.equalities],
            "band_keys": [_describe(dimension) for dimension in analysis.dimensions],
            "residual": [to_sql(node) for node in analysis.residual],
            "window": self._window(),
            **self._outcome(),
            **self.decided,
            "reasons": list(self.reasons),
        }

    def _window(self) -> str:
        tables = self.plan.lifetimes is not None and self.plan.unit is None
        return "while tuples are valid" if tables else self.plan.window.describe()

    def lines(self) -> dict[str, list[str]]:
        """What is printed, by label."""
        facts = self.to_dict()
        return {
            "predicate": [facts["predicate"]],
            "window": [facts["window"]],
            **{f"filter {side}": facts["filters"][side] for side in SIDES},
            "equality": facts["equality_keys"] or ["none"],
            "band": facts["band_keys"] or ["none"],
            "residual": facts["residual"] or ["none"],
            **self._outcome(),
            **{label: [text] for label, text in self.shown.items()},
            "because": list(self.reasons),
        }

    def __str__(self) -> str:
        return "\n".join(line for label, texts in self.lines().items() for line in _labelled(label, texts))

    def _repr_html_(self) -> str:
        return html_table({label: "\n".join(texts) for label, texts in self.lines().items() if texts})

    __repr__ = __str__


def explain(
    schema_r: pa.Schema,
    schema_s: pa.Schema,
    options: Options,
    static: bool,
    device_facts: Callable[[int | str | None], dict[str, Any]],
) -> Explanation:
    """Which keys were found, which access path was chosen, and why. `static`: of tables, not of streams.

    `device_facts` describes the device that `device=` means, if one is needed.

    >>> import pyarrow as pa, streamjoin as sj
    >>> r = pa.schema({"ts": pa.int64(), "x": pa.int32()})
    >>> s = pa.schema({"ts": pa.int64(), "a": pa.int32()})
    >>> print(sj.explain(r, s, on="r.x BETWEEN s.a - 10 AND s.a + 10", within=60, time="ts"))
    predicate   r.x >= s.a - 10 AND r.x <= s.a + 10
    window      -60 <= s.time - r.time <= 60
    equality    none
    band        s.a - 10 <= r.x AND r.x <= s.a + 10 (two-sided)
    residual    none
    algorithm   kang
    access      band
    because     1 band key: runs ordered by bin
                integer times have no unit: one worker is assumed to be enough; workers= would change that
    """
    return explained(make_plan(schema_r, schema_s, options, static), device_facts, static)


def explained(
    plan: Plan, device_facts: Callable[[int | str | None], dict[str, Any]], static: bool = False
) -> Explanation:
    """The decisions of a plan."""
    decided = {"algorithm": plan.algorithm, "workers": plan.workers, "layout": plan.layout, "access": plan.access}
    shown = {"algorithm": f"{plan.algorithm}{_spread(plan)}"}
    if ALGORITHMS[plan.algorithm].engine == DEVICE:
        decided["device"] = device = device_facts(plan.device)
        shown["device"] = _placed(plan, device)
    return Explanation(plan, decided, shown | {"access": plan.access}, plan.reasons, static)


def _placed(plan: Plan, device: dict[str, Any]) -> str:
    """The device, and where its windows will lie."""
    shared = device["unified_memory"]
    where = placement(shared, plan.memory)
    why = "asked for" if plan.memory != "auto" else f"{'unified' if shared else 'its own'} memory"
    return f"{device['name']} ({device['type']}), windows in {where} memory: {why}"


def _spread(plan: Plan) -> str:
    if ALGORITHMS[plan.algorithm].engine != THREADS:
        return ""
    layout = f", {plan.layout[0]} x {plan.layout[1]}" if ALGORITHMS[plan.algorithm].rectangular else ""
    return f", {plan.workers} worker{'s' * (plan.workers > 1)}{layout}"


def _labelled(label: str, texts: Iterable[str]) -> list[str]:
    return [f"{label if k == 0 else '':<12}{text}" for k, text in enumerate(texts)]


def _describe(dimension: Dimension) -> str:
    return f"{dimension} ({'two-sided' if dimension.two_sided else 'one-sided'})"


def html_table(rows: Mapping[str, str]) -> str:
    """Labels and texts for a notebook.

    >>> html_table({"band": "r.x <= s.a"})
    '<table><tr><th style="text-align:left">band</th><td style="text-align:left">r.x &lt;= s.a</td></tr></table>'
    """
    left = 'style="text-align:left"'
    lines = [
        f"<tr><th {left}>{escape(label)}</th><td {left}>{escape(text).replace(chr(10), '<br>')}</td></tr>"
        for label, text in rows.items()
    ]
    return f"<table>{''.join(lines)}</table>"
