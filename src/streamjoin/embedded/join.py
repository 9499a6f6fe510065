"""The join of two live streams inside one process.

push_r, push_s ──▶ check ──▶ late? ──▶ prepare ──▶ algorithm ──▶ rows ──▶ (order) ──▶ poll
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.algorithms.kang import Kang
from streamjoin.core.columns import show_time, take_rows
from streamjoin.core.intake import Intake
from streamjoin.core.kernels.layout import FOREVER, SINCE_EVER, Array
from streamjoin.core.plan import SIDES, Plan, make_plan
from streamjoin.core.store import Tuples
from streamjoin.core.tree import OTHER
from streamjoin.core.window import Window, ticks
from streamjoin.embedded.batches import as_table
from streamjoin.embedded.order import OrderBuffer
from streamjoin.embedded.rows import Rows, single_batch, widened
from streamjoin.embedded.watermark import Watermark
from streamjoin.errors import ClosedError, LateError, OptionError, SchemaError, WindowError

LATE = ("drop", "error", "keep")


@dataclass(frozen=True)
class Punctuation:
    """A promise in the output: no later result has a time below this.

    Timestamps are counted in the joint unit of both time columns, microseconds or nanoseconds since 1970.
    """

    time: int


class Stream:
    """What the join knows of one side."""

    def __init__(self, schema: pa.Schema, max_delay: int) -> None:
        self.schema = schema
        self.rows = Rows(schema)
        self.watermark = Watermark(max_delay)
        self.pushed = 0  # tuples accepted, which is also the next position
        self.late = 0
        self.kept_back: list[pa.RecordBatch] = []


class Join:
    """Joins two streams as they come.

    Push record batches of either side in any rhythm from any thread; results are ready in `poll()` when a push returns.

    >>> import pyarrow as pa, streamjoin as sj
    >>> trades = pa.schema({"ts": pa.int64(), "price": pa.float64()})
    >>> quotes = pa.schema({"ts": pa.int64(), "bid": pa.float64()})
    >>> with sj.Join(r=trades, s=quotes, on="abs(r.price - s.bid) <= 0.5", within=10, time="ts") as join:
    ...     join.push_r({"ts": [1, 2], "price": [10.0, 20.0]})
    ...     join.push_s({"ts": [5], "bid": [10.25]})
    ...     [batch.to_pylist() for batch in join.poll()]
    [[{'ts_r': 1, 'price': 10.0, 'ts_s': 5, 'bid': 10.25}]]
    """

    def __init__(
        self,
        *,
        r: pa.Schema,
        s: pa.Schema,
        on: Any,
        within: Any,
        time: Any = None,
        how: str = "inner",
        algorithm: str = "auto",
        access: str = "auto",
        ordered: bool = False,
        max_delay: Any = 0,
        late: str = "drop",
        suffixes: Any = ("_r", "_s"),
        punctuations: bool = False,
    ) -> None:
        for side, schema in (("r", r), ("s", s)):
            if not isinstance(schema, pa.Schema):
                raise SchemaError(f"{side}= must be a pyarrow.Schema, not {type(schema).__name__}")
        r, s = widened(r), widened(s)
        if late not in LATE:
            raise OptionError(f'late="{late}" is not one of {", ".join(LATE)}')
        self.plan: Plan = make_plan(
            r,
            s,
            on=on,
            within=within,
            time=time,
            how=how,
            algorithm=algorithm,
            access=access,
            suffixes=suffixes,
            max_delay=max_delay,
        )
        if (ordered or punctuations) and self.plan.unit is None:
            raise WindowError('ordered results and punctuations need time columns; give time="ts"')
        delay = self._delay(max_delay)
        program = self.plan.program()
        self._intake = Intake(self.plan, program)
        self._late_policy = late
        self._streams = {"r": Stream(r, delay), "s": Stream(s, delay)}
        self._algorithm = Kang({side: self._intake.store(side) for side in SIDES})
        self._order = OrderBuffer() if ordered else None
        self._punctuate = punctuations
        self._punctuation = SINCE_EVER
        self._output: deque[pa.RecordBatch | Punctuation] = deque()
        self._schema = self._output_schema()
        self._results = 0
        self._closed = False
        self._failure: BaseException | None = None
        self._lock = threading.Lock()

    @property
    def schema(self) -> pa.Schema:
        """The schema of the results."""
        return self._schema

    def push_r(self, batch: Any) -> None:
        """Adds tuples to the left stream: a record batch, a table of any supported kind, or a dict of arrays."""
        self._push("r", batch)

    def push_s(self, batch: Any) -> None:
        """Adds tuples to the right stream."""
        self._push("s", batch)

    def advance(self, r: Any = None, s: Any = None) -> None:
        """Promises that no tuple below these times follows: on a quiet stream, lets windows expire and results go."""
        with self._lock:
            self._check_open()
            promised = {side: self._as_ticks(side, time) for side, time in (("r", r), ("s", s)) if time is not None}
            for side, time in promised.items():
                self._streams[side].watermark.promise(time)
            self._expire()
            self._release()

    def poll(self) -> Iterator[pa.RecordBatch | Punctuation]:
        """What is ready now, each batch handed out once."""
        for _ in range(len(self._output)):
            try:
                yield self._output.popleft()
            except IndexError:  # another thread was faster
                return

    def late(self) -> list[tuple[str, pa.RecordBatch]]:
        """Late tuples handed back under late="keep", since the last call."""
        with self._lock:
            handed = [(side, batch) for side in SIDES for batch in self._streams[side].kept_back]
            for stream in self._streams.values():
                stream.kept_back = []
            return handed

    def close(self) -> None:
        """Ends both streams. Everything pushed has been joined; what is ready stays in poll()."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._failure is None:
                for stream in self._streams.values():
                    stream.watermark.finish()
                self._release()
            for side, stream in self._streams.items():
                stream.rows = Rows(stream.schema)
                self._algorithm.expire(side, FOREVER)

    def __enter__(self) -> Join:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def stats(self) -> dict[str, Any]:
        """Counts so far: per side what was pushed, came late and is stored; results, comparisons, the punctuation."""
        with self._lock:
            sides = {}
            for side, stream in self._streams.items():
                store = self._algorithm.stores[side]
                sides[side] = {
                    "pushed": stream.pushed,
                    "late": stream.late,
                    "window": len(store),
                    "store_bytes": store.nbytes,
                    "raw_bytes": store.raw_bytes,
                    "payload_bytes": stream.rows.nbytes,
                }
            return {
                "algorithm": self.plan.algorithm,
                "access": self.plan.access,
                **sides,
                "results": self._results,
                "comparisons": sum(store.comparisons for store in self._algorithm.stores.values()),
                "punctuation": None if self._punctuation == SINCE_EVER else self._punctuation,
                "order_buffer": len(self._order) if self._order is not None else 0,
            }

    def _delay(self, max_delay: Any) -> int:
        if self.plan.unit is None or (isinstance(max_delay, int) and max_delay == 0):
            if max_delay != 0:
                raise WindowError(f'max_delay={max_delay!r} needs time columns; give time="ts"')
            return 0
        delay = ticks(max_delay, self.plan.unit, "max_delay")
        if delay < 0:
            raise WindowError(f"max_delay={max_delay!r} is negative; it says by how much a tuple may be late")
        return delay

    def _output_schema(self) -> pa.Schema:
        names = self.plan.output_names()
        return pa.schema(
            [
                field.with_name(n)
                for side in SIDES
                for field, n in zip(self.plan.schemas[side], names[side], strict=True)
            ]
        )

    def _check_open(self) -> None:
        if self._failure is not None:
            raise ClosedError(f"the join has failed and takes nothing more: {self._failure}") from self._failure
        if self._closed:
            raise ClosedError("the join is closed and takes nothing more; create a new Join")

    def _push(self, side: str, data: Any) -> None:
        with self._lock:
            self._check_open()
            stream = self._streams[side]
            table = as_table(side, data, stream.schema)
            times = self._intake.times(side, table) if self.plan.unit is not None else None
            late = self._late_rows(side, table, times)
            everything = table
            if late is not None and times is not None:
                on_time = np.flatnonzero(~late)
                table, times = take_rows(table, on_time), times[on_time]
            first_position = stream.pushed
            if self.plan.window.by_rows or times is None:
                at = np.arange(first_position, first_position + table.num_rows, dtype=np.int64)
            else:
                at = times
            batch, kept = self._intake.prepare(side, table, at, self._streams[OTHER[side]].pushed, stream.rows.next)
            try:
                if late is not None:
                    self._set_aside(stream, take_rows(everything, np.flatnonzero(late)))
                self._accept(side, table, times, batch, kept)
            except BaseException as error:
                self._failure = error
                raise

    def _accept(self, side: str, table: pa.Table, times: Array | None, batch: Tuples, kept: Array | None) -> None:
        """From here on the tuples are part of the join."""
        stream = self._streams[side]
        stream.pushed += table.num_rows
        if times is not None:
            stream.watermark.advance(times)
        if kept is not None:
            table = take_rows(table, np.flatnonzero(kept))
        if table.num_rows:
            stream.rows.append(table, int(batch.at.max()))
        for r, s in self._algorithm.arrive(side, batch):
            self._emit(r, s)
        self._expire()
        self._release()

    def _emit(self, r: Array, s: Array) -> None:
        self._results += len(r)
        parts = [self._streams["r"].rows.take(r), self._streams["s"].rows.take(s)]
        table = pa.table([column for part in parts for column in part.columns], schema=self._schema)
        if self._order is None:
            self._output.extend(table.to_batches())
            return
        times = (self._intake.times(side, rows) for side, rows in zip(SIDES, parts, strict=True))
        self._order.add(table, np.maximum(*times))

    def _expire(self) -> None:
        window: Window = self.plan.window
        for side in SIDES:
            stored, stream = OTHER[side], self._streams[side]
            place = stream.pushed if window.by_rows else stream.watermark.value
            horizon = window.horizon(side, place, self._streams[stored].pushed)
            if horizon > SINCE_EVER:
                self._algorithm.expire(stored, horizon)
                self._streams[stored].rows.expire(horizon)

    def _release(self) -> None:
        """Moves the punctuation on, and with it what is in order."""
        if not self._timely:
            return
        mark = min(stream.watermark.value for stream in self._streams.values())
        if mark <= self._punctuation:
            return
        self._punctuation = mark
        if self._order is not None:
            table = self._order.release(mark)
            if table is not None:
                self._output.extend(table.to_batches())
        if self._punctuate:
            self._output.append(Punctuation(mark))

    @property
    def _timely(self) -> bool:
        """Is lateness a matter here? A window of rows alone knows none."""
        return self.plan.unit is not None and (
            not self.plan.window.by_rows or self._order is not None or self._punctuate
        )

    def _late_rows(self, side: str, table: pa.Table, times: Array | None) -> Array | None:
        """Which rows came too late for their window; None if none did. Changes nothing."""
        if times is None or not self._timely:
            return None
        watermark = self._streams[side].watermark
        late = watermark.late(times)
        if late is None or self._late_policy != "error":
            return late
        row, name = int(np.argmax(late)), self.plan.times[side]
        reached = max(int(times[:row].max()) if row else SINCE_EVER, watermark.newest)
        unit = str(self.plan.unit)
        reason = (
            f"the stream was promised to have passed {show_time(watermark.promised, unit)}; promise less in advance()"
            if int(times[row]) < watermark.promised
            else f"the stream has reached {show_time(reached, unit)}; raise max_delay"
        )
        raise LateError(
            f"{side}.{name} = {table.column(name)[row].as_py()} in row {row} came too late: {reason}, "
            'or choose late="drop" or "keep"'
        )

    def _set_aside(self, stream: Stream, late: pa.Table) -> None:
        stream.late += late.num_rows
        if self._late_policy == "keep":
            stream.kept_back.append(single_batch(late))

    def _as_ticks(self, side: str, time: Any) -> int:
        field = self._streams[side].schema.field(self.plan.times[side]) if self.plan.unit else None
        if field is None:
            raise WindowError('advance() needs time columns; give time="ts"')
        whole = self.plan.unit != "int" or (isinstance(time, (int, np.integer)) and not isinstance(time, bool))
        try:
            column = pa.array([time], field.type) if whole else None
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            column = None
        if column is None:
            kind = "an integer" if self.plan.unit == "int" else "a datetime"
            raise WindowError(
                f"advance({side}={time!r}): {side}.{field.name} has type {field.type}; give {kind} that fits it"
            )
        return int(self._intake.times(side, pa.table({field.name: column}))[0])
