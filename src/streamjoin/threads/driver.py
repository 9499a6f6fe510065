"""The driver: only it knows the window. It writes arrivals onto the tapes, sends them to the entries of the topology,
and sends expiries to the opposite ends.

The pushing threads call it, one at a time. `algorithms/protocol.py` defines the messages, `feed.py` their receivers.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any

import numpy as np

from streamjoin.access import ACCESSES
from streamjoin.access.choosing import in_use
from streamjoin.access.scan import scan_of
from streamjoin.access.tape import Tape
from streamjoin.access.tuples import Tuples
from streamjoin.algorithms import ALGORITHMS
from streamjoin.algorithms.protocol import act
from streamjoin.codegen.jit import OnDemand
from streamjoin.codegen.records import Array
from streamjoin.engine import Engine, PerSide, Setup, Sink, Taken
from streamjoin.intake.arrive import write_down
from streamjoin.intake.direct import Direct
from streamjoin.intake.prepare import Intake
from streamjoin.plan.plan import Plan
from streamjoin.results.small_push import SmallPush
from streamjoin.threads.feed import FEEDS
from streamjoin.threads.runtime import Local, Runtime
from streamjoin.threads.worker import work
from streamjoin.windows import FOREVER, SINCE_EVER

FIRST_ROOM = 1 << 14  # tuples on a tape in the beginning
ANNOUNCED = 64  # expired tuples that make an expiry message pay
UNDER_WAY = 1 << 17  # tuples on a tape that holds only those under way


class Side:
    """The driver's state of one stream."""

    def __init__(self) -> None:
        self.pieces: deque[tuple[int, int]] = deque()  # tuples that have not expired, in parts: end, largest `at`
        self.open: deque[tuple[int, int]] = deque()  # windows of rows: tuples that later ones can still meet
        self.expired = 0  # tuples below have expired
        self.announced = 0  # tuples below have been announced as expired
        self.horizon = SINCE_EVER  # and their `at` lies below
        self.released = 0  # no worker reads tuples below


class Driver(Engine):
    """One parallel join, from prepared arrivals to pairs of tuple numbers."""

    def __init__(self, plan: Plan, intake: Intake, setup: Setup, sink: Sink) -> None:
        super().__init__(plan, intake, setup, sink)
        self._algorithm = ALGORITHMS[setup.algorithm]
        self._topology = self._algorithm.topology(*setup.layout)
        self._sides = Side(), Side()
        access = ACCESSES[plan.access]
        room = max(UNDER_WAY if access.keeps_tuples else FIRST_ROOM, 4 * setup.queue * setup.batch)
        shapes = [intake.shape(side) for side in (0, 1)]
        r, s = (
            Tape(shape, setup.batch, ways, setup.batch, room, access.sorts_batches)
            for shape, ways in zip(shapes, self._topology.ways, strict=True)
        )
        self.tapes = (r, s)
        for tape in self.tapes:
            tape.record.find = scan_of(tape.shape.dims).address
        self.runtime = Runtime(
            self._algorithm,
            self._topology,
            self.tapes,
            self._local,
            queue=setup.queue,
            pinned=setup.pin,
            sink=sink,
            progress=self.progress,
        )
        self._feed = FEEDS[self._algorithm.feed](self._topology, self.runtime, setup.batch)
        self._write_down = write_down.compiled
        self._direct = [
            Direct(plan, intake, side, tape.address) if not tape.blocks and Direct.serves(plan, side) else None
            for side, tape in enumerate(self.tapes)
        ]

    @classmethod
    def kernels(cls, plan: Plan, intake: Intake) -> list[OnDemand]:
        protocol = act(ALGORITHMS[plan.algorithm].file)
        return [scan_of(intake.shape(0).dims), protocol, write_down, work, *intake.kernels()]

    def _local(self, ways: tuple[int, int]) -> Local:
        """The segments and searches of a worker that has these ways of the tapes."""
        r, s = (self._intake.segment(side, self.tapes[side], ways[side]) for side in (0, 1))
        searches = self._intake.search(0), self._intake.search(1)
        for search in searches:
            search.order(self.setup.batch)
        return Local((r, s), searches)

    def start(self) -> None:
        """Starts the threads. Before that there is nothing to stop."""
        self.runtime.start()

    def arrive(self, side: int, batch: Tuples) -> None:
        """Takes arrivals; waits while there is no room."""
        if self._plan.window.by_arrival:  # later tuples of the other side are met until this one expires
            batch = replace(batch, until=np.full(len(batch), FOREVER))
        begin = 0
        while begin < len(batch):
            count = min(self._make_room(side, len(batch) - begin), len(batch) - begin)
            first = self.tapes[side].head
            self.tapes[side].write(batch, begin, begin + count)
            self._remember(side, first, batch.at[begin : begin + count])
            self._feed.arrive(side, first, first + count, self._live(1 - side))
            begin += count
        self.check()

    def push(self, asked: SmallPush, taken: Taken) -> int | None:
        """Writes a small batch onto the tape by one compiled call, if that serves it."""
        side, n = asked.side, asked.batch.num_rows
        direct, tape = self._direct[side], self.tapes[side]
        if direct is None or self._make_room(side, n) < n:
            return None
        if not direct.describe(asked.batch, asked.watermark, tape.head, asked.rows):
            return None
        if not self._write_down(direct.address):
            return None
        newest = asked.newest = direct.newest
        asked.nulls = direct.nulls
        if asked.timed:
            asked.times = direct.times
        taken(asked)
        first, tape.head = tape.head, tape.head + n
        asked.watermark.advance_to(newest)
        if first // tape.batch == (tape.head - 1) // tape.batch:
            self._sides[side].pieces.append((tape.head, newest))
        else:
            self._remember(side, first, direct.times)
        self._feed.arrive(side, first, tape.head, self._live(1 - side))
        self.check()
        return SINCE_EVER

    def _set_prefill(self, on: bool) -> None:
        self.runtime.quiet(patient=True)
        self.runtime.prefill(on)

    def admit(self, side: int, count: int) -> int:
        """How many of `count` arrivals can be taken without waiting."""
        tape = self.tapes[side]
        slots = self._feed.room(side) - 1  # one for an expiry
        whole = (tape.head // tape.batch + max(slots, 0)) * tape.batch - tape.head
        on_tape = tape.most - (tape.head - self._release(side))
        if on_tape < count and self.runtime.quiet(patient=False):
            on_tape = count  # no message is under way: the window itself needs more room
        return max(0, min(count, whole, on_tape))

    def _make_room(self, side: int, wanted: int) -> int:
        """Waits until tuples fit onto the tape. If they do not fit when all workers are idle, the tape grows."""
        tape = self.tapes[side]
        wanted = min(wanted, max(tape.batch, tape.most // 8))
        known = tape.most - (tape.head - self._sides[side].released)
        if known >= wanted:
            return known
        while True:
            self.check()
            free = tape.most - (tape.head - self._release(side))
            if free >= wanted:
                return free
            if self.runtime.quiet(patient=False):
                free = tape.most - (tape.head - self._release(side))
                if free >= wanted:
                    return free
                self.runtime.grow(side, self._sides[side].released)
            else:
                self.runtime.snooze()

    def _release(self, side: int) -> int:
        """The tuples of a side below this number may be overwritten on the tape."""
        mine = self._sides[side]
        mine.released = max(mine.released, self._feed.needed_from(side, self._live(side)))
        return mine.released

    def _live(self, side: int) -> tuple[int, int]:
        """The tuples of a side that have not expired, as (first, stop)."""
        return self._sides[side].expired, self.tapes[side].head

    def _remember(self, side: int, first: int, at: Array) -> None:
        """Notes the `at` of arrivals, to find out later when they expire."""
        batch = self.setup.batch
        mine = self._sides[side]
        starts = [0, *range(-first % batch or batch, len(at), batch)]
        largest = [int(at.max())] if len(starts) == 1 else np.maximum.reduceat(at, starts).tolist()
        mine.pieces.extend(zip([*[first + start for start in starts[1:]], first + len(at)], largest, strict=True))
        if self._plan.window.by_arrival:
            mine.open.append((first, first + len(at)))

    def expire(self, horizons: PerSide, arrived: PerSide) -> None:
        """Sends expiries to the workers. The collector reports completeness."""
        for side, horizon in enumerate(horizons):
            if horizon > SINCE_EVER:
                self._expire(side, horizon, arrived[1 - side])
        self.check()

    def _expire(self, side: int, horizon: int, opposite: int) -> None:
        """Tuples of a side below the horizon meet no further arrival; `opposite` tuples have arrived on the other."""
        mine = self._sides[side]
        while mine.pieces and mine.pieces[0][1] < horizon:
            mine.expired = mine.pieces.popleft()[0]
        mine.horizon = max(mine.horizon, horizon)
        self._close_windows(side, horizon, opposite)
        if mine.expired - mine.announced >= ANNOUNCED:
            self._announce(side)

    def _announce(self, side: int) -> None:
        """Sends the expiry of a stream's tuples to the workers."""
        mine = self._sides[side]
        self._feed.expire(side, mine.expired, mine.horizon)
        mine.announced = mine.expired

    def _close_windows(self, side: int, horizon: int, opposite: int) -> None:
        """Windows of rows: tuples of the other side that arrive from now on do not meet tuples below the horizon.

        This is written before a later tuple is sent. So a worker that compares such a tuple with it reads this first.
        """
        mine, tape = self._sides[side], self.tapes[side]
        while mine.open:
            first, stop = mine.open[0]
            first = max(first, tape.head - tape.room)  # tuples before have left the tape
            there, at, until = tape.positions(first, stop), tape.arrays["at"], tape.arrays["until"]
            closed = at[there] < horizon
            there = there[closed]
            until[there] = np.minimum(until[there], opposite - 1)
            if not closed.all():
                return
            mine.open.popleft()

    def progress(self) -> PerSide:
        """By side: tuples below have been compared with everything before them. To be read before the results."""
        return self._feed.progress()

    @property
    def failure(self) -> BaseException | None:
        """The error that stopped the workers."""
        return self.runtime.failure

    def fail(self, error: BaseException) -> None:
        """The join cannot be completed, and the threads end. The first error counts."""
        self.runtime.fail(error)

    def wait(self) -> None:
        """Waits until the collector has handed over all pairs, or the join has failed."""
        heads = (self.tapes[0].head, self.tapes[1].head)
        while self.runtime.completed != heads and self.failure is None:
            self.runtime.snooze()

    def finish(self) -> None:
        """Waits until all pairs have been handed over, then stops. Returns also if the join has failed."""
        if self.runtime.failure is None:
            for side in (0, 1):
                self._sides[side].expired, self._sides[side].horizon = self.tapes[side].head, FOREVER
                self._announce(side)
            # Where neighbours read each other's load, all may be idle for a moment before the last tuple is forwarded.
            while self.progress() != (self.tapes[0].head, self.tapes[1].head) and self.runtime.failure is None:
                self.runtime.snooze()
            self.runtime.quiet(patient=True)
        self.runtime.finish()

    def comparisons(self) -> int:
        return int(self.runtime.status()["comparisons"].sum())

    def workers(self) -> list[dict[str, Any]]:
        """Per worker: the tuples it holds, and its work so far."""
        found = []
        for node, status in enumerate(self.runtime.status()):
            queues = [self.runtime.queue(node, direction) for direction in (0, 1)]
            found.append(
                {
                    "worker": node,
                    "turn": self._topology.way[node] if self._algorithm.rectangular else node,
                    "window_r": int(status.held[0]),
                    "window_s": int(status.held[1]),
                    "comparisons": int(status.comparisons),
                    "results": int(status.results),
                    "queue_depth": sum(self.runtime.length(queue) for queue in queues),
                    "messages": int(status.messages),
                    "messages_sent": int(status.sent),
                    "tuples_forwarded": int(status.forwarded),
                }
            )
        return found

    @property
    def window(self) -> PerSide:
        """Live tuples of r and of s."""
        r, s = (stop - first for first, stop in (self._live(0), self._live(1)))
        return r, s

    @property
    def access(self) -> str:
        return in_use(self._plan.access, (segment for local in self.runtime.locals for segment in local.segments))

    def nbytes(self, side: int) -> int:
        return self.tapes[side].nbytes + sum(local.segments[side].nbytes for local in self.runtime.locals)
