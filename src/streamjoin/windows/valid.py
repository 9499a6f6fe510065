"""Tuples that are valid for a while: in place of a time column, two columns say from when until when."""

from __future__ import annotations

from dataclasses import dataclass

from streamjoin.errors import WindowError, shown
from streamjoin.predicate.tree import Node, column
from streamjoin.windows.interval import CLOSED

# Columns that tables get for the time of the join: ticks, without nulls.
TIME, SINCE, UNTIL = HIDDEN = "(time)", "(since)", "(until)"


@dataclass(frozen=True)
class Valid:
    """From one column until another; `closed` says which ends belong to it."""

    since: str
    until: str
    closed: str = "left"

    @property
    def columns(self) -> dict[str, str]:
        """By hidden column: the one that it is made of."""
        return {SINCE: self.since, UNTIL: self.until}


@dataclass(frozen=True)
class Moment:
    """A time column beside a side that is valid for a while."""

    time: str
    closed = "both"

    @property
    def columns(self) -> dict[str, str]:
        return {TIME: self.time}


def valid(since: str, until: str, closed: str = "left") -> Valid:
    """For `time=`, in place of a column: a tuple is valid from one column up to, but not at, another.

    A null end is open. A point and an interval meet if it lies inside, two intervals if they overlap.

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
    return Valid(since, until, closed)


def conditions(r: Valid | Moment, s: Valid | Moment) -> list[Node]:
    """What makes two lifetimes meet: some instant lies in both, however short."""
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
    """Does a lifetime begin before another one ends? At the same instant only if both have it."""
    both = begins.closed in ("both", "left") and ends.closed in ("both", "right")
    return Node("le" if both else "lt", (low, high))
