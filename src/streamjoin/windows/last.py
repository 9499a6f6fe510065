"""Windows of rows: the last n of each stream."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamjoin.codegen.records import Array
from streamjoin.errors import WindowError
from streamjoin.predicate.tree import SIDES
from streamjoin.windows.window import Asked, Retention, Window, check_rows


@dataclass(frozen=True)
class RowWindow(Window):
    """The last n rows of the other stream."""

    rows: tuple[int, int]
    by_rows = True
    by_arrival = True

    def bounds(self, side: int, at: Array, opposite: int | Array) -> tuple[Array, Array]:
        until = np.broadcast_to(np.asarray(opposite, np.int64), at.shape) - 1
        return until + 1 - self.rows[1 - side], until

    def horizon(self, side: int, watermark: int, opposite: int) -> int:
        return opposite - self.rows[1 - side]

    @property
    def retention(self) -> Retention:
        return Retention(*self.rows, by_rows=True)

    def closing(self, side: int) -> str:
        return f"{self.rows[side]:,} more rows of {SIDES[side]} have come"

    def identity(self) -> str:
        return f"the last {self.rows[0]:,} rows of r, the last {self.rows[1]:,} rows of s"


@dataclass(frozen=True)
class Last(Asked):
    """The earlier tuple is among the last n of its own stream when the later one arrives."""

    r: int
    s: int

    @property
    def lengths(self) -> tuple[Any, ...]:
        return ()

    def window(self, unit: str | None) -> RowWindow:
        return RowWindow((self.r, self.s))


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
        check_rows("last", count)
    return Last(int(counts[0]), int(counts[1]))  # type: ignore[arg-type]


def spelled(text: str) -> Last | None:
    """One number of rows, or one of each side.

    >>> spelled("1000"), spelled("s=1000, r=500")
    (Last(r=1000, s=1000), Last(r=500, s=1000))
    """
    if text.isdecimal():
        return last(int(text))
    sides = dict(re.findall(r"\b([rs])\s*=\s*(\d+)", text))
    if len(sides) != 2 or re.sub(r"\b[rs]\s*=\s*\d+|[\s,]", "", text):
        return None
    return last(r=int(sides["r"]), s=int(sides["s"]))
