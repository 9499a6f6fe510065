"""How tuples lie in memory when a kernel sees them: the probing batch, the stored segment, its runs, what comes out."""

from __future__ import annotations

from typing import NamedTuple

from streamjoin.codegen.records import Array


class Probes(NamedTuple):
    """A batch of arrivals as an access path sees it. A tuple is a box: a pair can match only if the two boxes touch."""

    lo: Array  # float32 (dims, n): lower corner
    hi: Array  # float32 (dims, n): upper corner
    key: Array  # uint32: hash of the equality keys, zero without any
    since: Array  # int64: the window on the other side, as places `at`, inclusive
    until: Array


class Stored(NamedTuple):
    """The tuples of one window segment."""

    columns: tuple[Array, ...]  # what the predicate reads, column by column
    coord: Array  # float32 (dims, capacity): lower corners
    key: Array  # uint32
    at: Array  # int64: place in the window: a time or a position
    number: Array  # uint32: low half of the tuple number, see `scalar.full_number`


class Runs(NamedTuple):
    """Consecutive stretches of a segment, oldest first, with what a probe must know to skip or enter one."""

    begin: Array  # int64 (runs)
    end: Array
    first_at: Array  # int64 (runs): smallest and largest `at`
    last_at: Array
    low: Array  # float32 (runs, dims): smallest and largest coordinate
    high: Array
    width: Array  # float32 (runs, dims): the widest box
    origin: Array  # float64 (runs, dims): where the grid of cells begins,
    scale: Array  # float64 (runs, dims): its cells per unit,
    cells: Array  # int64 (runs, dims): and their number
    buckets: Array  # int64 (runs): hash buckets, a power of two
    directory: Array  # int64 (runs): where the run's cell starts lie in the store's directory


class Source(NamedTuple):
    """Where a band window copies its arrivals from. All arrays are contiguous and writable: one type, compiled once."""

    columns: Array  # int64 (2, columns): address and item size in bytes of each predicate column
    coord: Array  # float32 (dims or more, n)
    key: Array  # uint32, not read if the window has no keys
    at: Array  # int64
    number: Array  # int64
    width: Array  # float32 (dims or more): no box among them is wider


class Arrivals(NamedTuple):
    """A batch, as it is written onto a tape."""

    columns: Array  # int64: addresses of what the exact test reads
    lo: Array
    hi: Array
    coord: Array
    at: Array
    since: Array
    until: Array
    key: Array
    width: Array


class Places(NamedTuple):
    """The arrays of a tape, by position."""

    columns: Array  # int64 (2, n): address and bytes per value of every column that the exact test reads
    lo: Array  # float32 (dims, room)
    hi: Array
    coord: Array
    at: Array  # int64
    since: Array
    until: Array
    number: Array
    low_number: Array  # uint32
    key: Array  # uint32 (room, or 1 without keys)
    width: Array  # float32 (chunks, dims): the widest box of every chunk


class Band(NamedTuple):
    """All there is to one band window, so that compiled code can own it; see `access/band/runs.py`.

    A position is the same place in every column. Runs lie anywhere; what lies between them is nobody's.
    """

    state: Array  # int64
    columns: Array  # int64 (2, n): address and bytes per position of every array that has positions, see below
    coord: Array  # float32 (dims, capacity and more): lower corners
    key: Array  # uint32 (capacity, or 1 without keys)
    runs: Array  # int64 (rows, run fields): oldest first; the last rows are the jobs', for what they will have made
    boxes: Array  # float64 (rows, box fields, dims): the same runs
    directory: Array  # uint32 (capacity / 2): a run at position p has its cell starts from p / 2 on
    reach: Array  # float64 (dims): how wide the probes' boxes are on average, nan if unknown
    jobs: Array  # int64 (most jobs, job fields): merges under way
    seen: Array  # uint64 (most jobs, words): which key hashes a job has met
    held: Array  # bool (blocks): does memory stand behind a block of positions?
    target: Array  # uint32: room for a piece of work


# Band.columns: the predicate's columns, coordinates by dimension, at, number, key if there is one, directory.

# Band.state
NEWEST = 0  # largest tuple number so far
LIVE = 1  # tuples
RUN_COUNT = 2
CLOSED = 3  # runs, from the oldest on, that are merged no more
RAW = 4  # runs, from the newest on, that are not ordered yet
JOB_COUNT = 5
TAKEN = 6  # tuples that an insert took before it found no room
STARVED = 7  # a job found no room
CAPACITY = 8  # positions
NURSERY = 9  # positions, from the first on, kept for small runs
TOP = 10  # no position from here on has been written to
HELD = 11  # blocks that memory stands behind
PAGE = 12  # bytes of a page of memory
KEYED = 13
WORK = 14  # tuples moved by merging, since the beginning
STATE_FIELDS = 15

# Band.runs: positions, places in the window, hash buckets (a power of two), where in the directory the cell starts lie.
BEGIN, END, FIRST_AT, LAST_AT, BUCKETS, DIRECTORY = range(6)
RUN_FIELDS = 6
# Band.boxes, per dimension: the extent of the coordinates, the same without those at an axis' end, the widest box, and
# the grid: where it begins, its cells per unit, and their number.
LOW, HIGH, FINITE_LOW, FINITE_HIGH, WIDTH, ORIGIN, SCALE, CELLS = range(8)
BOX_FIELDS = 8


class Ranges(NamedTuple):
    """Candidates, as an access path finds them: probe i against stored positions start..stop-1."""

    probe: Array  # int64
    start: Array  # int64
    stop: Array  # int64
    inside: Array  # bool: the whole range lies in the probe's window


class Pairs(NamedTuple):
    """Matches, as tuple numbers."""

    probe: Array  # int64
    stored: Array  # int64


# An access path stops when its ranges fill up, and goes on from its cursor: these are the cursor's fields.
RUN, STEP, ROW, COUNT, COMPARED = range(5)
# The exact test stops when its pairs fill up: in the middle of which range, at which position, with how many pairs.
RANGE, PLACE, FOUND = range(3)
FIELDS = 5

# What went wrong inside a predicate: a code above zero, and the indices of the probing and the stored tuple.
TROUBLE_FIELDS = 3
