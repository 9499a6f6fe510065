"""Small batches of plain numbers, straight from Arrow's memory onto the tape, in one compiled call.

Preparing a batch column by column takes a third of a millisecond when its code is not in the cache, whatever its size:
too long for batches of four. What is not plain (nulls, other types, rows that are late or cannot match) takes that way.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamjoin.access.records import FAULT_WORDS, Batch, Column
from streamjoin.access.tape import Tape
from streamjoin.codegen.records import Array, address
from streamjoin.intake import arrive
from streamjoin.intake.columns import lies_as
from streamjoin.intake.prepare import Intake
from streamjoin.plan.plan import SIDES, Plan

MOST = 512  # rows of a small batch


class Direct:
    """The way onto the tape of one side."""

    def __init__(self, plan: Plan, intake: Intake, side: int, tape: Tape) -> None:
        """Check `serves` before."""
        name = SIDES[side]
        program, differences = intake.program, plan.window.differences(name)
        assert differences is not None
        schema, parts, dims = plan.schemas[name], program.entry[name], len(program.dimensions)
        self._intake, self._tape = intake, tape
        self._time = schema.get_field_index(plan.times[name])
        self._values = [
            (arrive.COLUMNS + k, schema.get_field_index(part.column), part.dtype.itemsize)
            for k, part in enumerate(parts)
            if part.role == "value"
        ]
        self._stored = np.array(intake.stored[side], np.int64)
        frame = self._frame = np.zeros(arrive.COLUMNS + len(parts), np.int64)
        self._address = address(frame)
        self._arrays = {
            arrive.ORIGIN: intake.origin,
            arrive.KEEP: np.zeros(MOST, np.bool_),
            arrive.LO: np.zeros((dims, MOST), np.float32),
            arrive.HI: np.zeros((dims, MOST), np.float32),
            arrive.COORD: np.zeros((dims, MOST), np.float32),
            arrive.WIDTH: np.zeros(dims, np.float32),
            arrive.KEY: np.zeros(MOST, np.uint32),
            arrive.TROUBLE: np.zeros(FAULT_WORDS, np.int64),
            arrive.SINCE: np.zeros(MOST, np.int64),
            arrive.UNTIL: np.zeros(MOST, np.int64),
        }
        everywhere = np.ones(MOST, np.bool_)
        for k, part in enumerate(parts):
            if part.role == "valid":
                self._arrays[arrive.COLUMNS + k] = everywhere
        for word, array in self._arrays.items():
            frame[word] = address(array)
        frame[arrive.DIMS], frame[arrive.STRIDE] = dims, MOST
        frame[arrive.PREPARE] = intake.function(side)
        frame[arrive.LOWER], frame[arrive.UPPER] = differences
        self._batch, self._columns = Batch.new(), Column.array(max(len(self._stored), 1))
        self._columns["each"][: len(self._stored)] = [parts[k].dtype.itemsize for k in self._stored]
        batch, at = self._batch, [int(word) for word in frame]
        batch.columns, batch.stride = address(self._columns), MOST
        batch.width, batch.key = at[arrive.WIDTH], at[arrive.KEY]
        batch.lo, batch.hi, batch.coord = at[arrive.LO], at[arrive.HI], at[arrive.COORD]
        batch.since, batch.until = at[arrive.SINCE], at[arrive.UNTIL]
        frame[arrive.BATCH] = address(batch)
        arrive.take_in(frame, self._address, self._stored, tape.address)  # no rows: compiles it before there are any

    @staticmethod
    def serves(plan: Plan, intake: Intake, side: int, tape: Tape) -> bool:
        """Are all columns of a side plain numbers, times in the joint unit, the window a range of differences?"""
        schema, name = plan.schemas[SIDES[side]], plan.times.get(SIDES[side])
        if name is None or tape.blocks or plan.window.differences(SIDES[side]) is None:
            return False
        time = schema.field(name).type
        ticks = pa.int64() if plan.unit == "int" else pa.timestamp(plan.unit, getattr(time, "tz", None))
        return time == ticks and all(
            part.role == "valid" or (part.role == "value" and lies_as(schema.field(part.column).type, part.dtype))
            for part in intake.program.entry[SIDES[side]]
        )

    def take(self, batch: pa.RecordBatch | pa.Table, newest: int, delay: int, promised: int) -> Array | None:
        """Writes a batch beyond the head of the tape, where there is room for it; the head stays.

        Returns its times; None if it is not plain.
        """
        n, frame = batch.num_rows, self._frame
        if n > MOST or not self._intake.anchored:
            return None
        times = _flat(batch, self._time)
        if times is None:
            return None
        for word, column, size in self._values:
            array = _flat(batch, column)
            if array is None:
                return None
            frame[word] = array.buffers()[1].address + array.offset * size if n else 0
        at = np.frombuffer(times.buffers()[1], np.int64, n, times.offset * 8) if n else np.zeros(0, np.int64)
        frame[arrive.ROWS], frame[arrive.AT], frame[arrive.FIRST] = n, address(at), self._tape.head
        frame[arrive.NEWEST], frame[arrive.DELAY], frame[arrive.PROMISED] = newest, delay, promised
        self._arrays[arrive.TROUBLE][0] = 0
        if not arrive.take_in(frame, self._address, self._stored, self._tape.address):
            return None
        return at


def _flat(batch: pa.RecordBatch | pa.Table, column: int) -> pa.Array | None:
    """A column in one piece without nulls; None if it is not."""
    array = batch.column(column)
    if isinstance(array, pa.ChunkedArray):
        if array.num_chunks != 1:
            return None
        array = array.chunk(0)
    return None if array.null_count else array
