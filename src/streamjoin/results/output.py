"""The end of a live join: pairs of tuple numbers become rows, in order if asked for, with punctuations between them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from streamjoin.codegen.records import Array
from streamjoin.interrupts import Call, Section
from streamjoin.plan.plan import SIDES, Plan
from streamjoin.results.latency import Latency
from streamjoin.results.order import OrderBuffer
from streamjoin.results.rows import Rows
from streamjoin.windows import SINCE_EVER


@dataclass(frozen=True)
class Punctuation:
    """A promise in the output: no later result has a time below this.

    Timestamps are counted in the joint unit of both time columns, microseconds or nanoseconds since 1970.
    """

    time: int


@dataclass(frozen=True)
class Snapshot:
    """The input at a moment: how many tuples had come, how far time had, and what no later tuple reaches."""

    numbers: tuple[int, int]
    mark: int
    horizons: tuple[int, int]


class Output:
    """Written by whoever finds the pairs, one thread at a time; read by whoever polls.

    A change that was broken off leaves rows that are torn: from then on all others are refused.
    """

    def __init__(self, plan: Plan, ordered: bool, punctuate: bool) -> None:
        self.rows = (Rows(plan.schemas["r"]), Rows(plan.schemas["s"]))
        self.schema = _schema(plan)
        self.latency = Latency()
        self.results = 0
        self.punctuation = SINCE_EVER
        self.buffered = 0  # the most results that ever waited for their order
        self._order = OrderBuffer() if ordered else None
        self._punctuate = punctuate
        self._ready: deque[pa.RecordBatch | Punctuation] = deque()
        self._snapshots: deque[Snapshot] = deque()
        self._section = Section()
        self._something = Call()

    def append(self, side: int, table: pa.Table, last_at: int, times: Array | None, moment: int) -> None:
        """Rows that may become part of results, in the order of their numbers, with their largest place."""
        self._section.change("taking rows", self._append, side, table, last_at, times, moment)

    def _append(self, side: int, table: pa.Table, last_at: int, times: Array | None, moment: int) -> None:
        rows = self.rows[side]
        rows.append(table, last_at)
        if self._order is not None and times is not None:
            self._order.times[side].append(times)
        self.latency.arrived(side, rows.next, moment)

    def note(self, snapshot: Snapshot) -> None:
        """The input has come so far; its results follow sooner or later."""
        self._snapshots.append(snapshot)

    def pairs(self, r: Array, s: Array) -> None:
        """Takes results, as tuple numbers."""
        if len(r):
            self._section.change("taking results", self._take, r, s)

    def _take(self, r: Array, s: Array) -> None:
        self.results += len(r)
        if self._order is None:
            self._hand_out(self._batches(r, s))
            return
        self._order.add(r, s)
        self.buffered = max(self.buffered, len(self._order))

    def _batches(self, r: Array, s: Array) -> list[pa.RecordBatch]:
        """Results that leave now, put together."""
        if not len(r):
            return []
        parts = [self.rows[0].take(r), self.rows[1].take(s)]
        table = pa.table([column for part in parts for column in part.columns], schema=self.schema)
        self.latency.record(r, s)
        return list(table.to_batches())

    def complete(self, below: tuple[int, int]) -> None:
        """All results of tuples below these numbers, with each other, have been taken."""
        reached = None
        while self._snapshots and all(a <= b for a, b in zip(self._snapshots[0].numbers, below, strict=True)):
            reached = self._snapshots.popleft()
        if reached is not None:
            self._section.change("moving on", self._move_on, reached)

    def _move_on(self, reached: Snapshot) -> None:
        if reached.mark > self.punctuation:
            self._release(reached.mark)
        for side, (horizon, number) in enumerate(zip(reached.horizons, reached.numbers, strict=True)):
            if horizon > SINCE_EVER:  # of what came later, results are still to come
                self._forget(side, horizon, number)

    def _forget(self, side: int, horizon: int, number: int) -> None:
        """Drops rows below a place, of tuples below a number, but for those whose results wait for their order."""
        rows = self.rows[side]
        rows.expire(horizon, number if self._order is None else self._order.oldest(side, number))
        self.latency.forget(side, rows.oldest)
        if self._order is not None:
            self._order.times[side].forget(rows.oldest)

    def _release(self, mark: int) -> None:
        """Moves the punctuation on, and with it what is in order."""
        self.punctuation = mark
        ready: list[pa.RecordBatch | Punctuation] = []
        if self._order is not None:
            ready += self._batches(*self._order.release(mark))
        if self._punctuate:
            ready.append(Punctuation(mark))
        self._hand_out(ready)

    def _hand_out(self, items: list[Any]) -> None:
        self._ready.extend(items)
        self._something.ring()

    def wait(self, timeout: float, over: Callable[[], bool]) -> int:
        """How many items are ready; waits up to `timeout` seconds for the first, unless nothing can follow."""
        deadline = time.monotonic() + timeout
        while not self._ready and not over() and (left := deadline - time.monotonic()) > 0:
            self._something.wait(min(left, 0.05))
        return len(self._ready)

    def hand_over(self) -> pa.RecordBatch | Punctuation | None:
        """The next item that is ready, once; None if another thread was faster."""
        try:
            return self._ready.popleft()
        except IndexError:
            return None

    def latencies(self) -> dict[str, Any]:
        """Quantiles of the latency so far, in milliseconds."""
        found: dict[str, Any] = self._section.run(self.latency.summary)
        return found

    @property
    def waiting(self) -> int:
        """Results that wait for their order."""
        return len(self._order) if self._order is not None else 0

    def clear(self) -> None:
        """Forgets the rows; what is ready stays."""
        self._section.run(self._clear)

    def _clear(self) -> None:
        self.rows = (Rows(self.rows[0].schema), Rows(self.rows[1].schema))

    def let_go(self) -> None:
        """Lets the others in again, whatever interrupted the present thread in here."""
        self._section.let_go()


def _schema(plan: Plan) -> pa.Schema:
    names = plan.output_names()
    return pa.schema(
        [field.with_name(n) for side in SIDES for field, n in zip(plan.schemas[side], names[side], strict=True)]
    )
