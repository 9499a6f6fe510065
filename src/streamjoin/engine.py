"""What takes arrivals and hands out pairs: the interface of all engines, and how one is opened by an algorithm's name.

Engines do not know each other. They count sides: 0 is r, 1 is s.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from streamjoin.access.tuples import Tuples
from streamjoin.algorithms import ALGORITHMS, CIRCUIT, DEVICE, INLINE, THREADS
from streamjoin.codegen.jit import OnDemand, expect
from streamjoin.codegen.records import Array
from streamjoin.intake.prepare import Intake
from streamjoin.plan.plan import Plan
from streamjoin.predicate.tree import SIDES
from streamjoin.results.plain_kernels import gather, keep
from streamjoin.results.small_push import SmallPush

PerSide = tuple[int, int]  # a number of r, and one of s
Taken = Callable[[SmallPush], None]

ENGINES = {
    INLINE: "live.inline:Inline",
    THREADS: "threads.driver:Driver",
    DEVICE: "device.opencl_join:Hells",
    CIRCUIT: "circuit.model:LockStep",
}


@dataclass(frozen=True)
class Setup:
    """How a join is spread over workers."""

    algorithm: str
    workers: int
    layout: tuple[int, int]  # of a grid
    batch: int = 64
    pin: bool = False
    synchronous: bool = False  # on a device: a push returns when its bitmaps have been read (HELLS-Join, figure 4)
    trace: list[tuple[str, int, int]] | None = None  # on a device: gets every step, its begin and its end

    @property
    def queue(self) -> int:
        """Messages that fit into a queue: enough to keep a neighbour busy, few enough that little is under way."""
        return max(2, min(64, 4096 // self.batch))


class Sink(Protocol):
    """Where an engine's results go. It is called by one thread at a time, not always by the one that pushes."""

    def pairs(self, r: Array, s: Array) -> None:
        """Takes pairs, as tuple numbers. The arrays are the engine's own, who writes over them afterwards."""

    def complete(self, below: PerSide) -> None:
        """All pairs among tuples below these numbers have been handed over."""


class Engine(ABC):
    """Takes arrivals in order, from one thread at a time; hands pairs of tuple numbers to its sink.

    After each `expire`, now or later, it tells the sink up to where the pairs are complete.
    """

    at_once = False  # are all results of a push out when it returns?

    def __init__(self, plan: Plan, intake: Intake, setup: Setup, sink: Sink) -> None:
        self.setup = setup
        self._plan, self._intake, self._sink = plan, intake, sink
        self._failure: BaseException | None = None
        self._prefill = False

    @classmethod
    def kernels(cls, plan: Plan, intake: Intake) -> list[OnDemand]:
        """What it is going to call, in order, but what takes long at the end."""
        return []

    @abstractmethod
    def start(self) -> None:
        """Starts the threads, if there are any. Until then there is nothing that would have to be stopped."""

    def admit(self, side: int, count: int) -> int:
        """How many of so many arrivals can be taken without waiting."""
        return count

    @abstractmethod
    def arrive(self, side: int, batch: Tuples) -> None:
        """Takes arrivals; waits while they cannot be taken."""

    def push(self, asked: SmallPush, taken: Taken) -> int | None:
        """Takes a small batch as it is, if that can be done and none of it is late. None: nothing has happened.

        It completes the record and hands it to `taken` before any other results go to the sink. Returns the
        `at` below which it has dropped the other side's tuples; SINCE_EVER if that is left to `expire`.
        """
        return None

    @abstractmethod
    def expire(self, horizons: PerSide, arrived: PerSide) -> None:
        """By side: tuples below this `at` meet no further arrival; so many tuples have arrived."""

    def wait(self) -> None:
        """Until all pairs of what has arrived are with the sink, or the join has failed."""
        return

    @abstractmethod
    def finish(self) -> None:
        """Completes everything and stops; if something has failed, it only stops."""

    def fail(self, error: BaseException) -> None:
        """Nothing can be completed any more; stops without waiting for it. The first error counts."""
        self._failure = self._failure or error

    @contextmanager
    def prefill(self) -> Iterator[None]:
        """Inside, arrivals are stored and not compared: for benchmarks that begin with full windows."""
        self._set_prefill(True)
        try:
            yield
        finally:
            self._set_prefill(False)

    def _set_prefill(self, on: bool) -> None:
        self._prefill = on

    @property
    def failure(self) -> BaseException | None:
        """What stopped the join."""
        return self._failure

    def check(self) -> None:
        """Raises what stopped the join."""
        if self.failure is not None:
            raise self.failure

    @property
    @abstractmethod
    def window(self) -> PerSide:
        """Live tuples of r and of s."""

    @abstractmethod
    def nbytes(self, side: int) -> int:
        """Bytes that a side's window takes."""

    @abstractmethod
    def comparisons(self) -> int:
        """Pairs that were compared so far."""

    @property
    def access(self) -> str:
        """How windows are searched now."""
        return self._plan.access

    def workers(self) -> list[dict[str, Any]]:
        """What each worker holds and has done so far."""
        return []

    def stats(self) -> dict[str, Any]:
        """By side: window and store_bytes, raw_bytes; comparisons, workers."""
        sides = {
            name: {
                "window": self.window[k],
                "store_bytes": self.nbytes(k),
                "raw_bytes": self.window[k] * self._intake.shape(k).raw_bytes,
            }
            for k, name in enumerate(SIDES)
        }
        return {**sides, "comparisons": self.comparisons(), "workers": self.workers()}

    def counted(self, pushed: Sequence[int], results: int) -> dict[str, Any]:
        """Its figures, and tuples and results so far, for an owner that counts them."""
        stats = self.stats()
        sides = {name: stats[name] | {"pushed": count} for name, count in zip(SIDES, pushed, strict=True)}
        return stats | sides | {"results": results}


def _class(plan: Plan) -> type[Engine]:
    file, _, name = ENGINES[ALGORITHMS[plan.algorithm].engine].partition(":")
    found: type[Engine] = getattr(import_module(f"streamjoin.{file}"), name)
    return found


def expect_kernels(plan: Plan, intake: Intake) -> None:
    """Names what a join of this plan is going to call, so that it is compiled on two cores if it is not there."""
    expect((keep, gather, *_class(plan).kernels(plan, intake)))


def open_engine(plan: Plan, intake: Intake, setup: Setup, sink: Sink) -> Engine:
    """The engine of a plan's algorithm; `start` is to follow."""
    return _class(plan)(plan, intake, setup, sink)
