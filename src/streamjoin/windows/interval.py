"""Windows of time: the difference of two times lies between two bounds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamjoin.codegen.records import Array
from streamjoin.errors import WindowError, shown
from streamjoin.predicate.tree import SIDES, Node, brief
from streamjoin.windows import FOREVER, SINCE_EVER
from streamjoin.windows.duration import Length, in_seconds, length_of, showticks, ticks
from streamjoin.windows.window import Asked, Retention, Window

CLOSED = ("both", "left", "right", "neither")
_OF_A_ROW = re.compile(r"\b[rs]\s*\.\s*[A-Za-z_`]", re.IGNORECASE)
_BRACKETS = {("[", "]"): "both", ("[", ")"): "left", ("(", "]"): "right", ("(", ")"): "neither"}


@dataclass(frozen=True)
class TimeWindow(Window):
    """lower <= s.time - r.time <= upper, in ticks of the time columns, both inclusive."""

    lower: int
    upper: int
    unit: str

    def differences(self, side: int) -> tuple[int, int]:
        return (-self.upper, -self.lower) if side else (self.lower, self.upper)

    def bounds(self, side: int, at: Array, opposite: int | Array) -> tuple[Array, Array]:
        from streamjoin.windows.kernels import shift

        since, until = np.empty_like(at), np.empty_like(at)
        shift(at, *self.differences(side), since, until)
        return since, until

    def horizon(self, side: int, watermark: int, opposite: int) -> int:
        if watermark == SINCE_EVER:
            return SINCE_EVER
        return min(max(watermark + self.differences(side)[0], SINCE_EVER), FOREVER)

    @property
    def retention(self) -> Retention | None:
        r, s = in_seconds(self.upper, self.unit), in_seconds(-self.lower, self.unit)
        return None if r is None or s is None else Retention(max(r, 0.0), max(s, 0.0))

    @property
    def later_side(self) -> int | None:
        return 1 if self.lower >= 0 else 0 if self.upper <= 0 else None

    @property
    def bounded(self) -> bool:
        return self.lower > -FOREVER and self.upper < FOREVER

    def closing(self, side: int) -> str:
        end = self.differences(side)[1]
        if end >= FOREVER:
            return super().closing(side)
        after = f" {'-' if end < 0 else '+'} {showticks(abs(end), self.unit)}" if end else ""
        return f"{SIDES[1 - side]} has passed {SIDES[side]}.time{after}"

    def identity(self) -> str:
        lower = f"{showticks(self.lower, self.unit)} <= " if self.lower > -FOREVER else ""
        upper = f" <= {showticks(self.upper, self.unit)}" if self.upper < FOREVER else ""
        return f"{lower}s.time - r.time{upper}"


@dataclass(frozen=True, repr=False)
class Interval(Asked):
    """lower <= s.time - r.time <= upper; `closed` says which ends belong to it.

    A bound that is a node is an expression over one side's columns; `most` also limits how far apart two times are.
    """

    lower: Length | Node
    upper: Length | Node
    closed: str = "both"
    most: Length | None = None

    def __repr__(self) -> str:
        most = "" if self.most is None else f", most={self.most!r}"
        return f"Interval(lower={self.lower!r}, upper={self.upper!r}, closed={self.closed!r}{most})"

    @property
    def lengths(self) -> tuple[Any, ...]:
        return tuple(
            part for part in (self.lower, self.upper, self.most) if part is not None and not isinstance(part, Node)
        )

    def conditions(self, time_r: Node, time_s: Node) -> list[Node]:
        apart = Node("sub", (time_s, time_r))
        found = []
        if isinstance(self.lower, Node):
            found.append(Node("gt" if self.closed in ("right", "neither") else "ge", (apart, self.lower)))
        if isinstance(self.upper, Node):
            found.append(Node("lt" if self.closed in ("left", "neither") else "le", (apart, self.upper)))
        return found

    def window(self, unit: str | None) -> TimeWindow:
        if isinstance(self.lower, Node) or isinstance(self.upper, Node):
            return self._by_row(unit)
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
        if self.most is not None:
            most = self._most(unit)
            lower, upper = max(lower, -most), min(upper, most)
        return TimeWindow(lower, upper, str(unit))

    def _most(self, unit: str | None) -> int:
        most = FOREVER if self.most is None else ticks(self.most, unit, "most")
        if most < 0:
            raise WindowError(f"most={shown(self.most)} is negative; it says how far apart two times may be")
        return most

    def _by_row(self, unit: str | None) -> TimeWindow:
        """The part of the window that is the same for all rows; `conditions` has the rest."""
        if unit is None:
            raise WindowError(f'{self!r} needs time columns; give time="ts" or time=("r_time", "s_time")')
        most = self._most(unit)
        lower, upper = -most, most
        if not isinstance(self.lower, Node):
            lower = max(lower, ticks(self.lower, unit, "lower bound") + (self.closed in ("right", "neither")))
        if not isinstance(self.upper, Node):
            upper = min(upper, ticks(self.upper, unit, "upper bound") - (self.closed in ("left", "neither")))
        if lower > upper:
            raise WindowError(f"{self!r} contains no time difference; widen most, or move the bounds")
        return TimeWindow(lower, upper, unit)


@dataclass(frozen=True)
class Around(Asked):
    """Times that are at most one length apart."""

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


def interval(lower: Any, upper: Any, closed: str = "both", *, most: Length | None = None) -> Interval:
    """The window lower <= s.time - r.time <= upper.

    A bound may be an expression over one side's columns. A pair must then also lie within `most`, which streams need.

    >>> interval("-10 min", "5 min", closed="left")
    Interval(lower='-10 min', upper='5 min', closed='left')
    >>> interval("-r.lookback", "0 s", most="1 hour")
    Interval(lower=<Node -r.lookback>, upper='0 s', closed='both', most='1 hour')
    """
    if closed not in CLOSED:
        raise WindowError(f"closed={shown(closed)} is not one of {', '.join(CLOSED)}")
    return Interval(_bound(lower), _bound(upper), closed, most)


def _bound(given: Any) -> Any:
    """A length, or the tree of an expression over one side."""
    from streamjoin.predicate.expressions import Expression
    from streamjoin.predicate.sql import parse

    if isinstance(given, Expression):
        node = given.node
    elif isinstance(given, str) and _OF_A_ROW.search(given):
        node = parse(given)
    else:
        return given
    if len(node.reads) > 1:
        raise WindowError(f"the bound {brief(node)} reads both sides; write it into on=, or over one side's columns")
    return node


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
