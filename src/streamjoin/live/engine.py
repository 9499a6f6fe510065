"""The two ways in which arrivals become pairs: at once in the pushing thread, or by workers of their own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa

from streamjoin.access.tuples import Tuples
from streamjoin.algorithms.kang import Kang
from streamjoin.codegen.records import Array
from streamjoin.errors import OptionError
from streamjoin.intake.prepare import Intake
from streamjoin.plan.plan import SIDES, Plan
from streamjoin.threads.collector import Pairs, Settled
from streamjoin.threads.driver import Driver, Setup, open_driver
from streamjoin.windows import FOREVER
from streamjoin.windows.watermark import Watermark


class Engine(ABC):
    """Takes prepared arrivals in order; hands out pairs of tuple numbers, and up to where they are complete."""

    @abstractmethod
    def start(self) -> None:
        """Starts the threads, if there are any. Until then there is nothing that would have to be stopped."""

    @abstractmethod
    def admit(self, side: str, count: int) -> int:
        """How many of so many arrivals can be taken without waiting."""

    @abstractmethod
    def arrive(self, side: str, batch: Tuples) -> None:
        """Takes arrivals."""

    def take(self, side: str, batch: pa.Table, watermark: Watermark) -> Array | None:
        """Looks at a small batch as it is, if that can be done and none of it is late; with `send` it has arrived.

        Returns its times.
        """
        return None

    def send(self, side: str, at: Array) -> None:
        """What was taken last begins to meet the other side."""
        raise AssertionError("nothing was taken")

    @abstractmethod
    def expire(self, side: str, horizon: int, opposite: int) -> None:
        """Tuples of a side below a place meet no arrival any more; so many tuples of the other side have come."""

    @abstractmethod
    def settle(self) -> None:
        """Everything that arrived so far has been noted: tells, now or later, when it is complete."""

    @abstractmethod
    def finish(self) -> None:
        """Completes everything and stops; if something has failed, it only stops."""

    @abstractmethod
    def fail(self, error: BaseException) -> None:
        """Nothing can be completed any more; stops without waiting for it."""

    def filling(self) -> AbstractContextManager[None]:
        """Inside, arrivals are not compared."""
        raise OptionError("only the windows of a parallel algorithm can be filled without comparing")

    @property
    def failure(self) -> BaseException | None:
        """What stopped the workers."""
        return None

    @abstractmethod
    def stats(self) -> dict[str, Any]:
        """By side: window and store_bytes, raw_bytes; comparisons, workers."""


class Sequential(Engine):
    """Kang's join in the thread that pushes: results are complete when a push returns."""

    def __init__(self, intake: Intake, pairs: Pairs, settled: Settled) -> None:
        self._algorithm = Kang({side: intake.store(side) for side in SIDES})
        self._pairs, self._settled = pairs, settled
        self._next = dict.fromkeys(SIDES, 0)

    def start(self) -> None:
        """There is the pushing thread alone."""

    def admit(self, side: str, count: int) -> int:
        return count

    def arrive(self, side: str, batch: Tuples) -> None:
        self._next[side] += len(batch)
        for r, s in self._algorithm.arrive(side, batch):
            self._pairs(r, s)

    def expire(self, side: str, horizon: int, opposite: int) -> None:
        self._algorithm.expire(side, horizon)

    def settle(self) -> None:
        self._settled((self._next["r"], self._next["s"]))

    def finish(self) -> None:
        for side in SIDES:
            self._algorithm.expire(side, FOREVER)

    def fail(self, error: BaseException) -> None:
        """There is nobody to be told."""

    def stats(self) -> dict[str, Any]:
        stores = self._algorithm.stores
        sides = {
            side: {"window": len(store), "store_bytes": store.nbytes, "raw_bytes": store.raw_bytes}
            for side, store in stores.items()
        }
        return {**sides, "comparisons": sum(store.comparisons for store in stores.values()), "workers": []}


class Parallel(Engine):
    """Worker threads under one of the parallel protocols, or a device."""

    def __init__(self, plan: Plan, intake: Intake, setup: Setup, pairs: Pairs, settled: Settled) -> None:
        self._driver = open_driver(plan, intake, setup, pairs, settled)
        self._raw = [intake.shape(side).raw_bytes for side in SIDES]

    def start(self) -> None:
        self._driver.start()

    def admit(self, side: str, count: int) -> int:
        return self._driver.admit(SIDES.index(side), count)

    def arrive(self, side: str, batch: Tuples) -> None:
        self._driver.arrive(SIDES.index(side), batch)

    def take(self, side: str, batch: pa.Table, watermark: Watermark) -> Array | None:
        return self._driver.take(
            SIDES.index(side), batch, watermark.newest, watermark.max_delay, watermark.promised
        )

    def send(self, side: str, at: Array) -> None:
        self._driver.send(SIDES.index(side), at)

    def expire(self, side: str, horizon: int, opposite: int) -> None:
        self._driver.expire(SIDES.index(side), horizon, opposite)

    def settle(self) -> None:
        self._driver.settle()

    def finish(self) -> None:
        self._driver.finish()

    def fail(self, error: BaseException) -> None:
        self._driver.fail(error)

    def filling(self) -> AbstractContextManager[None]:
        return self._driver.filling()

    @property
    def failure(self) -> BaseException | None:
        return self._driver.failure

    def stats(self) -> dict[str, Any]:
        driver, workers = self._driver, self._driver.stats()
        sides = {
            side: {
                "window": driver.window[k],
                "store_bytes": driver.nbytes(k),
                "raw_bytes": driver.window[k] * self._raw[k],
            }
            for k, side in enumerate(SIDES)
        }
        found = {**sides, "comparisons": sum(worker["comparisons"] for worker in workers), "workers": workers}
        return found if isinstance(driver, Driver) else found | {"device": driver.device_stats()}
