"""HELLS-Join: compare on a device into bitmaps, interpret them on the CPU, add tuples in between.

                 queue of window s                                       CPU
    r ──┬──▶ compare r with [ window s ] ──▶ bitmap ──▶ interpret: set bits ──▶ pairs
        └──▶ add r to [ window r ]                            ▲
                 queue of window r                            │
    s ──┬──▶ compare s with [ window r ] ──▶ bitmap ──────────┘  in the order of the comparisons
        └──▶ add s to [ window s ]

Karnagel, Habich, Schlegel, Lehner: The HELLS-Join, a heterogeneous stream join for extremely large windows (2013),
sections 4 and 5. A window is a fixed-size FIFO on the device (4.3). Its commands go through a queue of its own and are
executed in order (5.2), so a comparison sees exactly the tuples that were added before it. A tuple's position in its
stream determines its slot in the FIFO and its bit in the bitmap, so the interpretation does not read the device's copy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np

from streamjoin.codegen.records import Array

PIECE = 4096  # tuples that expire together


class Fifo:
    """The bookkeeping of one window: positions first..head-1 are live, position p lies at p % capacity.

    The capacity is a multiple of a bitmap's word.
    """

    def __init__(self, expected: int = 0) -> None:
        self.first = 0
        self.head = 0
        self.capacity = _whole_words(expected + WORD)
        self._pieces: deque[tuple[int, int]] = deque()  # where a piece ends, its largest `at`

    def __len__(self) -> int:
        return self.head - self.first

    def needed(self, count: int) -> int:
        """The capacity with which `count` more tuples fit: the current one, or a larger one if it is exceeded."""
        words = _words(self.first, self.head + count)
        return self.capacity if words[1] - words[0] <= self.capacity // WORD else _whole_words(2 * (len(self) + count))

    def push(self, at: Array) -> None:
        """Tuples have been added, with their `at`."""
        for begin in range(0, len(at), PIECE):
            piece = at[begin : begin + PIECE]
            self.head += len(piece)
            self._pieces.append((self.head, int(np.max(piece))))

    def expire(self, horizon: int) -> None:
        """Drops tuples that no further arrival can meet, a piece at a time."""
        while self._pieces and self._pieces[0][1] < horizon:
            self.first = self._pieces.popleft()[0]

    def ranges(self, capacity: int = 0) -> Iterator[tuple[int, int]]:
        """The words of the live tuples as (first, stop), by position, each contiguous in a FIFO of this capacity."""
        first, stop = _words(self.first, self.head)
        turn = (capacity or self.capacity) // WORD
        while first < stop:
            end = min(stop, (first // turn + 1) * turn)
            yield first, end
            first = end


def moves(fifo: Fifo, capacity: int) -> Iterator[tuple[int, int, int]]:
    """What to copy into a FIFO of another capacity: (word in the old one, word in the new one, words)."""
    for first, stop in fifo.ranges():
        while first < stop:
            room = capacity // WORD - first % (capacity // WORD)
            count = min(stop - first, room)
            yield first % (fifo.capacity // WORD), first % (capacity // WORD), count
            first += count


def tiles(probes: int, words: int, most_probes: int, most_words: int) -> tuple[int, int]:
    """How many probes and words one comparison takes, so that its bitmap has at most `most_words` words."""
    count = min(probes, most_probes)
    if count * words > most_words:
        count = min(count, max(64, most_words // words))
    return count, min(words, max(1, most_words // count))


def placement(unified: bool, wanted: str) -> str:
    """Which memory windows use on a device that shares the CPU's memory or does not, as long as they fit."""
    if wanted != "auto":
        return wanted
    return "host" if unified else "device"


def _words(first: int, stop: int) -> tuple[int, int]:
    return first // WORD, -(-stop // WORD) if stop > first else first // WORD


def _whole_words(tuples: int) -> int:
    return -(-max(tuples, WORD) // WORD) * WORD


WORD = 32
