"""Pushed batches on their way to the engine.

push ──▶ small and plain? ──▶ one compiled call
          └─▶ check ──▶ late? ──▶ prepare ──▶ engine
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.access.tuples import Tuples
from streamjoin.codegen.records import Array
from streamjoin.engine import Engine
from streamjoin.intake.batches import as_batch, as_table
from streamjoin.intake.packed import PackedRows, columns_of
from streamjoin.intake.prepare import Intake
from streamjoin.interrupts import Section
from streamjoin.live.progress import Progress
from streamjoin.live.stream import Stream
from streamjoin.live.versions import Versions
from streamjoin.options import LONGEST_BATCH
from streamjoin.plan.plan import Plan
from streamjoin.results.output import Output
from streamjoin.results.rows import take_rows
from streamjoin.results.small_push import SmallPush
from streamjoin.results.stage import Come

Row = tuple[Any, ...] | list[Any] | dict[str, Any]
CHUNK = LONGEST_BATCH  # tuples of one push after which workers get the expiries


class Arrivals:
    """Takes batches of both sides. `section.under_way` names the push from its first change on."""

    def __init__(
        self,
        plan: Plan,
        intake: Intake,
        streams: tuple[Stream, Stream],
        progress: Progress,
        engine: Engine,
        output: Output,
        section: Section,
        *,
        shedding: bool,
    ) -> None:
        self._plan, self._intake, self._streams, self._progress = plan, intake, streams, progress
        self._engine, self._output, self._section = engine, output, section
        self._timely, self._shedding = progress.timely, shedding
        self._quick = progress.timely and not shedding
        self._passed = progress.passed if engine.at_once else None
        self._versions = Versions(intake, streams, output) if plan.window.carries else None

    def take_rows(self, side: int, rows: Sequence[Row], moment: int) -> None:
        """Takes tuples or dicts of values."""
        stream = self._streams[side]
        if self._quick and stream.packed is not None and stream.packed.fill(rows):
            if self._take_quickly(side, stream.packed, moment):
                return
        self.take(side, columns_of(stream.name, rows, stream.schema), moment)

    def take(self, side: int, data: Any, moment: int) -> None:
        """Takes a batch, as a whole or not at all, that came at a moment (of `time.perf_counter_ns`)."""
        stream = self._streams[side]
        if self._quick and (batch := as_batch(data, stream.schema)) is not None:
            if self._take_quickly(side, batch, moment):
                return
        table = as_table(stream.name, data, stream.schema)
        shed = table.num_rows - self._engine.admit(side, table.num_rows) if self._shedding else 0
        admitted = table = table.slice(0, table.num_rows - shed)
        times, late = stream.times(table), None
        if times is not None and self._timely and (late := stream.late_rows(table, times)) is not None:
            on_time = np.flatnonzero(~late)
            table, times = take_rows(table, on_time), times[on_time]
        first_position = stream.pushed
        if self._plan.window.by_rows or times is None:
            at = np.arange(first_position, first_position + table.num_rows, dtype=np.int64)
        elif self._versions is not None and side == 1:
            at = np.arange(stream.next_at, stream.next_at + table.num_rows, dtype=np.int64)
        else:
            at = times
        number = self._output.sides[side].rows.next
        batch, kept = self._intake.prepare(side, table, at, self._streams[1 - side].pushed, number)
        self._section.under_way = stream.push  # from here on the tuples are part of the join: an error ends it
        stream.shed += shed
        if late is not None:
            stream.set_aside(take_rows(admitted, np.flatnonzero(late)))
        if kept is not None and self._output.preserves(side):
            others = np.flatnonzero(~kept)
            come = Come(at[others], None if times is None else times[others])
            self._output.set_aside(side, take_rows(table, others), come)
        self._accept(side, table, times, batch, kept, moment)
        if self._versions is not None and (wanted := self._versions.wanted()) is not None:
            self._carry_on(wanted, moment)

    def _carry_on(self, table: pa.Table, moment: int) -> None:
        """Pushes the versions of s that are still needed once more; all tuples before them expire."""
        stream, number = self._streams[1], self._output.sides[1].rows.next
        at = np.arange(stream.next_at, stream.next_at + table.num_rows, dtype=np.int64)
        batch, _ = self._intake.prepare(1, table, at, self._streams[0].pushed, number)
        stream.needed_from = stream.next_at
        stream.next_at += table.num_rows
        if table.num_rows:
            self._output.append(1, table, Come(at, stream.times(table)), moment)
            self._engine.arrive(1, batch)
        self.moved_on()

    def _take_quickly(self, side: int, batch: pa.RecordBatch | PackedRows, moment: int) -> bool:
        """Takes a small batch by one compiled call, if that serves it."""
        stream, section = self._streams[side], self._section
        rows = self._output.room_for(side, batch.num_rows)
        section.under_way = stream.push
        asked = SmallPush(side, batch, stream.watermark, rows, moment, self._output.wants_times)
        horizon = self._engine.push(asked, self._taken)
        if horizon is None:
            section.under_way = None  # nothing has changed
            return False
        if self._output.concerned(1 - side, horizon, self._passed):
            self.moved_on()
        return True

    def _accept(
        self, side: int, table: pa.Table, times: Array | None, batch: Tuples, kept: Array | None, moment: int
    ) -> None:
        stream, rows = self._streams[side], table
        if kept is not None:
            rows = take_rows(table, np.flatnonzero(kept))
        if rows.num_rows:
            kept_times = times if times is None or kept is None else times[kept]
            due = batch.until if self._plan.lifetimes is not None else None
            self._output.append(side, rows, Come(batch.at, kept_times, due), moment)
        counted = np.arange(table.num_rows + 1) if kept is None else np.concatenate([[0], np.cumsum(kept)])
        step = max(table.num_rows, 1) if self._engine.at_once else CHUNK
        for begin in range(0, table.num_rows, step):
            end = min(begin + step, table.num_rows)
            self._engine.arrive(side, batch.part(int(counted[begin]), int(counted[end])))
            stream.pushed += end - begin
            stream.next_at += end - begin
            if times is not None:
                stream.watermark.advance(times[begin:end])
            self._expire()
        self.moved_on()

    def _taken(self, push: SmallPush) -> None:
        """The engine has taken a small batch; more results of it may follow from now on."""
        self._output.taken(push)
        self._streams[push.side].pushed += push.batch.num_rows

    def moved_on(self) -> None:
        """The input has moved on: expired tuples leave, complete results are handed out."""
        self.note()
        self._expire()

    def note(self, ended: bool = False) -> None:
        """Tells the output the progress of the input; the results that follow from it come later."""
        r, s = (payload.rows.next for payload in self._output.sides)
        self._output.note(self._progress.snapshot((r, s), ended))

    def _expire(self) -> None:
        r, s = self._streams
        self._engine.expire(self._progress.horizons(), (r.pushed, s.pushed))
