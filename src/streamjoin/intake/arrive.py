"""What happens to arrivals before they meet anybody: boxes and keys, their reach in time, their place on the tape.

Small batches come by the thousand in a second, and what is twenty calls of NumPy's is slow when nothing of it is in the
cache. So a batch is described by a frame of words, mostly addresses, and one call does it all.
"""

from __future__ import annotations

import numpy as np
from numba import carray

from streamjoin.access.layout import TROUBLE_FIELDS, Arrivals
from streamjoin.access.tape_kernels import write
from streamjoin.codegen.intrinsics import call, pointer, words_at
from streamjoin.codegen.jit import inner, njit
from streamjoin.windows import SINCE_EVER
from streamjoin.windows.reach import reach

(
    # what a predicate's `prepare` reads and writes
    ROWS,
    DIMS,
    STRIDE,  # values from one dimension of a box to the next
    ORIGIN,
    KEEP,
    LO,
    HI,
    COORD,
    WIDTH,
    KEY,
    TROUBLE,
    # what else becomes of a batch that goes straight to its tape
    PREPARE,  # address of the predicate's function
    AT,
    SINCE,
    UNTIL,
    LOWER,  # the window
    UPPER,
    NEWEST,  # the stream's latest time, how late a tuple may be, and what was promised
    DELAY,
    PROMISED,
    FIRST,  # the first tuple's number
    STRETCH,
    CHUNK,
    TURNS,
    COLUMNS,  # addresses of the predicate's columns begin here
) = range(25)


@inner(forceinline=True)
def boxes_at(frame, word):
    return carray(pointer(frame[word]), (frame[DIMS], frame[STRIDE]), np.float32)


@inner(forceinline=True)
def floats_at(address, count):
    return carray(pointer(address), (count,), np.float32)


@inner(forceinline=True)
def flags_at(address, count):
    return carray(pointer(address), (count,), np.bool_)


@inner(forceinline=True)
def keys_at(address, count):
    return carray(pointer(address), (count,), np.uint32)


@njit(nogil=True, cache=True)
def prepare(function, frame_address):
    """Calls a predicate's function. Returns how many rows are kept."""
    return call(function, frame_address)


@inner
def late(frame, at):
    """Does a tuple come after one that is later by more than the delay, or after a promise?"""
    newest = frame[NEWEST]
    for i in range(len(at)):
        limit = SINCE_EVER if newest < SINCE_EVER + frame[DELAY] else newest - frame[DELAY]
        if at[i] < max(limit, frame[PROMISED]):
            return True
        newest = max(newest, at[i])
    frame[NEWEST] = newest
    return False


@njit(nogil=True, cache=True)
def take_in(frame, frame_address, stored, tape):
    """Puts a batch onto its tape. False if some row is late or does not count: then nothing has been done.

    `stored`: which of the columns the exact test reads. The latest time of the stream is in the frame afterwards.
    """
    n, dims, before = frame[ROWS], frame[DIMS], frame[NEWEST]
    at = words_at(frame[AT], n)
    if late(frame, at):
        return False
    if call(frame[PREPARE], frame_address) < n or words_at(frame[TROUBLE], TROUBLE_FIELDS)[0]:
        frame[NEWEST] = before
        return False
    since, until = words_at(frame[SINCE], n), words_at(frame[UNTIL], n)
    reach(at, frame[LOWER], frame[UPPER], since, until)
    columns = np.empty(len(stored), np.int64)
    for k in range(len(stored)):
        columns[k] = frame[COLUMNS + stored[k]]
    boxes = boxes_at(frame, LO), boxes_at(frame, HI), boxes_at(frame, COORD)
    key, width = keys_at(frame[KEY], n), floats_at(frame[WIDTH], dims)
    batch = Arrivals(columns, boxes[0], boxes[1], boxes[2], at, since, until, key, width)
    write(tape, batch, 0, frame[FIRST], frame[FIRST] + n, frame[STRETCH], frame[CHUNK], frame[TURNS])
    return True
