"""Windows of time: the difference of two times lies between two bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from streamjoin.codegen.records import Array
from streamjoin.errors import WindowError, shown
from streamjoin.windows import FOREVER, SINCE_EVER
from streamjoin.windows.duration import Length, in_seconds, length_of, showticks, ticks
from streamjoin.windows.window import Asked, Stay, Window

CLOSED = ("both", "left", "right", "neither")
_BRACKETS = {("[", "]"): "both", ("[", ")"): "left", ("(", "]"): "right", ("(", ")"): "neither"}


@dataclass(frozen=True)
class TimeWindow(Window):
    """lower <= s.time - r.time <= upper, in ticks of the time columns, both inclusive."""

    lower: int
    upper: int
    unit: str

    def differences(self, side: str) -> tuple[int, int]:
        return (self.lower, self.upper) if side == "r" else (-self.upper, -self.lower)

    def bounds(self, side: str, at: Array, opposite: int | Array) -> tuple[Array, Array]:
        from streamjoin.windows.kernels import shift

        since, until = np.empty_like(at), np.empty_like(at)
        shift(at, *self.differences(side), since, until)
        return since, until

    def horizon(self, side: str, watermark: int, opposite: int) -> int:
        if watermark == SINCE_EVER:
            return SINCE_EVER
        return min(max(watermark + self.differences(side)[0], SINCE_EVER), FOREVER)

    @property
    def retention(self) -> Stay | None:
        r, s = in_seconds(self.upper, self.unit), in_seconds(-self.lower, self.unit)
        return None if r is None or s is None else Stay(max(r, 0.0), max(s, 0.0))

    @property
    def later_side(self) -> str | None:
        return "s" if self.lower >= 0 else "r" if self.upper <= 0 else None

    def identity(self) -> str:
        return f"{showticks(self.lower, self.unit)} <= s.time - r.time <= {showticks(self.upper, self.unit)}"


@dataclass(frozen=True)
class Interval(Asked):
    """lower <= s.time - r.time <= upper; `closed` says which ends belong to it."""

    lower: Length
    upper: Length
    closed: str = "both"

    @property
    def lengths(self) -> tuple[Any, ...]:
        return self.lower, self.upper

    def window(self, unit: str | None) -> TimeWindow:
        lower, upper = ticks(self.lower, unit, "lower bound"), ticks(self.upper, unit, "upper bound")
        if lower > upper:
            raise WindowError(
                f"interval({shown(self.lower)}, {shown(self.upper)}): the lower bound lies above the upper one; "
                "swap them"
            )
        lower += self.closed in ("right", "neither")
        upper -= self.closed in ("left", "neither")
        if lower > upper:
            raise WindowError(
                f"interval({shown(self.lower)}, {shown(self.upper)}, closed={shown(self.closed)}) "
                'contains no time difference; use closed="both" or widen it'
            )
        return TimeWindow(lower, upper, str(unit))


@dataclass(frozen=True)
class Around(Asked):
    """At most so far apart."""

    length: Any

    @property
    def lengths(self) -> tuple[Any, ...]:
        return (self.length,)

    def window(self, unit: str | None) -> TimeWindow:
        size = ticks(self.length, unit, "window")
        if size < 0:
            raise WindowError(
                f'within={shown(self.length)} is negative; write its length, or interval("-10 min", "5 min") for two '
                "ends"
            )
        return TimeWindow(-size, size, str(unit))


def interval(lower: Length, upper: Length, closed: str = "both") -> Interval:
    """The window lower <= s.time - r.time <= upper.

    >>> interval("-10 min", "5 min", closed="left")
    Interval(lower='-10 min', upper='5 min', closed='left')
    """
    if closed not in CLOSED:
        raise WindowError(f"closed={shown(closed)} is not one of {', '.join(CLOSED)}")
    return Interval(lower, upper, closed)


def spelled(text: str) -> Interval | Length | None:
    """Two bounds, or one length.

    >>> spelled("(-10min..5min]"), spelled("2 seconds")
    (Interval(lower='-10min', upper='5min', closed='right'), '2 seconds')
    """
    if ".." not in text:
        return length_of(text)
    opening = text[0] if text[0] in "[(" else "["
    closing = text[-1] if text[-1] in "])" else "]"
    first, _, second = text.removeprefix(opening).removesuffix(closing).partition("..")
    lower, upper = length_of(first), length_of(second)
    return None if lower is None or upper is None else interval(lower, upper, _BRACKETS[opening, closing])
