"""The latency of results: from the arrival of the later tuple to the moment the result is handed out.

They are counted in the buckets of an HdrHistogram, which keep the first bits of a value. So the quantiles of any number
of results are one sum over the buckets.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamjoin.codegen.records import Array

LONGEST = 24 * 3600 * 10**6  # microseconds
EXACT = 11  # bits of a value that are kept: three decimal digits
HALF = 1 << (EXACT - 1)  # buckets for each doubling of a value
QUANTILES = {"p50": 0.5, "p99": 0.99, "p99_9": 0.999}


def buckets(waited: Array) -> Array:
    """The bucket of each value, by its first bits.

    >>> buckets(np.array([1, 2047, 2048, 2049, 2050])).tolist()
    [1, 2047, 2048, 2048, 2049]
    """
    steps = np.maximum(np.frexp(waited)[1] - EXACT, 0)
    return np.asarray((waited >> steps) + steps * HALF)


def greatest(bucket: int) -> int:
    """The greatest value in a bucket.

    >>> [greatest(bucket) for bucket in (2047, 2048, 2049)]
    [2047, 2049, 2051]
    """
    steps = max(bucket // HALF - 1, 0)
    return ((bucket - steps * HALF + 1) << steps) - 1


BUCKETS = int(buckets(np.array(LONGEST))) + 1


class Latency:
    """Remembers when tuples arrived, and counts how much later their results left, in microseconds."""

    def __init__(self) -> None:
        self._counts = np.zeros(BUCKETS, np.int64)
        self._total = self._longest = 0
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

    def record_many(self, r: Array, s: Array, moment: int) -> None:
        """Results have left at a moment. Fast if the later tuples of all of them arrived together, as is usual."""
        arrivals = [self._moments(side, np.array([n.min(), n.max()])) for side, n in enumerate((r, s))]
        (first_r, last_r), (first_s, last_s) = arrivals
        one = (first_r == last_r and last_r >= last_s) or (first_s == last_s and last_s >= last_r)
        if not one:
            self.record(r, s, moment)
            return
        waited = min(max((moment - int(max(last_r, last_s))) // 1000, 1), LONGEST)
        self._total += waited * len(r)
        self._longest = max(self._longest, waited)
        self._counts[buckets(np.array(waited))] += len(r)

    def record(self, r: Array, s: Array, moment: int | Array) -> None:
        """Results have left, at one moment or each at its own."""
        later = np.maximum(self._moments(0, r), self._moments(1, s))
        waited = np.clip((moment - later) // 1000, 1, LONGEST)
        if len(waited):
            self._total += int(waited.sum())
            self._longest = max(self._longest, int(waited.max()))
            found = np.bincount(buckets(waited))
            self._counts[: len(found)] += found

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
        below = np.cumsum(self._counts[: int(buckets(np.array(self._longest))) + 1])
        counted = int(below[-1])
        if not counted:
            return {"avg": None, **dict.fromkeys(QUANTILES), "max": None}
        ranks = [max(int(part * counted + 0.5), 1) for part in QUANTILES.values()]
        found = (min(greatest(bucket), self._longest) for bucket in np.searchsorted(below, ranks).tolist())
        quantiles = {name: value / 1000 for name, value in zip(QUANTILES, found, strict=True)}
        return {"avg": self._total / counted / 1000, **quantiles, "max": self._longest / 1000}
