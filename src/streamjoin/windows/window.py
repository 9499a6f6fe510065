"""Windows: which pairs lie close enough, by time or by rows. One definition, normalised here and nowhere else.

Every window becomes a range on the other side. A tuple has a place `at` (its time, or its position in its stream), and
a probing tuple meets stored ones with since <= at <= until, both inclusive. What lies below the smallest `since`
that can still come has expired.
"""

from __future__ import annotations

import datetime as dt
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from streamjoin.codegen.records import Array
from streamjoin.errors import WindowError, cut, shown
from streamjoin.predicate.tree import OTHER
from streamjoin.windows import FOREVER, SINCE_EVER

CLOSED = ("both", "left", "right", "neither")
NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
    "w": 7 * 86400 * 10**9,
}
_NAMES = {
    "ns": "ns nanosecond nanoseconds",
    "us": "us µs microsecond microseconds",
    "ms": "ms millisecond milliseconds",
    "s": "s sec secs second seconds",
    "m": "m min mins minute minutes",
    "h": "h hr hrs hour hours",
    "d": "d day days",
    "w": "w week weeks",
}
_UNITS = {name: unit for unit, names in _NAMES.items() for name in names.split()}
_PART = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-zµ]+)\s*,?", re.IGNORECASE)

_MAX_DIGITS = 40  # of a number in a duration
_LONGEST = 200  # characters of a duration

Length = str | int | dt.timedelta


def parse_duration(text: str) -> int:
    """A duration as nanoseconds.

    >>> parse_duration("15 minutes") == parse_duration("900s") == 900 * 10**9
    True
    >>> parse_duration("1h30m") // 10**9, parse_duration("-10 min") // 10**9, parse_duration("0.5 ms")
    (5400, -600, 500000)
    """
    rest = text.strip()
    sign = -1 if rest.startswith("-") else 1
    rest = rest[1:] if rest.startswith(("+", "-")) else rest
    total, position = Fraction(0), 0
    while position < len(rest):
        part = _PART.match(rest, position) if len(rest) <= _LONGEST else None
        unit = _UNITS.get(part[2].lower()) if part else None
        if part is None or unit is None:
            raise WindowError(
                f'"{cut(text)}" is not a duration; write a number and a unit, as in "15 minutes", "1h30m" or "500 ms" '
                "(units: ns, us, ms, s, m, h, d, w and their names)"
            )
        if len(part[1]) > _MAX_DIGITS:
            raise WindowError(f'"{cut(text)}" has a number of {len(part[1]):,} digits; 64 bits of time have 19')
        total += Fraction(part[1].removesuffix(".")) * NANOSECONDS[unit]
        position = part.end()
    if not rest or total.denominator != 1:
        raise WindowError(f'"{cut(text)}" is not a duration of whole nanoseconds')
    return sign * int(total)


@dataclass(frozen=True)
class Interval:
    """lower <= s.time - r.time <= upper; `closed` says which ends belong to it."""

    lower: Length
    upper: Length
    closed: str = "both"


@dataclass(frozen=True)
class Last:
    """The earlier tuple is among the last so many of its own stream when the later one arrives."""

    r: int
    s: int


@dataclass(frozen=True)
class Tumbling:
    """Both tuples fall into the same slice of time or of rows."""

    size: Length | None = None
    rows: int | None = None


def interval(lower: Length, upper: Length, closed: str = "both") -> Interval:
    """The window lower <= s.time - r.time <= upper.

    >>> interval("-10 min", "5 min", closed="left")
    Interval(lower='-10 min', upper='5 min', closed='left')
    """
    if closed not in CLOSED:
        raise WindowError(f"closed={shown(closed)} is not one of {', '.join(CLOSED)}")
    return Interval(lower, upper, closed)


def last(n: int | None = None, *, r: int | None = None, s: int | None = None) -> Last:
    """The window of the last n tuples of each stream, or of different numbers per side.

    >>> last(1000)
    Last(r=1000, s=1000)
    >>> last(r=500, s=1000)
    Last(r=500, s=1000)
    """
    counts = (n, n) if n is not None and r is None and s is None else (r, s)
    if None in counts or (n is not None and (r is not None or s is not None)):
        raise WindowError("last() takes one number for both sides, last(1000), or one for each, last(r=500, s=1000)")
    for count in counts:
        _check_rows("last", count)
    return Last(int(counts[0]), int(counts[1]))  # type: ignore[arg-type]


def tumbling(size: Length | None = None, *, rows: int | None = None) -> Tumbling:
    """The window of equal, non-overlapping slices: of time, counted from the epoch, or of rows, counted per stream.

    >>> tumbling("1 minute"), tumbling(rows=1000)
    (Tumbling(size='1 minute', rows=None), Tumbling(size=None, rows=1000))
    """
    if (size is None) == (rows is None):
        raise WindowError('tumbling() takes a length of time, tumbling("1 minute"), or rows, tumbling(rows=1000)')
    if rows is not None:
        _check_rows("tumbling", rows)
    return Tumbling(size, rows)


def _check_rows(what: str, rows: Any) -> None:
    if isinstance(rows, bool) or not isinstance(rows, (int, np.integer)) or rows < 1:
        raise WindowError(f"{what} window of {shown(rows)} rows: give a whole number of at least 1")


class Window(ABC):
    """A normalised window."""

    by_rows = False  # places are positions in the stream, otherwise times
    by_arrival = False  # who arrived first matters: only the later of two tuples may look for the earlier

    @abstractmethod
    def reach(self, side: str, at: Array, opposite: int | Array) -> tuple[Array, Array]:
        """What probing tuples of a side at these places meet on the other; `opposite` tuples arrived there before."""

    @abstractmethod
    def horizon(self, side: str, watermark: int, opposite: int) -> int:
        """The smallest place of the other side that tuples of this side can still reach.

        `watermark` is the smallest place that may still arrive on this side, `opposite` how many arrived on the other.
        """

    @abstractmethod
    def identity(self) -> str:
        """What checkpoints know the window by: never to be written otherwise."""

    def describe(self) -> str:
        """The window in words."""
        return self.identity()


@dataclass(frozen=True)
class TimeWindow(Window):
    """lower <= s.time - r.time <= upper, in ticks of the time columns, both inclusive."""

    lower: int
    upper: int
    unit: str

    def bounds(self, side: str) -> tuple[int, int]:
        """The other side's times that a tuple of this one meets, from its own."""
        return (self.lower, self.upper) if side == "r" else (-self.upper, -self.lower)

    def reach(self, side: str, at: Array, opposite: int | Array) -> tuple[Array, Array]:
        from streamjoin.windows.reach import reach

        since, until = np.empty_like(at), np.empty_like(at)
        reach(at, *self.bounds(side), since, until)
        return since, until

    def horizon(self, side: str, watermark: int, opposite: int) -> int:
        if watermark == SINCE_EVER:
            return SINCE_EVER
        return min(max(watermark + self.bounds(side)[0], SINCE_EVER), FOREVER)

    def identity(self) -> str:
        return f"{showticks(self.lower, self.unit)} <= s.time - r.time <= {showticks(self.upper, self.unit)}"


@dataclass(frozen=True)
class RowWindow(Window):
    """The last so many rows of the other stream."""

    rows: dict[str, int]
    by_rows = True
    by_arrival = True

    def reach(self, side: str, at: Array, opposite: int | Array) -> tuple[Array, Array]:
        until = np.broadcast_to(np.asarray(opposite, np.int64), at.shape) - 1
        return until + 1 - self.rows[OTHER[side]], until

    def horizon(self, side: str, watermark: int, opposite: int) -> int:
        return opposite - self.rows[OTHER[side]]

    def identity(self) -> str:
        return f"the last {self.rows['r']:,} rows of r, the last {self.rows['s']:,} rows of s"


@dataclass(frozen=True)
class TumblingWindow(Window):
    """The same slice of `size` ticks or rows."""

    size: int
    unit: str

    @property
    def by_rows(self) -> bool:  # type: ignore[override]
        return self.unit == "rows"

    def reach(self, side: str, at: Array, opposite: int | Array) -> tuple[Array, Array]:
        rest = at % self.size
        return _shift_each(at, -rest), _shift_each(at, self.size - 1 - rest)

    def horizon(self, side: str, watermark: int, opposite: int) -> int:
        return SINCE_EVER if watermark == SINCE_EVER else max(watermark - watermark % self.size, SINCE_EVER)

    def identity(self) -> str:
        return f"the same slice of {f'{self.size:,} rows' if self.by_rows else showticks(self.size, self.unit)}"


def normalise(within: Any, unit: str | None) -> Window:
    """The window that the user means, in ticks of the time columns.

    `unit` is "us" or "ns" for timestamps, "int" for integer times, None where there is no time column.
    """
    if isinstance(within, Last):
        return RowWindow({"r": within.r, "s": within.s})
    if isinstance(within, Tumbling):
        if within.rows is not None:
            return TumblingWindow(within.rows, "rows")
        size = ticks(within.size, unit, "tumbling window")
        if size < 1:
            raise WindowError(f"tumbling window of {shown(within.size)}: its length must be above zero")
        return TumblingWindow(size, str(unit))
    if isinstance(within, Interval):
        lower, upper = ticks(within.lower, unit, "lower bound"), ticks(within.upper, unit, "upper bound")
        if lower > upper:
            raise WindowError(
                f"interval({shown(within.lower)}, {shown(within.upper)}): the lower bound lies above the upper "
                "one; swap them"
            )
        lower += within.closed in ("right", "neither")
        upper -= within.closed in ("left", "neither")
        if lower > upper:
            raise WindowError(
                f"interval({shown(within.lower)}, {shown(within.upper)}, closed={shown(within.closed)}) "
                "contains no time difference; "
                'use closed="both" or widen it'
            )
        return TimeWindow(lower, upper, str(unit))
    size = ticks(within, unit, "window")
    if size < 0:
        raise WindowError(
            f'within={shown(within)} is negative; write its length, or interval("-10 min", "5 min") for two ends'
        )
    return TimeWindow(-size, size, str(unit))


def needs_nanoseconds(*lengths: Any) -> bool:
    """Does a length, or a bound of a window, fall between two microseconds?"""
    bounds: list[Any] = []
    for length in lengths:
        if isinstance(length, Interval):
            bounds += [length.lower, length.upper]
        else:
            bounds.append(length.size if isinstance(length, Tumbling) else length)
    return any((_nanoseconds(bound) or 0) % 1000 for bound in bounds)


def _nanoseconds(length: Any) -> int | None:
    """A duration in nanoseconds; None if it is none."""
    if isinstance(length, str):
        return parse_duration(length)
    if isinstance(length, np.timedelta64) and not np.isnat(length):
        return int(length.astype("m8[ns]").astype(np.int64))
    if isinstance(length, dt.timedelta):  # pandas' Timedelta is one, with nanoseconds besides
        return (length // dt.timedelta(microseconds=1)) * 1000 + int(getattr(length, "nanoseconds", 0))
    return None


def ticks(length: Any, unit: str | None, what: str) -> int:
    """A duration or integer in the unit of the time columns."""
    whole = isinstance(length, (int, np.integer)) and not isinstance(length, (bool, np.timedelta64))
    nanoseconds = _nanoseconds(length)
    if not whole and nanoseconds is None:
        raise WindowError(
            f'{what} {shown(length)} is not a length; write "15 minutes", a timedelta, or an integer for integer '
            "times; a window may also be an interval(), last() or tumbling()"
        )
    if unit is None:
        raise WindowError(
            f'a {what} of {shown(length)} needs time columns; give time="ts" or time=("r_time", "s_time")'
        )
    if unit == "int":
        if whole:
            return _bounded(int(length), length)
        raise WindowError(
            f"{what} {shown(length)}: the time columns are integers, so it must be an integer in their unit, not a "
            "duration; or make the time columns timestamps"
        )
    if nanoseconds is None:
        raise WindowError(
            f"{what} {shown(length)}: the time columns are timestamps, so it must be a duration such as "
            f'"{5 if abs(length) > 10**9 else length} seconds" or a timedelta'
        )
    return _bounded(nanoseconds // (1000 if unit == "us" else 1), length)


def _bounded(value: int, length: Any) -> int:
    if abs(value) > FOREVER:
        raise WindowError(f"{shown(length)} is longer than 64 bits can count; use a shorter window")
    return value


def _shift_each(at: Array, distance: Array) -> Array:
    with np.errstate(over="ignore"):
        moved = at + distance
    moved[(distance > 0) & (moved < at)] = FOREVER
    moved[(distance < 0) & (moved > at)] = SINCE_EVER
    return moved


def showticks(value: int, unit: str) -> str:
    """Ticks as people write them.

    >>> showticks(900_000_000, "us"), showticks(-5, "int")
    ('15m', '-5')
    """
    if unit not in ("us", "ns"):
        return f"{value}"
    nanoseconds, text = abs(value) * (1000 if unit == "us" else 1), ""
    for name in ("d", "h", "m", "s", "ms", "us", "ns"):
        count, nanoseconds = divmod(nanoseconds, NANOSECONDS[name])
        text += f"{count}{name}" if count else ""
    return ("-" if value < 0 else "") + (text or "0s")
