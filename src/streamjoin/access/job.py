"""A job: arrivals of one side to be compared with stored tuples of the other, as a row of words.

Access paths and exact tests are compiled apart from the loop of a worker, which calls them by address; a job is all
that passes between them. Most words are addresses that are set once; the worker writes those of the first group for
every arrival.
"""

from __future__ import annotations

import numpy as np
from numba import carray

from streamjoin.access.layout import FIELDS, TROUBLE_FIELDS, Pairs, Probes, Ranges
from streamjoin.access.simd import LANES
from streamjoin.codegen.intrinsics import pointer, words_at
from streamjoin.codegen.jit import inner, njit

(
    # what to compare
    FROM,  # positions of the arrivals on their tape
    TO,
    LOW,  # numbers of the stored tuples to look at
    HIGH,
    NEWEST,  # no stored tuple has a larger number
    PAIR_PROBE,  # where matches go: numbers of arrivals, numbers of stored tuples, room for how many
    PAIR_STORED,
    PAIR_ROOM,
    # the tape of the arrivals
    DIMS,
    PROBE_ROOM,
    PROBE_LO,
    PROBE_HI,
    PROBE_KEY,
    PROBE_SINCE,
    PROBE_UNTIL,
    PROBE_NUMBER,
    PROBE_COLUMNS,
    # the stored tuples
    STORED_ROOM,
    STORED_COLUMNS,
    STORED_COORD,
    STORED_KEY,
    STORED_AT,
    STORED_NUMBER,
    STORED_WIDTH,  # widest box of every chunk
    STORED_BLOCK,  # where a block begins: the number at which it ends
    STRETCH,  # how the tape is dealt, and which turn to look at: -1 for all
    CHUNK,
    TURNS,
    PROBE_TURNS,
    TURN,
    HEADS,  # of hash chains, and how many
    HEAD_COUNT,
    LINKS,
    BAND,  # a record of the arrays of a band window
    COUNT_ORDERED,  # arrivals that have been put into its order
    # between access path and exact test
    RANGE_ROOM,
    RANGE_PROBE,
    RANGE_START,
    RANGE_STOP,
    RANGE_INSIDE,
    PATH,
    TEST,
    TROUBLE,
    JOB_WORDS,
) = range(44)


@inner(forceinline=True)
def probes_of(job):
    """The arrivals' tape."""
    room, dims = job[PROBE_ROOM], job[DIMS]
    return Probes(
        carray(pointer(job[PROBE_LO]), (dims, room), np.float32),
        carray(pointer(job[PROBE_HI]), (dims, room), np.float32),
        carray(pointer(job[PROBE_KEY]), (room,), np.uint32),
        words_at(job[PROBE_SINCE], room),
        words_at(job[PROBE_UNTIL], room),
    )


@inner(forceinline=True)
def ranges_of(job):
    room = job[RANGE_ROOM]
    return Ranges(
        words_at(job[RANGE_PROBE], room),
        words_at(job[RANGE_START], room),
        words_at(job[RANGE_STOP], room),
        carray(pointer(job[RANGE_INSIDE]), (room,), np.bool_),
    )


@inner(forceinline=True)
def pairs_of(job):
    return Pairs(words_at(job[PAIR_PROBE], job[PAIR_ROOM]), words_at(job[PAIR_STORED], job[PAIR_ROOM]))


@inner(forceinline=True)
def coord_of(job):
    return carray(pointer(job[STORED_COORD]), (job[DIMS], job[STORED_ROOM] + LANES), np.float32)


@inner(forceinline=True)
def path_of(job):
    """The access path's cursor."""
    return words_at(job[PATH], FIELDS)


@inner(forceinline=True)
def test_of(job):
    """The exact test's cursor."""
    return words_at(job[TEST], FIELDS)


@inner(forceinline=True)
def trouble_of(job):
    return words_at(job[TROUBLE], TROUBLE_FIELDS)


@inner(forceinline=True)
def position(number, stretch, chunk, turns, room):
    """Where a tuple lies on a tape.

    Stretches are dealt in turns, and each turn's stretches are gathered into chunks, so that what a worker owns is
    contiguous however finely the stream is dealt. Four stretches per chunk, two turns, tuples by stretch:

        number      0 1 2 3 4 5 6 7 | 8 9 ...
        position    0 2 4 6 1 3 5 7 | 8 ...       [ chunk of turn 0 ][ chunk of turn 1 ] ...
    """
    if turns == 1:
        return number % room
    cycle = turns * chunk
    inside = number % cycle
    deal = inside // stretch
    return (number - inside + deal % turns * chunk + deal // turns * stretch + inside % stretch) % room


@njit(nogil=True, cache=True)
def positions(first, stop, stretch, chunk, turns, room):
    """Where tuples first..stop-1 lie."""
    places = np.empty(stop - first, np.int64)
    for number in range(first, stop):
        places[number - first] = position(number, stretch, chunk, turns, room)
    return places


@inner(forceinline=True)
def own_before(inside, stretch, turns, turn):
    """How many tuples of a turn come before a place in a cycle."""
    deal = inside // stretch
    whole = (deal + turns - 1 - turn) // turns * stretch
    return whole + (inside % stretch if deal % turns == turn else 0)


@njit(nogil=True, cache=True)
def next_piece(job, number):
    """The next contiguous part of what a job looks at, from a number on.

    Returns the number behind it, and its first and last + 1 position; these are equal when there is no more.
    """
    stretch, chunk, turns, turn = job[STRETCH], job[CHUNK], job[TURNS], job[TURN]
    room, high = job[STORED_ROOM], job[HIGH]
    while number < high:
        if turns == 1 or turn < 0:
            unit = chunk if turns == 1 else stretch
            end = min(high, (number // unit + 1) * unit)
            begin = position(number, stretch, chunk, turns, room)
            return end, begin, begin + end - number
        cycle = turns * chunk
        base = number // cycle * cycle
        first = own_before(number - base, stretch, turns, turn)
        last = own_before(min(high - base, cycle), stretch, turns, turn)
        number = base + cycle
        if first < last:
            begin = (base + turn * chunk) % room
            return number, begin + first, begin + last
    return high, np.int64(0), np.int64(0)
