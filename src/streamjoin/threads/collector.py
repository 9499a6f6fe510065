"""The collector: empties the result queues of all workers, and reports how far the results are complete.

Low-latency handshake join, sections 5 and 6.1.3: first read the progress of every worker, then empty all queues.
Results that come out afterwards belong to later tuples. Punctuations are correct because of this order.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from streamjoin.codegen.records import Array, address
from streamjoin.engine import PerSide, Sink
from streamjoin.interrupts import Thread, await_end
from streamjoin.threads.ring import await_blocks, give_back, ready

PAUSE = 0.0005  # seconds between two polls while the workers stop


class Collector:
    """A thread that passes pairs of tuple numbers to the sink, and reports how far they are complete."""

    def __init__(
        self,
        queues: Array,
        blocks: Array,
        control: int,
        eventcount: int,
        progress: Callable[[], PerSide],
        sink: Sink,
        failed: Callable[[BaseException], None],
        abandoned: Callable[[], bool],
    ) -> None:
        """`queues`: addresses, by worker. `abandoned`: has the join failed, and have its workers ended?"""
        self._counts, self._numbers = blocks["count"], blocks["numbers"]
        self._queues = [address(queue) for queue in queues]
        self._shared = address(queues), len(queues), control, eventcount
        self._progress, self._sink, self._failed = progress, sink, failed
        self._abandoned = abandoned
        self._finishing = False
        self.completed: PerSide = (0, 0)
        self.thread = Thread(self._run, "streamjoin-collector")

    def finish(self) -> None:
        """Empties the queues a last time. The workers have stopped."""
        self._finishing = True
        await_end([self.thread])

    def _run(self) -> None:
        try:
            while True:
                last = self._finishing or self._abandoned()
                progress = self._progress()
                self._vacuum()
                self._sink.complete(progress)
                self.completed = progress
                if last:
                    return
                # Some milliseconds at most: punctuations advance without results, too.
                if not await_blocks(*self._shared):
                    time.sleep(PAUSE)
        except BaseException as error:
            self._failed(error)

    def _vacuum(self) -> None:
        """Takes the ready blocks, at most one ring of them per worker: a fast worker must not delay the others."""
        for node, queue in enumerate(self._queues):
            for _ in range(self._counts.shape[1]):
                block = ready(queue)
                if block < 0:
                    break
                r, s = self._numbers[node, block, :, : self._counts[node, block]]
                self._sink.pairs(r, s)
                give_back(queue)
