"""Kang's join in the thread that pushes: results are complete when a push returns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from streamjoin.access.tuples import Tuples
from streamjoin.algorithms.kang import Kang
from streamjoin.engine import Engine, PerSide, Setup, Sink
from streamjoin.intake.prepare import Intake
from streamjoin.plan.plan import SIDES, Plan
from streamjoin.windows import FOREVER, SINCE_EVER


class Inline(Engine):
    """One worker, which is whoever pushes."""

    at_once = True

    def __init__(self, plan: Plan, intake: Intake, setup: Setup, sink: Sink) -> None:
        super().__init__(plan, intake, setup, sink)
        self._algorithm = Kang({name: intake.store(side) for side, name in enumerate(SIDES)})
        self._stores = [self._algorithm.stores[side] for side in SIDES]
        self._next = [0, 0]
        self._silent = False

    def start(self) -> None:
        """There is the pushing thread alone."""

    def arrive(self, side: int, batch: Tuples) -> None:
        self._next[side] += len(batch)
        if self._silent:
            self._stores[side].insert(batch)
            return
        for r, s in self._algorithm.arrive(SIDES[side], batch):
            self._sink.pairs(r, s)

    @contextmanager
    def filling(self) -> Iterator[None]:
        self._silent = True
        try:
            yield
        finally:
            self._silent = False

    def expire(self, horizons: PerSide, arrived: PerSide) -> None:
        for name, horizon in zip(SIDES, horizons, strict=True):
            if horizon > SINCE_EVER:
                self._algorithm.expire(name, horizon)
        self._sink.complete((self._next[0], self._next[1]))

    def finish(self) -> None:
        if self.failure is None:
            self.expire((FOREVER, FOREVER), (self._next[0], self._next[1]))

    @property
    def window(self) -> PerSide:
        return len(self._stores[0]), len(self._stores[1])

    def nbytes(self, side: int) -> int:
        return self._stores[side].nbytes

    def comparisons(self) -> int:
        return sum(store.comparisons for store in self._stores)
