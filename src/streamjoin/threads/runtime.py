"""Threads, queues and shared memory of a parallel join.

     r ─▶ driver ─▶ ring ─▶ [worker 0] ⇄ [worker 1] ⇄ … ◀─ ring ◀─ driver ◀─ s
                                 └───── result queues ────┘
                                            ▼
                                        collector

All concurrency is here and in `worker.py`, `ring.py`, `collector.py`, `eventcount.py` and `atomics.py`. The driver is
the pushing thread, one at a time. Workers run compiled code without the GIL. They return to Python only to let an
index grow, or because they failed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from streamjoin.access.segment import Search, Segment
from streamjoin.access.tape import OnTape, Tape
from streamjoin.algorithms import Algorithm, Topology
from streamjoin.algorithms.protocol import Actions, Message, act, new_node
from streamjoin.codegen.records import Array, address
from streamjoin.engine import PerSide, Sink
from streamjoin.errors import PredicateError
from streamjoin.interrupts import NAP, Thread, await_end, start
from streamjoin.machine import along_topology, pin
from streamjoin.threads import ring, worker
from streamjoin.threads.atomics import read_word, write_word
from streamjoin.threads.collector import Collector
from streamjoin.threads.eventcount import new_eventcounts
from streamjoin.threads.records import RESULT_BLOCKS, Block, Status, Worker
from streamjoin.threads.ring import ABORT, FINISH, GO, Control, Queue, new_queues


@dataclass(frozen=True)
class Local:
    """The segments of one worker, and its searches, by side."""

    segments: tuple[Segment, Segment]
    searches: tuple[Search, Search]


class Runtime:
    """The workers of one join, their queues, and the collector."""

    def __init__(
        self,
        algorithm: Algorithm,
        topology: Topology,
        tapes: tuple[Tape, Tape],
        local: Callable[[tuple[int, int]], Local],
        *,
        queue: int,
        pinned: bool,
        sink: Sink,
        progress: Callable[[], PerSide],
    ) -> None:
        self.topology, self.tapes = topology, tapes
        self.failure: BaseException | None = None
        self._cores = along_topology() if pinned else []
        nodes, (stripe, batch) = topology.nodes, (tapes[0].stripe, tapes[0].batch)
        self._control, self._status, self._eventcounts = Control.new(), Status.array(nodes), new_eventcounts(nodes + 1)
        self._messages, self._blocks = Message.array(2 * nodes, queue), Block.array(nodes, RESULT_BLOCKS)
        waiting = [address(one) for one in self._eventcounts]
        self._queues = new_queues(self._messages, [waiting[k // 2] for k in range(2 * nodes)])
        self._results = new_queues(self._blocks, waiting[-1:] * nodes)
        protocol = algorithm.protocol
        self._nodes = [new_node(protocol.State, topology, k, stripe, batch) for k in range(nodes)]
        self.locals = [local(topology.way[k]) for k in range(nodes)]
        self._actions = Actions.array(nodes)
        self._act = act(algorithm.file)  # keeps the machine code
        self._workers = [self._worker(k) for k in range(nodes)]
        self._message = Message.new()
        self._shared = address(self._message), address(self._control)
        self._threads: list[Thread] = []
        self._collector = Collector(
            self._results, self._blocks, address(self._control), waiting[-1], progress, sink, self.fail, self._abandoned
        )

    def start(self) -> None:
        self._start(self._collector.thread)

    def _worker(self, k: int) -> Worker:
        local, new = self.locals[k], Worker.new()
        new.act, new.control = self._act.address, address(self._control)
        new.on_tape = isinstance(local.segments[0], OnTape)
        new.node, new.actions = address(self._nodes[k]), address(self._actions[k])
        new.call.node, new.call.actions = new.node, new.actions
        new.eventcount, new.status = address(self._eventcounts[k]), address(self._status[k])
        new.results = address(self._results[k])
        for direction, following in enumerate(self.topology.next[k]):
            new.inbox[direction] = self.queue(k, direction)
            if following >= 0:
                new.outbox[direction] = self.queue(following, direction)
                new.beside[direction] = address(self._status[following])
        new.segments[:] = [segment.address for segment in local.segments]
        new.tapes[:] = [tape.address for tape in self.tapes]
        new.searches[:] = [search.address for search in local.searches]
        return new

    def queue(self, node: int, direction: int) -> int:
        """The address of the queue in front of a node."""
        return address(self._queues[2 * node + direction])

    def _start(self, *others: Thread) -> None:
        self._tell(GO)
        self._tell_failure()
        self._threads = [Thread(partial(self._run, k), f"streamjoin-worker-{k}") for k in range(self.topology.nodes)]
        start([*self._threads, *others])

    def _run(self, k: int) -> None:
        try:
            if self._cores:
                pin(self._cores[k % len(self._cores)])
            while True:
                reason = worker.work(address(self._workers[k]))
                if reason == worker.NEEDS_ROOM:
                    self._make_room(k)
                elif reason == worker.FAULT:
                    raise self._explain(k)
                else:
                    return
        except BaseException as error:
            self.fail(error)

    def _make_room(self, k: int) -> None:
        """Makes room for the insertion at which a worker stopped."""
        actions = self._actions[k]
        body = actions.each[actions.done].body
        self.locals[k].segments[body.side].make_room(int(body.stop - body.first))

    def _explain(self, k: int) -> Exception:
        """The error of a predicate that failed."""
        local, failed = self.locals[k], int(self._workers[k].failed)
        if failed == worker.EXCEPTION:
            return PredicateError(
                "the predicate function raised an exception, printed on standard error; with workers=1 the join raises "
                "it. Let the function return False for pairs that it cannot decide"
            )
        side, on_tape = divmod(failed, 2)
        stored = self.tapes[1 - side] if on_tape else local.segments[1 - side]
        error = local.searches[side].fault(self.tapes[side].columns, stored.columns)
        assert error is not None
        return error

    def fail(self, error: BaseException) -> None:
        """Stops all workers with an error and does not wait. The first error counts."""
        if self.failure is None:
            self.failure = error
        self._tell(ABORT)

    def _abandoned(self) -> bool:
        """Has the join failed, and have its workers ended?"""
        return self.failure is not None and not any(thread.running for thread in self._threads)

    def _tell_failure(self) -> None:
        """Repeats the order to abort, in case another order overwrote it."""
        if self.failure is not None:
            self._tell(ABORT)

    def _tell(self, order: int) -> None:
        worker.order(address(self._control), order, address(self._eventcounts), len(self._eventcounts))

    def prefill(self, on: bool) -> None:
        """Switches between storing arrivals only and comparing them, too."""
        write_word(address(self._control) + Control.offset("prefill"), int(on))

    def send(
        self,
        queue: int,
        *,
        kind: int,
        side: int,
        stop: int,
        first: int = 0,
        low: int = 0,
        high: int = 0,
        horizon: int = 0,
        needed_from: int = 0,
    ) -> None:
        """Sends a message from the driver, unless the join has failed."""
        while not ring.send(queue, *self._shared, kind, side, first, stop, low, high, horizon, needed_from):
            if self.failure is not None:
                return

    def feed(self, queues: Array, side: int, first: int, stop: int) -> None:
        """Sends arrivals to the given queues, in batches, stripe by stripe."""
        tape = self.tapes[0]
        while first < stop and self.failure is None:
            first = ring.feed(queues, *self._shared, side, first, stop, tape.batch, tape.stripe)

    def room(self, queue: int) -> int:
        """Free slots in a queue."""
        return int(self._messages.shape[1]) - self.length(queue)

    def length(self, queue: int) -> int:
        """Messages that wait in a queue."""
        return int(read_word(queue + Queue.offset("head")) - read_word(queue + Queue.offset("tail")))

    def status(self) -> Array:
        """A snapshot of the status of all nodes."""
        seen = Status.array(self.topology.nodes)
        worker.copy_words(address(self._status), address(seen), seen.nbytes // 8)
        return seen

    def quiet(self, patient: bool) -> bool:
        """Are all workers idle? If `patient`, waits until they are."""
        shared = address(self._queues), address(self._status), self.topology.nodes, address(self._control)
        while not worker.quiet(*shared, patient):
            if not patient or self.failure is not None:
                return False
        return True

    def grow(self, side: int, released: int) -> None:
        """Enlarges a tape. All workers must be idle."""
        self._stop()
        self.tapes[side].resize(released, 2 * self.tapes[side].most)
        for local in self.locals:
            local.segments[side].attach(self.tapes[side])
        self._start()

    @property
    def completed(self) -> PerSide:
        """The sink has received all pairs among tuples below these numbers."""
        return self._collector.completed

    def finish(self) -> None:
        """Stops the workers, which must be idle or abandoned, and empties their queues."""
        self._stop()
        self._collector.finish()

    def _stop(self) -> None:
        self._tell(FINISH)
        await_end(self._threads, self._tell_failure)

    def snooze(self) -> None:
        """Sleeps for a moment while the workers continue."""
        time.sleep(NAP)
