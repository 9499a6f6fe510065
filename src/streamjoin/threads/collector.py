"""The collector: vacuums the result queues of all workers, and tells how far the results are complete.

Low-latency handshake join, sections 5 and 6.1.3: first read how far every worker has come, then empty all queues; what
comes out afterwards belongs to later tuples. That order is the whole reason why punctuations are right.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from streamjoin.codegen.records import Array
from streamjoin.engine import PerSide, Sink
from streamjoin.interrupts import Thread, await_end
from streamjoin.threads.ends import await_results, block_ready, give_back, read_word
from streamjoin.threads.worker import GO

PAUSE = 0.0005  # seconds between two looks while the workers come to their end


class Collector:
    """A thread that hands pairs of tuple numbers to the sink, and tells it up to where they are complete."""

    def __init__(
        self,
        results: Array,
        counts: Array,
        index: Array,
        control: Array,
        bells: Array,
        progress: Callable[[], PerSide],
        sink: Sink,
        failed: Callable[[BaseException], None],
        abandoned: Callable[[], bool],
    ) -> None:
        """`abandoned`: has the join failed, and have its workers ended?"""
        self._results, self._counts, self._index = results, counts, index
        self._control, self._bells = control, bells
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
                # Some milliseconds at most: punctuations move on without results, too.
                await_results(self._index, len(self._results), self._control, self._bells)
                if read_word(self._control, 0) != GO:
                    time.sleep(PAUSE)
        except BaseException as error:
            self._failed(error)

    def _vacuum(self) -> None:
        """Takes what is there, at most one round of blocks of each worker: a fast one must not hold up the others."""
        for node in range(len(self._results)):
            for _ in range(self._results.shape[2]):
                block = int(block_ready(self._index, node))
                if block < 0:
                    break
                count = int(self._counts[node, block])
                self._sink.pairs(self._results[node, 0, block, :count], self._results[node, 1, block, :count])
                give_back(self._index, node)
