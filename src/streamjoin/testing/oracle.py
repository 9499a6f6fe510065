"""The oracle: a join's result by a nested loop over Python dicts. It imports nothing of the package.

`pairs` takes what arrives, a predicate as a function of two rows, and a window:

>>> trades = [{"rid": 0, "t": 10, "x": 5}]
>>> quotes = [{"sid": 0, "t": 12, "a": 4}, {"sid": 1, "t": 30, "a": 5}]
>>> arrivals = arrivals_of_tables(trades, quotes, ("t", "t"))
>>> pairs(arrivals, lambda r, s: abs(r["x"] - s["a"]) <= 1, Interval(-5, 5), ("t", "t"))
[(0, 0)]

`streamjoin.testing.meaning` turns SQL expressions into such predicates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
Arrival = tuple[str, Row]
"""A side, "r" or "s", and a row of it."""


@dataclass
class Tuple:
    """A row that has arrived."""

    row: Row
    time: int
    arrival: int  # its place among all arrivals
    position: int  # its place in its own stream
    others: int  # tuples of the other stream that were there before it


@dataclass(frozen=True)
class Interval:
    """lower <= s.time - r.time <= upper, with either bound excluded if asked for."""

    lower: int
    upper: int
    closed: str = "both"

    def holds(self, r: Tuple, s: Tuple) -> bool:
        d = s.time - r.time
        low = self.lower <= d if self.closed in ("both", "left") else self.lower < d
        return low and (d <= self.upper if self.closed in ("both", "right") else d < self.upper)

    def mirrored(self) -> Interval:
        closed = {"left": "right", "right": "left"}.get(self.closed, self.closed)
        return Interval(-self.upper, -self.lower, closed)


@dataclass(frozen=True)
class Last:
    """The earlier tuple is among the last r (or s) of its stream at the moment the later one arrives."""

    r: int
    s: int

    def holds(self, r: Tuple, s: Tuple) -> bool:
        early, late, n = (r, s, self.r) if r.arrival < s.arrival else (s, r, self.s)
        return early.position >= late.others - n

    def mirrored(self) -> Last:
        return Last(self.s, self.r)


@dataclass(frozen=True)
class TumblingTime:
    """Both times lie in the same slice, counted from zero."""

    width: int

    def holds(self, r: Tuple, s: Tuple) -> bool:
        return r.time // self.width == s.time // self.width

    def mirrored(self) -> TumblingTime:
        return self


@dataclass(frozen=True)
class TumblingRows:
    """Both positions lie in the same slice, each counted in its own stream."""

    rows: int

    def holds(self, r: Tuple, s: Tuple) -> bool:
        return r.position // self.rows == s.position // self.rows

    def mirrored(self) -> TumblingRows:
        return self


Window = Interval | Last | TumblingTime | TumblingRows


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


def pairs(
    arrivals: Sequence[Arrival],
    on: Callable[[Row, Row], bool],
    window: Window,
    time: tuple[str, str] | None,
    ids: tuple[str, str] = ("rid", "sid"),
) -> list[tuple[Any, Any]]:
    """The result: the values of the columns `ids`, sorted. Without `time` the window must be one of rows."""
    streams: dict[str, list[Tuple]] = {"r": [], "s": []}
    for n, (side, row) in enumerate(arrivals):
        position = len(streams[side])
        streams[side].append(Tuple(row, row[time[side == "s"]] if time else 0, n, position, n - position))
    return sorted(
        (r.row[ids[0]], s.row[ids[1]])
        for r in streams["r"]
        for s in streams["s"]
        if window.holds(r, s) and on(r.row, s.row)
    )
