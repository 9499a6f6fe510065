"""What kernels share: batches of tuples, segments of a window, searches, and the candidates between two of their steps.

A segment is searched in two steps. An access path's `find` fills ranges of candidates; the predicate's `refine` turns
them into pairs. Both stop when their room is used up and go on from where they were. All of it is passed by address, so
that the same machine code serves whoever pushes, worker threads and Spark.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
import numpy.typing as npt

from streamjoin.codegen.records import Address, Array, Record, Word

FAULT_WORDS = 3
MOST_DIMS = 4  # of a box: the predicate's, and the place in the window

Fault = Annotated[npt.NDArray[np.int64], (np.int64, FAULT_WORDS)]  # a code above zero, the positions of both tuples


class Column(Record):
    """One array with a value for every position."""

    start: Address
    each: Word  # bytes from one position to the next


class Batch(Record):
    """Tuples side by side, by position: a batch that was pushed, or a tape.

    A tuple is a box: a pair can match only if the two boxes touch.
    """

    columns: Address  # Column: what the predicate reads
    stride: Word  # from one dimension of the boxes to the next
    lo: Address  # float32 (dims, stride): lower corner
    hi: Address  # upper corner
    coord: Address  # what a segment orders by
    width: Address  # float32 (dims): no box is wider; on a tape, see Chunk
    key: Address  # uint32: hash of the equality keys, zero without any
    at: Address  # int64: place in the window: a time or a position
    since: Address  # int64: the window on the other side, as places, inclusive
    until: Address
    number: Address  # int64


class Chunk(Record):
    """What a scan must know of tuples that lie side by side on a tape, to skip or enter them."""

    first_at: Word  # smallest and largest place
    last_at: Word
    width: Annotated[Array, (np.float32, MOST_DIMS)]  # no box is wider


class Stored(Record):
    """A segment: where its tuples lie, which of them are in it, and by which functions it is searched."""

    dims: Word
    room: Word  # positions
    columns: Address  # Column: what the predicate reads
    column_count: Word
    stride: Word  # from one dimension of the coordinates to the next
    coord: Address  # float32 (dims, stride)
    key: Address  # uint32; 0 without keys
    at: Address  # int64
    number: Address  # uint32: low half of the tuple number, see `intrinsics.full_number`
    oldest: Word  # inserted tuples are numbered oldest..stop-1,
    stop: Word
    way: Word  # of which a segment has this one of so many ways; -1: all
    ways: Word
    stripe: Word  # how a tape is dealt: see `tape_kernels.position`
    chunk: Word
    chunks: Address  # Chunk, on a tape
    blocks: Address  # int64, on a tape of sorted batches: where a block begins, the number at which it ends
    source: Address  # Batch: where arrivals come from
    first: Word  # what is to be inserted: the first tuple's number, and positions begin..end-1 of the source
    begin: Word
    end: Word
    horizon: Word  # below this place tuples are to be forgotten
    index: Address  # what an access path has of its own
    find: Address  # functions: of a Probing; 0 if there are more candidates
    insert: Address  # of a Stored; 0 if room must be made first
    expire: Address


class Range(Record):
    """Candidates: an arrival against stored positions start..stop-1."""

    probe: Word  # position of the arrival
    start: Word
    stop: Word
    inside: Word  # the whole range lies in the arrival's window


class Probing(Record):
    """One search: which arrivals look at which tuples, and how far it has come."""

    batch: Address  # Batch: the arrivals,
    first: Word  # at positions first..end-1
    end: Word
    stored: Address  # Stored
    low: Word  # numbers of the stored tuples to look at: low..high-1
    high: Word
    newest: Word  # no stored tuple has a larger number
    order: Address  # uint32: positions of the arrivals in the order that an index likes,
    ordered: Word  # once they have been put into it
    ranges: Address  # Range
    range_room: Word
    count: Word  # of them that are filled
    run: Word  # where `find` goes on
    step: Word
    row: Word
    compared: Word  # candidates so far
    at_range: Word  # where `refine` goes on
    at_place: Word
    pair_probe: Address  # int64: numbers of arrivals, and of the stored tuples that they match
    pair_stored: Address
    pair_room: Word
    found: Word
    fault: Fault
    refine: Address  # function: of a Probing; 0 if it raised, 1 if pairs are full, 2 if all ranges were tested


RAISED, FULL, TESTED = range(3)  # what `refine` returns
