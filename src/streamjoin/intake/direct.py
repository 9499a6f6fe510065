"""Small batches, read directly from Arrow's memory, for one compiled call.

Preparing a batch column by column takes a third of a millisecond when its code is not in the cache, whatever its size:
too long for batches of four. The call reads numbers and times in Arrow's memory. Columns that the predicate reads in
another form (text by its digests, booleans as bytes, decimals as integers) are converted first. Batches with nulls in
these columns, and with rows that are late or cannot match, take the general path.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from streamjoin.access.records import FAULT_WORDS, Batch, Column
from streamjoin.codegen.program import Part
from streamjoin.codegen.records import Array, address, words
from streamjoin.errors import DataError
from streamjoin.intake.arrive import TIME, Field, Plain
from streamjoin.intake.columns import lies_as, roles_of
from streamjoin.intake.exported import ArrowArray
from streamjoin.intake.packed import PackedRows
from streamjoin.intake.prepare import Intake
from streamjoin.plan.plan import Plan
from streamjoin.predicate.tree import SIDES
from streamjoin.windows.watermark import Watermark

MOST = 2048  # rows of a small batch
FIRST, NEWEST, MARK, KEEPER, NULLS, ROWS = (
    Plain.word(name) for name in ("first", "newest", "mark", "keeper", "nulls", "rows")
)
AT = Plain.word("batch") + Batch.word("at")
TIMES = np.dtype(np.int64)


class Addressed(Protocol):
    """Something whose record compiled code reads."""

    @property
    def address(self) -> int: ...


@dataclass(frozen=True)
class Converted:
    """A column that the predicate reads in another form than Arrow's."""

    child: int
    part: Part  # any of its parts
    into: dict[str, Array]  # by role

    def convert(self, column: pa.Array, side: str) -> bool:
        """Writes the values of a batch in the predicate's form. False if some are null."""
        roles = roles_of(column, self.part, side)
        for role, array in self.into.items():
            array[: len(column)] = roles[role]
        return bool(roles["valid"].all())


class Direct:
    """The direct path of one side: a record that describes its batches, and the arrays behind it."""

    def __init__(self, plan: Plan, intake: Intake, side: int, tape: int = 0) -> None:
        """Only if it `serves`. `tape`: the address of the tape to write to."""
        name = SIDES[side]
        program, differences = intake.program, plan.window.differences(side)
        assert differences is not None
        schema, parts, dims = plan.schemas[name], program.entry[name], len(program.dimensions)
        self._intake, self._kept = intake, False
        records = Plain.array(1)
        record = self.record = records[0]
        self.words, self.address = words(records), address(record)
        exported = ArrowArray.array(1)
        self._exported = record.exported = address(exported)
        boxes, bounds = np.zeros((3, dims, MOST), np.float32), np.zeros((3, MOST), np.int64)
        keep, everywhere, key = np.zeros(MOST, np.bool_), np.ones(MOST, np.bool_), np.zeros(MOST, np.uint32)
        width, fault = np.zeros(dims, np.float32), np.zeros(FAULT_WORDS, np.int64)
        valid = address(everywhere)
        columns = np.array([valid if part.role == "valid" else 0 for part in parts], np.int64)
        wanted, converted = [], dict[str, Converted]()
        for slot, part in enumerate(parts):
            child = schema.get_field_index(part.column)
            if part.role == "value" and lies_as(schema.field(child).type, part.type):
                wanted.append((child, part.dtype.itemsize, slot))
            elif part.role != "valid":
                array = np.zeros(MOST, part.dtype)
                converted.setdefault(part.column, Converted(child, part, {})).into[part.role] = array
                columns[slot] = address(array)
        self._side, self._converted = name, list(converted.values())
        fields = np.array([(schema.get_field_index(plan.times[name]), 8, TIME), *wanted], Field.dtype)
        stored, own = np.array(intake.stored[side], np.int64), Column.array(max(len(intake.stored[side]), 1))
        own["each"][: len(stored)] = [parts[k].dtype.itemsize for k in stored]
        self._own, self._dtypes = own, [parts[k].dtype for k in stored]
        self._arrays = (
            exported,
            boxes,
            bounds,
            keep,
            everywhere,
            key,
            width,
            fault,
            columns,
            fields,
            stored,
            intake.origin,
        )
        record.dims, record.stride, record.room = dims, MOST, MOST
        record.origin, record.keep, record.width = address(intake.origin), address(keep), address(width)
        record.key, record.fault, record.columns = address(key), address(fault), address(columns)
        record.lo, record.hi, record.coord = (address(corner) for corner in boxes)
        record.prepare, (record.lower, record.upper) = intake.function(side), differences
        record.fields, record.field_count = address(fields), len(fields)
        record.stored, record.stored_count, record.tape = address(stored), len(stored), tape
        batch = record.batch
        batch.columns, batch.stride, batch.width, batch.key = address(own), MOST, record.width, record.key
        batch.lo, batch.hi, batch.coord = record.lo, record.hi, record.coord
        batch.since, batch.until, batch.number = (address(row) for row in bounds)

    @staticmethod
    def serves(plan: Plan, side: int) -> bool:
        """Are times in the joint unit, and is the window a range of differences?"""
        schema, name = plan.schemas[SIDES[side]], plan.times.get(SIDES[side])
        if name is None or plan.lifetimes is not None or plan.window.differences(side) is None:
            return False
        time = schema.field(name).type
        return bool(time == (pa.int64() if plan.unit == "int" else pa.timestamp(plan.unit, getattr(time, "tz", None))))

    def describe(
        self, batch: pa.RecordBatch | PackedRows, watermark: Watermark, first: int, keeper: Addressed | None = None
    ) -> bool:
        """Exports a batch, whose first tuple is number `first`, for the compiled call that follows. False: too long.

        The watermark decides which tuples are late. `keeper`: has a Keeper, with room for the rows.
        """
        if not 0 < batch.num_rows <= MOST or not self._intake.anchored or not self._convert(batch):
            return False
        known, self._kept = self.words, keeper is not None
        known[FIRST], known[MARK], known[KEEPER] = first, watermark.address, 0 if keeper is None else keeper.address
        batch._export_to_c(self._exported)
        return True

    def _convert(self, batch: pa.RecordBatch | PackedRows) -> bool:
        """Converts the columns that need it. False if the general path has to report what is wrong."""
        try:
            return all(column.convert(batch.column(column.child), self._side) for column in self._converted)
        except DataError:
            return False

    @property
    def columns(self) -> tuple[Array, ...]:
        """The columns for the exact test of the batch that was taken last; its owner holds the memory."""
        own, rows = self._own, int(self.record.rows)
        return tuple(
            _array_at(int(start), dtype, rows) for start, dtype in zip(own["start"], self._dtypes, strict=False)
        )

    @property
    def times(self) -> Array:
        """The times of that batch."""
        return _array_at(self.words[AT], TIMES, self.words[ROWS])

    @property
    def nulls(self) -> bool | None:
        """Do its rows have nulls? None if no keeper was given."""
        return self.words[NULLS] != 0 if self._kept else None

    @property
    def newest(self) -> int:
        """The latest time of the batch that was described last; valid if it was taken."""
        return self.words[NEWEST]


def _array_at(start: int, dtype: np.dtype[Any], count: int) -> Array:
    """A copy, as an array, of memory that another object owns."""
    return np.frombuffer(ctypes.string_at(start, count * dtype.itemsize), dtype)
