"""The tape of a stream: its recent tuples in order of arrival.

    number      0 ....... released ......................... head
    position    a ring, so that nothing moves when tuples expire; see `tape_kernels.position`

Messages between workers name tuples by number; the tape has the tuples (DP-Join 3.2: communication by reference). With
scan, sorted and hash access the windows are stripes of the tape: there is one copy of each stream, whatever the number
of workers. Every worker publishes the number below which it reads no tuple, and the driver overwrites only tuples below
all of these: DP-Join's counters of 4.4.2, except that the driver removes tuples. With band and tree access workers
store their tuples themselves, and the tape holds only those under way. Without workers, each segment has its own tape,
which holds the stored columns of tuples, not what they need to probe.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np

from streamjoin.access.records import Batch, Chunk, Stored
from streamjoin.access.segment import Segment
from streamjoin.access.simd import LANES
from streamjoin.access.tape_kernels import forget, positions, take_in, write
from streamjoin.access.tuples import Shape, Tuples, addresses
from streamjoin.codegen.records import Array, address

CHUNK = 1 << 14  # contiguous tuples of a way: long enough for the hardware prefetcher
OWN_CHUNK = 1 << 11  # of a tape with one owner, whose chunks are contiguous
SLACK = 1.15  # room per tuple after a tape with one owner has grown
SPARSE = 0.3  # used part of the room below which it shrinks


class Tape:
    """The recent tuples of one side. Its record is that of a segment with all of them."""

    def __init__(self, shape: Shape, batch: int, ways: int, stripe: int, most: int, blocks: bool) -> None:
        """Stripes, of a whole number of batches, are dealt to the ways. `blocks`: batches are sorted."""
        self._set_up(shape, batch, ways, stripe, -(-CHUNK // stripe) * stripe, blocks=blocks, probing=True)
        self.resize(0, most)

    @classmethod
    def owned(cls, shape: Shape) -> Tape:
        """A tape for one segment, which does not probe."""
        tape = cls.__new__(cls)
        tape._set_up(shape, OWN_CHUNK, 1, OWN_CHUNK, OWN_CHUNK, blocks=False, probing=False)
        tape.resize(0, OWN_CHUNK)
        return tape

    def _set_up(
        self, shape: Shape, batch: int, ways: int, stripe: int, chunk: int, *, blocks: bool, probing: bool
    ) -> None:
        self.shape, self.batch, self.blocks = shape, batch, blocks
        self.ways, self.stripe, self.chunk = ways, stripe, chunk
        self.head = 0  # number of the next tuple
        self.room = 0
        self._cycle = ways * chunk
        self.record = Stored.new()
        self.address = address(self.record)
        self.record.dims, self.record.column_count = shape.dims, len(shape.columns)
        self.record.way, self.record.ways, self.record.stripe, self.record.chunk = -1, ways, stripe, chunk
        self.arrays: dict[str, Array] = {f"column{k}": np.zeros(0, dtype) for k, dtype in enumerate(shape.columns)}
        self.arrays |= {"coord": np.zeros((shape.dims, 0), np.float32), "at": np.zeros(0, np.int64)}
        self.arrays |= {"low_number": np.zeros(0, np.uint32)}
        self.arrays |= {"key": np.zeros(0, np.uint32)} if shape.keyed else {}
        self.arrays |= {"block": np.zeros(0, np.int64)} if blocks else {}
        if probing:
            self.arrays |= {corner: np.zeros((shape.dims, 0), np.float32) for corner in ("lo", "hi")}
            self.arrays |= {name: np.zeros(0, np.int64) for name in ("since", "until", "number")}
        self._chunks = Chunk.array(0)

    def resize(self, released: int, most: int) -> None:
        """Makes room for `most` tuples, and a cycle more, so that no chunk has needed and new tuples at once.

        It replaces array by array, so that at most one exists twice. No thread may be reading.
        """
        before, self.most = self.room, -(-most // self._cycle) * self._cycle
        self.room = self.most + self._cycle
        moves = list(self._moves(released, before))
        for name, array in self.arrays.items():
            room = self.room + LANES if array.ndim > 1 else self.room  # a vector may read beyond the last tuple
            self.arrays[name] = _moved(array, room, moves)
        by_chunk = [tuple(number // self.chunk for number in move) for move in moves]
        self._chunks = _moved(self._chunks, self.room // self.chunk, by_chunk)
        self._enter()

    def _moves(self, released: int, before: int) -> Iterator[tuple[int, ...]]:
        """The copies, in whole cycles, when the size of the ring changes: old position, new position, count."""
        number, stop = released // self._cycle * self._cycle, -(-self.head // self._cycle) * self._cycle
        while number < stop:
            old, new = number % before, number % self.room
            count = min(stop - number, before - old, self.room - new)
            yield old, new, count
            number += count

    def _enter(self) -> None:
        """Writes the addresses of the arrays into the records."""
        arrays, record = self.arrays, self.record
        self.columns = tuple(arrays[f"column{k}"] for k in range(len(self.shape.columns)))
        self._addresses = addresses(self.columns)
        at = {name: address(array) for name, array in arrays.items()}
        record.room, record.stride, record.columns = self.room, self.room + LANES, address(self._addresses)
        record.coord, record.at, record.number = at["coord"], at["at"], at["low_number"]
        record.key, record.chunks, record.blocks = at.get("key", 0), address(self._chunks), at.get("block", 0)
        if "lo" in arrays:
            batch = self._batch = Batch.new()
            batch.columns, batch.stride, batch.key = record.columns, record.stride, record.key
            for name in ("lo", "hi", "coord", "at", "since", "until", "number"):
                setattr(batch, name, at[name])
            record.source = address(batch)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values()) + self._chunks.nbytes

    def write(self, batch: Tuples, begin: int, end: int) -> None:
        """Writes tuples begin..end-1 of a batch at the head. There must be room."""
        first, stop = self.head, self.head + end - begin
        order = None
        if self.blocks:
            order = self._sorted(batch.coord[0, begin:end], first)
            batch, begin = batch.part(begin, end).take(order), 0
        write(self.address, address(batch.record), begin, first, stop)
        if order is not None:
            there = self.positions(first, stop)
            self.arrays["number"][there] = first + order
            self.arrays["low_number"][there] = (first + order).astype(np.uint32)
        self.head = stop

    def positions(self, first: int, stop: int) -> Array:
        """The positions of tuples first..stop-1."""
        return np.asarray(positions(self.address, first, stop))

    def _sorted(self, coord: Array, first: int) -> Array:
        """The order by coordinate within blocks, at multiples of the batch size; notes the end of each block."""
        numbers = np.arange(first, first + len(coord))
        cuts = numbers // self.batch
        starts = np.flatnonzero(np.diff(cuts, prepend=-1))
        self.arrays["block"][numbers[starts] % self.room] = np.append(numbers[starts[1:]], numbers[-1] + 1)
        return np.lexsort((coord, cuts))


def _moved(array: Array, room: int, moves: list[tuple[int, ...]]) -> Array:
    """A longer or shorter array, with parts of the old one at other positions along the last axis."""
    made = np.zeros((*array.shape[:-1], room), array.dtype)
    for old, new, count in moves:
        made[..., new : new + count] = array[..., old : old + count]
    return made


class OnTape(Segment):
    """A segment whose tuples stay on the tape: one that it shares with other segments, or its own."""

    forget = forget
    take_in = take_in

    def __init__(self, shape: Shape, tape: Tape | None = None, way: int = -1) -> None:
        super().__init__(shape)
        self._owned = tape is None
        self.record.way = way
        self.attach(tape or Tape.owned(shape))

    def attach(self, tape: Tape) -> None:
        self.tape = tape
        for name in ("room", "stride", "columns", "coord", "key", "at", "number", "chunks", "blocks", "source"):
            setattr(self.record, name, getattr(tape.record, name))
        self.record.ways, self.record.stripe, self.record.chunk = tape.ways, tape.stripe, tape.chunk

    @property
    def columns(self) -> tuple[Array, ...]:
        return self.tape.columns

    def __len__(self) -> int:
        oldest = int(self.record.oldest)  # read first, so that another thread never gets a negative length
        return int(self.record.stop) - oldest

    @property
    def nbytes(self) -> int:
        return self.tape.nbytes if self._owned else 0

    def insert(self, batch: Tuples) -> None:
        n, tape, record = len(batch), self.tape, self.record
        if not n:
            return
        tape.head = int(record.stop)  # compiled code may have written, too
        needed = len(self) + n
        if needed > tape.most:
            tape.resize(int(record.oldest), int(SLACK * needed))
            self.attach(tape)
        first = tape.head
        tape.write(batch, 0, n)
        if self.enter is not None:
            for begin, end in self._pieces(first, tape.head):
                record.first, record.begin = begin, begin % tape.room
                record.end = record.begin + end - begin
                while not self.enter(self.address):
                    self.make_room(n)
                record.stop = end
        record.stop = tape.head

    def _pieces(self, first: int, stop: int) -> Iterable[tuple[int, int]]:
        """Tuples first..stop-1 of a tape with one way, cut where its ring ends."""
        cuts = [first, *range((first // self.tape.room + 1) * self.tape.room, stop, self.tape.room), stop]
        return itertools.pairwise(cuts)

    def expire(self, horizon: int) -> None:
        super().expire(horizon)
        self.tape.head = int(self.record.stop)
        if len(self) < SPARSE * self.tape.most and self.tape.most > OWN_CHUNK:
            self.tape.resize(int(self.record.oldest), int(SLACK * len(self)) + 1)
            self.attach(self.tape)
