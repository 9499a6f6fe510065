"""The output of a live join: pairs of tuple numbers become rows, in order and with punctuations if asked for.

Pairs wait as numbers. Their rows are assembled when they are polled, so that no push waits for that, or just before one
of their tuples is dropped.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from streamjoin.codegen.records import Array
from streamjoin.interrupts import Call, Section
from streamjoin.plan.plan import Plan
from streamjoin.results.latency import Latency
from streamjoin.results.order import OrderBuffer, Times
from streamjoin.results.payload import Assembler
from streamjoin.results.plain import PlainRows
from streamjoin.results.small_push import SmallPush
from streamjoin.results.stage import Come, Results, Semi, Snapshot, Stage
from streamjoin.windows import SINCE_EVER

MOST_UNMEASURED = 1 << 16  # results whose latency is not counted yet
MANY = 1 << 10  # results of one moment whose latencies are counted separately


@dataclass(frozen=True)
class Punctuation:
    """A promise in the output: no later result has a time below this.

    Timestamps are counted in the joint unit of both time columns, microseconds or nanoseconds since 1970.
    """

    time: int


@dataclass(slots=True)
class Pairs:
    """Results that are ready: tuple numbers of r and of s, and since when; their batches once they are assembled."""

    r: Array
    s: Array
    moment: int
    more: dict[str, pa.Array] | None = None  # aggregated columns
    batches: list[pa.RecordBatch] | None = None


Item: TypeAlias = "pa.RecordBatch | Punctuation"


class Output:
    """Pairs and rows between the engine, which writes them in one thread at a time, and the polling threads.

    An interrupted change leaves inconsistent rows: from then on every change is refused. Results that were ready before
    can still be polled.
    """

    def __init__(self, plan: Plan, ordered: bool, punctuate: bool) -> None:
        self._assembler = Assembler(plan)
        self.sides = self._assembler.sides
        self.schema = self._assembler.schema
        self.results = 0
        self.punctuation = SINCE_EVER
        self.buffered = 0  # the largest number of results that waited for their order
        self._latency = Latency()
        self._unmeasured: list[Pairs] = []
        self._unmeasured_count = 0
        self._times = (Times(), Times())  # of tuples, by number, if they are needed
        self._order = OrderBuffer(self._times) if ordered else None
        self._stage = _stage_of(plan, ordered, self._times, self._assembler)
        self._timed = plan.timed and (ordered or not plan.kind.take.every or bool(plan.kind.aggregate))
        self._punctuate = punctuate
        self.wants_times = self._order is not None or self._stage is not None
        # Do results, or promises about them, follow from every step of the input, whatever it decides?
        self.eager = ordered or punctuate or (self._stage is not None and (plan.window.by_rows or plan.window.carries))
        self._ready: deque[Pairs | Item] = deque()
        self._snapshots: deque[Snapshot] = deque()
        self._section = Section()
        self._something = Call()

    def append(self, side: int, table: pa.Table, come: Come, moment: int) -> None:
        """Adds rows that may become part of results, in the order of their numbers."""
        self._section.change("taking rows", self._append, side, table, come, moment)

    def taken(self, push: SmallPush) -> None:
        """Adds the rows and results of a small batch in one change. It must have its times if it `wants_times`."""
        self._section.change("taking rows", self._taken, push)

    def _taken(self, push: SmallPush) -> None:
        side = push.side
        if push.nulls is None:
            self.sides[side].append(push.batch, push.newest)
        else:
            self.sides[side].kept(push.batch, push.newest, push.nulls)
        self._arrived(side, None if push.times is None else Come(push.times, push.times), push.moment)
        if push.r is not None and push.s is not None:
            self._take(push.r, push.s)

    def _append(self, side: int, table: pa.Table, come: Come, moment: int) -> None:
        self.sides[side].append(table, int(come.at.max()))
        self._arrived(side, come, moment)

    def _arrived(self, side: int, come: Come | None, moment: int) -> None:
        if come is not None:
            if self._timed and come.times is not None:
                self._times[side].append(come.times)
            if self._stage is not None:
                self._stage.arrived(side, come)
        self._latency.arrived(side, self.sides[side].rows.next, moment)

    def room_for(self, side: int, count: int) -> PlainRows | None:
        """The rows of a side, with room for `count` more, if compiled code can write rows there."""
        rows = self.sides[side].rows
        if not isinstance(rows, PlainRows):
            return None
        if rows.room < count:
            self._section.change("making room", rows.make_room, count)
        return rows

    def concerned(self, side: int, horizon: int, passed: Callable[[], tuple[int, int]] | None) -> bool:
        """Must it be told now that a side's tuples below an `at` meet nothing any more? SINCE_EVER: it is unknown.

        `passed`: what both sides' tuples need not wait for any longer, if all pairs of what has come are known.
        """
        if self.eager or (self._stage is not None and (passed is None or self._stage.due(passed()))):
            return True
        return horizon == SINCE_EVER or horizon > self.sides[side].rows.first_end

    def preserves(self, side: int) -> bool:
        """Do rows of a side come out even if they cannot match anything?"""
        return self._stage is not None and self._stage.preserves[side]

    def set_aside(self, side: int, table: pa.Table, come: Come) -> None:
        """Adds tuples aside of a preserved side, which come out at their time."""
        self._section.change("taking rows", self._set_aside, side, table, come)

    def _set_aside(self, side: int, table: pa.Table, come: Come) -> None:
        assert self._stage is not None
        self.sides[side].append(table, int(come.at.max()), member=False)
        self._stage.arrived(side, come, member=False)

    def note(self, snapshot: Snapshot) -> None:
        """Notes the progress of the input. The results that follow from it come later."""
        self._snapshots.append(snapshot)

    def pairs(self, r: Array, s: Array) -> None:
        """Takes results, as tuple numbers."""
        if len(r):
            self._section.change("taking results", self._take, r, s)

    def _take(self, r: Array, s: Array) -> None:
        found = Results(r, s) if self._stage is None else self._stage.pairs(r, s)
        if len(found.r):
            self._add(found.r.copy(), found.s.copy())  # they may lie in the engine's own memory

    def _add(self, r: Array, s: Array, times: Array | None = None) -> None:
        """Adds results, at the times of their pairs or at these."""
        if not len(r):
            return
        self.results += len(r)
        if self._order is None:
            self._leave(r, s)
            return
        self._order.add(r, s, times)
        self.buffered = max(self.buffered, len(self._order))

    def _leave(self, r: Array, s: Array) -> None:
        """Makes results ready to be handed out."""
        if not len(r):
            return
        more = None if self._stage is None else self._stage.columns(r)
        found = Pairs(r, s, time.perf_counter_ns(), more)
        if self._order is not None or (r[0] >= 0 and s[0] >= 0):  # rows without a partner leave apart from pairs
            self._unmeasured.append(found)
            self._unmeasured_count += len(r)
            if self._unmeasured_count > MOST_UNMEASURED:
                self._measure()
        self._hand_out(found)

    def _measure(self) -> None:
        """Counts the latencies of results that have left."""
        left, self._unmeasured, self._unmeasured_count = self._unmeasured, [], 0
        few = []
        for found in left:
            r, s = found.r, found.s
            if self._stage is not None and self._order is not None:  # a row without a partner has no latency
                paired = (r >= 0) & (s >= 0)
                if not paired.all():
                    r, s = r[paired], s[paired]
            if len(r) >= MANY:
                self._latency.record_many(r, s, found.moment)
            elif len(r):
                few.append((r, s, found.moment))
        if few:
            moments = np.repeat([moment for _, _, moment in few], [len(r) for r, _, _ in few])
            r, s = (np.concatenate([part[side] for part in few]) for side in (0, 1))
            self._latency.record(r, s, moments)

    def _batches(self, found: Pairs) -> list[pa.RecordBatch]:
        """The rows of results."""
        if found.batches is None:
            found.batches = self._assembler.batches(found.r, found.s, found.more)
        return found.batches

    def complete(self, below: tuple[int, int]) -> None:
        """All results of tuples below these numbers, with each other, have been taken."""
        reached = None
        while self._snapshots and all(a <= b for a, b in zip(self._snapshots[0].numbers, below, strict=True)):
            reached = self._snapshots.popleft()
        if reached is not None:
            self._section.change("moving on", self._move_on, reached)

    def _move_on(self, reached: Snapshot) -> None:
        mark = reached.mark
        if self._stage is not None:
            for results in self._stage.decide(reached):
                self._add(*results)
            mark = min(mark, self._stage.earliest())
        if mark > self.punctuation:
            self._release(mark)
        for side, number in enumerate(reached.numbers):
            horizon = reached.horizons[side] if self._stage is None else self._stage.horizon(side, reached)
            if horizon > SINCE_EVER:  # only tuples below `number`: results of later ones are still to come
                self._forget(side, horizon, number)

    def _forget(self, side: int, horizon: int, number: int) -> None:
        """Drops rows below the horizon and below a number, except those whose results wait for their order."""
        rows = self.sides[side].rows
        gone = rows.expired(horizon, number)
        if gone and self._order is not None:
            gone = rows.expired(horizon, self._order.oldest(side, number))
        if gone and self._stage is not None:
            gone = min(gone, rows.expired(horizon, self._stage.oldest(side, number)))
        if gone:
            self._assemble()
            rows.forget(gone)
            self._latency.forget(side, rows.oldest)
            if self._timed:
                self._times[side].forget(rows.oldest)
        if self._stage is not None:
            self._forget_aside(side, horizon)
            self._stage.forget(side, rows.oldest)

    def _forget_aside(self, side: int, horizon: int) -> None:
        """The same for tuples aside."""
        rows = self.sides[side].aside
        gone = rows.expired(horizon, rows.next)
        if gone and self._order is not None:
            gone = rows.expired(horizon, self._order.oldest_aside(side, rows.next))
        if gone:
            self._assemble()
            rows.forget(gone)

    def _assemble(self) -> None:
        """Assembles the ready results before rows are dropped."""
        self._measure()
        for found in self._ready:
            if isinstance(found, Pairs):
                self._batches(found)

    def _release(self, mark: int) -> None:
        """Advances the punctuation, and releases the results up to it."""
        self.punctuation = mark
        if self._order is not None:
            self._leave(*self._in_order(*self._order.release(mark)))
        if self._punctuate:
            self._hand_out(Punctuation(mark))

    def _in_order(self, r: Array, s: Array) -> tuple[Array, Array]:
        if self._stage is None:
            return r, s
        left = self._stage.in_order(r, s)
        self.results -= len(r) - len(left[0])
        return left

    def _hand_out(self, item: Pairs | Item) -> None:
        self._ready.append(item)
        self._something.ring()

    def wait(self, timeout: float, over: Callable[[], bool]) -> int:
        """How many items are ready; waits up to `timeout` seconds for the first, unless nothing can follow."""
        deadline = time.monotonic() + timeout
        while not self._ready and not over() and (left := deadline - time.monotonic()) > 0:
            self._something.wait(min(left, 0.05))
        return len(self._ready)

    def hand_over(self) -> tuple[Item | None, int]:
        """The next ready item, or None if another thread was faster; and how many items were added by splitting it."""
        found: tuple[Item | None, int] = self._section.run(self._next)
        return found

    def _next(self) -> tuple[Item | None, int]:
        if not self._ready:
            return None, 0
        item = self._ready.popleft()
        if not isinstance(item, Pairs):
            return item, 0
        first, *others = self._batches(item)  # several if one could not hold all of their text
        self._ready.extendleft(reversed(others))
        return first, len(others)

    def latencies(self) -> dict[str, Any]:
        """Quantiles of the latency so far, in milliseconds."""
        found: dict[str, Any] = self._section.run(self._latencies)
        return found

    def _latencies(self) -> dict[str, Any]:
        self._measure()
        return self._latency.summary()

    def undecided(self) -> dict[str, int]:
        """How many rows came out without a partner, and how many tuples wait for one. Empty if only pairs come out."""
        found: dict[str, int] = self._section.run(self._undecided)
        return found

    def _undecided(self) -> dict[str, int]:
        stage = self._stage
        return {} if stage is None else {"unmatched": stage.unmatched, "held_back": stage.held}

    @property
    def waiting(self) -> int:
        """Results that wait for their order."""
        return len(self._order) if self._order is not None else 0

    def clear(self) -> None:
        """Forgets the rows; what is ready stays."""
        self._section.run(self._clear)

    def _clear(self) -> None:
        self._assemble()
        for side in self.sides:
            side.clear()

    def let_go(self) -> None:
        """Releases the lock if an interruption left the current thread holding it."""
        self._section.let_go()


def _stage_of(plan: Plan, ordered: bool, times: tuple[Times, Times], assembler: Assembler) -> Stage | None:
    """The stage that decides about results; None if the results are exactly the pairs."""
    kind = plan.kind
    if kind.aggregate:
        from streamjoin.results.per_row import PerRow

        return PerRow(plan, ordered, times, assembler)
    if not kind.take.every:
        from streamjoin.results.chosen import Best

        return Best(plan, ordered, times, assembler.values)
    if any(kind.how.keeps):
        return Stage(plan, ordered)
    return None if kind.how.pairs else Semi(plan, ordered)
