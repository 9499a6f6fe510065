"""What takes arrivals and hands out pairs: the interface of all engines, and how one is opened by an algorithm's name.

Engines do not know each other. They count sides: 0 is r, 1 is s.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pyarrow as pa

from streamjoin.access.tuples import Tuples
from streamjoin.algorithms import ALGORITHMS, DEVICE, INLINE, THREADS
from streamjoin.codegen.records import Array
from streamjoin.errors import OptionError
from streamjoin.intake.prepare import Intake
from streamjoin.plan.plan import SIDES, Plan
from streamjoin.windows.watermark import Watermark

Pairs = Callable[[Array, Array], None]  # numbers of tuples of r and of s
Settled = Callable[[tuple[int, int]], None]  # all pairs among tuples below these numbers have been handed out

ENGINES = {INLINE: "live.inline:Inline", THREADS: "threads.driver:Driver", DEVICE: "device.opencl_join:Hells"}


@dataclass(frozen=True)
class Setup:
    """How a join is spread over workers."""

    algorithm: str
    workers: int
    layout: tuple[int, int]  # of a grid
    batch: int = 64
    pin: bool = False

    @property
    def queue(self) -> int:
        """Messages that fit into a queue: enough to keep a neighbour busy, few enough that little is under way."""
        return max(2, min(64, 4096 // self.batch))


class Engine(ABC):
    """Takes prepared arrivals in order; hands out pairs of tuple numbers, and up to where they are complete."""

    at_once = False  # are all results of a push out when it returns?

    def __init__(self, plan: Plan, intake: Intake, setup: Setup, pairs: Pairs, settled: Settled) -> None:
        self.setup = setup
        self._plan, self._intake = plan, intake
        self._pairs, self._settled = pairs, settled

    @abstractmethod
    def start(self) -> None:
        """Starts the threads, if there are any. Until then there is nothing that would have to be stopped."""

    def admit(self, side: int, count: int) -> int:
        """How many of so many arrivals can be taken without waiting."""
        return count

    @abstractmethod
    def arrive(self, side: int, batch: Tuples) -> None:
        """Takes arrivals; waits while they cannot be taken."""

    def take(self, side: int, batch: pa.Table, watermark: Watermark) -> Array | None:
        """Looks at a small batch as it is, if that can be done and none of it is late; with `send` it has arrived.

        Returns its times.
        """
        return None

    def send(self, side: int, at: Array) -> None:
        """What was taken last begins to meet the other side."""
        raise AssertionError("nothing was taken")

    @abstractmethod
    def expire(self, side: int, horizon: int, opposite: int) -> None:
        """Tuples of a side below a place meet no arrival any more; so many tuples of the other side have come."""

    @abstractmethod
    def settle(self) -> None:
        """Everything that arrived so far has been noted: tells, now or later, when it is complete."""

    @abstractmethod
    def finish(self) -> None:
        """Completes everything and stops; if something has failed, it only stops."""

    @abstractmethod
    def fail(self, error: BaseException) -> None:
        """Nothing can be completed any more; stops without waiting for it. The first error counts."""

    def filling(self) -> AbstractContextManager[None]:
        """Inside, arrivals are not compared: for benchmarks that begin with full windows."""
        raise OptionError("only the windows of a parallel algorithm can be filled without comparing")

    @property
    def failure(self) -> BaseException | None:
        """What stopped the join."""
        return None

    def check(self) -> None:
        """Raises what stopped the join."""
        if self.failure is not None:
            raise self.failure

    @property
    @abstractmethod
    def window(self) -> tuple[int, int]:
        """Live tuples of r and of s."""

    @abstractmethod
    def nbytes(self, side: int) -> int:
        """Bytes that a side's window takes."""

    @abstractmethod
    def comparisons(self) -> int:
        """Pairs that were compared so far."""

    def workers(self) -> list[dict[str, Any]]:
        """What each worker holds and has done so far."""
        return []

    def stats(self) -> dict[str, Any]:
        """By side: window and store_bytes, raw_bytes; comparisons, workers."""
        sides = {
            name: {
                "window": self.window[k],
                "store_bytes": self.nbytes(k),
                "raw_bytes": self.window[k] * self._intake.shape(name).raw_bytes,
            }
            for k, name in enumerate(SIDES)
        }
        return {**sides, "comparisons": self.comparisons(), "workers": self.workers()}


def open_engine(plan: Plan, intake: Intake, setup: Setup, pairs: Pairs, settled: Settled) -> Engine:
    """The engine of a plan's algorithm; `start` is to follow."""
    file, _, name = ENGINES[ALGORITHMS[plan.algorithm].engine].partition(":")
    engine: Engine = getattr(import_module(f"streamjoin.{file}"), name)(plan, intake, setup, pairs, settled)
    return engine
