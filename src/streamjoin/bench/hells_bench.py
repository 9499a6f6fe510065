"""The benchmark of HELLS-Join: one window, arrivals of the other stream, beside one and several threads that scan.

Section 6 of the paper: how speed follows the window's size, at its selectivity of 0.004 %, and up to which selectivity
the device is ahead. All contestants get the same window and arrivals in the same run; rows are not materialised.
The numbers of results must agree, and those of a few arrivals are compared with a look at every tuple of the window.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.access.tuples import Tuples
from streamjoin.bench.harness import BareJoin, papers_plan
from streamjoin.device.devices import choose, describe
from streamjoin.errors import StreamjoinError
from streamjoin.machine import machine, usable_cores
from streamjoin.papers import HIGHEST, band, table, tuples
from streamjoin.plan.plan import Plan
from streamjoin.windows import SINCE_EVER
from streamjoin.windows.interval import interval

PAPER = 0.00004  # the paper's selectivity
FILL = 1 << 20
CHECKED = 4  # arrivals
ROUNDS = 3
COMPARISONS, RESULTS = 1e9, 3e7  # of one push, at most

Report = Callable[[str], None]


def half_width(selectivity: float) -> int:
    """Of the two-dimensional band that lets this part of all pairs through, but for the edges.

    >>> half_width(0.00004), half_width(1.0)
    (32, 10000)
    """
    return HIGHEST if selectivity >= 1 else round(HIGHEST / 2 * math.sqrt(selectivity))


@dataclass(frozen=True)
class Workload:
    """A window of s and an endless stream of r, uniform over 1..10,000 in both columns; all of it within the window."""

    size: int
    selectivity: float

    @property
    def push(self) -> int:
        """Arrivals in one push."""
        most = min(COMPARISONS / self.size, RESULTS / (self.size * self.selectivity))
        return int(min(1024, max(16, most)))

    def plan(self, algorithm: str, workers: int) -> Plan:
        # An s waits for an hour, an r for nothing: only the window of s is ever full.
        options: dict[str, Any] = {"within": interval("-1 hour", "0 s"), "access": "scan", "rate": 1.0}
        return papers_plan(on=band(half_width(self.selectivity)), algorithm=algorithm, workers=workers, **options)

    def table(self, side: str, first: int, count: int, seed: int, moment: int) -> pa.Table:
        """Tuples first..first+count-1 of a stream, all at one moment."""
        ts, integer, real = tuples(side, first, first + count, 1, seed=seed)
        return table(side, (np.full_like(ts, moment), integer, real))

    def fills(self) -> Iterator[pa.Table]:
        for first in range(0, self.size, FILL):
            yield self.table("s", first, min(FILL, self.size - first), 0, 0)

    def partners(self, arrivals: int, seed: int) -> list[int]:
        """By a nested loop: sums in single precision, as SQL computes a float column and an integer."""
        width, counts = half_width(self.selectivity), [0] * arrivals
        wide = np.float32(width)
        _, *probes = tuples("r", 0, arrivals, 1, seed=seed)
        for first in range(0, self.size, FILL):
            _, a, b = tuples("s", first, min(first + FILL, self.size), 1)
            for k, (x, y) in enumerate(zip(*probes, strict=True)):
                near = np.abs(a.astype(np.int64) - int(x)) <= width
                counts[k] += int((near & (b - wide <= y) & (y <= b + wide)).sum())
        return counts


class Contestant(BareJoin):
    """A join with its window filled."""

    def __init__(self, workload: Workload, algorithm: str, workers: int) -> None:
        super().__init__(workload.plan(algorithm, workers))
        with self.engine.prefill():
            for table in workload.fills():
                self._arrive(1, self.prepared(1, table))

    def batch(self, workload: Workload, count: int, seed: int) -> Tuples:
        return self.prepared(0, workload.table("r", 0, count, seed, 1))

    def run(self, batches: list[Tuples], seconds: float) -> float:
        """Pushes the batches in turns for so long, then waits for all results. Returns arrivals per second."""
        start, pushed = time.perf_counter(), 0
        while not pushed or time.perf_counter() - start < seconds:
            self._arrive(0, batches[pushed % len(batches)])
            pushed += 1
        self.engine.wait()
        return pushed * len(batches[0]) / (time.perf_counter() - start)

    def _arrive(self, side: int, batch: Tuples) -> None:
        self.arrive(side, batch)
        self.engine.expire((2, SINCE_EVER), (0, 0))


def measure(
    windows: tuple[int, ...], selectivities: tuple[float, ...], selective_window: int, seconds: float, report: Report
) -> dict[str, Any]:
    """Comparisons per second by window size at the paper's selectivity, and by selectivity at one window size."""
    device = describe(choose(None))
    report(f"device: {device['name']}, {device['compute_units']} compute units")
    by_window = [_point(Workload(size, PAPER), seconds, report) for size in windows]
    by_selectivity = [_point(Workload(selective_window, part), seconds, report) for part in selectivities]
    threads = f"grid_{usable_cores()}"
    return {
        "by_window": by_window,
        "by_selectivity": by_selectivity,
        "break_even_selectivity": {name: break_even(by_selectivity, name) for name in ("kang_1", threads)},
        "device": device,
        "machine": machine(),
    }


def _point(workload: Workload, seconds: float, report: Report) -> dict[str, Any]:
    """One window and selectivity: one after the other, the median round of each, verified."""
    cores = usable_cores()
    entries = [("kang_1", "kang", 1), (f"grid_{cores}", "grid", cores), ("hells", "hells", 1)]
    speeds: dict[str, list[float]] = {name: [] for name, *_ in entries}
    steps: dict[str, float] = {}
    results: dict[str, int] = {}
    for name, algorithm, workers in entries:
        contestant = Contestant(workload, algorithm, workers)
        _verify(contestant, workload, name)
        count = workload.push
        contestant.results = 0
        batches = [contestant.batch(workload, count, 100 + k) for k in range(2)]
        contestant.run(batches[:1], 0)
        results[name] = contestant.results
        before = _steps(contestant)
        speeds[name] = [contestant.run(batches, seconds / ROUNDS) * workload.size for _ in range(ROUNDS)]
        after = _steps(contestant)
        steps |= {step: after[step] - before[step] for step in after}
        if after:
            steps["step_comparisons_per_s"] = steps.pop("done") / max(steps["compare_seconds"], 1e-9)
        contestant.close()
        del contestant, batches
        gc.collect()
    if len(set(results.values())) > 1:
        raise StreamjoinError(f"the joins disagree on the number of results: {results}")
    found = next(iter(results.values())) / (workload.push * workload.size)
    median = {name: float(np.median(values)) for name, values in speeds.items()}
    report(
        f"window {workload.size:,}, selectivity {found:.4%}: "
        + ", ".join(f"{name} {speed / 1e9:.2f}" for name, speed in median.items())
        + f" G comparisons/s, the step on the device alone {steps['step_comparisons_per_s'] / 1e9:.2f}, verified"
    )
    return {
        "window": workload.size,
        "selectivity": found,
        "arrivals_per_push": workload.push,
        "comparisons_per_s": median,
        "all_rounds": speeds,
        "device_step_comparisons_per_s": steps.pop("step_comparisons_per_s"),
        "device_seconds": steps,
        "verified": True,
    }


def _steps(contestant: Contestant) -> dict[str, float]:
    """What the device has done so far; nothing where there is none."""
    told = contestant.engine.stats()
    if "device" not in told:
        return {}
    found = {name: float(value) for name, value in told["device"].items() if name.endswith("_seconds")}
    return found | {"done": float(told["comparisons"])}


def _verify(contestant: Contestant, workload: Workload, name: str) -> None:
    """Some arrivals, one by one."""
    wanted = workload.partners(CHECKED, 7)
    table = workload.table("r", 0, CHECKED, 7, 1)
    for k, count in enumerate(wanted):
        contestant.results = 0
        contestant.run([contestant.prepared(0, table.slice(k, 1))], 0)
        if contestant.results != count:
            raise StreamjoinError(f"wrong result: arrival {k} has {count} partners, {name} found {contestant.results}")


def break_even(points: list[dict[str, Any]], rival: str) -> list[dict[str, Any]]:
    """The selectivities, between two measured ones, at which hells and a rival change places; who is ahead above each.

    >>> speeds = [(0.001, 4.0, 2.0), (0.1, 1.0, 2.0), (1.0, 1.0, 2.0)]
    >>> points = [{"selectivity": s, "comparisons_per_s": {"hells": h, "kang": k}} for s, h, k in speeds]
    >>> break_even(points, "kang")
    [{'selectivity': 0.01, 'ahead_above': 'kang'}]
    """
    leads = [
        (math.log(p["selectivity"]), math.log(p["comparisons_per_s"]["hells"] / p["comparisons_per_s"][rival]))
        for p in points
    ]
    return [
        {
            "selectivity": round(math.exp(x + (x2 - x) * lead / (lead - lead2)), 6),
            "ahead_above": "hells" if lead2 > 0 else rival,
        }
        for (x, lead), (x2, lead2) in pairwise(leads)
        if (lead > 0) != (lead2 > 0)
    ]
