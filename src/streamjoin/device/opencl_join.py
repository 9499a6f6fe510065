"""HELLS-Join on an OpenCL device: it stages batches, and puts comparisons and additions into the windows' queues.

Called by the pushing thread, one at a time, like the driver of the parallel joins. See
`algorithms/hells.py` for the picture.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from streamjoin.access.tuples import Tuples
from streamjoin.algorithms.hells import WORD, placement, tiles
from streamjoin.codegen.records import Array
from streamjoin.device.buffers import Bitmap, Window, stage
from streamjoin.device.build import built, context_of
from streamjoin.device.devices import choose, denormals, describe, opencl
from streamjoin.device.interpreter import Clock, Comparison, Events, Interpreter
from streamjoin.device.opencl_text import GROUP, Source
from streamjoin.engine import Engine, PerSide, Setup, Sink
from streamjoin.errors import DeviceError
from streamjoin.intake.prepare import Intake
from streamjoin.plan.plan import Plan
from streamjoin.predicate.tree import SIDES

MOST_WORDS = 1 << 20  # of a bitmap: 4 MiB, which the CPU finds in its cache
MOST_PROBES = 1024  # of one comparison
BITMAPS = 3  # per window: one is being written, one is being read, one is in between


class Hells(Engine):
    """One join on a device, from prepared arrivals to pairs of tuple numbers."""

    def __init__(self, plan: Plan, intake: Intake, setup: Setup, sink: Sink) -> None:
        super().__init__(plan, intake, setup, sink)
        cl = opencl()
        self._source = Source(intake.program)
        self._device = choose(plan.device)
        _check(self._device, self._source)
        self._clock = Clock(trace=setup.trace)
        self._next = [0, 0]
        self._comparisons = 0
        with self._telling():
            self._context = context_of(self._device)
            program = built(self._device, self._source.text)
            profiling = cl.command_queue_properties.PROFILING_ENABLE
            queues = [cl.CommandQueue(self._context, properties=profiling) for _ in SIDES]
            self._kernels = [cl.Kernel(program, f"compare_{side}") for side in SIDES]
            where = placement(self._device.host_unified_memory, plan.memory)
            self.windows = [
                Window(
                    self._context,
                    queues[k],
                    self._source.stored(side),
                    cl.Kernel(program, f"add_{side}"),
                    where,
                    plan.expected[k],
                )
                for k, side in enumerate(SIDES)
            ]
            self._words = max(min(MOST_WORDS, self._device.max_mem_alloc_size // 64), 1 << 12)
            self._homes: list[queue.SimpleQueue[Bitmap]] = [queue.SimpleQueue() for _ in SIDES]
            for home, commands in zip(self._homes, queues, strict=True):
                for _ in range(BITMAPS):
                    home.put(Bitmap(self._context, commands, where == "host"))
            self._clock.ahead = _ahead(queues[0])
        self._adds: list[Events] = [[], []]  # since the last comparison in the same queue
        self._interpreter = Interpreter(sink, self._clock)

    def start(self) -> None:
        """Starts the thread. Until then there is nothing that would have to be stopped."""
        self._interpreter.start()

    @property
    def failure(self) -> BaseException | None:
        """What stopped the join."""
        return self._interpreter.failure

    @property
    def window(self) -> PerSide:
        """Live tuples of r and of s."""
        return len(self.windows[0].fifo), len(self.windows[1].fifo)

    def admit(self, side: int, count: int) -> int:
        """The number of these arrivals that can be taken without waiting."""
        words = max(len(self.windows[1 - side].fifo) // WORD, 1)
        probes, part = tiles(count or 1, words, MOST_PROBES, self._words)
        return min(count, self._homes[1 - side].qsize() * part // words * probes)

    def arrive(self, side: int, batch: Tuples) -> None:
        """Takes arrivals; waits while the join cannot."""
        self.check()
        if not len(batch):
            return
        with self._telling():
            fields = self._source.staged(SIDES[side])
            columns = self._columns(batch)
            begin = time.perf_counter_ns()
            staged = stage(self._context, fields, columns)
            self._clock.seconds["transfer"] += (time.perf_counter_ns() - begin) / 1e9
            event = self.windows[side].add(staged, columns[:-2], batch.at)
            if event is not None:
                self._adds[side].append((f"add {SIDES[side]}", event))
            if not self._prefill:
                self._compare(side, staged, batch)
        self._next[side] += len(batch)
        if self.setup.synchronous:
            self._interpreter.wait()
        self.check()

    def _columns(self, batch: Tuples) -> list[Array]:
        """A batch's arrays in the order of `Source.staged`."""
        program = self._intake.program
        boxes = [array[d] for d in range(program.scan_dims) for array in (batch.lo, batch.hi)]
        key = [batch.key] if program.keyed else []
        return [batch.at, *key, *boxes, *batch.columns, batch.since, batch.until]

    def _compare(self, side: int, staged: Any, batch: Tuples) -> None:
        window, kernel, home = self.windows[1 - side], self._kernels[side], self._homes[1 - side]
        fifo = window.fifo
        if not len(fifo):
            return
        words = -(-len(fifo) // WORD) + 1
        most, part = tiles(len(batch), words, MOST_PROBES, self._words)
        for arrays, place, first, count in window.parts(part):
            bounds = np.int32(max(fifo.first - first * WORD, 0)), np.int32(min(fifo.head - first * WORD, count * WORD))
            for begin in range(0, len(batch), most):
                probes = min(most, len(batch) - begin)
                bitmap = self._free(home)
                bitmap.make_room(count * probes)
                where = (np.uint32(place), np.uint32(count))
                kernel.set_args(staged, np.int32(begin), np.int32(probes), *where, *bounds, bitmap.buffer, *arrays)
                items = -(-count // GROUP) * GROUP
                event = opencl().enqueue_nd_range_kernel(window.queue, kernel, (items,), (GROUP,))
                found, ready = bitmap.fetch(count * probes)
                window.queue.flush()
                events = [*self._adds[1 - side], (f"compare {SIDES[side]}", event), ("transfer", ready)]
                self._adds[1 - side] = []
                number = self._next[side] + begin
                fault = self._fault(side, batch)
                self._interpreter.put(
                    Comparison(side, number, probes, first * WORD, bitmap, found, ready, events, fault, home)
                )
        self._comparisons += len(batch) * len(fifo)

    def _fault(self, side: int, batch: Tuples) -> Callable[[int, int, int], Exception]:
        """The error for a pair whose predicate cannot be computed."""

        def explain(code: int, probe: int, position: int) -> Exception:
            values = tuple(column[probe] for column in batch.columns)
            stored = self.windows[1 - side].row(position)
            if stored is None:
                stored = tuple(np.zeros(1, column.dtype)[0] for column in self._intake.program.stored[SIDES[1 - side]])
            return self._intake.fault(side, code, values, stored)

        return explain

    def _free(self, home: queue.SimpleQueue[Bitmap]) -> Bitmap:
        """A free bitmap; waits for one."""
        while True:
            self.check()
            try:
                return home.get(timeout=0.1)
            except queue.Empty:
                continue

    def expire(self, horizons: PerSide, arrived: PerSide) -> None:
        """Drops expired tuples. The interpreter reports completeness when it reaches this point."""
        for window, horizon in zip(self.windows, horizons, strict=True):
            window.fifo.expire(horizon)
        self.check()
        self._interpreter.put((self._next[0], self._next[1]))

    def _set_prefill(self, on: bool) -> None:
        for window in self.windows:
            window.queue.finish()
        super()._set_prefill(on)

    def wait(self) -> None:
        """Waits until all results of what has arrived are out, or the join has failed."""
        self._interpreter.wait()

    def finish(self) -> None:
        """Lets everything meet, then stops. Returns also if the join has failed."""
        if self.failure is None:
            self._interpreter.put((self._next[0], self._next[1]))
            self._interpreter.wait()
        self._interpreter.stop()

    def fail(self, error: BaseException) -> None:
        """Ends the thread; nothing can be completed any more. The first error counts."""
        self._interpreter.fail(error)

    def nbytes(self, side: int) -> int:
        return self.windows[side].nbytes

    def comparisons(self) -> int:
        return self._comparisons

    def workers(self) -> list[dict[str, Any]]:
        """The one worker there is: the device."""
        return [
            {
                "worker": 0,
                "turn": 0,
                "window_r": self.window[0],
                "window_s": self.window[1],
                "comparisons": self._comparisons,
            }
        ]

    def stats(self) -> dict[str, Any]:
        """Besides, the device, where its windows lie, and the seconds spent in each step."""
        seconds = self._clock.seconds
        device = {
            **describe(self._device),
            "memory": {side: window.placement for side, window in zip(SIDES, self.windows, strict=True)},
            "compare_seconds": seconds["compare"],
            "add_seconds": seconds["add"],
            "transfer_seconds": seconds["transfer"],
            "interpretation_seconds": self._clock.interpretation,
        }
        return super().stats() | {"device": device}

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Errors of the device as ours."""
        cl = opencl()
        try:
            yield
        except cl.Error as error:
            raise DeviceError(f"the device {self._device.name} failed: {error}") from error


def _check(device: Any, source: Source) -> None:
    if source.doubles and not device.double_fp_config:
        raise DeviceError(
            f"the device {device.name} does not compute in double precision, which the predicate needs; choose another "
            'with device=, cast to FLOAT, or use algorithm="grid"'
        )
    if source.singles and not denormals(device):
        raise DeviceError(
            f"the device {device.name} takes very small floats for zero, so that results could differ; choose another "
            'with device=, cast to DOUBLE, or use algorithm="grid"'
        )


def _ahead(commands: Any) -> int:
    """Nanoseconds by which the host's clock is ahead of the device's."""
    now = time.perf_counter_ns()
    event = opencl().enqueue_marker(commands)
    event.wait()
    return now - int(event.profile.queued)
