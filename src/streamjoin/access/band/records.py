"""The records of a band segment: its runs, the merges under way, and the state with which compiled code owns them."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from streamjoin.access.records import MOST_DIMS, Index
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
    first_at: Word  # smallest and largest `at`
    last_at: Word
    buckets: Word  # of key hashes, a power of two
    directory: Word  # the index of its bins' starts in the directory
    low: PerDim  # the extent of the coordinates,
    high: PerDim
    finite_low: PerDim  # the same without those at an axis' end,
    finite_high: PerDim
    width: PerDim  # the widest box,
    origin: PerDim  # and the grid: where it begins, its bins per unit, and their number
    scale: PerDim
    bins: PerDim


class Merge(Record):
    """A merge under way: runs first..last-1 become one, in a free range."""

    first: Word
    last: Word
    closes: Word  # is the result closed?
    keys: Word  # distinct ones
    phase: Word
    at_run: Word  # the progress of the phase: run, tuple
    at_tuple: Word
    result: Run


class Band(Index):
    """The whole state of a band segment, so that compiled code can own it; see `access/band/runs.py`.

    A position is the same index in every column. Runs can lie anywhere, with free positions between them.
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
    raw: Word  # runs, from the newest on, that are not ordered yet
    live: Word  # tuples
    merges: Address  # Merge: a stack
    merge_count: Word
    seen: Address  # uint64 (MOST_MERGES, seen_words): key hashes that a merge has seen
    seen_words: Word
    target: Address  # uint32: room for a piece of work
    entered: Word  # tuples inserted so far
    starved: Word  # did a merge find no room?
    held: Address  # bool: is a block of positions held?
    held_count: Word  # held blocks
    top: Word  # no position from here on has been written to
    work: Word  # tuples moved by merging so far
    probe_width: PerDim  # the mean width of the probes' boxes, nan if unknown


@inner(forceinline=True)
def runs_of(band):
    return records_at(band.runs, band.run_room, Run)


@inner(forceinline=True)
def merges_of(band):
    return records_at(band.merges, MOST_MERGES, Merge)
