"""How a driver feeds its workers: stripes dealt to entries, everything to everyone, or shares of the windows.

A feed knows what it has sent to which entry. From that and from the status of the workers it computes their progress.
"""

from __future__ import annotations

import numpy as np

from streamjoin.algorithms import DEALT, EVERYONE, SHARES, Topology
from streamjoin.algorithms.celljoin import shares
from streamjoin.algorithms.protocol import EXPIRY
from streamjoin.codegen.records import Array
from streamjoin.threads.runtime import Runtime


class Dealt:
    """Stripes of a stream are dealt to the nodes at which it enters. Expiries enter at the other end."""

    def __init__(self, topology: Topology, runtime: Runtime, stripe: int) -> None:
        self._topology, self._runtime, self._stripe = topology, runtime, stripe
        self._queues = tuple(self._entries(side) for side in (0, 1))
        # By side and entry: tuples below have been sent there, or are about to be. Then the same for all entries.
        self._sent = tuple(np.zeros(len(queues), np.int64) for queues in self._queues)
        self._total = [0, 0]

    def _entries(self, direction: int) -> Array:
        """The driver's queues for one direction."""
        nodes = self._topology.entries[direction]
        return np.array([self._runtime.queue(node, direction) for node in nodes], np.int64)

    def _entry(self, node: int, side: int) -> int:
        """The entry through which tuples of a side reach a node."""
        return self._topology.way[node][side] if len(self._queues[side]) > 1 else 0

    def room(self, side: int) -> int:
        """Messages that can be sent now to any entry."""
        return min(self._runtime.room(queue) for queue in self._queues[side].tolist())

    def arrive(self, side: int, first: int, stop: int, window: tuple[int, int]) -> None:
        """Sends arrivals. `window`: the other side's tuples that have not expired."""
        sent, stripe = self._sent[side], self._stripe
        for begin in range(first // stripe, (stop - 1) // stripe + 1):
            sent[begin % len(sent)] = min(stop, (begin + 1) * stripe)
        self._total[side] = stop  # last: others read it first
        self._runtime.feed(self._queues[side], side, first, stop)

    def expire(self, side: int, stop: int, horizon: int) -> None:
        """Sends expiries of a stream to the nodes at the far end of its flow."""
        for queue in self._queues[1 - side].tolist():
            self._runtime.send(queue, kind=EXPIRY, side=side, stop=stop, horizon=horizon)

    def progress(self) -> tuple[int, int]:
        """By side: tuples below this number have been compared with all earlier tuples."""
        total = tuple(self._total)  # read before the entries' numbers, which are read before the status
        r, s = self._lowest("finished", total)
        return r, s

    def needed_from(self, side: int, window: tuple[int, int]) -> int:
        """No worker reads tuples of a side below this number. `window`: those that have not expired."""
        return self._lowest("needed_from", (window[1], window[1]))[side]

    def _lowest(self, what: str, total: tuple[int, ...]) -> list[int]:
        """By side: the lowest value of a status word among the nodes that still have messages to process."""
        sent, lowest = [some.tolist() for some in self._sent], list(total)
        for node, words in enumerate(self._runtime.status()[what].tolist()):
            for side, word in enumerate(words):
                if word < sent[side][self._entry(node, side)]:
                    lowest[side] = min(lowest[side], word)
        return lowest


class Everyone(Dealt):
    """Every worker gets all of both streams, and their expiries, through one queue."""

    def _entries(self, direction: int) -> Array:
        return super()._entries(0)

    def _entry(self, node: int, side: int) -> int:
        return node

    def arrive(self, side: int, first: int, stop: int, window: tuple[int, int]) -> None:
        self._sent[side][:] = self._total[side] = stop
        for k in range(len(self._queues[side])):
            self._runtime.feed(self._queues[side][k : k + 1], side, first, stop)


class Shares(Everyone):
    """Every worker gets all arrivals, each with a share of the other window, and no expiry messages."""

    def arrive(self, side: int, first: int, stop: int, window: tuple[int, int]) -> None:
        queues, batch = self._queues[side].tolist(), self._stripe
        for begin in range(first // batch * batch, stop, batch):
            part = max(begin, first), min(begin + batch, stop)
            for queue, share in zip(queues, shares(len(queues), side, *part, window), strict=True):
                self._runtime.send(queue, **share)
        self._sent[side][:] = self._total[side] = stop

    def expire(self, side: int, stop: int, horizon: int) -> None:
        pass

    def needed_from(self, side: int, window: tuple[int, int]) -> int:
        """A worker that has processed all its messages never reads expired tuples again."""
        lowest, status = window[0], self._runtime.status()
        for finished, needed in zip(status["finished"].tolist(), status["needed_from"][:, side].tolist(), strict=True):
            if any(done < sent[0] for done, sent in zip(finished, self._sent, strict=True)):
                lowest = min(lowest, needed)
        return lowest


FEEDS: dict[str, type[Dealt]] = {DEALT: Dealt, EVERYONE: Everyone, SHARES: Shares}
