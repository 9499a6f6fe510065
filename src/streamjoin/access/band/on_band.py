"""Band access for worker threads: the kernels of a band window behind addresses.

A record lists the arrays of a window, of the tape that feeds it and of its scratch space, three words each: address,
rows, columns. Their order: the fields of Band, those of Source, the widths of the tape's chunks, and room for the order
of the arrivals.
"""

from __future__ import annotations

import numpy as np
from numba import carray

from streamjoin.access.band.runs import expire, insert
from streamjoin.access.band.search import aim, candidates, learn
from streamjoin.access.job import (
    BAND,
    CHUNK,
    COUNT_ORDERED,
    FROM,
    HIGH,
    JOB_WORDS,
    LOW,
    NEWEST,
    STRETCH,
    TO,
    TURNS,
    path_of,
    position,
    probes_of,
    ranges_of,
)
from streamjoin.access.layout import BOX_FIELDS, Band, Source
from streamjoin.access.layout import NEWEST as NEWEST_NUMBER
from streamjoin.codegen.intrinsics import pointer, words_at
from streamjoin.codegen.jit import inner, njit, on_demand

ENTRY = 3
(
    _STATE,
    _COLUMNS,
    _COORD,
    _KEY,
    _RUNS,
    _BOXES,
    _DIRECTORY,
    _REACH,
    _JOBS,
    _SEEN,
    _HELD,
    _TARGET,
    _SOURCE,
) = range(len(Band._fields) + 1)
_TAPE_WIDTH = _SOURCE + len(Source._fields)
_ORDER = _TAPE_WIDTH + 1
RECORD_WORDS = ENTRY * (_ORDER + 1)


def _views(dtype):
    """The flat and the two-dimensional view of an entry as arrays of a type."""

    @inner(forceinline=True)
    def flat(record, k):
        return carray(pointer(record[ENTRY * k]), (record[ENTRY * k + 2],), dtype)

    @inner(forceinline=True)
    def wide(record, k):
        return carray(pointer(record[ENTRY * k]), (record[ENTRY * k + 1], record[ENTRY * k + 2]), dtype)

    return flat, wide


i64, i64_2 = _views(np.int64)
u32, _ = _views(np.uint32)
_, u64_2 = _views(np.uint64)
f32, f32_2 = _views(np.float32)
f64, _ = _views(np.float64)
flags, _ = _views(np.bool_)


@inner(forceinline=True)
def band_of(record):
    boxes = (record[ENTRY * _BOXES + 1], BOX_FIELDS, record[ENTRY * _BOXES + 2])
    return Band(
        i64(record, _STATE),
        i64_2(record, _COLUMNS),
        f32_2(record, _COORD),
        u32(record, _KEY),
        i64_2(record, _RUNS),
        carray(pointer(record[ENTRY * _BOXES]), boxes, np.float64),
        u32(record, _DIRECTORY),
        f64(record, _REACH),
        i64_2(record, _JOBS),
        u64_2(record, _SEEN),
        flags(record, _HELD),
        u32(record, _TARGET),
    )


@inner(forceinline=True)
def source_of(record):
    return Source(
        i64_2(record, _SOURCE),
        f32_2(record, _SOURCE + 1),
        u32(record, _SOURCE + 2),
        i64(record, _SOURCE + 3),
        i64(record, _SOURCE + 4),
        f32(record, _SOURCE + 5),
    )


@njit(nogil=True, cache=True)
def find(job):
    """Fills the ranges of a job's arrivals; 0 if there are more."""
    record = words_at(job[BAND], RECORD_WORDS)
    band, p, order, cursor = band_of(record), probes_of(job), u32(record, _ORDER), path_of(job)
    if job[COUNT_ORDERED] == 0:
        learn(band, p.lo, p.hi, job[FROM], job[TO])
        aim(band, p, job[FROM], job[TO], order)
        job[COUNT_ORDERED] = job[TO] - job[FROM]
    job[NEWEST] = band.state[NEWEST_NUMBER]
    return np.int64(candidates(p, order, job[COUNT_ORDERED], band, ranges_of(job), cursor))


@njit(nogil=True, cache=True)
def enter(job):
    """Inserts tuples LOW..HIGH-1 from their tape; 0 if room must be made first."""
    record = words_at(job[BAND], RECORD_WORDS)
    band, source, widths = band_of(record), source_of(record), f32_2(record, _TAPE_WIDTH)
    number, stretch, chunk, turns = job[LOW], job[STRETCH], job[CHUNK], job[TURNS]
    room = len(source.at)
    while number < job[HIGH]:
        end = min(job[HIGH], (number // stretch + 1) * stretch)
        begin = position(number, stretch, chunk, turns, room)
        for d in range(widths.shape[1]):
            source.width[d] = widths[begin // chunk, d]
        if not insert(band, source, begin, begin + end - number):
            job[LOW] = number
            return 0
        number = end
    return 1


@on_demand
def find_in_band(address):
    return find(words_at(address, JOB_WORDS))


@on_demand
def enter_band(address):
    return enter(words_at(address, JOB_WORDS))


@on_demand
def forget_band(address):
    job = words_at(address, JOB_WORDS)
    expire(band_of(words_at(job[BAND], RECORD_WORDS)), job[LOW])
    return 0
