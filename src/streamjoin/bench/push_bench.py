"""Small pushes into a live band join in two dimensions with full windows: what a push costs, and how soon results come.

Results are compared with those of the same rows as tables before any figure is given out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin import api
from streamjoin.bench.demo import pair_times, verify
from streamjoin.bench.harness import papers_join
from streamjoin.errors import OptionError
from streamjoin.machine import machine
from streamjoin.metrics import observed
from streamjoin.papers import MICROSECONDS, Array, Source, band

WINDOWS = {10_000: 187, 1_000_000: 20}  # tuples per side, and the half-width that gives a row 14 or 16 partners
ROWS = (1, 64, 1024)
LEAST = 32  # pushes of a side, however many rows they have
FILL = 1 << 14
LENGTH = 100  # seconds
PACE = 2_000  # rows per second
POLLS = 10_000


class Filled:
    """A join with full windows, and everything that was pushed since, with its results."""

    def __init__(self, window: int, pushes: int, rows: int, algorithm: str, workers: int) -> None:
        self.window = window
        self.on = band(WINDOWS[window])
        self._sources = {side: Source(side, window / LENGTH) for side in "rs"}
        self._join = observed(papers_join(on=self.on, within=f"{LENGTH}s", algorithm=algorithm, workers=workers))
        self._push = {"r": self._join.push_r, "s": self._join.push_s}
        self._old = {side: source.batch(window) for side, source in self._sources.items()}
        for first in range(0, window, FILL):
            for side, table in self._old.items():
                self._push[side](table.slice(first, FILL))
            for _ in self._join.poll():
                pass
        self._settle()
        self._new = {side: source.batch(pushes * rows) for side, source in self._sources.items()}
        whole = {side: table.to_batches()[0] for side, table in self._new.items()}
        self.batches = [(side, whole[side].slice(k * rows, rows)) for k in range(pushes) for side in "rs"]
        self._found: list[pa.RecordBatch] = []

    def _settle(self) -> None:
        """Waits for what is under way, and forgets it: that was the prefill."""
        while any(worker["queue_depth"] for worker in self._join.stats()["workers"]):
            time.sleep(0.01)
        time.sleep(0.05)
        for _ in self._join.poll():
            pass

    def unpaced(self, by_row: bool = False) -> tuple[Array, Array]:
        """Nanoseconds of each push, and of the poll after it. `by_row`: rows are tuples of plain values."""
        clock, poll, found = time.perf_counter_ns, self._join.poll, self._found
        spent = np.empty((2, len(self.batches)), np.int64)
        pushes = self._rows() if by_row else [(self._push[side], batch) for side, batch in self.batches]
        for k, (push, batch) in enumerate(pushes):
            start = clock()
            push(batch)
            pushed = clock()
            found.extend(poll())
            spent[:, k] = pushed - start, clock() - pushed
        return spent[0], spent[1]

    def _rows(self) -> list[tuple[Callable[[Any], None], Any]]:
        """The same batches as tuples, and what takes them."""
        found: list[tuple[Callable[[Any], None], Any]] = []
        for side, batch in self.batches:
            rows = list(zip(*map(_plain, batch.columns), strict=True))
            if len(rows) == 1:
                found.append((partial(self._join.push_row, side), rows[0]))
            else:
                found.append((partial(self._join.push_rows, side), rows))
        return found

    def paced(self, rate: float) -> Array:
        """Nanoseconds from the moment a batch was due until its results, or none, were in our hands."""
        clock, poll, found = time.perf_counter_ns, self._join.poll, self._found
        gap = MICROSECONDS * 1000 / rate
        waits = np.empty(len(self.batches), np.int64)
        first = clock() + 10**6
        for k, (side, batch) in enumerate(self.batches):
            due = first + int(k * gap)
            while clock() < due:
                pass
            self._push[side](batch)
            found.extend(poll())
            waits[k] = clock() - due
        return waits

    def idle_poll(self) -> float:
        """Nanoseconds of a poll that finds nothing."""
        poll = self._join.poll
        start = time.perf_counter_ns()
        for _ in range(POLLS):
            for _ in poll():
                pass
        return (time.perf_counter_ns() - start) / POLLS

    def close(self) -> int:
        """Ends the join and compares its results with those of tables; returns how many there were."""
        self._join.close()
        self._found.extend(self._join.poll())
        parts = [(self._new["r"], self._old["s"]), (self._new["r"], self._new["s"]), (self._old["r"], self._new["s"])]
        got = pair_times(self._found)
        verify(got, pair_times(api.join(r, s, on=self.on, within=f"{LENGTH}s", time="ts") for r, s in parts))
        return len(got)


def _plain(column: pa.Array) -> list[Any]:
    """Values as plain numbers: times as counts of their unit."""
    values: list[Any] = (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
    return values


def push(windows: Sequence[int], pushes: int, rounds: int, algorithm: str, workers: int) -> dict[str, Any]:
    """By window and rows of a push: microseconds of a push and of the poll after it. Latencies at a pace."""
    for window in windows:
        if window not in WINDOWS:
            raise OptionError(f"a window of {window:,} tuples is not one of {', '.join(map(str, WINDOWS))}")
    runs = []
    idle = float("inf")
    for window in windows:
        for rows in ROWS:
            for by_row in (False, True) if rows < max(ROWS) else (False,):
                best: dict[str, Any] = {"push_us": float("inf")}
                for _ in range(rounds):
                    filled = Filled(window, max(pushes // rows, LEAST), rows, algorithm, workers)
                    pushed, polled = filled.unpaced(by_row)
                    idle = min(idle, filled.idle_poll())
                    figures = _figures(pushed, polled) | {"results_per_row": filled.close() / (rows * len(pushed))}
                    best = min(best, figures, key=lambda run: run["push_us"])
                what = {"window": window, "rows": rows, "pushed_as": "tuples" if by_row else "batch"}
                runs.append(what | {"pushes": len(pushed), **best, "verified": True})
    return {
        "runs": runs,
        "paced": _paced(min(windows), pushes, rounds, algorithm, workers),
        "idle_poll_us": idle / 1000,
        "algorithm": algorithm,
        "workers": workers,
        "verified": True,
        "machine": machine(),
    }


def _figures(pushed: Array, polled: Array) -> dict[str, Any]:
    """Microseconds of pushes and of the polls after them."""
    return {
        "push_us": pushed.mean() / 1000,
        "push_us_p50": float(np.percentile(pushed, 50)) / 1000,
        "push_us_p99": float(np.percentile(pushed, 99)) / 1000,
        "poll_us": polled.mean() / 1000,
    }


def _paced(window: int, pushes: int, rounds: int, algorithm: str, workers: int) -> dict[str, Any]:
    """Single rows at an even pace."""
    best: dict[str, Any] = {"p50_us": float("inf")}
    for _ in range(rounds):
        filled = Filled(window, pushes, 1, algorithm, workers)
        waits = filled.paced(PACE)
        filled.close()
        figures = {f"p{q}_us": float(np.percentile(waits, q)) / 1000 for q in (50, 99)}
        best = min(best, figures, key=lambda run: run["p50_us"])
    return {"window": window, "rows_per_s": PACE, **best}
