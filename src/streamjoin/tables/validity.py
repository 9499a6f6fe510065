"""Tables whose tuples are valid for a while get hidden columns: from when until when, in ticks, without nulls."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamjoin.codegen.records import Array
from streamjoin.errors import DataError
from streamjoin.intake.columns import as_numpy, flat, show_time
from streamjoin.intake.prepare import ticks_of
from streamjoin.plan.columns import SIDES
from streamjoin.plan.times import Lifetimes
from streamjoin.windows import FOREVER, SINCE_EVER
from streamjoin.windows.valid import SINCE, UNTIL, Valid

OPEN = {SINCE: SINCE_EVER, UNTIL: FOREVER}  # what null stands for


def with_lifetimes(lives: Lifetimes, tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """The tables with their hidden columns."""
    found = {}
    for side, life in zip(SIDES, lives.sides, strict=True):
        table = tables[side]
        ticks = {}
        for hidden, name in life.columns.items():
            ticks[hidden] = _ticks(flat(table.column(name)), f"{side}.{name}", lives.unit, OPEN.get(hidden))
        if isinstance(life, Valid):
            _check(side, life, ticks, lives.unit)
        for hidden, values in ticks.items():
            array = pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])
            table = table.append_column(hidden, array)
        found[side] = table
    return found


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
