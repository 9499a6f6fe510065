"""What happens to arrivals before they meet anybody: boxes and keys, their reach in time, their place on the tape.

Small batches come by the thousand in a second, and what is twenty calls of NumPy's is slow when nothing of it is in the
cache. So a batch is described by a frame of words, mostly addresses, and one call does it all.
"""

from __future__ import annotations

import numpy as np
from numba import carray

from streamjoin.access.records import FAULT_WORDS, Batch, Column
from streamjoin.access.tape_kernels import write
from streamjoin.codegen.intrinsics import call, pointer, record_at, records_at, words_at
from streamjoin.codegen.jit import inner, njit
from streamjoin.windows.kernels import find_late, shift

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
    BATCH,  # address of a Batch, of these arrays
    COLUMNS,  # addresses of the predicate's columns begin here
) = range(23)


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
def take_in(frame, frame_address, stored, tape):
    """Puts a batch onto its tape. False if some row is late or does not count: then nothing has been done.

    `stored`: which of the columns the exact test reads.
    """
    n = frame[ROWS]
    at = words_at(frame[AT], n)
    keep = flags_at(frame[KEEP], n)  # written by `prepare`, and free until then
    if find_late(at, frame[NEWEST], frame[DELAY], frame[PROMISED], keep):
        return False
    if call(frame[PREPARE], frame_address) < n or words_at(frame[TROUBLE], FAULT_WORDS)[0]:
        return False
    since, until = words_at(frame[SINCE], n), words_at(frame[UNTIL], n)
    shift(at, frame[LOWER], frame[UPPER], since, until)
    batch = record_at(frame[BATCH], Batch)
    columns = records_at(batch.columns, len(stored), Column)
    for k in range(len(stored)):
        columns[k].start = frame[COLUMNS + stored[k]]
    batch.at = frame[AT]
    write(tape, frame[BATCH], 0, frame[FIRST], frame[FIRST] + n)
    return True
