"""Access by scan: every stored tuple is looked at, eight at a time.

A test on the boxes (float32, never too strict) runs over a block of the window for four probes at once. A block stays
in the first-level cache while all probes pass over it. What passes goes to the exact test.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from streamjoin.core.kernels.contract import DIMS
from streamjoin.core.kernels.layout import COMPARED, COUNT, RUN, STEP
from streamjoin.core.kernels.scalar import centre_and_square
from streamjoin.core.kernels.simd import LANES, corner, near_any, near_mask, trailing_zeros

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
def aim(p, runs, run, active, centre, square):
    """Centres and squared reaches of the probes whose window meets the run, padded to groups. Returns their count.

    A group shares the largest reach: fewer registers in the loop that matters.
    """
    live = 0
    for i in range(len(p.since)):
        if p.since[i] <= runs.last_at[run] and p.until[i] >= runs.first_at[run]:
            active[live] = i
            for d in range(DIMS):
                if live % GROUP == 0:
                    square[d, live // GROUP] = 0
                middle, reach = centre_and_square(p.lo[d, i], runs.width[run, d], p.hi[d, i])
                centre[d, live] = middle
                square[d, live // GROUP] = max(square[d, live // GROUP], reach)
            live += 1
    for extra in range(live, -(-live // GROUP) * GROUP):  # repeats the last probe; it is not asked for its hits
        for d in range(DIMS):
            centre[d, extra] = centre[d, live - 1]
    return live


@njit(nogil=True, error_model="numpy", cache=True)
def candidates(p, coord, runs, run_count, ranges, cursor):
    """Fills `ranges`; returns False if there are more."""
    room, count, capacity = len(p.since) + GROUP, 0, len(ranges.probe)
    centre, square = np.empty((DIMS, room), np.float32), np.empty((DIMS, room), np.float32)
    active = np.empty(room, np.int64)
    for run in range(cursor[RUN], run_count):
        live = aim(p, runs, run, active, centre, square)
        groups = (live + GROUP - 1) // GROUP
        begin, end = runs.begin[run], runs.end[run]
        blocks = (end - begin + BLOCK - 1) // BLOCK
        for step in range(cursor[STEP], blocks * groups):
            if count + MOST > capacity:
                cursor[RUN], cursor[STEP], cursor[COUNT] = run, step, count
                return False
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
    cursor[RUN], cursor[COUNT] = run_count, count
    return True
