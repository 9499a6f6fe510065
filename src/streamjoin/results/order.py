"""Results in the order of their time: a buffer that releases the results up to a punctuation.

It holds pairs of tuple numbers. Their rows are assembled when they leave, once and in order.
"""

from __future__ import annotations

import numpy as np

from streamjoin.codegen.records import Array
from streamjoin.results.numbers import NOBODY, aside

SMALLEST = 1024


class Times:
    """The times of one stream's tuples, by number, while they may be needed."""

    def __init__(self) -> None:
        self._values = np.zeros(SMALLEST, np.int64)
        self._first = 0  # number of the first one kept
        self._count = 0

    def append(self, times: Array) -> None:
        needed = self._count + len(times)
        if needed > len(self._values):
            values = np.zeros(2 * needed, np.int64)
            values[: self._count] = self._values[: self._count]
            self._values = values
        self._values[self._count : needed] = times
        self._count = needed

    def of(self, numbers: Array) -> Array:
        return np.asarray(self._values[numbers - self._first])

    @property
    def known(self) -> tuple[Array, int]:
        """All that are kept, and the number of the first."""
        return self._values, self._first

    def forget(self, number: int) -> None:
        """Tuples below this number are needed no more."""
        gone = number - self._first
        if gone > max(SMALLEST, self._count // 2):
            kept = self._values[gone : self._count].copy()
            self._values = np.zeros(max(SMALLEST, 2 * len(kept)), np.int64)
            self._values[: len(kept)] = kept
            self._first, self._count = number, len(kept)


class OrderBuffer:
    """Holds results until a punctuation reaches their time."""

    def __init__(self, times: tuple[Times, Times]) -> None:
        self.times = times
        self._held: list[tuple[Array, Array, Array]] = []  # times, numbers of r and of s
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, r: Array, s: Array, times: Array | None = None) -> None:
        """Adds results, at these times or at the later time of each pair."""
        if times is None:
            times = np.maximum(self.times[0].of(r), self.times[1].of(s))
        self._held.append((times, r, s))
        self._count += len(r)

    def release(self, punctuation: int) -> tuple[Array, Array]:
        """The results up to the punctuation, in order."""
        if not self._held:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        times, r, s = (np.concatenate(parts) for parts in zip(*self._held, strict=True))
        later = times > punctuation
        ready = np.flatnonzero(~later)
        order = ready[np.argsort(times[ready], kind="stable")]
        self._held = [(times[later], r[later], s[later])] if len(order) < len(times) else []
        self._count -= len(order)
        return r[order], s[order]

    def oldest(self, side: int, number: int) -> int:
        """The smallest tuple number of a side that is held, or `number` if that is smaller."""
        return min(
            [number, *(int(np.min(held[1 + side], where=held[1 + side] >= 0, initial=number)) for held in self._held)]
        )

    def oldest_aside(self, side: int, number: int) -> int:
        """The same for tuples aside."""
        lowest = [np.max(held[1 + side], where=held[1 + side] < NOBODY, initial=aside(number)) for held in self._held]
        return min([number, *(int(aside(value)) for value in lowest)])
