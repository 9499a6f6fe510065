"""What happens to arrivals before they meet anybody: boxes and keys, their reach in time, their place on the tape.

Small batches come by the thousand in a second, and what is twenty calls of NumPy's is slow when nothing of it is in the
cache. So a batch is described by a frame of words, mostly addresses, and one call does it all.
"""

from __future__ import annotations

import numpy as np
from numba import carray

from streamjoin.core.compiled import inner, njit
from streamjoin.core.kernels.atomics import call, pointer, words_at
from streamjoin.core.kernels.job import position
from streamjoin.core.kernels.layout import FOREVER, SINCE_EVER, TROUBLE_FIELDS, Arrivals
from streamjoin.core.kernels.memory import copy_bytes

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


@njit(nogil=True, cache=True)
def reach(at, lower, upper, since, until):
    """The times from at + lower to at + upper, within 64 bits; nothing where both ends lie beyond."""
    for i in range(len(at)):
        t = at[i]
        if (lower > 0 and t > FOREVER - lower) or (upper < 0 and t < SINCE_EVER - upper):
            since[i], until[i] = FOREVER, SINCE_EVER
            continue
        since[i] = SINCE_EVER if lower < 0 and t < SINCE_EVER - lower else t + lower
        until[i] = FOREVER if upper > 0 and t > FOREVER - upper else t + upper


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


@njit(nogil=True, cache=True)
def write(tape, batch, begin, first, stop, stretch, chunk, turns):
    """Puts tuples begin.. of a batch at the places of numbers first..stop-1. Notes the widest box of every chunk."""
    room, dims = len(tape.at), len(tape.coord)
    number = first
    while number < stop:
        end = min(stop, (number // stretch + 1) * stretch)
        place, source, count = position(number, stretch, chunk, turns, room), begin + number - first, end - number
        for c in range(tape.columns.shape[1]):
            size = tape.columns[1, c]
            copy_bytes(tape.columns[0, c] + place * size, batch.columns[c] + source * size, count * size)
        for k in range(count):
            i, j = place + k, source + k
            for d in range(dims):
                tape.lo[d, i], tape.hi[d, i], tape.coord[d, i] = batch.lo[d, j], batch.hi[d, j], batch.coord[d, j]
            tape.at[i], tape.since[i], tape.until[i] = batch.at[j], batch.since[j], batch.until[j]
            tape.number[i], tape.low_number[i] = number + k, np.uint32(number + k)
            if len(tape.key) > 1:
                tape.key[i] = batch.key[j]
        widest = tape.width[place // chunk]
        for d in range(dims):
            widest[d] = max(np.float32(0) if place % chunk == 0 else widest[d], batch.width[d])
        number = end
