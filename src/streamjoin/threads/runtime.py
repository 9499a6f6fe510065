"""Threads, queues and shared memory of a parallel join.

     r ─▶ driver ─▶ ring ─▶ [worker 0] ⇄ [worker 1] ⇄ … ◀─ ring ◀─ driver ◀─ s
                                 └───── result queues ────┘
                                            ▼
                                        collector

Concurrency is here, in `loop.py`, in `ends.py` and in `kernels/{atomics,bell,ring}.py`, and nowhere else. The driver
is whoever pushes: one thread at a time. Workers run compiled code without the GIL and come back to Python only to grow
an index or to fail.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from streamjoin.access.tape import Tape
from streamjoin.algorithms.protocol import (
    ACTION_WORDS,
    BODY,
    FIRST,
    MOST_ACTIONS,
    SIDE,
    STOP,
    WORDS,
    Topology,
    new_node,
)
from streamjoin.codegen.records import Array, address
from streamjoin.engine import PerSide, Sink
from streamjoin.errors import PredicateError
from streamjoin.interrupts import NAP, Thread, await_end, start
from streamjoin.machine import along_topology, pin
from streamjoin.threads import ends
from streamjoin.threads import worker as loop
from streamjoin.threads.collector import Collector
from streamjoin.threads.eventcount import new_bells
from streamjoin.threads.local import Functions, Local
from streamjoin.threads.ring import HEAD, LINES, TAIL
from streamjoin.threads.worker import BOARD, Worker

Trouble = Callable[[int, int, tuple[Any, ...], tuple[Any, ...]], Exception]


class Runtime:
    """The workers of one join, their queues, and the collector."""

    def __init__(
        self,
        protocol: ModuleType,
        topology: Topology,
        tapes: tuple[Tape, Tape],
        local: Callable[..., Local],
        functions: Functions,
        *,
        queue: int,
        pinned: bool,
        trouble: Trouble,
        sink: Sink,
        progress: Callable[[], PerSide],
    ) -> None:
        self.topology, self.tapes, self.functions = topology, tapes, functions
        self.failure: BaseException | None = None
        self._trouble = trouble
        self._cores = along_topology() if pinned else []
        nodes, (stretch, batch) = topology.nodes, (tapes[0].stretch, tapes[0].batch)
        self.ring_words = np.zeros((2 * nodes, queue, WORDS), np.int64)
        self.ring_index = np.zeros(2 * nodes * LINES, np.int64)
        self.board = np.zeros(nodes * BOARD, np.int64)
        self.control = np.zeros(2, np.int64)
        self._results = np.zeros((nodes, 2, loop.RESULT_BLOCKS, loop.RESULT_SIZE), np.int64)
        self._counts = np.zeros((nodes, loop.RESULT_BLOCKS), np.int64)
        self._result_index = np.zeros(nodes * LINES, np.int64)
        self._bells = new_bells(nodes + 1)
        self._nodes = [new_node(topology, k, stretch, batch) for k in range(nodes)]
        self.locals = [local(node, tapes, functions) for node in self._nodes]
        self._workers = [self._worker(protocol, k) for k in range(nodes)]
        self._message = np.zeros(WORDS, np.int64)
        self._threads: list[Thread] = []
        self._collector = Collector(
            self._results,
            self._counts,
            self._result_index,
            self.control,
            self._bells,
            progress,
            sink,
            self.fail,
            self._abandoned,
        )

    def start(self) -> None:
        self._start(self._collector.thread)

    def _worker(self, protocol: ModuleType, k: int) -> Worker:
        local, following = self.locals[k], self.topology.next[k]
        message, actions = np.zeros(WORDS, np.int64), np.zeros((MOST_ACTIONS, ACTION_WORDS), np.int64)
        frame = np.array([address(self._nodes[k]), address(message), address(actions), 0], np.int64)
        return Worker(
            protocol.act.address,
            protocol.FINISHED,
            int(local.on_tape),
            self._nodes[k],
            np.array([-1 if node < 0 else 2 * node + d for d, node in enumerate(following)], np.int64),
            self.ring_words,
            self.ring_index,
            self.board,
            self.control,
            local.jobs,
            local.addresses,
            self.functions.table,
            local.window,
            message,
            actions,
            frame,
            address(frame),
            np.zeros(4, np.int64),
            self._results,
            np.array([address(self._results[k, side]) for side in (0, 1)], np.int64),
            self._counts,
            self._result_index,
            self._bells,
        )

    def _start(self, *others: Thread) -> None:
        self._tell(loop.GO)
        self._tell_failure()
        self._threads = [Thread(partial(self._run, k), f"streamjoin-worker-{k}") for k in range(self.topology.nodes)]
        start([*self._threads, *others])

    def _run(self, k: int) -> None:
        try:
            if self._cores:
                pin(self._cores[k % len(self._cores)])
            while True:
                reason = loop.work(self._workers[k])
                if reason == loop.NEEDS_ROOM:
                    self._make_room(k)
                elif reason == loop.TROUBLE:
                    raise self._explain(k)
                else:
                    return
        except BaseException as error:
            self.fail(error)

    def _make_room(self, k: int) -> None:
        """For the insertion at which a worker stopped."""
        worker = self._workers[k]
        body = worker.actions[worker.todo[loop.DONE_TODO]][BODY:]
        self.locals[k].make_room(int(body[SIDE]), int(body[STOP] - body[FIRST]))

    def _explain(self, k: int) -> Exception:
        """The error behind a predicate that could not be computed."""
        local, row = self.locals[k], int(self._workers[k].todo[loop.FAILED_JOB])
        if row == loop.RAISED:
            return PredicateError(
                "the predicate function raised an exception, which stands on standard error; with workers=1 it is "
                "raised as it is. Have the function return False where it cannot tell"
            )
        code, i, j = (int(value) for value in local.trouble)
        probing = tuple(column[i] for column in self.tapes[row // 2].columns)
        return self._trouble(row // 2, code, probing, tuple(column[j] for column in local.held(row)))

    def fail(self, error: BaseException) -> None:
        """Stops everything with an error, without waiting for it; the first one counts."""
        if self.failure is None:
            self.failure = error
        self._tell(loop.ABORT)

    def _abandoned(self) -> bool:
        """Has the join failed, and have its workers ended?"""
        return self.failure is not None and not any(thread.running for thread in self._threads)

    def _tell_failure(self) -> None:
        """Once more, if it came while the workers were told something else."""
        if self.failure is not None:
            self._tell(loop.ABORT)

    def _tell(self, order: int) -> None:
        ends.tell(self.control, order, self._bells)

    def send(self, ring: int, message: tuple[int, ...], patient: bool = True) -> bool:
        """A message from the driver into a queue."""
        words, shared = self._words(message), (self.control, self._bells)
        while not ends.send(self.ring_words, self.ring_index, ring, words, *shared, patient):
            if not patient or self.failure is not None:
                return False
        return True

    def feed(self, rings: Array, message: tuple[int, ...]) -> None:
        """Arrivals from the driver, cut into batches, in turns to the given queues."""
        tape = self.tapes[0]
        words = self._words(message)
        shared = self.control, self._bells
        stop = int(words[STOP])
        while words[FIRST] < stop and self.failure is None:
            sent = ends.feed(self.ring_words, self.ring_index, rings, words, tape.batch, tape.stretch, *shared)
            words[FIRST], words[STOP] = sent, stop

    def _words(self, message: tuple[int, ...]) -> Array:
        """The message, until the next one: there is one driver."""
        self._message[:] = 0
        for k, word in enumerate(message):
            self._message[k] = word
        return self._message

    def room(self, ring: int) -> int:
        """Free places in a queue."""
        return self.ring_words.shape[1] - self.depth(ring)

    def depth(self, ring: int) -> int:
        """Messages that wait in a queue."""
        head = ends.read_word(self.ring_index, ring * LINES + HEAD)
        return int(head - ends.read_word(self.ring_index, ring * LINES + TAIL))

    def read(self, node: int, word: int) -> int:
        """A word of a node's board."""
        return int(ends.read_word(self.board, node * BOARD + word))

    def quiet(self, patient: bool) -> bool:
        """Has everything come to rest? If `patient`, waits for it."""
        while not ends.quiet(self.ring_index, self.board, self.topology.nodes, self.control, patient):
            if not patient or self.failure is not None:
                return False
        return True

    def grow(self, side: int, released: int) -> None:
        """More room on a tape. Everything is at rest."""
        self._stop()
        self.tapes[side].grow(released)
        for local in self.locals:
            local.attach(self.tapes)
        self._start()

    @property
    def completed(self) -> PerSide:
        """All pairs among tuples below these numbers are with the sink."""
        return self._collector.completed

    def finish(self) -> None:
        """Stops the workers, who are at rest or given up, and empties their queues."""
        self._stop()
        self._collector.finish()

    def _stop(self) -> None:
        self._tell(loop.FINISH)
        await_end(self._threads, self._tell_failure)

    def snooze(self) -> None:
        """Lets the workers go on for a moment."""
        time.sleep(NAP)
