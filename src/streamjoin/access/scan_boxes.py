"""Scan of boxes: every stored tuple is compared, eight at a time.

A test on the boxes (float32, never too strict) runs over a block of the window for four probes at once. A block stays
in the first-level cache while all probes pass over it. Tuples that pass are candidates for the exact test.
"""

from __future__ import annotations

import numpy as np

from streamjoin.access.records import Batch, Chunk, Probing, Range, Stored
from streamjoin.access.simd import LANES, centre_and_square, corner, near_any, near_mask, trailing_zeros
from streamjoin.access.stand_ins import DIMS
from streamjoin.access.tape_kernels import next_piece
from streamjoin.codegen.intrinsics import floats_at, record_at, records_at, words_at
from streamjoin.codegen.jit import inner, on_demand

BLOCK = 2048
GROUP = 4
MOST = GROUP * BLOCK  # candidates of one step


@inner(error_model="numpy")
def next_hit(coord, j, last, c0, c1, c2, c3, square):
    """The first of j, j + 8, ... with one of its eight tuples near any of four probes; at least `last` if none is."""
    while j < last and not near_any(coord, j, c0, c1, c2, c3, square):
        j += LANES
    return j


@inner(error_model="numpy")
def aim(search, batch, chunk, active, centre, square):
    """Centres and squared distances of the arrivals whose window meets a chunk's, padded to groups.

    A group shares the largest distance: fewer registers in the loop that matters. Returns how many there are.
    """
    since, until = words_at(batch.since, search.end), words_at(batch.until, search.end)
    lo, hi = floats_at(batch.lo, DIMS, batch.stride), floats_at(batch.hi, DIMS, batch.stride)
    live = 0
    for i in range(search.first, search.end):
        if since[i] <= chunk.last_at and until[i] >= chunk.first_at:
            active[live] = i
            for d in range(DIMS):
                if live % GROUP == 0:
                    square[d, live // GROUP] = 0
                middle, distance = centre_and_square(lo[d, i], chunk.width[d], hi[d, i])
                centre[d, live] = middle
                square[d, live // GROUP] = max(square[d, live // GROUP], distance)
            live += 1
    for extra in range(live, -(-live // GROUP) * GROUP):  # padding: repeats the last probe, whose hits are not read
        for d in range(DIMS):
            centre[d, extra] = centre[d, live - 1]
    return live


@inner(error_model="numpy")
def sweep(search, coord, begin, end, live, active, centre, square):
    """All aimed probes over positions begin..end-1. False if ranges are full: then `step` is the next position + 1."""
    groups, ranges = (live + GROUP - 1) // GROUP, records_at(search.ranges, search.range_room, Range)
    blocks, count = (end - begin + BLOCK - 1) // BLOCK, search.count
    for step in range(max(search.step - 1, 0), blocks * groups):
        if count + MOST > search.range_room:
            search.step, search.count = step + 1, count
            return False
        block, g = step // groups, (step % groups) * GROUP
        first = begin + block * BLOCK
        last = min(first + BLOCK, end)
        filled = min(GROUP, live - g)
        search.compared += (last - first) * filled
        c0, c1 = corner(centre, DIMS, g), corner(centre, DIMS, g + 1)
        c2, c3 = corner(centre, DIMS, g + 2), corner(centre, DIMS, g + 3)
        distance = corner(square, DIMS, g // GROUP)
        j = next_hit(coord, first, last, c0, c1, c2, c3, distance)
        while j < last:
            valid = np.uint8(255) if last - j >= LANES else np.uint8((1 << (last - j)) - 1)
            for k in range(filled):
                mask = near_mask(coord, j, corner(centre, DIMS, g + k), distance) & valid
                while mask:
                    at = j + trailing_zeros(mask)
                    mask = np.uint8(mask & (mask - np.uint8(1)))
                    found = ranges[count]
                    found.probe, found.start, found.stop, found.inside = active[g + k], at, at + 1, 0
                    count += 1
            j = next_hit(coord, j + LANES, last, c0, c1, c2, c3, distance)
    search.step, search.count = 0, count
    return True


@inner
def narrowest(search, batch):
    """The values of `at` that lie in the windows of all arrivals: from the latest begin to the earliest end."""
    since, until = words_at(batch.since, search.end), words_at(batch.until, search.end)
    latest, earliest = since[search.first], until[search.first]
    for i in range(search.first, search.end):
        latest, earliest = max(latest, since[i]), min(earliest, until[i])
    return latest, earliest


@on_demand(error_model="numpy")
def find(address):
    """Candidates of all arrivals in the pieces of a tape that belong to a segment."""
    search = record_at(address, Probing)
    batch, stored = record_at(search.batch, Batch), record_at(search.stored, Stored)
    coord = floats_at(stored.coord, DIMS, stored.stride)
    chunks = records_at(stored.chunks, stored.room // stored.chunk, Chunk)
    room = search.end - search.first + GROUP
    centre, square = np.empty((DIMS, room), np.float32), np.empty((DIMS, room), np.float32)
    active, aimed = np.empty(room, np.int64), np.full(DIMS, -1, np.float32)
    latest, earliest = narrowest(search, batch)
    live, everybody, search.count = 0, False, 0
    number = max(search.low, search.run)
    after, begin, end = next_piece(stored, number, search.high)
    while begin < end:
        chunk = chunks[begin // stored.chunk]
        again = not everybody
        everybody = latest <= chunk.last_at and earliest >= chunk.first_at
        again |= not everybody
        for d in range(DIMS):
            again |= chunk.width[d] != aimed[d]
            aimed[d] = chunk.width[d]
        if again:
            live = aim(search, batch, chunk, active, centre, square)
        if not sweep(search, coord, begin, end, live, active, centre, square):
            search.run = number
            return 0
        number = after
        after, begin, end = next_piece(stored, number, search.high)
    search.run = number
    return 1
