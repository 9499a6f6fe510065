"""Kang's join in the thread that pushes: results are complete when a push returns."""

from __future__ import annotations

from streamjoin.access.tuples import Tuples
from streamjoin.algorithms.kang import Kang
from streamjoin.engine import Engine, PerSide, Setup, Sink
from streamjoin.intake.prepare import Intake
from streamjoin.plan.plan import Plan
from streamjoin.windows import FOREVER, SINCE_EVER


class Inline(Engine):
    """One worker, which is whoever pushes."""

    at_once = True

    def __init__(self, plan: Plan, intake: Intake, setup: Setup, sink: Sink) -> None:
        super().__init__(plan, intake, setup, sink)
        self._segments = intake.segment(0), intake.segment(1)
        self._algorithm = Kang(self._segments, (intake.search(0), intake.search(1)))
        self._next = [0, 0]

    def start(self) -> None:
        """There is the pushing thread alone."""

    def arrive(self, side: int, batch: Tuples) -> None:
        self._next[side] += len(batch)
        if self._prefill:
            self._segments[side].insert(batch)
            return
        for r, s in self._algorithm.arrive(side, batch):
            self._sink.pairs(r, s)

    def expire(self, horizons: PerSide, arrived: PerSide) -> None:
        for side, horizon in enumerate(horizons):
            if horizon > SINCE_EVER:
                self._algorithm.expire(side, horizon)
        self._sink.complete((self._next[0], self._next[1]))

    def finish(self) -> None:
        if self.failure is None:
            self.expire((FOREVER, FOREVER), (self._next[0], self._next[1]))

    @property
    def window(self) -> PerSide:
        return len(self._segments[0]), len(self._segments[1])

    def nbytes(self, side: int) -> int:
        return self._segments[side].nbytes

    def comparisons(self) -> int:
        return self._algorithm.comparisons
