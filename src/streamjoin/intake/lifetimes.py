"""Rows that are valid for a while get hidden columns: from when until when, in ticks, without nulls."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamjoin.codegen.records import Array
from streamjoin.errors import DataError
from streamjoin.intake.columns import as_numpy, flat, show_time, ticks_of
from streamjoin.plan.times import Lifetimes
from streamjoin.predicate.tree import SIDES
from streamjoin.windows import FOREVER, SINCE_EVER
from streamjoin.windows.kernels import shift
from streamjoin.windows.valid import SINCE, TIME, UNTIL, Valid, includes

OPEN = {SINCE: SINCE_EVER, UNTIL: FOREVER}  # the values that nulls stand for


def with_lifetimes(lives: Lifetimes, r: pa.Table, s: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Both tables with their hidden columns."""
    return with_lifetime(lives, 0, r), with_lifetime(lives, 1, s)


def with_lifetime(lives: Lifetimes, side: int, table: pa.Table) -> pa.Table:
    """The rows of a side with their hidden columns, unless they have them already."""
    life, name = lives.sides[side], SIDES[side]
    if all(hidden in table.column_names for hidden in life.columns):
        return table
    ticks = {}
    for hidden, column in life.columns.items():
        missing = OPEN.get(hidden) if hidden != SINCE or lives.most[side] is None else None
        ticks[hidden] = _ticks(flat(table.column(column)), f"{name}.{column}", lives.unit, missing)
    if isinstance(life, Valid):
        _check(name, life, ticks, lives.unit)
        if (most := lives.most[side]) is not None:
            latest = np.empty_like(ticks[SINCE])
            shift(ticks[SINCE], 0, most, np.empty_like(latest), latest)
            ticks[UNTIL] = np.minimum(ticks[UNTIL], latest)
    for hidden, values in ticks.items():
        array = pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])
        table = table.append_column(hidden, array)
    return table


def latest_partners(lives: Lifetimes, side: int, table: pa.Table) -> Array:
    """By row of a side, with its hidden columns: the latest time at which a partner can begin."""
    life, other = lives.sides[side], lives.sides[1 - side]
    ends = as_numpy(flat(table.column(UNTIL if isinstance(life, Valid) else TIME)))
    return ends if includes(other, life) else np.maximum(ends, SINCE_EVER + 1) - 1


def _ticks(array: pa.Array, name: str, unit: str, missing: int | None) -> Array:
    if not array.null_count or missing is None:
        return np.ascontiguousarray(ticks_of(array, name, unit), np.int64)
    valid = as_numpy(array.is_valid())
    values = np.full(len(array), missing)
    values[valid] = ticks_of(array.drop_null(), name, unit)
    return values


def _check(side: str, life: Valid, ticks: dict[str, Array], unit: str) -> None:
    wrong = ticks[SINCE] > ticks[UNTIL]
    if wrong.any():
        row = int(wrong.argmax())
        since, until = (show_time(int(ticks[hidden][row]), unit) for hidden in (SINCE, UNTIL))
        raise DataError(
            f"{side}.{life.since} is {since} and {side}.{life.until} is {until} in row {row}: it ends before it begins"
            "; swap the columns, or filter such rows out"
        )
