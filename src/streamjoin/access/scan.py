"""Access by scan: every stored tuple is looked at, eight at a time.

A test on the boxes (float32, never too strict) runs over a block of the window for four probes at once. A block stays
in the first-level cache while all probes pass over it. What passes goes to the exact test.
"""

from __future__ import annotations

import numpy as np
from numba import carray

from streamjoin.access.job import (
    CHUNK,
    FROM,
    JOB_WORDS,
    LOW,
    STORED_ROOM,
    STORED_WIDTH,
    TO,
    coord_of,
    next_piece,
    path_of,
    probes_of,
    ranges_of,
)
from streamjoin.access.layout import COMPARED, COUNT, RUN, STEP
from streamjoin.access.simd import LANES, corner, near_any, near_mask, trailing_zeros
from streamjoin.access.stand_ins import DIMS
from streamjoin.codegen.intrinsics import centre_and_square, pointer, words_at
from streamjoin.codegen.jit import njit, on_demand
from streamjoin.windows import FOREVER, SINCE_EVER

BLOCK = 2048
GROUP = 4
MOST = GROUP * BLOCK  # candidates of one step


@njit(nogil=True, error_model="numpy", cache=True)
def next_hit(coord, j, last, c0, c1, c2, c3, square):
    """The first of j, j + 8, ... whose eight tuples are near any of four probes; last or beyond if there is none."""
    while j < last and not near_any(coord, j, c0, c1, c2, c3, square):
        j += LANES
    return j


@njit(nogil=True, error_model="numpy", cache=True)
def aim(p, first, stop, first_at, last_at, width, active, centre, square):
    """Centres and squared reaches of probes first..stop-1 whose window meets first_at..last_at, padded to groups.

    A group shares the largest reach: fewer registers in the loop that matters. Returns how many there are.
    """
    live = 0
    for i in range(first, stop):
        if p.since[i] <= last_at and p.until[i] >= first_at:
            active[live] = i
            for d in range(DIMS):
                if live % GROUP == 0:
                    square[d, live // GROUP] = 0
                middle, reach = centre_and_square(p.lo[d, i], width[d], p.hi[d, i])
                centre[d, live] = middle
                square[d, live // GROUP] = max(square[d, live // GROUP], reach)
            live += 1
    for extra in range(live, -(-live // GROUP) * GROUP):  # repeats the last probe; it is not asked for its hits
        for d in range(DIMS):
            centre[d, extra] = centre[d, live - 1]
    return live


@njit(nogil=True, error_model="numpy", cache=True)
def sweep(coord, begin, end, live, active, centre, square, ranges, count, cursor):
    """All aimed probes over positions begin..end-1. Returns the number of ranges.

    STEP is 0 when nothing is left; otherwise one more than the step to go on with.
    """
    groups, capacity = (live + GROUP - 1) // GROUP, len(ranges.probe)
    blocks = (end - begin + BLOCK - 1) // BLOCK
    for step in range(max(cursor[STEP] - 1, 0), blocks * groups):
        if count + MOST > capacity:
            cursor[STEP] = step + 1
            return count
        block, g = step // groups, (step % groups) * GROUP
        first = begin + block * BLOCK
        last = min(first + BLOCK, end)
        filled = min(GROUP, live - g)
        cursor[COMPARED] += (last - first) * filled
        c0, c1 = corner(centre, DIMS, g), corner(centre, DIMS, g + 1)
        c2, c3 = corner(centre, DIMS, g + 2), corner(centre, DIMS, g + 3)
        reach = corner(square, DIMS, g // GROUP)
        j = next_hit(coord, first, last, c0, c1, c2, c3, reach)
        while j < last:
            valid = np.uint8(255) if last - j >= LANES else np.uint8((1 << (last - j)) - 1)
            for k in range(filled):
                mask = near_mask(coord, j, corner(centre, DIMS, g + k), reach) & valid
                while mask:
                    at = j + trailing_zeros(mask)
                    mask = np.uint8(mask & (mask - np.uint8(1)))
                    ranges.probe[count], ranges.start[count], ranges.stop[count] = active[g + k], at, at + 1
                    ranges.inside[count] = False
                    count += 1
            j = next_hit(coord, j + LANES, last, c0, c1, c2, c3, reach)
    cursor[STEP] = 0
    return count


@njit(nogil=True, error_model="numpy", cache=True)
def candidates(p, coord, runs, run_count, ranges, cursor):
    """All probes over all runs. Fills `ranges`; returns False if there are more."""
    room, count = len(p.since) + GROUP, 0
    centre, square = np.empty((DIMS, room), np.float32), np.empty((DIMS, room), np.float32)
    active = np.empty(room, np.int64)
    for run in range(cursor[RUN], run_count):
        live = aim(p, 0, len(p.since), runs.first_at[run], runs.last_at[run], runs.width[run], active, centre, square)
        count = sweep(coord, runs.begin[run], runs.end[run], live, active, centre, square, ranges, count, cursor)
        if cursor[STEP]:
            cursor[RUN], cursor[COUNT] = run, count
            return False
    cursor[RUN], cursor[COUNT] = run_count, count
    return True


@njit(nogil=True, error_model="numpy", cache=True)
def scan_tape(job):
    """The same over the stretches of a tape that belong to a window."""
    p, coord, ranges, cursor = probes_of(job), coord_of(job), ranges_of(job), path_of(job)
    first, stop = job[FROM], job[TO]
    room, count, live = stop - first + GROUP, 0, 0
    centre, square = np.empty((DIMS, room), np.float32), np.empty((DIMS, room), np.float32)
    active = np.empty(room, np.int64)
    chunk = job[CHUNK]
    widths = carray(pointer(job[STORED_WIDTH]), (job[STORED_ROOM] // chunk, DIMS), np.float32)
    aimed = np.empty(DIMS, np.float32)
    number = max(job[LOW], cursor[RUN])
    after, begin, end = next_piece(job, number)
    while begin < end:
        width = widths[begin // chunk]
        again = live == 0
        for d in range(DIMS):
            again |= width[d] != aimed[d]
            aimed[d] = width[d]
        if again:
            live = aim(p, first, stop, SINCE_EVER, FOREVER, aimed, active, centre, square)
        count = sweep(coord, begin, end, live, active, centre, square, ranges, count, cursor)
        if cursor[STEP]:
            cursor[RUN], cursor[COUNT] = number, count
            return 0
        number = after
        after, begin, end = next_piece(job, number)
    cursor[COUNT] = count
    return 1


@on_demand
def on_tape(address):
    return scan_tape(words_at(address, JOB_WORDS))
