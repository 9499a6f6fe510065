"""Tuples that are valid for a while: in place of a time column, two columns say from when until when."""

from __future__ import annotations

from dataclasses import dataclass

from streamjoin.errors import WindowError, shown
from streamjoin.predicate.tree import SIDES, Node, column
from streamjoin.windows.duration import Length, showticks
from streamjoin.windows.interval import CLOSED, TimeWindow

# Columns that rows get for the time of the join: ticks, without nulls.
TIME, SINCE, UNTIL = HIDDEN = "(time)", "(since)", "(until)"


@dataclass(frozen=True)
class Valid:
    """From one column until another, at most `most` long; `closed` says which ends belong to it."""

    since: str
    until: str
    closed: str = "left"
    most: Length | None = None

    @property
    def columns(self) -> dict[str, str]:
        """By hidden column: the column from which it is computed."""
        return {SINCE: self.since, UNTIL: self.until}

    @property
    def time(self) -> str:
        """The column with a tuple's time on a stream: a tuple arrives when it begins to be valid."""
        return self.since

    def __str__(self) -> str:
        return f"valid({self.since}, {self.until})"


@dataclass(frozen=True)
class Moment:
    """A time column whose other side is valid for a while."""

    time: str
    closed = "both"
    most = None

    @property
    def columns(self) -> dict[str, str]:
        return {TIME: self.time}

    def __str__(self) -> str:
        return self.time


@dataclass(frozen=True)
class ValidWindow(TimeWindow):
    """On streams: how far apart tuples that meet may begin. When they are valid is part of the predicate."""

    r: Valid | Moment
    s: Valid | Moment

    def closing(self, side: int) -> str:
        own = self.s if side else self.r
        return f"{SIDES[1 - side]} has passed {SIDES[side]}.{own.until if isinstance(own, Valid) else own.time}"

    def describe(self) -> str:
        limits = [
            f"an {side} for {showticks(most, self.unit)} at most"
            for side, life, most in (("r", self.r, self.upper), ("s", self.s, -self.lower))
            if isinstance(life, Valid)
        ]
        return f"while tuples are valid: {', '.join(limits)}"


def valid(since: str, until: str, closed: str = "left", *, most: Length | None = None) -> Valid:
    """For `time=`, in place of a column: a tuple is valid from one column up to, but not at, another.

    A null end is open. A point and an interval meet if it lies inside, two intervals if they overlap. Nothing is valid
    for longer than `most`, which streams need.

    >>> import pyarrow as pa, streamjoin as sj
    >>> orders = pa.table({"ts": [3, 12], "item": [1, 1]})
    >>> prices = pa.table({"item": [1, 1], "price": [5.0, 6.0], "since": [0, 10], "until": [10, None]})
    >>> time = ("ts", sj.valid("since", "until"))
    >>> sj.join(orders, prices, on="r.item = s.item", time=time, select="r.ts, s.price").to_pylist()
    [{'ts': 3, 'price': 5.0}, {'ts': 12, 'price': 6.0}]
    """
    if closed not in CLOSED:
        raise WindowError(f"closed={shown(closed)} is not one of {', '.join(CLOSED)}")
    if not isinstance(since, str) or not isinstance(until, str) or since == until:
        raise WindowError(f"valid({shown(since)}, {shown(until)}) must name two columns: from when, and until when")
    return Valid(since, until, closed, most)


def includes(begins: Valid | Moment, ends: Valid | Moment) -> bool:
    """Do two lifetimes meet if one begins when the other one ends?"""
    return begins.closed in ("both", "left") and ends.closed in ("both", "right")


def conditions(r: Valid | Moment, s: Valid | Moment) -> list[Node]:
    """The conditions under which two lifetimes meet: at least one instant lies in both."""
    low_r, high_r = _ends("r", r)
    low_s, high_s = _ends("s", s)
    found = [_before(low_r, r, high_s, s), _before(low_s, s, high_r, r)]
    found += [_before(*pair) for pair in ((low_r, r, high_r, r), (low_s, s, high_s, s)) if isinstance(pair[1], Valid)]
    return found


def _ends(side: str, life: Valid | Moment) -> tuple[Node, Node]:
    if isinstance(life, Moment):
        return column(side, TIME), column(side, TIME)
    return column(side, SINCE), column(side, UNTIL)


def _before(low: Node, begins: Valid | Moment, high: Node, ends: Valid | Moment) -> Node:
    """Does a lifetime begin before another one ends? The same instant counts only if it belongs to both."""
    return Node("le" if includes(begins, ends) else "lt", (low, high))
