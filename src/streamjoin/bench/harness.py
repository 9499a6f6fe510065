"""A join under measurement: windows filled beforehand, arrivals as fast as it takes them or at a given pace.

Results are pairs of tuple numbers; rows are not materialised. Those of a few r tuples are kept and compared with what a
look at every s tuple finds, before any figure is given out.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamjoin.access.tuples import Tuples
from streamjoin.algorithms import ALGORITHMS
from streamjoin.engine import PerSide, Setup, open_engine
from streamjoin.errors import StreamjoinError
from streamjoin.intake.prepare import Intake
from streamjoin.live.join import Join
from streamjoin.metrics import observed
from streamjoin.options import Options
from streamjoin.papers import BAND, MICROSECONDS, Array, Source, partners, schema
from streamjoin.plan.plan import Plan, make_plan
from streamjoin.predicate.tree import SIDES
from streamjoin.results.latency import Latency
from streamjoin.results.small_push import SmallPush
from streamjoin.windows import SINCE_EVER
from streamjoin.windows.duration import parse_duration
from streamjoin.windows.watermark import Watermark

CHECKED = 16  # r tuples, one after the other
FILL = 1 << 16  # tuples that fill a window at a time
SAMPLE = 1000  # of each side that are compared before
WARM_UP = 2.0  # seconds at the beginning that are not counted


def papers_plan(**options: Any) -> Plan:
    """A join of the papers' streams for an engine alone."""
    return make_plan(schema("r"), schema("s"), Options(time="ts", **options))


def papers_join(**options: Any) -> Join:
    """A live join of the papers' streams."""
    return Join(r=schema("r"), s=schema("s"), time="ts", **options)


def check(r: Array, s: Array, sources: list[Source], numbers: range, window: int, equality: bool = False) -> None:
    """Compares the partners that were found for some r tuples with those that a nested loop finds."""
    sample = [column[numbers.start : numbers.stop : numbers.step] for column in sources[0].sent()]
    expected = partners((sample[0], sample[1], sample[2]), sources[1].sent(), window, equality)
    for number, wanted in zip(numbers, expected, strict=True):
        got = np.sort(s[r == number])
        if not np.array_equal(got, wanted):
            raise StreamjoinError(f"wrong result: r tuple {number} has {len(wanted)} partners, {len(got)} were found")


def joined(pairs: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Parts of a result as one."""
    r, s = (np.concatenate([np.zeros(0, np.int64), *(pair[k] for pair in pairs)]) for k in (0, 1))
    return r, s


def drain(workers: Callable[[], list[dict[str, Any]]]) -> None:
    """Waits until the queues of all workers, as their figures tell, are empty."""
    while any(worker["queue_depth"] for worker in workers()):
        time.sleep(0.001)


@dataclass(frozen=True)
class Case:
    """One configuration of the papers' join."""

    algorithm: str
    workers: int
    access: str
    window: str
    rate: float  # tuples/s of stream time, per stream: it decides how large the windows are
    batch: int = 64
    layout: tuple[int, int] | None = None
    push: int = 1024  # tuples given to the join at a time


class BareJoin:
    """An engine that is fed with the papers' tuples and counts pairs; rows are not materialised."""

    def __init__(self, plan: Plan, setup: Setup | None = None) -> None:
        self.plan = plan
        self.results = 0
        self._pushed = [0, 0]
        self._intake = Intake(plan, plan.program())
        setup = setup or Setup(plan.algorithm, plan.workers, plan.layout)
        self.engine = open_engine(plan, self._intake, setup, self)
        self.closed = False
        self.engine.start()
        observed(self)

    @property
    def failure(self) -> BaseException | None:
        return self.engine.failure

    def stats(self) -> dict[str, Any]:
        """The engine's figures, and tuples and results so far."""
        return self.engine.counted(self._pushed, self.results)

    def pairs(self, r: Array, s: Array) -> None:
        self.results += len(r)

    def complete(self, below: PerSide) -> None:
        """Counting needs no order."""

    def prepared(self, side: int, table: Any, first: int = 0) -> Tuples:
        """Tuples as an engine takes them; all of the papers' count. Numbers begin with `first`."""
        return self._intake.prepare(side, table, self._intake.times(side, table), 0, first)[0]

    def arrive(self, side: int, batch: Tuples) -> None:
        """Tuples of a stream arrive."""
        self._pushed[side] += len(batch)
        self.engine.arrive(side, batch)

    def passed(self, side: int, time: int) -> None:
        """A stream has reached a time: expired tuples of the other one are dropped."""
        horizon = self.plan.window.horizon(side, time, 0)
        self.engine.expire((SINCE_EVER, horizon) if side == 0 else (horizon, SINCE_EVER), (0, 0))

    def take(self, side: int, table: Any, first: int) -> None:
        """The next tuples of a stream, numbered from `first`; tuples that expire are dropped."""
        batch = self.prepared(side, table, first)
        self.arrive(side, batch)
        self.passed(side, int(batch.at[0]))

    def fill(self, sources: list[Source], tuples: int, most: int = FILL) -> None:
        """Fills both windows to this many tuples without comparing them.

        A few are compared before: an index cuts its cells to what has probed it.
        """
        for side in (0, 1, 0):
            self._next(sources, side, min(SAMPLE, tuples // 4))
        with self.engine.prefill():
            while any(source.count < tuples for source in sources):
                for side, source in enumerate(sources):
                    self._next(sources, side, min(most, tuples - source.count))

    def _next(self, sources: list[Source], side: int, count: int) -> None:
        first = sources[side].count
        self.arrive(side, self.prepared(side, sources[side].batch(count), first))

    def close(self) -> None:
        """Finds the remaining pairs, stops, and raises any error."""
        self.engine.finish()
        self.closed = True
        self.engine.check()


class FilledJoin:
    """A live join, with rows, whose windows hold this many tuples of each source."""

    def __init__(self, sources: list[Source], tuples: int, **options: Any) -> None:
        self.join, self._sources = papers_join(**options), sources
        self._push = self.join.push_r, self.join.push_s
        with self.join.prefill():
            while any(source.count < tuples for source in sources):
                for side, source in enumerate(sources):
                    self.push(side, source.batch(min(FILL, tuples - source.count)))

    def push(self, side: int, table: Any) -> list[Any]:
        """Returns the results that are ready behind it."""
        self._push[side](table)
        return list(self.join.poll())

    def push_next(self, size: int) -> None:
        """As many tuples of both streams; their results are dropped."""
        for side, source in enumerate(self._sources):
            self.push(side, source.batch(size))


class Harness(BareJoin):
    """A join whose windows are full as they would be at the case's rate."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.window = parse_duration(case.window) // 1000
        layout = (case.layout or "auto") if ALGORITHMS[case.algorithm].rectangular else "auto"
        spread = {"algorithm": case.algorithm, "workers": case.workers, "layout": layout}
        plan = papers_plan(on=BAND, within=case.window, access=case.access, **spread)
        self._sources = [Source(name, case.rate) for name in SIDES]
        self._logging = False
        self._log: list[tuple[int, Array, Array]] = []  # when results left, and which
        self._kept: list[tuple[Array, Array]] = []
        self._checked = (0, 0)
        self.checked_until = 0
        super().__init__(plan, Setup(case.algorithm, case.workers, plan.layout, case.batch))
        self.filled = int(self.window / MICROSECONDS * case.rate)
        self.fill(self._sources, self.filled)
        self.results = 0
        self._checked = (self.filled, self.filled + CHECKED)

    def pairs(self, r: Array, s: Array) -> None:
        super().pairs(r, s)
        if self._logging:
            self._log.append((time.perf_counter_ns(), r.copy(), s.copy()))
        first, stop = self._checked
        if self.checked_until < stop:
            mine = np.flatnonzero((r >= first) & (r < stop))
            if len(mine):
                self._kept.append((r[mine], s[mine]))

    def complete(self, below: PerSide) -> None:
        """The sample has met all that came before it. (Tuples that are pushed on also meet what comes later.)"""
        if below[0] >= self._checked[1] > 0 and not ALGORITHMS[self.case.algorithm].pushed:
            self.checked_until = self._checked[1]

    def push(self, side: int, count: int) -> None:
        """The next tuples of a stream."""
        self._push(side, self._sources[side].batch(count))

    def _push(self, side: int, table: Any) -> None:
        self._newest = 0
        (batch,) = table.to_batches()
        if self.engine.push(SmallPush(side, batch, Watermark(0)), self._taken) is not None:
            self._pushed[side] += batch.num_rows
        else:
            arrivals = self.prepared(side, table)
            self._newest = int(arrivals.at[-1])
            self.arrive(side, arrivals)
        self.passed(side, self._newest)

    def _taken(self, push: SmallPush) -> None:
        self._newest = push.newest
        if push.r is not None and push.s is not None:
            self.pairs(push.r, push.s)

    def comparisons(self) -> int:
        return self.engine.comparisons()

    def run(self, seconds: float) -> tuple[float, float]:
        """Pushes tuples as fast as the join takes them. Returns tuples/s per stream, and comparisons/s."""
        push = self.case.push
        for side in (0, 1):  # the queues fill up first
            self.push(side, push)
        compared, start, taken = self.comparisons(), time.perf_counter(), 0
        while (spent := time.perf_counter() - start) < seconds:
            for side in (0, 1):
                self.push(side, push)
            taken += push
        return taken / spent, (self.comparisons() - compared) / spent

    def rest(self) -> None:
        """Waits until the workers have nothing left to do."""
        drain(self.engine.workers)
        time.sleep(0.03)  # the last messages have left their queues, not yet their workers

    def pace(self, rate: float, batch: int, seconds: float) -> dict[str, Any]:
        """Batches of both streams at a real pace. Returns the latencies in milliseconds.

        A batch has arrived when it was due; if the join was ready for it then but the clock woke us later, that is
        when. Tuples that were in the windows beforehand count as having arrived when the streams would have brought
        them.
        """
        gap = batch / rate / 2 * 1e9  # r and s take turns
        warm = int(WARM_UP * 1e9 / gap)
        count = warm + int(seconds * 1e9 / gap)
        # Making tuples is the sources' time; theirs would be in the cache.
        made = [source.batch(batch * (count // 2 + 1)) for source in self._sources]
        gc.collect()
        gc.freeze()  # the garbage collector must not scan existing objects while we measure
        now = time.perf_counter_ns() + 10**7
        arrived = [now + int(k * gap) for k in range(count)]
        for k, due in enumerate(arrived):
            self._logging = k >= warm
            table = made[k % 2].slice(k // 2 * batch, batch)
            if (wait := due - time.perf_counter_ns()) > 0:
                time.sleep(wait / 1e9)
                arrived[k] = time.perf_counter_ns()
            self._push(k % 2, table)
        time.sleep(0.1)
        self._logging = False
        gc.unfreeze()
        latency = Latency()
        for side in (0, 1):
            for stop in range(1, self.filled + 1, max(1, self.filled // 20_000)):
                latency.arrived(side, stop, now - int((self.filled - stop) / rate * 1e9))
            for n, due in enumerate(arrived[side::2], 1):
                latency.arrived(side, self.filled + n * batch, due)
        for moment, r, s in self._log:
            latency.record(r, s, moment)
        return latency.summary()

    def close(self) -> None:
        """Lets everything meet, and checks the sample."""
        super().close()
        (r, s), (first, stop), sources = joined(self._kept), self._checked, self._sources
        if self.checked_until == stop:  # partners that came after the sample are missing by then
            r, s, sources = r[s < first], s[s < first], [sources[0], replace(sources[1], count=first)]
        check(r, s, sources, range(first, min(stop, sources[0].count)), self.window)
