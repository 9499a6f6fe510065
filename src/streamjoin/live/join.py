"""The join of two live streams inside one process.

push_r, push_s ──▶ check ──▶ late? ──▶ prepare ──▶ engine ──▶ rows ──▶ (order) ──▶ poll
"""

from __future__ import annotations

import time as clock
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import pyarrow as pa

from streamjoin import metrics
from streamjoin.engine import Engine, Setup, expect_kernels, open_engine
from streamjoin.errors import (
    ClosedError,
    OptionError,
    SchemaError,
    StreamjoinError,
    WindowError,
    shown,
)
from streamjoin.intake.prepare import Intake
from streamjoin.interrupts import Section
from streamjoin.keywords import constructed
from streamjoin.kinds import HOWS
from streamjoin.live.arrivals import Arrivals, Row
from streamjoin.live.progress import Progress
from streamjoin.live.reading import Reading
from streamjoin.live.stream import Stream, delay_of
from streamjoin.options import LIVE, LiveOptions, Options
from streamjoin.plan.plan import Plan, make_plan
from streamjoin.predicate.tree import SIDES
from streamjoin.results.output import Output, Punctuation
from streamjoin.results.rows import widened
from streamjoin.windows import SINCE_EVER


class Join(Reading):
    """Joins two streams as they come.

    Push record batches of either side at any time from any thread, and poll for results. With algorithm="kang" results
    are ready when a push returns. Workers of a parallel algorithm return them a little later, all of them by close().

    If Ctrl-C interrupts one of its methods, either the call has had no effect, or the join has failed. After a failure
    each further push, advance and poll, and the first close(), raise a ClosedError that names the call.

    The options are those of `__init__`.

    >>> import pyarrow as pa, streamjoin as sj
    >>> trades = pa.schema({"ts": pa.int64(), "price": pa.float64()})
    >>> quotes = pa.schema({"ts": pa.int64(), "bid": pa.float64()})
    >>> with sj.Join(r=trades, s=quotes, on="abs(r.price - s.bid) <= 0.5", within=10, time="ts") as join:
    ...     join.push_r({"ts": [1, 2], "price": [10.0, 20.0]})
    ...     join.push_s({"ts": [5], "bid": [10.25]})
    ...     [batch.to_pylist() for batch in join.poll()]
    [[{'ts_r': 1, 'price': 10.0, 'ts_s': 5, 'bid': 10.25}]]
    """

    @constructed(LiveOptions)
    def __init__(self, options: LiveOptions) -> None:
        """Checks everything that can be checked before data is seen, and starts the workers.

        r, s          the schemas of the two streams
        {options}
        """
        for side, schema in (("r", options.r), ("s", options.s)):
            if not isinstance(schema, pa.Schema):
                raise SchemaError(f"{side}= must be a pyarrow.Schema, not {type(schema).__name__}")
        r, s = widened(options.r), widened(options.s)
        options.kind.only(LIVE, how=HOWS, take=True, aggregate=True, select=True)
        self.plan: Plan = make_plan(r, s, options.for_engine(LIVE))
        ordered, punctuations = options.ordered, options.punctuations
        if (ordered or punctuations) and not self.plan.timed:
            raise WindowError(f"ordered results and punctuations need times, but {self.plan.timeless}")
        if self.plan.kind.take.timely and not self.plan.timed:
            raise WindowError(f'take="{self.plan.kind.take}" goes by time, but {self.plan.timeless}')
        delay = delay_of(self.plan, options.max_delay)
        self._intake = Intake(self.plan, self.plan.program())
        r, s = (Stream(k, schema, self.plan, self._intake, delay, options.late) for k, schema in enumerate((r, s)))
        self._streams = (r, s)
        # Can tuples be late? Not in a window of rows without an order of time.
        timely = self.plan.unit is not None and (not self.plan.window.by_rows or ordered or punctuations)
        self._progress = Progress(self.plan, self._streams, timely)
        expect_kernels(self.plan, self._intake)
        self._output = Output(self.plan, ordered, punctuations)
        self._section = Section()  # one operation at a time; `under_way` is set from its first change to its last
        self._closed = False  # accepts no more data
        self._stopped = False  # close() has completed
        self._failure: BaseException | None = None
        self._interrupted = False  # the failure is an interruption: results are missing, and it is not known which
        self._engine = self._make_engine(options)
        self._arrivals = Arrivals(
            self.plan, self._intake, self._streams, self._progress, self._engine, self._output, self._section,
            shedding=options.overload == "shed",
        )  # fmt: skip
        self._started = clock.perf_counter()
        try:
            self._engine.start()
        except BaseException as error:
            self._engine.fail(error)
            raise

    def _make_engine(self, options: Options) -> Engine:
        plan, output = self.plan, self._output
        setup = Setup(plan.algorithm, plan.workers, plan.layout, options.batch, pin=options.pin)
        engine = open_engine(plan, self._intake, setup, output)
        # The threads of a join that is never closed must end, too.
        weakref.finalize(self, engine.fail, ClosedError("the join was dropped without close()"))
        return engine

    @property
    def schema(self) -> pa.Schema:
        """The schema of the results."""
        return self._output.schema

    @property
    def closed(self) -> bool:
        """Has close() completed?"""
        return self._stopped

    @property
    def failure(self) -> BaseException | None:
        """The error that stopped the join, if one did."""
        return self._failure or self._engine.failure

    def push_r(self, batch: Any) -> None:
        """Adds tuples to the left stream: a record batch, a table of any supported kind, or a dict of arrays."""
        self._push(0, batch)

    def push_s(self, batch: Any) -> None:
        """Adds tuples to the right stream."""
        self._push(1, batch)

    def push_row(self, side: str, row: Row) -> None:
        """Adds one tuple to a stream, "r" or "s": its values in the order of the schema, or a dict of them.

        Faster than a batch of one row. Times may be given as counts of their unit.

        >>> import pyarrow as pa, streamjoin as sj
        >>> schema = pa.schema({"ts": pa.int64(), "x": pa.float64()})
        >>> with sj.Join(r=schema, s=schema, on="abs(r.x - s.x) <= 0.5", within=10, time="ts") as join:
        ...     join.push_row("r", (1, 10.0))
        ...     join.push_row("s", {"ts": 2, "x": 10.5})
        ...     [batch.num_rows for batch in join.poll()]
        [1]
        """
        self._operate(self._take_rows, side, (row,), clock.perf_counter_ns())

    def push_rows(self, side: str, rows: Sequence[Row]) -> None:
        """Adds tuples to a stream, "r" or "s", each as in `push_row`."""
        self._operate(self._take_rows, side, rows, clock.perf_counter_ns())

    def advance(self, r: Any = None, s: Any = None) -> None:
        """Promises that no tuple below these times follows. On a quiet stream, windows expire and results come out."""
        self._operate(self._advance, r, s)

    def _advance(self, r: Any, s: Any) -> None:
        self._check_open()
        promised = [(x, x.ticks(time)) for x, time in zip(self._streams, (r, s), strict=True) if time is not None]
        self._section.under_way = "advance"
        for stream, time in promised:
            stream.watermark.promise(time)
        self._arrivals.moved_on()

    def poll(self, timeout: float = 0.0) -> Iterator[pa.RecordBatch | Punctuation]:
        """The results that are ready; each batch is returned once. Waits up to `timeout` seconds if there are none."""
        taken = False
        try:
            ready = self._output.wait(timeout, lambda: self._closed or self._engine.failure is not None)
            while ready > 0:
                taken = True
                item, more = self._output.hand_over()
                if item is None:
                    break
                yield item
                ready += more - 1
            if not self._closed:
                self._raise_failure()
            self._raise_interruption()
        except GeneratorExit:  # the caller wants no more
            raise
        except BaseException as error:
            if taken:  # the caller may lose a list that it was filling, with all batches returned before
                self._fail("poll", error)
            raise

    @contextmanager
    def prefill(self) -> Iterator[None]:
        """Inside, arrivals are stored and not compared: for benchmarks that begin with full windows."""
        try:
            with self._engine.prefill():
                yield
        except BaseException as error:
            if not isinstance(error, Exception):
                self._fail("prefill", error)
            raise

    def late(self) -> list[tuple[str, pa.RecordBatch]]:
        """Late tuples since the last call, under late="keep"."""
        handed: list[tuple[str, pa.RecordBatch]] = []
        try:
            self._operate(self._hand_back, handed)
            return handed
        except BaseException as error:
            if handed:
                self._fail("late", error)
            raise

    def _hand_back(self, handed: list[tuple[str, pa.RecordBatch]]) -> None:
        self._section.under_way = "late"
        for stream in self._streams:
            handed += stream.hand_back()

    def close(self) -> None:
        """Ends both streams. Returns when everything pushed has been joined; poll() still returns the results.

        Raises the error that stopped the workers, unless a push or poll has raised it, or a ClosedError if an
        interruption left the join incomplete. If close() itself is interrupted, a second one completes it and says so.
        """
        self._operate(self._close)

    def _close(self) -> None:
        if self._stopped:
            return
        self._section.under_way = "close"
        self._closed = True
        self._output.let_go()
        if self._failure is None:
            for stream in self._streams:
                stream.watermark.finish()
            self._arrivals.note(ended=True)
        else:  # an interrupted push may have reached only some workers
            self._engine.fail(self._failure)
        self._engine.finish()
        self._output.clear()
        self._stopped = True
        self._raise_failure()
        self._raise_interruption()

    def _raise_failure(self) -> None:
        """Raises the error that stopped the workers, once."""
        if self._failure is None and self._engine.failure is not None:
            self._failure = self._engine.failure
            raise self._failure

    def _raise_interruption(self) -> None:
        if self._interrupted:
            raise ClosedError(f"the join is incomplete: {self._failure}")

    def __enter__(self) -> Join:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except BaseException:
            if error is None:  # the first error is the one to be told
                raise

    def stats(self) -> dict[str, Any]:
        """Metrics so far: of the join, of each side and of each worker.

        {figures}
        """
        seconds = max(clock.perf_counter() - self._started, 1e-9)
        engine, output, mark = self._engine.stats(), self._output, self._progress.mark()
        for stream, payload in zip(self._streams, output.sides, strict=True):
            counts = stream.counts(self._progress.timely) | {"payload_bytes": payload.nbytes}
            engine[stream.name] = metrics.report(metrics.SIDE, counts | engine[stream.name], seconds)
        engine["workers"] = [metrics.report(metrics.WORKER, worker, seconds) for worker in engine["workers"]]
        # The output is not told of every small push.
        reached = mark if self._engine.at_once and not output.eager else output.punctuation
        own = {
            "algorithm": self.plan.algorithm,
            "access": self._engine.access,
            "seconds": seconds,
            "results": output.results,
            "latency_ms": output.latencies(),
            "punctuation": reached if reached > SINCE_EVER else None,
            "punctuation_lag": mark - reached if SINCE_EVER < reached <= mark else None,
            "order_buffer": output.waiting,
            "order_buffer_max": output.buffered,
            **output.undecided(),
        }
        return metrics.report(metrics.JOIN, own | engine, seconds)

    stats.__doc__ = metrics.documented(stats.__doc__)

    def _check_open(self) -> None:
        if not self._closed:
            if self._failure is None and self._engine.failure is None:
                return
            self._raise_failure()
        if self._failure is not None:
            raise ClosedError(f"the join has failed and accepts no more data: {self._failure}") from self._failure
        if self._closed:
            raise ClosedError("the join is closed and accepts no more data; create a new Join")

    def _operate(self, action: Callable[..., None], *arguments: Any) -> None:
        """Runs an operation, one at a time, as a whole or not at all.

        An interruption (Ctrl-C) may come between any two steps, in this method too. So an operation notes its name
        before its first change and removes the note with its last. A note that is found on entry, or after an error,
        means that an operation was interrupted: the join has failed, and every later call says so.
        """
        if self._section.mine:  # called by a signal handler in the middle of another operation
            self._fail(self._section.under_way or "another call", None)
        self._section.run(self._as_a_whole, action, *arguments)

    def _as_a_whole(self, action: Callable[..., None], *arguments: Any) -> None:
        section = self._section
        if section.under_way is not None:
            self._fail(section.under_way, None)
        try:
            action(*arguments)
            section.under_way = None
        except BaseException as error:
            if section.under_way is not None:
                self._fail(section.under_way, error)
            raise

    def _fail(self, name: str, error: BaseException | None) -> None:
        """The join cannot be completed, because of an error in an operation. The first error counts."""
        if self._failure is None:
            if error is not None and (isinstance(error, StreamjoinError) or error is self._engine.failure):
                self._failure = error
            else:
                kind = f" by {type(error).__name__}" if error is not None else ""
                self._failure = ClosedError(
                    f"{name}() was interrupted{kind}, and some of its input or results may be lost; create a new Join"
                )
                self._interrupted = True
                self._stopped = False  # close() must raise, even if it has completed before
        self._engine.fail(self._failure)
        self._section.under_way = None

    def _push(self, side: int, data: Any) -> None:
        self._operate(self._take, side, data, clock.perf_counter_ns())

    def _take(self, side: int, data: Any, moment: int) -> None:
        self._check_open()
        self._arrivals.take(side, data, moment)

    def _take_rows(self, name: str, rows: Sequence[Row], moment: int) -> None:
        if name not in SIDES:
            raise OptionError(f'push_row and push_rows take "r" or "s" and then rows, not {shown(name)}')
        self._check_open()
        self._arrivals.take_rows(SIDES.index(name), rows, moment)
