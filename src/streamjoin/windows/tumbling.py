"""Windows of equal slices, of time or of rows, that do not overlap."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamjoin.codegen.records import Array
from streamjoin.errors import WindowError, shown
from streamjoin.predicate.tree import SIDES
from streamjoin.windows import FOREVER, SINCE_EVER
from streamjoin.windows.duration import Length, in_seconds, length_of, showticks, ticks
from streamjoin.windows.window import Asked, Retention, Window, check_rows

ROWS = "rows"  # the unit of slices that are counted in rows


@dataclass(frozen=True)
class TumblingWindow(Window):
    """The same slice of `size` ticks or rows."""

    size: int
    unit: str

    @property
    def by_rows(self) -> bool:  # type: ignore[override]
        return self.unit == ROWS

    def bounds(self, side: int, at: Array, opposite: int | Array) -> tuple[Array, Array]:
        rest = at % self.size
        return _shift_each(at, -rest), _shift_each(at, self.size - 1 - rest)

    def horizon(self, side: int, watermark: int, opposite: int) -> int:
        return SINCE_EVER if watermark == SINCE_EVER else max(watermark - watermark % self.size, SINCE_EVER)

    @property
    def retention(self) -> Retention | None:
        """As long as a full slice."""
        length = self.size if self.by_rows else in_seconds(self.size, self.unit)
        return None if length is None else Retention(length, length, self.by_rows)

    def closing(self, side: int) -> str:
        return f"{SIDES[1 - side]} has {'filled' if self.by_rows else 'passed'} the slice of {SIDES[side]}"

    def identity(self) -> str:
        return f"the same slice of {f'{self.size:,} rows' if self.by_rows else showticks(self.size, self.unit)}"


@dataclass(frozen=True)
class Tumbling(Asked):
    """Both tuples fall into the same slice of time or of rows."""

    size: Length | None = None
    rows: int | None = None

    @property
    def lengths(self) -> tuple[Any, ...]:
        return () if self.size is None else (self.size,)

    def window(self, unit: str | None) -> TumblingWindow:
        if self.rows is not None:
            return TumblingWindow(self.rows, ROWS)
        size = ticks(self.size, unit, "tumbling window")
        if size < 1:
            raise WindowError(f"tumbling window of {shown(self.size)}: its length must be above zero")
        return TumblingWindow(size, str(unit))


def tumbling(size: Length | None = None, *, rows: int | None = None) -> Tumbling:
    """The window of equal, non-overlapping slices: of time, counted from the epoch, or of rows, counted per stream.

    >>> tumbling("1 minute"), tumbling(rows=1000)
    (Tumbling(size='1 minute', rows=None), Tumbling(size=None, rows=1000))
    """
    if (size is None) == (rows is None):
        raise WindowError('tumbling() takes a length of time, tumbling("1 minute"), or rows, tumbling(rows=1000)')
    if rows is not None:
        check_rows("tumbling", rows)
    return Tumbling(size, rows)


def spelled(text: str) -> Tumbling | None:
    """A length, or a number of rows.

    >>> spelled("1 minute"), spelled("1000 rows")
    (Tumbling(size='1 minute', rows=None), Tumbling(size=None, rows=1000))
    """
    if rows := re.fullmatch(r"(\d+)\s*rows?", text):
        return tumbling(rows=int(rows[1]))
    length = length_of(text)
    return None if length is None else tumbling(length)


def _shift_each(at: Array, distance: Array) -> Array:
    with np.errstate(over="ignore"):
        moved = at + distance
    moved[(distance > 0) & (moved < at)] = FOREVER
    moved[(distance < 0) & (moved > at)] = SINCE_EVER
    return moved
