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

from streamjoin.core.kernels.job import positions
from streamjoin.core.kernels.layout import Array
from streamjoin.core.kernels.simd import LANES
from streamjoin.core.store import Shape, Tuples

CHUNK = 2048  # tuples that a scan finds side by side: long enough to get up to speed


class Tape:
    """Arrays of one side."""

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

    def places(self, first: int, stop: int) -> Array:
        """The positions of tuples first..stop-1."""
        return np.asarray(positions(first, stop, self.stretch, self.chunk, self.turns, self.room))

    def _allocate(self, room: int) -> None:
        shape = self.shape
        self.room = room
        self.columns = [np.zeros(room, dtype) for dtype in shape.columns]
        self.lo, self.hi = (np.zeros((shape.dims, room), np.float32) for _ in range(2))
        self.coord = np.zeros((shape.dims, room + LANES), np.float32)  # a vector may read beyond the last tuple
        self.key = np.zeros(room if shape.keyed else 1, np.uint32)
        self.at, self.since, self.until, self.number = (np.zeros(room, np.int64) for _ in range(4))
        self.low_number = np.zeros(room, np.uint32)
        self.width = np.zeros((room // self.chunk, shape.dims), np.float32)
        self.block = np.zeros(room if self.blocks else 1, np.int64)

    def _arrays(self) -> list[Array]:
        """What is kept per tuple, tuples along the last axis."""
        found: list[Array] = [*self.columns, self.lo, self.hi, self.coord, self.at, self.since, self.until]
        found += [self.number, self.low_number]
        found += [self.key] * self.shape.keyed
        return found + [self.block] * self.blocks

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._arrays()) + self.width.nbytes

    def write(self, batch: Tuples, begin: int, end: int) -> None:
        """Puts tuples begin..end-1 of a batch at the head; the caller has seen that there is room."""
        shape, first, stop = self.shape, self.head, self.head + end - begin
        there, numbers = self._there(first, stop), np.arange(first, stop)
        taken: slice | Array = slice(begin, end)
        if self.blocks:
            order = self._sorted(batch.coord[0, begin:end], numbers)
            taken, numbers = begin + order, numbers[order]
        for column, new in zip(self.columns, batch.columns, strict=True):
            column[there] = new[taken]
        for array, values in ((self.lo, batch.lo), (self.hi, batch.hi), (self.coord, batch.coord)):
            for row in range(shape.dims):
                array[row, there] = values[row, taken]
        self.at[there], self.since[there], self.until[there] = batch.at[taken], batch.since[taken], batch.until[taken]
        self.number[there], self.low_number[there] = numbers, numbers.astype(np.uint32)
        if shape.keyed:
            self.key[there] = batch.key[taken]
        self._widen(there, batch.width)
        self.head = stop

    def _there(self, first: int, stop: int) -> slice | Array:
        """The positions of tuples first..stop-1: a stretch of the tape if they are within one stretch."""
        if first // self.stretch == (stop - 1) // self.stretch:
            place = int(self.places(first, first + 1)[0])
            return slice(place, place + stop - first)
        return self.places(first, stop)

    def _widen(self, there: slice | Array, width: Array) -> None:
        """Notes the widest box of every chunk; one that is begun forgets what lay there before."""
        if isinstance(there, slice):
            chunk = there.start // self.chunk
            if there.start % self.chunk == 0:
                self.width[chunk] = 0
            np.maximum(self.width[chunk], width[: self.shape.dims], out=self.width[chunk])
            return
        self.width[there[there % self.chunk == 0] // self.chunk] = 0
        chunks = np.unique(there // self.chunk)
        self.width[chunks] = np.maximum(self.width[chunks], width[: self.shape.dims])

    def _sorted(self, coord: Array, numbers: Array) -> Array:
        """The order by coordinate, within multiples of the batch size; notes where each such block ends."""
        cuts = numbers // self.batch
        starts = np.flatnonzero(np.diff(cuts, prepend=-1))
        self.block[numbers[starts] % self.room] = np.append(numbers[starts[1:]], numbers[-1] + 1)
        return np.lexsort((coord, cuts))

    def grow(self, released: int) -> None:
        """Twice the room. Nobody may be reading."""
        before, widths, old_places = self._arrays(), self.width, self.places(released, self.head)
        self._allocate(2 * self.room)
        places = self.places(released, self.head)
        for old, new in zip(before, self._arrays(), strict=True):
            new[..., places] = old[..., old_places]
        self.width[places // self.chunk] = widths[old_places // self.chunk]
