"""The records that kernels share: batches of tuples, segments of a window, searches, and candidates.

A segment is searched in two steps. An access path's `find` fills ranges of candidates. The predicate's `refine` turns
them into pairs. Both stop when their room is used up, and continue from there. Records are passed by address, so the
same machine code serves the pushing thread, worker threads and Spark.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
import numpy.typing as npt

from streamjoin.codegen.records import Address, Array, Record, Word

FAULT_WORDS = 3
MOST_DIMS = 4  # of a box: the predicate's, and `at`

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
    at: Address  # int64: the time, or the position in the stream
    since: Address  # int64: the lowest and the highest `at` that the tuple meets on the other side
    until: Address
    number: Address  # int64


class Chunk(Record):
    """The extent of contiguous tuples on a tape, by which a scan skips or enters them."""

    first_at: Word  # smallest and largest `at`
    last_at: Word
    width: Annotated[Array, (np.float32, MOST_DIMS)]  # no box is wider


class Stored(Record):
    """A segment: the arrays of its tuples, which of them are in it, and the functions of its access path."""

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
    way: Word  # of these, the segment has the tuples of this way; -1: all
    ways: Word  # the number of ways
    stripe: Word  # how a tape is dealt: see `tape_kernels.position`
    chunk: Word
    chunks: Address  # Chunk, on a tape
    blocks: Address  # int64, on a tape of sorted batches: where a block begins, the number at which it ends
    source: Address  # Batch: where arrivals come from
    first: Word  # what is to be inserted: the first tuple's number, and positions begin..end-1 of the source
    begin: Word
    end: Word
    horizon: Word  # tuples below this `at` are to be dropped
    index: Address  # the access path's own record
    find: Address  # functions: of a Probing; 0 if there are more candidates
    insert: Address  # of a Stored; 0 if room must be made first
    expire: Address


class Index(Record):
    """The first fields of an index that stores tuples in runs."""

    runs: Address  # its runs, oldest first
    run_room: Word
    run_count: Word
    closed: Word  # runs, from the oldest on, that are never merged again
    look: Word  # the number of inserted tuples at which the segment is checked
    taken: Word  # tuples that an insert took before it stopped


class Range(Record):
    """Candidates: an arrival against stored positions start..stop-1."""

    probe: Word  # position of the arrival
    start: Word
    stop: Word
    inside: Word  # the whole range lies in the arrival's window


class Probing(Record):
    """One search: its arrivals, the tuples that they probe, and its cursors."""

    batch: Address  # Batch: the arrivals,
    first: Word  # at positions first..end-1
    end: Word
    stored: Address  # Stored
    low: Word  # numbers of the stored tuples to probe: low..high-1
    high: Word
    newest: Word  # no stored tuple has a larger number
    order: Address  # uint32: positions of the arrivals, in the order that suits an index
    ordered: Word  # is `order` filled?
    ranges: Address  # Range
    range_room: Word
    count: Word  # filled ranges
    run: Word  # cursors of `find`: where it continues
    step: Word
    row: Word
    compared: Word  # candidates so far
    at_range: Word  # cursors of `refine`: where it continues
    at_position: Word
    pair_probe: Address  # int64: numbers of arrivals, and of the stored tuples that they match
    pair_stored: Address
    pair_room: Word
    found: Word
    fault: Fault
    refine: Address  # function: of a Probing; 0 if it raised, 1 if pairs are full, 2 if all ranges were tested


RAISED, FULL, TESTED = range(3)  # what `refine` returns
