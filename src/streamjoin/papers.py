"""The papers' benchmark: two streams of tuples (int, float), uniform over 1..10,000, joined by a 2-D band."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Array = npt.NDArray[Any]

LOWEST, HIGHEST, HALF_WIDTH = 1, 10_000, 10
EQUALITY = "r.x = s.a"
NAMES = {"r": ("x", "y"), "s": ("a", "b")}
MICROSECONDS = 1_000_000


def band(width: int) -> str:
    """Both columns at most so far apart."""
    return f"r.x BETWEEN s.a - {width} AND s.a + {width} AND r.y BETWEEN s.b - {width} AND s.b + {width}"


BAND = band(HALF_WIDTH)


def schema(side: str) -> pa.Schema:
    """A tuple: a timestamp, an int and a float."""
    number, real = NAMES[side]
    return pa.schema({"ts": pa.timestamp("us"), number: pa.int32(), real: pa.float32()})


@dataclass
class Source:
    """One stream at a constant rate. Remembers what it sent, so that a result can be checked."""

    side: str
    rate: float
    highest: int = HIGHEST
    seed: int = 0

    def __post_init__(self) -> None:
        self._random = np.random.default_rng([self.seed, ord(self.side)])
        self._sent: list[tuple[Array, Array, Array]] = []
        self.count = 0

    def batch(self, n: int) -> pa.Table:
        """The next n tuples."""
        ts = ((np.arange(self.count, self.count + n) * MICROSECONDS) / self.rate).astype(np.int64)
        number = self._random.integers(LOWEST, self.highest + 1, n, dtype=np.int32)
        real = self._random.uniform(LOWEST, HIGHEST, n).astype(np.float32)
        self._sent.append((ts, number, real))
        self.count += n
        return pa.table([pa.array(ts).view(pa.timestamp("us")), number, real], schema=schema(self.side))

    def sent(self) -> tuple[Array, Array, Array]:
        """All that was sent: times in microseconds, ints, floats."""
        if len(self._sent) > 1:
            parts = [np.concatenate(part) for part in zip(*self._sent, strict=True)]
            self._sent = [(parts[0], parts[1], parts[2])]
        return self._sent[0]


def partners(
    r: tuple[Array, Array, Array], s: tuple[Array, Array, Array], window: int, equality: bool
) -> Iterator[Array]:
    """For each r tuple the positions of its partners in s, by looking at every s in the window: slow and obvious."""
    times = s[0]
    for ts, number, real in zip(*r, strict=True):
        first, last = np.searchsorted(times, [ts - window, ts + window + 1])
        found = s[1][first:last] == number
        if not equality:
            # In double precision, with the sums rounded to single: what SQL says of a float column and an integer.
            low, high = s[2][first:last] - np.float32(HALF_WIDTH), s[2][first:last] + np.float32(HALF_WIDTH)
            found = np.abs(s[1][first:last].astype(np.int64) - int(number)) <= HALF_WIDTH
            found &= (low <= real) & (real <= high)
        yield first + np.flatnonzero(found)
