"""The benchmark of the parallel joins: scaling, sustained rates, latency, the price of order, and the model beside it.

Throughput is measured with event time as fast as the join takes it, latency in real time. Every figure stands beside
another one of the same run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np

from streamjoin.algorithms import ALGORITHMS, PARALLEL
from streamjoin.bench import one_core as bench
from streamjoin.bench.harness import Case, FilledJoin, Harness, drain
from streamjoin.machine import machine, usable_cores
from streamjoin.papers import BAND, Source
from streamjoin.plan.formulas import (
    Retention,
    grid_latency,
    handshake_latency,
    handshake_latency_bound,
    load_of,
    max_bandwidth,
    offered_bandwidth,
    sustainable_rate,
)
from streamjoin.predicate.tree import SIDES
from streamjoin.windows.duration import parse_duration

HIT_RATE = 21 / 10_000 * 20 / 9_999  # of the papers' workload: 21 integers of 10,000, 20 units of 9,999
SMALL_BATCH = 4  # LLHJ 7.3.1
BAND_BATCH = 65_536
TURN = 1.0  # seconds at a time where several take turns
ORDER_PUSH, ORDER_TURN = 256, 0.5  # tuples per push, seconds per turn

Report = Callable[[str], None]


def parallel(
    seconds: float,
    rate: float,
    band_rate: float,
    latency_seconds: float,
    handshake_seconds: float,
    window: str,
    short_window: str,
    parts: tuple[str, ...],
    report: Report,
) -> dict[str, Any]:
    """The papers' band join on all cores. `runs` has an object for every measured configuration."""
    scan = bench.Scan()
    bare = scan.run(min(seconds, 3.0))
    report(f"bare scan kernel, one core: {bare / 1e9:.1f} G comparisons/s")
    runs: list[dict[str, Any]] = []
    figures: dict[str, Any] = {"bare_comparisons_per_s": bare}
    if "scaling" in parts:
        figures["scaling"] = _scaling(runs, seconds, rate, window, scan, report)
    if "sustained" in parts:
        figures["sustained"] = _sustained(runs, seconds, rate, window, bare, report)
    if "band" in parts:
        figures["sustained_band"] = _sustained_band(runs, seconds, band_rate, window, report)
    if "latency" in parts:
        figures["latency"] = _latency(runs, latency_seconds, handshake_seconds, short_window, bare, report)
    if "order" in parts:
        figures["order"] = _order(seconds, rate, window, report)
    return {"runs": runs, **figures, "predicate": BAND, "machine": machine()}


def _run(case: Case, seconds: float) -> dict[str, Any]:
    """One configuration at full speed, verified."""
    harness = Harness(case)
    rate, compared = harness.run(seconds)
    harness.close()
    return _described(harness, rate, compared)


def _described(harness: Harness, rate: float, compared: float) -> dict[str, Any]:
    case = harness.case
    return {
        "algorithm": case.algorithm,
        "workers": case.workers,
        "access": case.access,
        "comparisons_per_s": compared,
        "rate_per_stream": rate,
        "latency_ms": None,
        "verified": True,
        "results": harness.results,
        "filled_for_rate": case.rate,
        "window": case.window,
        "window_tuples": harness.filled,
        "batch": case.batch,
    }


def _scaling(
    runs: list[dict[str, Any]], seconds: float, rate: float, window: str, scan: bench.Scan, report: Report
) -> dict[str, Any]:
    """Two workers against one and one against the bare kernel, with the windows of one rate.

    The three take turns of a second, because the speed of a core changes by a third within a minute here: what counts
    is the median of the ratios within a round.
    """
    found: dict[str, Any] = {}
    for algorithm in PARALLEL:
        both = [Harness(Case(algorithm, workers, "scan", window, rate)) for workers in (1, 2)]
        turns: list[list[tuple[float, float]]] = [[], []]
        bare: list[float] = []
        for _ in range(max(2, round(3 * seconds))):
            bare.append(scan.run(TURN))
            for harness, taken in zip(both, turns, strict=True):
                taken.append(harness.run(TURN))
                harness.rest()
        speeds = [np.array([compared for _, compared in taken]) for taken in turns]
        ratios = {"two_to_one": speeds[1] / speeds[0], "one_to_bare": speeds[0] / np.array(bare)}
        for harness, taken in zip(both, turns, strict=True):
            harness.close()
            runs.append(_described(harness, *(float(np.median(values)) for values in zip(*taken, strict=True))))
            speed = runs[-1]["comparisons_per_s"] / 1e9
            report(f"{algorithm}, {harness.case.workers} worker(s), scan: {speed:.2f} G comparisons/s, verified")
        found[algorithm] = {name: float(np.median(values)) for name, values in ratios.items()}
        found[algorithm] |= {f"{name}_quartiles": np.percentile(v, [25, 75]).tolist() for name, v in ratios.items()}
        report(f"{algorithm}: " + ", ".join(f"{name} {np.median(values):.2f}" for name, values in ratios.items()))
    return found


def _sustained(
    runs: list[dict[str, Any]], seconds: float, rate: float, window: str, bare: float, report: Report
) -> dict[str, Any]:
    """The highest rate that two workers keep up with, beside the model's."""
    length = parse_duration(window) / 1e9
    retention = Retention(length, length)
    found: dict[str, Any] = {}
    for algorithm in PARALLEL:
        best = bisect(Case(algorithm, 2, "scan", window, rate), seconds, 0.05, report)
        runs.append(best)
        held = best["filled_for_rate"]
        load = load_of(held, held, retention)
        found[algorithm] = {
            "rate_per_stream": held,
            "model_rate": sustainable_rate(2, 1 / bare, retention),
            "max_bandwidth": max_bandwidth(load, HIT_RATE),
            "offered_bandwidth": offered_bandwidth(1, 2, 1 / bare, HIT_RATE),
            "window_tuples": best["window_tuples"],
            "results": best["results"],
        }
    return found


def bisect(case: Case, seconds: float, width: float, report: Report, most: int = 7) -> dict[str, Any]:
    """The highest rate, within a relative width, whose windows the join can hold and whose arrivals it can take.

    Windows are filled as at a rate; if the join then takes tuples faster than that, the rate is sustained: its queues,
    which are bounded, do not grow.
    """
    low, high, best, guess = 0.0, float("inf"), None, case.rate
    for _ in range(most):
        run = _run(replace(case, rate=guess), seconds)
        holds = run["rate_per_stream"] >= guess
        report(
            f"{case.algorithm}, {case.workers} workers, {case.access}: windows as at {guess:,.0f}/s, "
            f"takes {run['rate_per_stream']:,.0f}/s: {'sustained' if holds else 'not sustained'}"
        )
        if holds:
            low, best = guess, run
        else:
            high = guess
        if best is not None and high <= low * (1 + width):
            break
        # the work grows with the square of the rate: the sustained rate lies between the requested and the measured one
        aim = (guess * run["rate_per_stream"]) ** 0.5 * (0.99 if holds else 0.97)
        guess = aim if low * 1.01 < aim < high * 0.99 else (low + high) / 2 if high < float("inf") else low * 1.1
    if best is None:
        return {**run, "sustained": False}
    return {**best, "sustained": True}


def _sustained_band(
    runs: list[dict[str, Any]], seconds: float, rate: float, window: str, report: Report
) -> dict[str, Any]:
    case = Case("biclique", 2, "band", window, rate, batch=BAND_BATCH, push=BAND_BATCH)
    best = bisect(case, seconds, 0.1, report, most=3)
    runs.append(best)
    return {key: best[key] for key in ("filled_for_rate", "rate_per_stream", "sustained", "results", "window_tuples")}


def _latency(
    runs: list[dict[str, Any]], seconds: float, handshake_seconds: float, window: str, bare: float, report: Report
) -> dict[str, Any]:
    """Latencies at half the rate that is sustained with batches of four, in real time."""
    length = parse_duration(window) / 1e9
    retention = Retention(length, length)
    workers = max(2, usable_cores())
    guess = sustainable_rate(workers, 1 / bare, retention) / 2
    harness = Harness(Case("low_latency", workers, "scan", window, guess, batch=SMALL_BATCH, push=SMALL_BATCH))
    taken, _ = harness.run(seconds / 2)
    harness.close()
    sustained = (taken * guess) ** 0.5  # the windows were those of `guess`, and the work grows with the square
    rate = sustained / 2
    found: dict[str, Any] = {"rate_per_stream": rate, "sustained_rate_per_stream": sustained, "model": {}}
    averages = {}
    for algorithm, long in (("handshake", handshake_seconds), ("low_latency", seconds), ("grid", seconds)):
        layout = (1, workers) if ALGORITHMS[algorithm].rectangular else None
        harness = Harness(Case(algorithm, workers, "scan", window, rate, batch=SMALL_BATCH, layout=layout))
        compared, start = harness.comparisons(), time.perf_counter()
        latency = harness.pace(rate, SMALL_BATCH, long)
        spent, results = time.perf_counter() - start, harness.results
        compared = harness.comparisons() - compared
        harness.close()
        averages[algorithm] = latency["avg"]
        runs.append(_described(harness, rate, compared / spent) | {"latency_ms": latency, "results": results})
        report(f"{algorithm}, {rate:,.0f}/s, {window}: latency in ms {_short(latency)}")
    load = load_of(rate, rate, retention)
    found["model"] = {
        "handshake_bound_ms": handshake_latency_bound(retention) * 1000,
        "handshake_avg_many_nodes_ms": handshake_latency(retention) * 1000,
        "handshake_avg_these_nodes_ms": handshake_average(workers, length) * 1000,
        "grid_avg_ms": grid_latency(load, 1, workers, 1 / bare) * 1000,
    }
    found["handshake_to_low_latency"] = averages["handshake"] / averages["low_latency"]
    found["handshake_to_grid"] = averages["handshake"] / averages["grid"]
    return found


def handshake_average(nodes: int, length: float) -> float:
    """The average latency of a chain of this many nodes with equal windows: section 3.1 with discrete positions.

    A tuple moves from node to node every 1/nodes of the window. Positions are simulated: r entered at 0, s before it.

    >>> round(handshake_average(1, 200.0)), round(handshake_average(2, 200.0)), round(handshake_average(1000, 200.0))
    (0, 25, 50)
    """
    age = (np.arange(20_000) + 0.5) / 20_000  # of s when r arrives, in windows
    node_r, waited = np.zeros(len(age), np.int64), np.zeros(len(age))
    node_s = nodes - 1 - np.minimum((age * nodes).astype(np.int64), nodes - 1)
    next_r, next_s = np.full(len(age), 1.0), (nodes - node_s) - age * nodes  # steps until either moves on
    while (apart := node_r < node_s).any():
        step = np.where(apart, np.minimum(next_r, next_s), 0.0)
        waited += step
        moves_r = apart & (next_r <= next_s)
        moves_s = apart & ~moves_r
        next_r, next_s = next_r - step, next_s - step
        node_r[moves_r] += 1
        next_r[moves_r] = 1.0
        node_s[moves_s] -= 1
        next_s[moves_s] = 1.0
    return float(waited.mean()) * length / nodes


def _order(seconds: float, rate: float, window: str, report: Report) -> dict[str, Any]:
    """The price of punctuations and of ordered output, with rows materialised.

    Three whole joins with full windows take turns of half a second, each until its queues are empty again: what the
    machine does to one it does to all. The median of the ratios within a round of turns tells the price.
    """
    kinds: dict[str, dict[str, Any]] = {"plain": {}} | {name: {name: True} for name in ("punctuations", "ordered")}
    with ExitStack() as stack:
        joins = {name: _Whole(rate, window, **options) for name, options in kinds.items()}
        for whole in joins.values():
            stack.enter_context(whole.join)
        size = max(ORDER_PUSH, int(joins["plain"].turn(4 * ORDER_PUSH) * ORDER_TURN) // ORDER_PUSH * ORDER_PUSH)
        speeds: dict[str, list[float]] = {name: [] for name in kinds}
        start = time.perf_counter()
        while not speeds["plain"] or time.perf_counter() - start < 8 * seconds:
            for name, whole in joins.items():
                speeds[name].append(whole.turn(size))
        buffered = max(whole.join.stats()["order_buffer_max"] for whole in joins.values())
    ratios = {name: np.divide(speeds["plain"], speeds[name]) - 1 for name in ("punctuations", "ordered")}
    cost = {name: float(np.median(values)) for name, values in ratios.items()}
    spread = {name: np.percentile(values, [25, 75]).tolist() for name, values in ratios.items()}
    report(f"punctuations cost {cost['punctuations']:.1%}, order {cost['ordered']:.1%}, at most {buffered:,} buffered")
    length = parse_duration(window) / 1e9
    retention = Retention(length, length)
    waiting = max_bandwidth(load_of(rate, rate, retention), HIT_RATE) * handshake_latency_bound(retention)
    return {
        "cost": cost,
        "cost_quartiles": spread,
        "turns": len(speeds["plain"]),
        "order_buffer_max": buffered,
        "handshake_would_buffer": round(waiting),
        "tuples_per_s": {name: float(np.median(values)) for name, values in speeds.items()},
        "window": window,
    }


class _Whole(FilledJoin):
    """A join with rows whose windows are full, and its speed."""

    def __init__(self, rate: float, window: str, **options: Any) -> None:
        sources = [Source(side, rate) for side in SIDES]
        spread = {"algorithm": "low_latency", "access": "scan", "workers": 2}
        super().__init__(sources, int(parse_duration(window) / 1e9 * rate), on=BAND, within=window, **spread, **options)

    def turn(self, tuples: int) -> float:
        """So many tuples of either side, until all queues are empty: tuples/s per stream."""
        start = time.perf_counter()
        for _ in range(0, tuples, ORDER_PUSH):
            self.push_next(ORDER_PUSH)
        drain(lambda: self.join.stats()["workers"])
        return tuples / (time.perf_counter() - start)


def _short(latency: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value:,.2f}" for name, value in latency.items() if value is not None)
