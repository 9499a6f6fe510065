"""Kang's join in the thread that pushes: results are complete when a push returns."""

from __future__ import annotations

from streamjoin.access.choosing import in_use
from streamjoin.access.records import Probing
from streamjoin.access.segment import Search, Segment
from streamjoin.access.tuples import Tuples
from streamjoin.algorithms import kang
from streamjoin.codegen.jit import OnDemand
from streamjoin.codegen.records import Array, address, words
from streamjoin.engine import Engine, PerSide, Setup, Sink, Taken
from streamjoin.intake.direct import MOST, Direct
from streamjoin.intake.prepare import Intake
from streamjoin.live.push import DECLINED, FAULT, MORE, ROOM, Push, push
from streamjoin.plan.plan import Plan
from streamjoin.results.small_push import SmallPush
from streamjoin.windows import FOREVER, SINCE_EVER

FOUND = Probing.word("found")
HORIZON = Push.word("horizon")
Pairs = tuple[Array | None, Array | None]


class Way:
    """The compiled call for small batches of one side, and its records."""

    def __init__(self, side: int, direct: Direct, segments: tuple[Segment, Segment], search: Search) -> None:
        self.direct = direct
        self._side, self._segments, self._search = side, segments, search
        search.order(MOST)
        records = Push.array(1)
        way = records[0]
        way.plain, way.own, way.opposite = direct.address, segments[side].address, segments[1 - side].address
        way.search, way.horizon = search.address, SINCE_EVER
        if (take_in := segments[side].take_in) is not None:
            way.take_in = take_in.address
        self._call, self._address, self._words = push.compiled, address(way), words(records)
        self._found = words(search.records)

    def push(self) -> int:
        """Joins the batch that was described last, or continues with it."""
        outcome: int = self._call(self._address)
        return outcome

    @property
    def pairs(self) -> Pairs:
        """The pairs that were found, as numbers of r and of s, valid until the next call; None if there are none."""
        count = self._found[FOUND]
        if not count:
            return None, None
        probe, stored = self._search.pairs[:, :count]
        return (stored, probe) if self._side else (probe, stored)

    @property
    def horizon(self) -> int:
        """Tuples of the other side below this `at` are met no more."""
        return self._words[HORIZON]

    def go_on(self) -> int:
        """Continues after the pairs have been taken."""
        self._search.taken()  # makes more room for pairs
        return self.push()

    def fault(self) -> Exception:
        """The error of a pair that could not be tested."""
        error = self._search.fault(self.direct.columns, self._segments[1 - self._side].columns)
        assert error is not None
        return error


class Inline(Engine):
    """One worker: the pushing thread."""

    at_once = True

    def __init__(self, plan: Plan, intake: Intake, setup: Setup, sink: Sink) -> None:
        super().__init__(plan, intake, setup, sink)
        self._segments = intake.segment(0), intake.segment(1)
        self._searches = intake.search(0), intake.search(1)
        self._next = [0, 0]
        self._ways = self._way(0), self._way(1)

    @classmethod
    def kernels(cls, plan: Plan, intake: Intake) -> list[OnDemand]:
        return [push, *intake.kernels()]

    def _way(self, side: int) -> Way | None:
        """The compiled call for small batches of a side. None for a Python function, whose exceptions need Python."""
        if self._intake.program.calls_python or not Direct.serves(self._plan, side):
            return None
        direct = Direct(self._plan, self._intake, side)
        return Way(side, direct, self._segments, self._searches[side])

    def start(self) -> None:
        """Nothing to start: there is only the pushing thread."""

    def arrive(self, side: int, batch: Tuples) -> None:
        self._next[side] += len(batch)
        if self._prefill:
            self._segments[side].insert(batch)
            return
        for r, s in kang.arrive(side, batch, self._segments, self._searches):
            self._sink.pairs(r, s)

    def push(self, asked: SmallPush, taken: Taken) -> int | None:
        side, count = asked.side, asked.batch.num_rows
        way = self._ways[side]
        if way is None or self._prefill:
            return None
        if not way.direct.describe(asked.batch, asked.watermark, self._next[side], asked.rows):
            return None
        outcome = way.push()
        if outcome == DECLINED:
            return None
        while outcome == ROOM:
            self._segments[side].make_room(count)
            outcome = way.push()
        self._next[side] += count
        asked.newest, asked.nulls = way.direct.newest, way.direct.nulls
        asked.r, asked.s = way.pairs
        if asked.timed:
            asked.times = way.direct.times
        taken(asked)
        while outcome == MORE:
            outcome = way.go_on()
            r, s = way.pairs
            if r is not None and s is not None:
                self._sink.pairs(r, s)
        if outcome == FAULT:
            raise way.fault()
        return way.horizon

    def expire(self, horizons: PerSide, arrived: PerSide) -> None:
        for side, horizon in enumerate(horizons):
            if horizon > SINCE_EVER:
                self._segments[side].expire(horizon)
        self._sink.complete((self._next[0], self._next[1]))

    def finish(self) -> None:
        if self.failure is None:
            self.expire((FOREVER, FOREVER), (self._next[0], self._next[1]))

    @property
    def window(self) -> PerSide:
        return len(self._segments[0]), len(self._segments[1])

    @property
    def access(self) -> str:
        return in_use(self._plan.access, self._segments)

    def nbytes(self, side: int) -> int:
        return self._segments[side].nbytes

    def comparisons(self) -> int:
        return sum(search.comparisons for search in self._searches)
