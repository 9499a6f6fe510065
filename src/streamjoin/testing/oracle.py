"""The oracle: a join's result by a nested loop over Python dicts. It imports nothing of the package.

`pairs` takes what arrives, a predicate as a function of two rows, and a window:

>>> trades = [{"rid": 0, "t": 10, "x": 5}]
>>> quotes = [{"sid": 0, "t": 12, "a": 4}, {"sid": 1, "t": 30, "a": 5}]
>>> arrivals = arrivals_of_tables(trades, quotes, ("t", "t"))
>>> pairs(arrivals, lambda r, s: abs(r["x"] - s["a"]) <= 1, Interval(-5, 5), ("t", "t"))
[(0, 0)]

`results.py` does every kind of join in the same way; `meaning.py` turns SQL expressions into such predicates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
OfPair = Callable[[Row, Row], Any]
"""An expression: a function of a row of r and one of s."""
Arrival = tuple[str, Row]
"""A side, "r" or "s", and a row of it."""
Times = tuple[str | None, str | None] | None
"""The time columns; None where rows have no time."""


@dataclass
class Tuple:
    """A row that has arrived."""

    row: Row
    time: int
    arrival: int  # its position among all arrivals
    position: int  # its position in its own stream
    others: int  # tuples of the other stream that were there before it


@dataclass(frozen=True)
class Progress:
    """How far the streams "r" and "s" have come."""

    rows: Mapping[str, int]  # that have arrived in time
    marks: Mapping[str, float]  # no row of the stream below this time follows


OTHER = {"r": "s", "s": "r"}


class TimeWindow:
    """A tuple's partners lie at times up to its reach."""

    def reach(self, side: str, t: Tuple) -> float:
        """The latest time that a partner of this tuple of a side can have."""
        raise NotImplementedError

    def end(self, side: str, t: Tuple) -> float:
        """The latest time that a pair of this tuple can have."""
        return max(t.time, self.reach(side, t))

    def passed(self, side: str, t: Tuple, progress: Progress) -> bool:
        """No partner of this tuple can follow."""
        return progress.marks[OTHER[side]] > self.reach(side, t)


@dataclass(frozen=True)
class Interval(TimeWindow):
    """lower <= s.time - r.time <= upper, with either bound excluded if asked for."""

    lower: int
    upper: int
    closed: str = "both"

    def holds(self, r: Tuple, s: Tuple) -> bool:
        d = s.time - r.time
        low = self.lower <= d if self.closed in ("both", "left") else self.lower < d
        return low and (d <= self.upper if self.closed in ("both", "right") else d < self.upper)

    def reach(self, side: str, t: Tuple) -> float:
        if side == "r":
            return t.time + self.upper - (self.closed in ("left", "neither"))
        return t.time - self.lower - (self.closed in ("right", "neither"))

    def mirrored(self) -> Interval:
        closed = {"left": "right", "right": "left"}.get(self.closed, self.closed)
        return Interval(-self.upper, -self.lower, closed)


@dataclass(frozen=True)
class RowInterval(TimeWindow):
    """As Interval, with bounds that depend on the row of one side; `most` bounds the distance of both times."""

    lower: int | OfPair
    upper: int | OfPair
    most: int | None = None

    def holds(self, r: Tuple, s: Tuple) -> bool:
        d = s.time - r.time
        low, high = (bound(r.row, s.row) if callable(bound) else bound for bound in (self.lower, self.upper))
        within = self.most is None or abs(d) <= self.most
        return within and low is not None and high is not None and low <= d <= high

    def reach(self, side: str, t: Tuple) -> float:
        bound = self.upper if side == "r" else self.lower
        most = math.inf if self.most is None else self.most
        if callable(bound):
            return t.time + most
        return t.time + min(bound if side == "r" else -bound, most)


@dataclass(frozen=True)
class TumblingTime(TimeWindow):
    """Both times lie in the same slice, counted from zero."""

    width: int

    def holds(self, r: Tuple, s: Tuple) -> bool:
        return r.time // self.width == s.time // self.width

    def reach(self, side: str, t: Tuple) -> float:
        return (t.time // self.width + 1) * self.width - 1

    def mirrored(self) -> TumblingTime:
        return self


@dataclass(frozen=True)
class Everything(TimeWindow):
    """Every pair: no window."""

    def holds(self, r: Tuple, s: Tuple) -> bool:
        return True

    def reach(self, side: str, t: Tuple) -> float:
        return math.inf

    def mirrored(self) -> Everything:
        return self


class RowWindow:
    """A window that counts rows. What is decided for one tuple has that tuple's time."""

    def end(self, side: str, t: Tuple) -> float:
        return t.time


@dataclass(frozen=True)
class Last(RowWindow):
    """The earlier tuple is among the last r (or s) of its stream at the moment the later one arrives."""

    r: int
    s: int

    def holds(self, r: Tuple, s: Tuple) -> bool:
        early, late, n = (r, s, self.r) if r.arrival < s.arrival else (s, r, self.s)
        return early.position >= late.others - n

    def passed(self, side: str, t: Tuple, progress: Progress) -> bool:
        return t.position < progress.rows[side] - (self.r if side == "r" else self.s)

    def mirrored(self) -> Last:
        return Last(self.s, self.r)


@dataclass(frozen=True)
class TumblingRows(RowWindow):
    """Both positions lie in the same slice, each counted in its own stream."""

    rows: int

    def holds(self, r: Tuple, s: Tuple) -> bool:
        return r.position // self.rows == s.position // self.rows

    def passed(self, side: str, t: Tuple, progress: Progress) -> bool:
        return progress.rows[OTHER[side]] >= (t.position // self.rows + 1) * self.rows

    def mirrored(self) -> TumblingRows:
        return self


@dataclass(frozen=True)
class Span:
    """A range of time, each end in it or not."""

    low: float
    high: float
    with_low: bool = True
    with_high: bool = True

    @property
    def empty(self) -> bool:
        return self.low > self.high or (self.low == self.high and not (self.with_low and self.with_high))

    def cut(self, other: Span) -> Span:
        """What lies in both."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        both = (self, other)
        return Span(
            low,
            high,
            all(span.with_low for span in both if span.low == low),
            all(span.with_high for span in both if span.high == high),
        )


@dataclass(frozen=True)
class Validity:
    """The two columns between which a row is valid; a null end is open. It is so for `most` at most."""

    start: str
    stop: str
    closed: str = "left"
    most: int | None = None

    def span(self, row: Row) -> Span:
        low, high = row[self.start], row[self.stop]
        if low is not None and high is not None and low > high:
            raise ValueError(f"{self.start} {low} above {self.stop} {high}")
        if self.most is not None:
            high = low + self.most if high is None else min(high, low + self.most)
        return Span(
            -math.inf if low is None else low,
            math.inf if high is None else high,
            self.closed in ("left", "both"),
            self.closed in ("right", "both"),
        )


@dataclass(frozen=True)
class Valid(TimeWindow):
    """A side's rows are valid for a while, or at their time: both are valid at some instant."""

    r: Validity | None
    s: Validity | None

    def span(self, side: str, t: Tuple) -> Span:
        own = self.r if side == "r" else self.s
        return own.span(t.row) if own else Span(t.time, t.time)

    def holds(self, r: Tuple, s: Tuple) -> bool:
        one, two = self.span("r", r), self.span("s", s)
        return not (one.empty or two.empty or one.cut(two).empty)

    def reach(self, side: str, t: Tuple) -> float:
        """A partner comes when it begins, which is before this one ends, or then if both have that instant."""
        own, other = self.span(side, t), self.s if side == "r" else self.r
        both = own.with_high and (other is None or other.closed in ("left", "both"))
        return own.high - (not both)

    def mirrored(self) -> Valid:
        return Valid(self.s, self.r)


Window = Interval | RowInterval | TumblingTime | Everything | Last | TumblingRows | Valid


def arrivals_of_tables(rs: Sequence[Row], ss: Sequence[Row], time: tuple[str, str]) -> list[Arrival]:
    """Tables arrive by time, then r before s, then row position.

    >>> arrivals_of_tables([{"t": 2}, {"t": 1}], [{"t": 1}], ("t", "t"))
    [('r', {'t': 1}), ('s', {'t': 1}), ('r', {'t': 2})]
    """
    order = [(row[time[0]], 0, i, "r", row) for i, row in enumerate(rs)]
    order += [(row[time[1]], 1, i, "s", row) for i, row in enumerate(ss)]
    return [(side, row) for _, _, _, side, row in sorted(order, key=lambda o: o[:3])]


def split_late(
    arrivals: Sequence[Arrival], time: tuple[str, str], max_delay: int
) -> tuple[list[Arrival], list[Arrival]]:
    """What is kept, and what is late: its own stream has already shown a time more than max_delay above.

    >>> split_late([("r", {"t": 9}), ("s", {"t": 1}), ("r", {"t": 4})], ("t", "t"), max_delay=3)
    ([('r', {'t': 9}), ('s', {'t': 1})], [('r', {'t': 4})])
    """
    high: dict[str, int] = {}
    kept, late = [], []
    for side, row in arrivals:
        t = row[time[side == "s"]]
        if side in high and t < high[side] - max_delay:
            late.append((side, row))
            continue
        high[side] = max(t, high.get(side, t))
        kept.append((side, row))
    return kept, late


def streams_of(arrivals: Sequence[Arrival], time: Times) -> dict[str, list[Tuple]]:
    """The rows of each stream, with what a window may ask of them."""
    streams: dict[str, list[Tuple]] = {"r": [], "s": []}
    for n, (side, row) in enumerate(arrivals):
        position = len(streams[side])
        column = time[side == "s"] if time else None
        streams[side].append(Tuple(row, row[column] if column else 0, n, position, n - position))
    return streams


def pairs(
    arrivals: Sequence[Arrival], on: OfPair, window: Window, time: Times, ids: tuple[str, str] = ("rid", "sid")
) -> list[tuple[Any, Any]]:
    """The pairs: the values of the columns `ids`, sorted. Without `time` the window must not need any."""
    streams = streams_of(arrivals, time)
    return sorted(
        (r.row[ids[0]], s.row[ids[1]])
        for r in streams["r"]
        for s in streams["s"]
        if window.holds(r, s) and on(r.row, s.row)
    )
