"""The papers' benchmark: two streams of tuples (int, float), uniform over 1..10,000, joined by a 2-D band."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Array = npt.NDArray[Any]
Columns = tuple[Array, Array, Array]  # times in microseconds, integers, floats

LOWEST, HIGHEST, HALF_WIDTH = 1, 10_000, 10
EQUALITY = "r.x = s.a"
NAMES = {"r": ("x", "y"), "s": ("a", "b")}
MICROSECONDS = 1_000_000
PIECE = 1 << 20  # tuples that are made at a time


def band(width: int) -> str:
    """Both columns at most so far apart."""
    return f"r.x BETWEEN s.a - {width} AND s.a + {width} AND r.y BETWEEN s.b - {width} AND s.b + {width}"


BAND = band(HALF_WIDTH)


def schema(side: str) -> pa.Schema:
    """A tuple: a timestamp, an int and a float."""
    number, real = NAMES[side]
    return pa.schema({"ts": pa.timestamp("us"), number: pa.int32(), real: pa.float32()})


def tuples(
    side: str, first: int, end: int, rate: float, *, seed: int = 0, highest: int = HIGHEST, start: int = 0
) -> Columns:
    """Tuples first..end-1 of one stream: times in microseconds, integers in 1..highest, floats in 1..10,000.

    Tuple n is a function of n alone, so that any part of a stream can be made again.

    >>> whole, part = tuples("r", 0, 10, 1000), tuples("r", 4, 6, 1000)
    >>> all((a[4:6] == b).all() for a, b in zip(whole, part))
    True
    """
    number = np.arange(first, end, dtype=np.int64)
    key = np.uint64((seed << 8 | ord(side)) & 0xFFFF_FFFF_FFFF_FFFF)
    ts = start + (number * MICROSECONDS // rate).astype(np.int64)
    with np.errstate(over="ignore"):
        key = mixed(np.array([key]))[0]
        integer = LOWEST + (_unit(number, key) * highest).astype(np.int32)
        real = (LOWEST + _unit(number, ~key) * (HIGHEST - LOWEST)).astype(np.float32)
    return ts, integer, real


def _unit(number: Array, key: Any) -> Array:
    """For each number a value in [0, 1) that depends on it and the key."""
    return (mixed(number.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + key) >> np.uint64(11)) * 2.0**-53


def mixed(bits: Array) -> Array:
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every bit of the input moves every bit of the output."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: Array = bits ^ (bits >> np.uint64(31))
    return found


def table(side: str, columns: Columns) -> pa.Table:
    """Tuples as an Arrow table of the stream's schema."""
    ts, integer, real = columns
    return pa.table([pa.array(ts).view(pa.timestamp("us")), integer, real], schema=schema(side))


@dataclass
class Source:
    """One stream at a constant rate, in order. Knows what it sent, so that a result can be checked."""

    side: str
    rate: float
    highest: int = HIGHEST
    count: int = 0  # tuples sent so far

    def batch(self, n: int) -> pa.Table:
        """The next n tuples."""
        first, self.count = self.count, self.count + n
        return table(self.side, tuples(self.side, first, self.count, self.rate, highest=self.highest))

    def sent(self) -> Columns:
        """All that was sent: times in microseconds, ints, floats."""
        parts = [
            tuples(self.side, first, min(first + PIECE, self.count), self.rate, highest=self.highest)
            for first in range(0, max(self.count, 1), PIECE)
        ]
        ts, integer, real = (np.concatenate(part) for part in zip(*parts, strict=True))
        return ts, integer, real


def partners(r: Columns, s: Columns, window: int, equality: bool) -> Iterator[Array]:
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
