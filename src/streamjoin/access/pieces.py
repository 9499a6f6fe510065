"""Access paths over a tape that need no vectors: whole stretches, sorted blocks, hash chains."""

from __future__ import annotations

import numpy as np
from numba import carray

from streamjoin.access.job import (
    CHUNK,
    DIMS,
    FROM,
    HEAD_COUNT,
    HEADS,
    HIGH,
    JOB_WORDS,
    LINKS,
    LOW,
    NEWEST,
    STORED_BLOCK,
    STORED_KEY,
    STORED_NUMBER,
    STORED_ROOM,
    STORED_WIDTH,
    STRETCH,
    TO,
    TURNS,
    coord_of,
    next_piece,
    path_of,
    position,
    probes_of,
    ranges_of,
)
from streamjoin.access.layout import COMPARED, COUNT, ROW, RUN, STEP
from streamjoin.access.whole import BLOCK
from streamjoin.codegen.intrinsics import down32, full_number, pointer, words_at
from streamjoin.codegen.jit import inner, njit, on_demand

AHEAD = 16
TUPLES_PER_HEAD = 2


@inner(forceinline=True)
def add_range(ranges, count, i, start, stop):
    ranges.probe[count], ranges.start[count], ranges.stop[count] = i, start, stop
    ranges.inside[count] = False
    return count + 1


@njit(nogil=True, cache=True)
def whole_tape(job):
    """Every piece is a candidate for every arrival: the predicate gives no help."""
    ranges, cursor = ranges_of(job), path_of(job)
    count, n, number = 0, job[TO] - job[FROM], max(job[LOW], cursor[RUN])
    after, begin, end = next_piece(job, number)
    while begin < end:
        for step in range(cursor[STEP], (end - begin + BLOCK - 1) // BLOCK * n):
            if count == len(ranges.probe):
                cursor[RUN], cursor[STEP], cursor[COUNT] = number, step, count
                return 0
            start = begin + step // n * BLOCK
            stop = min(start + BLOCK, end)
            count = add_range(ranges, count, job[FROM] + step % n, start, stop)
            cursor[COMPARED] += stop - start
        cursor[STEP] = 0
        number = after
        after, begin, end = next_piece(job, number)
    cursor[COUNT] = count
    return 1


@njit(nogil=True, cache=True)
def merge_blocks(job):
    """Merges the arrivals with every block: both are in the order of their first coordinate.

    The report on handshake join calls it merge join on basic blocks. What an arrival [lo, hi] meets in a block is
    contiguous; its beginning moves on from one arrival to the next. Numbers and positions run in parallel here.
    """
    p, coord, ranges, cursor = probes_of(job), coord_of(job), ranges_of(job), path_of(job)
    room, chunk = job[STORED_ROOM], job[CHUNK]
    block = words_at(job[STORED_BLOCK], room)
    widths = carray(pointer(job[STORED_WIDTH]), (room // chunk, job[DIMS]), np.float32)
    count, number = 0, max(job[LOW], cursor[RUN])
    while number < job[HIGH]:
        begin = number % room
        width, stop = widths[begin // chunk, 0], begin + block[begin] - number
        if count + job[TO] - job[FROM] > len(ranges.probe):
            cursor[RUN], cursor[COUNT] = number, count
            return 0
        start = begin
        for i in range(job[FROM], job[TO]):
            low, high = down32(p.lo[0, i], width), p.hi[0, i]
            while start < stop and coord[0, start] < low:
                start += 1
            while start > begin and coord[0, start - 1] >= low:
                start -= 1
            past = start
            while past < stop and coord[0, past] <= high:
                past += 1
            if past > start:
                count = add_range(ranges, count, i, start, past)
                cursor[COMPARED] += past - start
        number += stop - begin
    cursor[RUN], cursor[COUNT] = job[HIGH], count
    return 1


@njit(nogil=True, cache=True)
def link(job, first, stop):
    """Puts tuples first..stop-1, which lie side by side, in front of the chains of their keys."""
    room = job[STORED_ROOM]
    key = carray(pointer(job[STORED_KEY]), (room,), np.uint32)
    links = carray(pointer(job[LINKS]), (room,), np.uint32)
    heads = carray(pointer(job[HEADS]), (job[HEAD_COUNT],), np.uint32)
    mask, begin = np.uint32(job[HEAD_COUNT] - 1), position(first, job[STRETCH], job[CHUNK], job[TURNS], room)
    for place in range(begin, begin + stop - first):
        slot = key[place] & mask
        links[place] = heads[slot]
        heads[slot] = np.uint32(place)


@njit(nogil=True, cache=True)
def enter_chains(job):
    """Links tuples LOW..HIGH-1, the window's oldest being NEWEST. 0 if there are too few heads for the window."""
    if (job[HIGH] - job[NEWEST]) // job[TURNS] > TUPLES_PER_HEAD * job[HEAD_COUNT]:
        return 0
    number, stretch = job[LOW], job[STRETCH]
    while number < job[HIGH]:
        end = min(job[HIGH], (number // stretch + 1) * stretch)
        link(job, number, end)
        number = end
    return 1


@njit(nogil=True, error_model="numpy", cache=True)
def follow_chains(job):
    """All arrivals along the chains of their keys, newest first, down to the oldest tuple of the window.

    Chains hold positions. Nothing is ever deleted: a position that has been written over holds a tuple too new to
    follow the one before it in the chain, and that ends it.
    """
    p, ranges, cursor, room = probes_of(job), ranges_of(job), path_of(job), job[STORED_ROOM]
    key = carray(pointer(job[STORED_KEY]), (room,), np.uint32)
    numbers = carray(pointer(job[STORED_NUMBER]), (room,), np.uint32)
    links = carray(pointer(job[LINKS]), (room,), np.uint32)
    heads = carray(pointer(job[HEADS]), (job[HEAD_COUNT],), np.uint32)
    mask, count, low, newest = np.uint32(job[HEAD_COUNT] - 1), 0, job[LOW], job[NEWEST]
    nearest = np.empty(AHEAD, np.int64)
    for first in range(job[FROM] + cursor[STEP], job[TO], AHEAD):
        last = min(first + AHEAD, job[TO])
        for i in range(first, last):  # the heads first: their cache misses overlap
            nearest[i - first] = heads[p.key[i] & mask]
        if cursor[ROW]:
            nearest[0] = cursor[ROW] - 1
            cursor[ROW] = 0
        for i in range(first, last):
            before, place = newest + 1, nearest[i - first]
            while place < room:
                number = full_number(newest, numbers[place])
                if number < low or number >= before:
                    break
                cursor[COMPARED] += 1
                if key[place] == p.key[i]:
                    if count == len(ranges.probe):
                        cursor[STEP], cursor[ROW], cursor[COUNT] = i - job[FROM], place + 1, count
                        return 0
                    count = add_range(ranges, count, i, place, place + 1)
                before, place = number, np.int64(links[place])
    cursor[STEP], cursor[COUNT] = job[TO] - job[FROM], count
    return 1


@on_demand
def whole(address):
    return whole_tape(words_at(address, JOB_WORDS))


@on_demand
def blocks(address):
    return merge_blocks(words_at(address, JOB_WORDS))


@on_demand
def chains(address):
    return follow_chains(words_at(address, JOB_WORDS))


@on_demand
def enter(address):
    return enter_chains(words_at(address, JOB_WORDS))
