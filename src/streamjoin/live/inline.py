"""Kang's join in the thread that pushes: results are complete when a push returns."""

from __future__ import annotations

from streamjoin.access.tuples import Tuples
from streamjoin.algorithms.kang import Kang
from streamjoin.engine import Engine, Pairs, Settled, Setup
from streamjoin.intake.prepare import Intake
from streamjoin.plan.plan import SIDES, Plan
from streamjoin.windows import FOREVER


class Inline(Engine):
    """One worker, which is whoever pushes."""

    at_once = True

    def __init__(self, plan: Plan, intake: Intake, setup: Setup, pairs: Pairs, settled: Settled) -> None:
        super().__init__(plan, intake, setup, pairs, settled)
        self._algorithm = Kang({side: intake.store(side) for side in SIDES})
        self._stores = [self._algorithm.stores[side] for side in SIDES]
        self._next = [0, 0]

    def start(self) -> None:
        """There is the pushing thread alone."""

    def arrive(self, side: int, batch: Tuples) -> None:
        self._next[side] += len(batch)
        for r, s in self._algorithm.arrive(SIDES[side], batch):
            self._pairs(r, s)

    def expire(self, side: int, horizon: int, opposite: int) -> None:
        self._algorithm.expire(SIDES[side], horizon)

    def settle(self) -> None:
        self._settled((self._next[0], self._next[1]))

    def finish(self) -> None:
        for side in SIDES:
            self._algorithm.expire(side, FOREVER)

    def fail(self, error: BaseException) -> None:
        """There is nobody to be told."""

    @property
    def window(self) -> tuple[int, int]:
        return len(self._stores[0]), len(self._stores[1])

    def nbytes(self, side: int) -> int:
        return self._stores[side].nbytes

    def comparisons(self) -> int:
        return sum(store.comparisons for store in self._stores)
