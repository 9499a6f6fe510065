"""How long results take: from the arrival of the later tuple to the moment the result is handed out."""

from __future__ import annotations

from typing import Any

import numpy as np
from hdrh.histogram import HdrHistogram

from streamjoin.codegen.records import Array

LONGEST = 24 * 3600 * 10**6  # microseconds
DIGITS = 3
QUANTILES = {"p50": 50.0, "p99": 99.0, "p99_9": 99.9}


class Latency:
    """Remembers when tuples arrived, and counts how much later their results left, in microseconds."""

    def __init__(self) -> None:
        self._histogram = HdrHistogram(1, LONGEST, DIGITS)
        self._total = 0  # the histogram would compute it bucket by bucket
        self._stops: list[Array] = [np.zeros(64, np.int64) for _ in range(2)]
        self._times: list[Array] = [np.zeros(64, np.int64) for _ in range(2)]
        self._count = [0, 0]
        self._first = [0, 0]

    def arrived(self, side: int, stop: int, moment: int) -> None:
        """Tuples up to number `stop` of a side arrived at a moment (of `time.perf_counter_ns`)."""
        k = self._count[side]
        if k == len(self._stops[side]):
            keep = slice(self._first[side], k)
            length = k - self._first[side]
            for arrays in (self._stops, self._times):
                moved = np.zeros(max(64, 2 * length), np.int64)
                moved[:length] = arrays[side][keep]
                arrays[side] = moved
            self._first[side], k = 0, length
        self._stops[side][k], self._times[side][k] = stop, moment
        self._count[side] = k + 1

    def record(self, r: Array, s: Array, moment: int | Array) -> None:
        """Results have left at a moment, or each at its own."""
        later = np.maximum(self._moments(0, r), self._moments(1, s))
        waited = np.clip((moment - later) // 1000, 1, LONGEST)
        self._total += int(waited.sum())
        for value, count in zip(*np.unique(waited, return_counts=True), strict=True):
            self._histogram.record_value(int(value), int(count))

    def _moments(self, side: int, numbers: Array) -> Array:
        first, count = self._first[side], self._count[side]
        found = np.searchsorted(self._stops[side][first:count], numbers, side="right")
        return self._times[side][first:count][np.minimum(found, count - first - 1)]

    def forget(self, side: int, number: int) -> None:
        """No result with a tuple below this number follows."""
        first, count = self._first[side], self._count[side]
        gone = int(np.searchsorted(self._stops[side][first:count], number, side="right"))
        self._first[side] = min(first + gone, count - 1) if count else 0

    def summary(self) -> dict[str, Any]:
        """Milliseconds: average, quantiles and the longest; None where there were no results."""
        counted = self._histogram.get_total_count()
        if not counted:
            return {"avg": None, **dict.fromkeys(QUANTILES), "max": None}
        quantiles = {n: self._histogram.get_value_at_percentile(q) / 1000 for n, q in QUANTILES.items()}
        average = self._total / counted / 1000
        return {"avg": average, **quantiles, "max": self._histogram.get_max_value() / 1000}
