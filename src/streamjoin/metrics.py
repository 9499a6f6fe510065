"""Every figure that a join reports: its name, its unit and what it means. Prometheus gets the same figures."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
PER_SECOND = "_per_s"
QUANTILE = "quantile"
QUANTILES = {"p50": "0.5", "p99": "0.99", "p99_9": "0.999"}  # of latencies, as Prometheus labels them
MISSING = "metrics need prometheus-client: pip install 'streamjoin[watch]'"


@dataclass(frozen=True)
class Figure:
    """One figure. A `rate` is also reported per second, under its name and "_per_s". Counters only grow.

    `side`: the stream that it is about, if its name ends with it; Prometheus gets a label instead.
    """

    name: str
    unit: str
    help: str
    rate: bool = False
    counter: bool = False
    side: str = ""

    def exposed(self, scope: str) -> str:
        """Its name in Prometheus, by its conventions: prefix, unit, and "_total" for what only grows.

        >>> Figure("pushed", "tuples", "accepted so far", rate=True).exposed("side")
        'streamjoin_side_pushed_tuples_total'
        >>> Figure("store_bytes", "bytes", "of the window").exposed("side")
        'streamjoin_side_store_bytes'
        >>> Figure("window_r", "tuples", "that it holds", side="r").exposed("worker")
        'streamjoin_worker_window_tuples'
        """
        name = self.name.removesuffix(f"_{self.side}")
        name, unit = (name.removesuffix("_ms"), "seconds") if self.unit == "ms" else (name, self.unit)
        unit = f"_{unit}" if unit and unit not in name.split("_") else ""
        return f"streamjoin_{scope}_{name}{unit}{'_total' if self.rate or self.counter else ''}"

    @property
    def sentence(self) -> str:
        """What it means, with what it counts."""
        counted = "" if self.unit in ("ms", "seconds", "ticks", "ratio") else f"{self.unit} "
        return f"{counted}{self.help}"


SIDE = (
    Figure("pushed", "tuples", "accepted so far", rate=True),
    Figure("late", "tuples", "that came after their window had passed", counter=True),
    Figure("shed", "tuples", 'refused under overload="shed"', counter=True),
    Figure("watermark", "ticks", "tuples below this time are late; none if nothing has come, or all has"),
    Figure("window", "tuples", "that may still meet an arrival"),
    Figure("store_bytes", "bytes", "of the window's columns and index, with room to grow"),
    Figure("raw_bytes", "bytes", "of the live tuples' predicate columns and times alone"),
    Figure("payload_bytes", "bytes", "of rows that are kept for results"),
)
WORKER = (
    Figure("worker", "", "its number"),
    Figure("turn", "", "which part of the streams is its own"),
    Figure("window_r", "tuples", "that it holds", side="r"),
    Figure("window_s", "tuples", "that it holds", side="s"),
    Figure("comparisons", "pairs", "compared so far", rate=True),
    Figure("results", "pairs", "found so far", counter=True),
    Figure("queue_depth", "messages", "that wait for it"),
    Figure("messages", "messages", "taken so far", counter=True),
    Figure("messages_sent", "messages", "to its neighbours", counter=True),
    Figure("tuples_forwarded", "tuples", "to its neighbours", counter=True),
    Figure("fifo_high_water", "pairs", "of a join core: most that ever waited in a result FIFO of it"),
    Figure("utilisation", "ratio", "of a join core: the part of all cycles in which it compared two tuples"),
)
JOIN = (
    Figure("algorithm", "", "who meets whom"),
    Figure("access", "", "how windows are searched now"),
    Figure("r", "", "the figures of this side"),
    Figure("s", "", "the figures of this side"),
    Figure("seconds", "seconds", "since the join began"),
    Figure("results", "pairs", "found so far", rate=True),
    Figure("comparisons", "pairs", "compared so far", rate=True),
    Figure("latency_ms", "ms", "from the arrival of the later tuple until the result can be polled for"),
    Figure("punctuation", "ticks", "no later result has a time below this; none if nothing is promised yet"),
    Figure("punctuation_lag", "ticks", "by which the punctuation lies behind the input"),
    Figure("order_buffer", "pairs", "that wait for their order"),
    Figure("order_buffer_max", "pairs", "that ever waited for it at the same time"),
    Figure("unmatched", "rows", "that came out without a partner", counter=True),
    Figure("held_back", "tuples", "whose result is not known yet: their windows are open"),
    Figure("workers", "", "the figures of each worker"),
    Figure("device", "", "of a join on a device: what it is, where its windows lie, seconds spent in each step"),
    Figure("circuit", "", "of a join in lock step: cycles, steps, how full its FIFOs were, utilisation per core"),
)
ONE_CELL = (  # of a visit; what Spark reports is the sum of all
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
PER_CELL = (
    Figure("cell", "", "its number"),
    Figure("window_r", "tuples", "in its state", side="r"),
    Figure("window_s", "tuples", "in its state", side="s"),
    Figure("arrived", "tuples", "routed to it, copies included", counter=True),
    Figure("results", "pairs", "found by it", counter=True),
    Figure("comparisons", "pairs", "tested by it", counter=True),
    Figure("state_bytes", "bytes", "of its state"),
)
PIPELINE = (
    Figure("batches", "batches", "so far, each a micro-batch", counter=True),
    Figure("rows_in", "rows", "read from both sources", counter=True),
    Figure("results", "pairs", "written so far", counter=True),
    Figure("late", "tuples", "dropped because they came after the watermark", counter=True),
    Figure("malformed", "rows", "dropped because they did not fit the columns", counter=True),
    Figure("comparisons", "pairs", "tested by the predicate", counter=True),
    Figure("state_rows", "rows", "in the state of the cells that the last micro-batch touched"),
    Figure("state_bytes", "bytes", "of that state"),
    Figure("batch_ms", "ms", "that the last micro-batch took"),
    Figure("watermark", "", "the time that both streams have passed"),
    Figure("cells", "cells", "that the last micro-batch touched"),
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


COUNTED = tuple(figure.name for figure in PIPELINE if figure.counter and figure.name != "batches")
LATEST = tuple(figure.name for figure in PIPELINE if not figure.counter)
COUNTED_PER_CELL = tuple(figure.name for figure in PER_CELL if figure.counter)


@dataclass
class Totals:
    """What the joins of a Spark driver have done so far, by the listener's account of each micro-batch.

    Counters are those of all queries. State, watermark and cells are those of the query that has reported last.

    `spark.streams.addListener(JoinListener(totals.add))` feeds it; `collector(totals)` hands it to Prometheus.

    >>> totals = Totals()
    >>> totals.add({"batch": 0, "rows_in": 10, "results": 3, "state_rows": 10})
    >>> totals.add({"batch": 0, "rows_in": 10, "results": 3, "state_rows": 10})  # Spark repeats itself while idle
    >>> totals.stats()["rows_in"], totals.stats()["results"], totals.stats()["state_rows"]
    (10, 3, 10)
    """

    batches: int = 0
    rows_in: int = 0
    results: int = 0
    late: int = 0
    comparisons: int = 0
    malformed: int = 0
    latest: dict[str, Any] = field(default_factory=dict)
    by_cell: list[dict[str, int]] = field(default_factory=list)
    _seen: set[tuple[str | None, int]] = field(default_factory=set)  # queries and micro-batches

    def add(self, batch: dict[str, Any]) -> None:
        """Takes the figures of a micro-batch, once."""
        known = batch.get("query"), int(batch["batch"])
        if known in self._seen:  # Spark repeats the last batch's figures while it is idle
            return
        self._seen.add(known)
        self.batches += 1
        for name in COUNTED:
            setattr(self, name, getattr(self, name) + int(batch.get(name) or 0))
        if batch.get("by_cell"):
            none = dict.fromkeys(COUNTED_PER_CELL, 0)
            pairs = zip_longest(batch["by_cell"], self.by_cell[: len(batch["by_cell"])], fillvalue=none)
            self.by_cell = [
                {"cell": k} | cell | {name: cell[name] + before[name] for name in COUNTED_PER_CELL}
                for k, (cell, before) in enumerate(pairs)
            ]
        if batch.get("cells") == 0:  # a batch without rows looks at no state
            batch = batch | {name: self.latest.get(name) for name in ("cells", "state_rows", "state_bytes")}
        self.latest = batch

    def knows(self, query: str, number: int) -> bool:
        """Has this micro-batch of a query been counted?"""
        return (query, number) in self._seen

    def stats(self) -> dict[str, Any]:
        """The totals, and what the last micro-batch said of state and watermark."""
        totals = {name: getattr(self, name) for name in ("batches", *COUNTED)}
        return totals | {name: self.latest.get(name) for name in LATEST} | {"by_cell": self.by_cell}


watchers: list[Callable[[Any], None]] = []  # called with every join that benchmarks and tables open in an engine


def observed(join: T) -> T:
    """A join that has been opened, shown to all watchers."""
    for watcher in watchers:
        watcher(join)
    return join


class Reporting(Protocol):
    """A running join: an embedded one, or the `Totals` of a Spark driver."""

    def stats(self) -> dict[str, Any]:
        """Its figures so far."""


def collector(join: Reporting) -> Any:
    """A collector for prometheus_client: every figure of a running join, read when Prometheus asks.

    >>> import pyarrow as pa, streamjoin as sj
    >>> from prometheus_client import CollectorRegistry, generate_latest
    >>> schema = pa.schema({"ts": pa.int64(), "x": pa.int32()})
    >>> registry = CollectorRegistry()
    >>> with sj.Join(r=schema, s=schema, on="abs(r.x - s.x) <= 10", within=60, time="ts") as join:
    ...     registry.register(collector(join))
    ...     join.push_r({"ts": [1], "x": [5]})
    ...     text = generate_latest(registry).decode()
    >>> [line for line in text.splitlines() if line.startswith("streamjoin_side_pushed")]
    ['streamjoin_side_pushed_tuples_total{side="r"} 1.0', 'streamjoin_side_pushed_tuples_total{side="s"} 0.0']
    """
    try:
        import prometheus_client.core  # noqa: F401
    except ImportError as error:
        raise ImportError(MISSING) from error
    return _Collector(join)


class _Collector:
    """What prometheus_client asks for figures."""

    def __init__(self, join: Reporting) -> None:
        self._join = join

    def describe(self) -> list[Any]:
        """Nothing: to register reads no figure."""
        return []

    def collect(self) -> Iterator[Any]:
        stats = self._join.stats()
        if "workers" not in stats:
            yield from _families("pipeline", PIPELINE, [({}, stats)])
            cells = [({"cell": str(cell["cell"])}, cell) for cell in stats.get("by_cell", ())]
            yield from _families("cell", PER_CELL, cells)
            return
        yield from _families("join", JOIN, [({}, stats)])
        yield from _families("side", SIDE, [({"side": side}, stats[side]) for side in "rs"])
        numbered = [({"worker": str(worker["worker"])}, worker) for worker in stats["workers"]]
        yield from _families("worker", WORKER, numbered)


Labelled = list[tuple[dict[str, str], Mapping[str, Any]]]


def _families(scope: str, declared: Iterable[Figure], values: Labelled) -> Iterator[Any]:
    """The figures of one scope, each with all labels."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

    families: dict[str, Any] = {}
    for figure in declared:
        name, found = figure.exposed(scope), list(_numbers(figure, values)) if figure.unit else []
        if not found:
            continue
        labels = list(found[0][0])
        if name not in families:
            if QUANTILE in labels:
                families[name] = Metric(name, figure.sentence, "summary")
            else:
                family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
                families[name] = family(name, figure.sentence, labels=labels)
        metric, scale = families[name], 1e-3 if figure.unit == "ms" else 1.0  # Prometheus counts in seconds
        for own, value in found:
            if QUANTILE in own:
                metric.add_sample(name, own, value * scale)
            else:
                metric.add_metric([own[label] for label in labels], value * scale)
    yield from families.values()


def _numbers(figure: Figure, values: Labelled) -> Iterator[tuple[dict[str, str], float]]:
    for labels, own in values:
        value = own.get(figure.name)
        if figure.side:
            labels = labels | {"side": figure.side}
        if isinstance(value, Mapping):  # latencies
            parts = [(labels | {QUANTILE: QUANTILES[name]}, part) for name, part in value.items() if name in QUANTILES]
        else:
            parts = [(labels, value)]
        for label, part in parts:
            if isinstance(part, int | float) and not isinstance(part, bool):
                yield label, float(part)


def table() -> str:
    """All metrics as a table in Markdown, for the documentation.

    >>> print(table().splitlines()[3])
    | `streamjoin_join_results_pairs_total` | | pairs found so far |
    """
    scopes = (
        ("join", JOIN, ""),
        ("side", SIDE, "side"),
        ("worker", WORKER, "worker"),
        ("pipeline", PIPELINE, ""),
        ("cell", PER_CELL, "cell"),
    )
    rows: dict[str, str] = {}  # figures of both sides are one metric
    for scope, declared, label in scopes:
        for figure in declared:
            if figure.unit:
                quantile = QUANTILE if figure.unit == "ms" and scope == "join" else ""
                labels = " ".join(f"`{name}`" for name in (label, quantile, figure.side and "side") if name)
                rows[figure.exposed(scope)] = f"{labels} | {figure.sentence}".lstrip()
    lines = ["| metric | labels | meaning |", "| --- | --- | --- |"]
    return "\n".join([*lines, *(f"| `{name}` | {text} |" for name, text in rows.items())])
