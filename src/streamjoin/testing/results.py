"""The oracle for every kind of join: outer, semi and anti joins, the best partners, aggregates. By a nested loop.

It imports the windows of `oracle.py` and nothing else of the package.

>>> trades = [{"rid": 0, "t": 10, "x": 5}, {"rid": 1, "t": 90, "x": 5}]
>>> quotes = [{"sid": 0, "t": 12, "a": 4}, {"sid": 1, "t": 30, "a": 5}]
>>> from streamjoin.testing.oracle import Interval, arrivals_of_tables
>>> arrivals = arrivals_of_tables(trades, quotes, ("t", "t"))
>>> left = results(arrivals, lambda r, s: abs(r["x"] - s["a"]) <= 1, Interval(-5, 5), ("t", "t"), how="left")
>>> [(found.row("r", "rid"), found.row("s", "sid"), found.time) for found in left]
[(0, 0, 12), (1, None, 95)]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from streamjoin.testing.oracle import Arrival, OfPair, Progress, RowWindow, Times, Tuple, Valid, Window, streams_of


@dataclass(frozen=True)
class Best:
    """min_by or max_by as a choice: the k partners with the smallest, or greatest, value."""

    value: OfPair
    k: int = 1
    greatest: bool = False


Take = str | Best


@dataclass(frozen=True)
class Aggregate:
    """count (of rows without a value), sum, avg, min, max, or min_by and max_by with what they go by."""

    function: str
    value: OfPair | None = None
    by: OfPair | None = None


@dataclass(frozen=True)
class Result:
    """A row of a result: its tuples as far as it has any, the time by which it is certain, its aggregates."""

    r: Tuple | None
    s: Tuple | None
    time: float
    values: dict[str, Any] = field(default_factory=dict)

    def row(self, side: str, name: str) -> Any:
        """A column of one side; null if the side is missing."""
        found = self.r if side == "r" else self.s
        return found.row[name] if found else None


def results(
    arrivals: Sequence[Arrival],
    on: OfPair,
    window: Window,
    time: Times,
    *,
    how: str = "inner",
    take: Take = "all",
    aggregate: Mapping[str, Aggregate] | None = None,
) -> list[Result]:
    """The rows of a join, r by r in order of arrival, then what is left of s."""
    streams = streams_of(arrivals, time)
    out: list[Result] = []
    met: set[int] = set()  # positions of the s with a partner
    for r in streams["r"]:
        partners = [s for s in streams["s"] if window.holds(r, s) and on(r.row, s.row)]
        if isinstance(window, Valid):  # what is valid for a while has no time that a tie could be decided by
            partners = [replace(s, time=r.time) for s in partners]
        met |= {s.position for s in partners}
        if aggregate is not None:
            if partners or how == "left":
                values = {name: aggregated(r, partners, one) for name, one in aggregate.items()}
                out.append(Result(r, None, window.end("r", r), values))
        elif how == "semi":
            out += [Result(r, None, min(max(r.time, s.time) for s in partners))] if partners else []
        elif how == "anti":
            out += [] if partners else [Result(r, None, window.end("r", r))]
        else:
            taken = chosen(r, partners, take)
            out += [Result(r, s, time_of_pair(r, s, window, take)) for s in taken]
            if not taken and how in ("left", "full"):
                out.append(Result(r, None, r.time if take == "backward" else window.end("r", r)))
    if how in ("right", "full"):
        out += [Result(None, s, window.end("s", s)) for s in streams["s"] if s.position not in met]
    return out


def time_of_pair(r: Tuple, s: Tuple, window: Window, take: Take) -> float:
    """No tuple above this time could change that r has this s."""
    if take == "all":
        return max(r.time, s.time)
    if isinstance(window, RowWindow):
        return r.time
    match take:
        case "backward" | "forward":
            return max(r.time, s.time)
        case "nearest":
            return min(r.time + abs(s.time - r.time), window.end("r", r))
    return window.end("r", r)


def chosen(r: Tuple, partners: list[Tuple], take: Take) -> list[Tuple]:
    """The best partners of an r, best first.

    >>> r, early, late = (Tuple({}, time, 0, n, 0) for n, time in enumerate((10, 8, 12)))
    >>> [s.time for s in chosen(r, [early, late], "nearest")], [s.time for s in chosen(r, [early, late], "forward")]
    ([8], [12])
    """
    near = sorted(partners, key=lambda s: closeness(r, s))
    match take:
        case "all":
            return partners
        case "backward":
            return [s for s in near if s.time <= r.time][:1]
        case "forward":
            return sorted((s for s in partners if s.time >= r.time), key=lambda s: (s.time, s.position))[:1]
        case "nearest":
            return near[:1]
        case Best(value, k, greatest):
            return ranked(near, lambda s: value(r.row, s.row), greatest)[:k]
    raise ValueError(take)


def closeness(r: Tuple, s: Tuple) -> tuple[int, bool, int]:
    """The closer one in time first, then the earlier one; of several at one time the last to arrive up to r's time, the
    first to arrive after it."""
    after = s.time > r.time
    return abs(s.time - r.time), after, s.position if after else -s.position


def ranked(partners: Iterable[Tuple], value: Any, greatest: bool) -> list[Tuple]:
    """By value, nulls last in both directions; what is equal keeps its order."""
    valued = [(value(s), s) for s in partners]
    known = sorted((v for v in valued if v[0] is not None), key=lambda v: place(v[0]), reverse=greatest)
    return [s for _, s in known] + [s for v, s in valued if v is None]


def place(value: Any) -> tuple[bool, Any]:
    """Spark's order: NaN equals NaN and lies above everything."""
    nan = bool(value != value)
    return nan, 0 if nan else value


def aggregated(r: Tuple, partners: list[Tuple], one: Aggregate) -> Any:
    """An aggregate over the partners of an r."""
    if one.value is None:
        return len(partners)
    if one.by is not None:
        by = one.by
        near = sorted(partners, key=lambda s: closeness(r, s))
        takes_part = [s for s in near if by(r.row, s.row) is not None]
        first = ranked(takes_part, lambda s: by(r.row, s.row), one.function == "max_by")[:1]
        return one.value(r.row, first[0].row) if first else None
    values = [v for s in partners if (v := one.value(r.row, s.row)) is not None]
    if one.function == "count":
        return len(values)
    if not values:
        return None
    match one.function:
        case "sum":
            return total(values)
        case "avg":
            return total(values) / len(values)
        case "min":
            return min(values, key=place)
        case "max":
            return max(values, key=place)
    raise ValueError(one.function)


def total(values: Sequence[Any]) -> Any:
    """The sum: exact for integers and decimals, rounded once for floats."""
    if isinstance(values[0], (int, Decimal)):
        return sum(values)
    floats = [float(v) for v in values]
    return math.fsum(floats) if all(math.isfinite(v) for v in floats) else sum(floats)


def may_come_out(found: Result, window: Window, how: str, take: Take, progress: Progress) -> bool:
    """Whether a row is final at this progress of the streams: nothing that may follow could change it.

    A pair, and a row of semi, are known when they are found. All else waits.
    """
    if how == "semi" or (take == "all" and found.r and found.s):
        return True
    if found.r is None:
        assert found.s is not None
        return window.passed("s", found.s, progress)
    r, s, mark = found.r, found.s, progress.marks["s"]
    if window.passed("r", r, progress):
        return True
    match take:
        case "backward":
            return mark > r.time
        case "forward" if s:
            return mark >= s.time
        case "nearest" if s:
            return mark >= r.time + abs(s.time - r.time) and (s.time > r.time or mark > r.time)
    return False
