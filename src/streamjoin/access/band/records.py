"""The records of a band segment: its runs, the merges under way, and what compiled code must know to own it all."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from streamjoin.access.records import MOST_DIMS
from streamjoin.codegen.intrinsics import records_at
from streamjoin.codegen.jit import inner
from streamjoin.codegen.records import Address, Array, Record, Word

MOST_MERGES = 8
EVERYWHERE = 1 << 60

PerDim = Annotated[Array, (np.float64, MOST_DIMS)]


class Run(Record):
    """Tuples at positions begin..end-1, ordered by the bins of a grid."""

    begin: Word
    end: Word
    first_at: Word  # smallest and largest place in the window
    last_at: Word
    buckets: Word  # of key hashes, a power of two
    directory: Word  # where its bins' starts lie in the directory
    low: PerDim  # the extent of the coordinates,
    high: PerDim
    finite_low: PerDim  # the same without those at an axis' end,
    finite_high: PerDim
    width: PerDim  # the widest box,
    origin: PerDim  # and the grid: where it begins, its bins per unit, and their number
    scale: PerDim
    bins: PerDim


class Merge(Record):
    """A merge under way: runs first..last-1 become one, which is made beside them."""

    first: Word
    last: Word
    closes: Word  # is the result closed?
    keys: Word  # distinct ones
    phase: Word
    at_run: Word  # how far the phase is: run, tuple
    at_tuple: Word
    result: Run


class Band(Record):
    """All there is to one band segment, so that compiled code can own it; see `access/band/runs.py`.

    A position is the same place in every column. Runs lie anywhere; what lies between them is nobody's.
    """

    dims: Word
    keyed: Word
    page: Word  # bytes of a page of memory
    capacity: Word  # positions
    nursery: Word  # positions, from the first on, kept for small runs
    columns: Address  # Column: the predicate's, coordinates by dimension, at, number, key if there is one, directory
    column_count: Word
    coord: Address  # float32 (dims, stride)
    stride: Word
    key: Address  # uint32
    directory: Address  # uint32 (capacity / 2): a run at position p has its bins' starts from p / 2 on
    runs: Address  # Run: oldest first
    run_room: Word
    run_count: Word
    closed: Word  # runs, from the oldest on, that are merged no more
    raw: Word  # runs, from the newest on, that are not ordered yet
    live: Word  # tuples
    merges: Address  # Merge: a stack
    merge_count: Word
    seen: Address  # uint64 (MOST_MERGES, seen_words): which key hashes a merge has met
    seen_words: Word
    target: Address  # uint32: room for a piece of work
    entered: Word  # tuples that ever came
    look: Word  # how many must have come until somebody looks whether a grid divides them
    taken: Word  # tuples that an insert took before it found no room
    starved: Word  # a merge found no room
    held: Address  # bool: does memory stand behind a block of positions?
    held_count: Word  # blocks that it stands behind
    top: Word  # no position from here on has been written to
    work: Word  # tuples moved by merging, since the beginning
    probe_width: PerDim  # how wide the probes' boxes are on average, nan if unknown


@inner(forceinline=True)
def runs_of(band):
    return records_at(band.runs, band.run_room, Run)


@inner(forceinline=True)
def merges_of(band):
    return records_at(band.merges, MOST_MERGES, Merge)
