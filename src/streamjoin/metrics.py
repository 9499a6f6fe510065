"""Every figure that a join reports: its name, its unit and what it means."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

PER_SECOND = "_per_s"


@dataclass(frozen=True)
class Figure:
    """One figure. Of a `rate`, what was counted per second is told too, under its name and "_per_s"."""

    name: str
    unit: str
    help: str
    rate: bool = False


SIDE = (
    Figure("pushed", "tuples", "accepted so far", rate=True),
    Figure("late", "tuples", "that came after their window had passed"),
    Figure("shed", "tuples", 'refused under overload="shed"'),
    Figure("window", "tuples", "that may still meet an arrival"),
    Figure("store_bytes", "bytes", "of the window's columns and index, with room to grow"),
    Figure("raw_bytes", "bytes", "of the live tuples' predicate columns and times alone"),
    Figure("payload_bytes", "bytes", "of rows that are kept for results"),
)
WORKER = (
    Figure("worker", "", "its number"),
    Figure("turn", "", "which part of the streams is its own"),
    Figure("window_r", "tuples", "of r that it holds"),
    Figure("window_s", "tuples", "of s that it holds"),
    Figure("comparisons", "pairs", "compared so far", rate=True),
    Figure("results", "pairs", "found so far"),
    Figure("queue_depth", "messages", "that wait for it"),
    Figure("messages", "messages", "taken so far"),
    Figure("messages_sent", "messages", "to its neighbours"),
    Figure("tuples_forwarded", "tuples", "to its neighbours"),
)
JOIN = (
    Figure("algorithm", "", "who meets whom"),
    Figure("access", "", "how windows are searched"),
    Figure("r", "", "the figures of this side"),
    Figure("s", "", "the figures of this side"),
    Figure("seconds", "s", "since the join began"),
    Figure("results", "pairs", "found so far", rate=True),
    Figure("comparisons", "pairs", "compared so far", rate=True),
    Figure("latency_ms", "ms", "from the arrival of the later tuple until the result can be polled for"),
    Figure("punctuation", "ticks", "no later result has a time below this; None if nothing is promised yet"),
    Figure("punctuation_lag", "ticks", "by which the punctuation lies behind the input"),
    Figure("order_buffer", "pairs", "that wait for their order"),
    Figure("order_buffer_max", "pairs", "that ever waited for it at the same time"),
    Figure("unmatched", "rows", "that came out without a partner"),
    Figure("held_back", "tuples", "whose result is not known yet: their windows are open"),
    Figure("workers", "", "the figures of each worker"),
    Figure("device", "", "of a join on a device: what it is, where its windows lie, seconds spent in each step"),
)
CELL = (
    Figure("results", "pairs", "written by the micro-batch"),
    Figure("late", "tuples", "dropped because they came after the watermark"),
    Figure("comparisons", "pairs", "tested by the predicate"),
    Figure("cells", "cells", "that the micro-batch touched"),
    Figure("chunks", "chunks", "of state in these cells"),
    Figure("cache_hits", "chunks", "found on the host"),
    Figure("cache_misses", "chunks", "read from Spark's state"),
    Figure("state_rows", "tuples", "in the state of these cells"),
    Figure("state_bytes", "bytes", "of state in these cells"),
)


def report(declared: Iterable[Figure], values: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """The figures that are there, in the order of their declaration, with their rates.

    >>> report(SIDE, {"late": 1, "pushed": 10}, 2.0)
    {'pushed': 10, 'pushed_per_s': 5.0, 'late': 1}
    """
    found: dict[str, Any] = {}
    for figure in declared:
        if figure.name in values:
            found[figure.name] = values[figure.name]
            if figure.rate:
                found[figure.name + PER_SECOND] = values[figure.name] / seconds
    undeclared = values.keys() - found.keys()
    assert not undeclared, f"figures that metrics.py does not know: {sorted(undeclared)}"
    return found


def described(declared: Iterable[Figure]) -> str:
    """What the figures mean, a line for each."""
    lines = []
    for figure in declared:
        name = f"{figure.name}, {PER_SECOND}" if figure.rate else figure.name
        lines.append(f"  {name:<26}{f'{figure.unit}: ' if figure.unit else ''}{figure.help}")
    return "\n".join(lines)


def documented(doc: str | None) -> str:
    """A docstring with the figures of a live join in it."""
    parts = (("of the join", JOIN), ("of a side", SIDE), ("of a worker", WORKER))
    figures = "\n".join(f"{title}:\n{described(of)}" for title, of in parts)
    return inspect.cleandoc(doc or "").replace("{figures}", figures)
