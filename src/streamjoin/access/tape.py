"""The tape of a stream: its recent tuples in order of arrival, written by the driver, read by every worker.

    number      0 ....... released ......................... head
    position    a ring, so that nothing moves when tuples expire; see `job.position`

Messages between workers name tuples by number; this is where those lie (DP-Join 3.2: communication by reference). With
scan, sorted and hash access the windows themselves are stretches of the tape: there is one copy of each stream,
whatever the number of workers. Every worker publishes below which number it reads nothing any more, and the driver
writes only over what nobody needs: DP-Join's counters of 4.4.2, with the driver as the one who removes. With band
access workers keep their tuples themselves, and the tape holds only what is under way.
"""

from __future__ import annotations

import numpy as np

from streamjoin.access.job import positions
from streamjoin.access.layout import Arrivals, Places
from streamjoin.access.simd import LANES
from streamjoin.access.tape_kernels import write
from streamjoin.access.tuples import Shape, Tuples
from streamjoin.codegen.records import Array, address

CHUNK = 1 << 14  # tuples that a scan finds side by side: long enough for the hardware to fetch ahead


class Tape:
    """The recent tuples of one side."""

    def __init__(self, shape: Shape, batch: int, turns: int, stretch: int, room: int, blocks: bool) -> None:
        """Stretches, of a whole number of batches, are dealt in so many turns. `blocks`: batches are sorted."""
        self.shape = shape
        self.batch = batch
        self.turns = turns
        self.stretch = stretch
        self.chunk = -(-CHUNK // stretch) * stretch
        self.blocks = blocks
        self.head = 0  # number of the next tuple
        cycle = turns * self.chunk
        self._allocate(-(-room // cycle) * cycle)

    def _allocate(self, room: int) -> None:
        shape = self.shape
        self.room = room
        self.columns = [np.zeros(room, dtype) for dtype in shape.columns]
        addresses = [[address(column) for column in self.columns], [c.itemsize for c in self.columns]]
        self.places = Places(
            columns=np.array(addresses, np.int64).reshape(2, -1),
            lo=np.zeros((shape.dims, room), np.float32),
            hi=np.zeros((shape.dims, room), np.float32),
            coord=np.zeros((shape.dims, room + LANES), np.float32),  # a vector may read beyond the last tuple
            at=np.zeros(room, np.int64),
            since=np.zeros(room, np.int64),
            until=np.zeros(room, np.int64),
            number=np.zeros(room, np.int64),
            low_number=np.zeros(room, np.uint32),
            key=np.zeros(room if shape.keyed else 1, np.uint32),
            width=np.zeros((room // self.chunk, shape.dims), np.float32),
        )
        self.block = np.zeros(room if self.blocks else 1, np.int64)

    def _arrays(self) -> list[Array]:
        """What is kept per tuple, tuples along the last axis."""
        at = self.places
        found: list[Array] = [*self.columns, at.lo, at.hi, at.coord, at.at, at.since, at.until]
        found += [at.number, at.low_number]
        found += [at.key] * self.shape.keyed
        return found + [self.block] * self.blocks

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._arrays()) + self.places.width.nbytes

    def write(self, batch: Tuples, begin: int, end: int) -> None:
        """Puts tuples begin..end-1 of a batch at the head; the caller has seen that there is room."""
        first, stop = self.head, self.head + end - begin
        order = None
        if self.blocks:
            order = self._sorted(batch.coord[0, begin:end], first)
            batch, begin = batch.part(begin, end).take(order), 0
        columns = [np.ascontiguousarray(column) for column in batch.columns]
        arrivals = Arrivals(
            np.array([address(column) for column in columns], np.int64),
            np.ascontiguousarray(batch.lo),
            np.ascontiguousarray(batch.hi),
            np.ascontiguousarray(batch.coord),
            batch.at,
            batch.since,
            batch.until,
            batch.key,
            batch.width,
        )
        write(self.places, arrivals, begin, first, stop, self.stretch, self.chunk, self.turns)
        if order is not None:
            there = self.positions(first, stop)
            self.places.number[there] = first + order
            self.places.low_number[there] = (first + order).astype(np.uint32)
        self.head = stop

    def positions(self, first: int, stop: int) -> Array:
        """Where tuples first..stop-1 lie."""
        return np.asarray(positions(first, stop, self.stretch, self.chunk, self.turns, self.room))

    def _sorted(self, coord: Array, first: int) -> Array:
        """The order by coordinate, within multiples of the batch size; notes where each such block ends."""
        numbers = np.arange(first, first + len(coord))
        cuts = numbers // self.batch
        starts = np.flatnonzero(np.diff(cuts, prepend=-1))
        self.block[numbers[starts] % self.room] = np.append(numbers[starts[1:]], numbers[-1] + 1)
        return np.lexsort((coord, cuts))

    def grow(self, released: int) -> None:
        """Twice the room. Nobody may be reading."""
        before, widths, old = self._arrays(), self.places.width, self.positions(released, self.head)
        self._allocate(2 * self.room)
        new = self.positions(released, self.head)
        for source, target in zip(before, self._arrays(), strict=True):
            target[..., new] = source[..., old]
        self.places.width[new // self.chunk] = widths[old // self.chunk]
