"""One side of a live join: its progress, and its late tuples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.codegen.records import Array
from streamjoin.errors import LateError, WindowError, shown
from streamjoin.intake.columns import show_time
from streamjoin.intake.direct import MOST
from streamjoin.intake.packed import PackedRows
from streamjoin.intake.prepare import Intake
from streamjoin.plan.plan import Plan
from streamjoin.predicate.tree import SIDES
from streamjoin.results.rows import single_batch
from streamjoin.windows import SINCE_EVER
from streamjoin.windows.duration import ticks
from streamjoin.windows.watermark import Watermark


def delay_of(plan: Plan, max_delay: Any) -> int:
    """By how many ticks a tuple may be late."""
    if plan.unit is None or (isinstance(max_delay, int) and max_delay == 0):
        if max_delay != 0:
            raise WindowError(f'max_delay={shown(max_delay)} needs time columns; give time="ts"')
        return 0
    delay = ticks(max_delay, plan.unit, "max_delay")
    if delay < 0:
        raise WindowError(f"max_delay={shown(max_delay)} is negative; it says by how much a tuple may be late")
    return delay


class Stream:
    """The state of one side."""

    def __init__(self, side: int, schema: pa.Schema, plan: Plan, intake: Intake, max_delay: int, late: str) -> None:
        self.side, self.schema = side, schema
        self.name = SIDES[side]
        self.push = f"push_{self.name}"
        self.packed = PackedRows(schema, MOST) if PackedRows.serves(schema) else None
        self.watermark = Watermark(max_delay)
        self.pushed = 0  # tuples accepted, which is also the next position
        self.next_at = 0  # the next `at`, where `at` counts tuples that may be pushed again
        self.needed_from = SINCE_EVER  # tuples below this `at` are needed no more
        self.late = 0
        self.shed = 0
        self._plan, self._intake = plan, intake
        self._policy = late
        self._kept_back: list[pa.RecordBatch] = []

    def counts(self, timely: bool) -> dict[str, int | None]:
        """How many tuples it has taken, and its watermark if tuples can be late."""
        counted = {"pushed": self.pushed, "late": self.late, "shed": self.shed}
        return counted | ({"watermark": self.watermark.told} if timely else {})

    def times(self, table: pa.Table | pa.RecordBatch | PackedRows) -> Array | None:
        """The time column in ticks, if there is one."""
        return self._intake.times(self.side, table) if self._plan.unit is not None else None

    def late_rows(self, table: pa.Table, times: Array) -> Array | None:
        """Which rows are late; None if none is. Changes nothing."""
        watermark = self.watermark
        late = watermark.late(times)
        if late is None or self._policy != "error":
            return late
        row, name = int(np.argmax(late)), self._plan.times[self.name]
        reached = max(int(times[:row].max()) if row else SINCE_EVER, watermark.newest)
        unit = str(self._plan.unit)
        reason = (
            f"the stream was promised to have passed {show_time(watermark.promised, unit)}; promise less in advance()"
            if int(times[row]) < watermark.promised
            else f"the stream has reached {show_time(reached, unit)}; raise max_delay"
        )
        raise LateError(
            f"{self.name}.{name} = {table.column(name)[row].as_py()} in row {row} came too late: {reason}, "
            'or choose late="drop" or "keep"'
        )

    def set_aside(self, late: pa.Table) -> None:
        """Counts late rows, and keeps them under late="keep"."""
        self.late += late.num_rows
        if self._policy == "keep":
            self._kept_back.append(single_batch(late))

    def hand_back(self) -> list[tuple[str, pa.RecordBatch]]:
        """Returns the kept late rows, once."""
        kept, self._kept_back = self._kept_back, []
        return [(self.name, batch) for batch in kept]

    def ticks(self, time: Any) -> int:
        """A time as the user gives it, in ticks."""
        plan = self._plan
        field = self.schema.field(plan.times[self.name]) if plan.unit else None
        if field is None:
            raise WindowError('advance() needs time columns; give time="ts"')
        whole = plan.unit != "int" or (isinstance(time, (int, np.integer)) and not isinstance(time, bool))
        try:
            column = pa.array([time], field.type) if whole else None
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            column = None
        if column is None:
            kind = "an integer" if plan.unit == "int" else "a datetime"
            raise WindowError(
                f"advance({self.name}={shown(time)}): {self.name}.{field.name} has type {field.type}; "
                f"give {kind} that fits it"
            )
        return int(self._intake.times(self.side, pa.table({field.name: column}))[0])
