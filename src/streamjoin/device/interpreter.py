"""Step 2, the interpretation: a thread that reads bitmaps in the order of their comparisons and delivers pairs.

It is the only one who waits for the device. An error, on the device or here, ends the join: no result is lost silently.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamjoin.codegen.records import Array
from streamjoin.device.bitmaps import FOUND, NEXT, interpret
from streamjoin.device.buffers import Bitmap
from streamjoin.device.devices import opencl
from streamjoin.device.opencl_text import HEAD
from streamjoin.engine import PerSide, Sink
from streamjoin.errors import DeviceError
from streamjoin.interrupts import Call, Thread, await_end, start

PAIRS = 1 << 16

Events = list[tuple[str, Any]]  # what a command was, and its event


@dataclass
class Comparison:
    """One bitmap on its way: `probes` tuples of a side from number `probe` on, with stored tuples from `stored` on."""

    side: int
    probe: int
    probes: int
    stored: int
    bitmap: Bitmap
    words: Array
    ready: Any
    events: Events
    fault: Callable[[int, int, int], Exception]  # code, number of the probe, position of the stored tuple
    home: queue.SimpleQueue[Bitmap]


@dataclass
class Clock:
    """Seconds spent so far, by step, and a log of steps, if requested."""

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("compare", "add", "transfer"), 0.0))
    interpretation: float = 0.0
    trace: list[tuple[str, int, int]] | None = None  # step, begin, end in nanoseconds
    ahead: int = 0  # by how much the host's clock is ahead of the device's

    def note(self, events: Events) -> None:
        """Adds up commands of the device, which have ended."""
        for name, event in events:
            begin, end = event.profile.start, event.profile.end
            self.seconds[name.split()[0]] += (end - begin) / 1e9
            if self.trace is not None:
                self.trace.append((name, begin + self.ahead, end + self.ahead))

    def interpreted(self, name: str, begin: int, end: int) -> None:
        self.interpretation += (end - begin) / 1e9
        if self.trace is not None:
            self.trace.append((name, begin, end))


class Interpreter:
    """Takes comparisons, and marks between them. Delivers pairs, and each mark after everything before it."""

    def __init__(self, sink: Sink, clock: Clock) -> None:
        self.failure: BaseException | None = None
        self._sink, self._clock = sink, clock
        self._tasks: queue.SimpleQueue[Comparison | PerSide | None] = queue.SimpleQueue()
        self._given = 0  # tasks; written by the driver alone
        self._done = 0  # and by the thread
        self._progress = Call()
        self._found = np.empty(PAIRS, np.int64), np.empty(PAIRS, np.int64)
        self._cursor = np.zeros(2, np.int64)
        interpret(np.zeros(0, np.uint32), 1, 0, 0, *self._found, self._cursor)  # compiles it before there is work
        self._thread = Thread(self._run, "streamjoin-interpreter")

    def start(self) -> None:
        start([self._thread])

    def put(self, task: Comparison | PerSide) -> None:
        """A comparison under way, or how many tuples of r and of s have come so far."""
        self._given += 1
        self._tasks.put(task)

    def wait(self) -> None:
        """Until everything that was put has been handed out, or the join has failed."""
        while self._done < self._given and self.failure is None:
            self._progress.wait(0.05)

    def stop(self) -> None:
        """Ends the thread, after what was put before, or at once if the join has failed."""
        self._tasks.put(None)
        await_end([self._thread])

    def fail(self, error: BaseException) -> None:
        """Lets the thread end without completing anything; the first error counts."""
        if isinstance(error, opencl().Error):
            error = DeviceError(f"the device failed: {error}")
        if self.failure is None:
            self.failure = error
        self._tasks.put(None)
        self._progress.ring()

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            if self.failure is None:
                try:
                    self._take(task)
                except BaseException as error:
                    self.fail(error)
            if isinstance(task, Comparison):
                task.home.put(task.bitmap)
            self._done += 1
            self._progress.ring()

    def _take(self, task: Comparison | PerSide) -> None:
        if isinstance(task, tuple):
            self._sink.complete(task)
            return
        task.ready.wait()
        self._clock.note(task.events)
        begin = time.perf_counter_ns()
        words = np.frombuffer(task.words, np.uint32)
        if words[0]:
            code, probe, place = (int(word) for word in words[:3])
            raise task.fault(code, probe, task.stored + place)
        done = False
        self._cursor[NEXT] = 0
        while not done:
            done = bool(interpret(words[HEAD:], task.probes, task.probe, task.stored, *self._found, self._cursor))
            probes, stored = (numbers[: self._cursor[FOUND]] for numbers in self._found)
            self._sink.pairs(*((probes, stored) if task.side == 0 else (stored, probes)))
        task.bitmap.give_back()
        self._clock.interpreted(f"interpret {'rs'[task.side]}", begin, time.perf_counter_ns())
