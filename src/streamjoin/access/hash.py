"""Hash chains: tuples with equal key hash, newest first, through one array of heads and one of links.

Heads and links hold low halves of tuple numbers, from which a position follows by a subtraction. On a tape that is
dealt to several ways this would take four divisions per step. There they hold positions, and the tape has the numbers.
Nothing is ever deleted: the chain ends at a number that is not below the previous one, or not in the window. After a
wrap-around, 2**32 tuples later, a half may lead to a chain of other keys. That does no harm: none of its tuples has the
key, and its numbers decrease, too.
"""

from __future__ import annotations

import numpy as np

from streamjoin.access.records import Batch, Probing, Range, Stored
from streamjoin.access.tape import OnTape, Tape
from streamjoin.access.tuples import Shape
from streamjoin.codegen.intrinsics import full_number, keys_at, record_at, records_at
from streamjoin.codegen.jit import inner, on_demand
from streamjoin.codegen.records import Address, Record, Word, address

AHEAD = 64
FEWEST_HEADS = 1024
TUPLES_PER_HEAD = 2
NOWHERE = 0xFFFFFFFF  # no position


class Chains(Record):
    """The index of a segment."""

    heads: Address  # uint32, a power of two of them
    head_count: Word
    links: Address  # uint32, by position


@inner(forceinline=True)
def tuple_of(segment, numbers, lap, newest, word):
    """The number and the position of the tuple that a head or link names; a number outside the window if it names none.

    `lap` is the number at which the ring of a tape with one way last began.
    """
    if segment.ways > 1:
        number = full_number(newest, numbers[word]) if word < segment.room else np.int64(-1)
        return number, word
    number = full_number(newest, np.uint32(word))
    return number, number - lap if number >= lap else number - lap + segment.room


@on_demand
def link(address):
    """Puts arrivals in front of the chains of their keys. 0 if there are too few heads for the window."""
    segment = record_at(address, Stored)
    chains = record_at(segment.index, Chains)
    if (segment.first - segment.oldest) // segment.ways > TUPLES_PER_HEAD * chains.head_count:
        return 0
    key, links = keys_at(segment.key, segment.room), keys_at(chains.links, segment.room)
    heads, mask = keys_at(chains.heads, chains.head_count), np.uint32(chains.head_count - 1)
    shift = 0 if segment.ways > 1 else segment.first - segment.begin
    for position in range(segment.begin, segment.end):
        slot = key[position] & mask
        links[position] = heads[slot]
        heads[slot] = np.uint32(position + shift)
    return 1


@on_demand(error_model="numpy")
def follow(address):
    """All arrivals along the chains of their keys, newest first, down to the oldest tuple of the window.

    If the ranges fill up, `row` holds the word of the chain at which to continue, plus one.
    """
    search = record_at(address, Probing)
    batch, segment = record_at(search.batch, Batch), record_at(search.stored, Stored)
    chains, ranges = record_at(segment.index, Chains), records_at(search.ranges, search.range_room, Range)
    asked, key = keys_at(batch.key, search.end), keys_at(segment.key, segment.room)
    heads, links = keys_at(chains.heads, chains.head_count), keys_at(chains.links, segment.room)
    numbers = keys_at(segment.number, segment.room)
    mask, count, low, newest = np.uint32(chains.head_count - 1), 0, search.low, search.newest
    lap, compared, room = newest // segment.room * segment.room, 0, search.range_room
    nearest = np.empty(AHEAD, np.int64)
    for first in range(search.first + search.step, search.end, AHEAD):
        last = min(first + AHEAD, search.end)
        for i in range(first, last):  # the heads first: their cache misses overlap
            nearest[i - first] = heads[asked[i] & mask]
        if search.row:
            nearest[0] = search.row - 1
            search.row = 0
        for i in range(first, last):
            before, word = newest + 1, nearest[i - first]
            number, position = tuple_of(segment, numbers, lap, newest, word)
            while low <= number and number < before:
                compared += 1
                if key[position] == asked[i]:
                    if count == room:
                        search.step, search.row, search.count = i - search.first, word + 1, count
                        search.compared += compared
                        return 0
                    found = ranges[count]
                    found.probe, found.start, found.stop, found.inside = i, position, position + 1, 0
                    count += 1
                before, word = number, np.int64(links[position])
                number, position = tuple_of(segment, numbers, lap, newest, word)
    search.step, search.count = search.end - search.first, count
    search.compared += compared
    return 1


class Hash(OnTape):
    """Chains of equal keys over a tape."""

    find = follow
    enter = link

    def __init__(self, shape: Shape, tape: Tape | None = None, way: int = -1) -> None:
        self._chains = Chains.new()
        super().__init__(shape, tape, way)

    def attach(self, tape: Tape) -> None:
        super().attach(tape)
        self._links = np.zeros(tape.room, np.uint32)
        self._chains.links = address(self._links)
        self._rebuild(0)

    def make_room(self, count: int) -> None:
        """Builds the chains again, with more heads."""
        self._rebuild(count)

    def _rebuild(self, more: int) -> None:
        record, tape = self.record, self.tape
        oldest, stop = int(record.oldest), int(record.stop)
        live = (stop - oldest + more) // tape.ways + 1
        # Workers have twice the heads: chains are shorter, and rebuilt half as often, while other workers wait.
        heads = max(FEWEST_HEADS, 1 << live.bit_length() >> (tape.ways == 1))
        self._heads = np.full(heads, NOWHERE if tape.ways > 1 else (oldest - 1) & 0xFFFFFFFF, np.uint32)
        self._chains.heads, self._chains.head_count = address(self._heads), heads
        record.index = address(self._chains)
        waiting = int(record.first), int(record.begin), int(record.end)
        way = max(int(record.way), 0)
        for begin in range(oldest // tape.stripe * tape.stripe, stop, tape.stripe):
            if begin // tape.stripe % tape.ways == way:
                first, end = max(begin, oldest), min(begin + tape.stripe, stop)
                record.first, record.begin = first, tape.positions(first, first + 1)[0]
                record.end = record.begin + end - first
                link(self.address)
        record.first, record.begin, record.end = waiting

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._heads.nbytes + self._links.nbytes


SEGMENT = Hash
