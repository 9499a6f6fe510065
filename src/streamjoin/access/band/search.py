"""Access by band: runs ordered by the cell of their tuples' boxes, so that a probe reads a few contiguous ranges.

cell = (hash bucket, cell of dimension 0, ..., cell of dimension D-1), row-major; the last dimension is contiguous.
A probe [lo, hi] meets stored boxes whose coordinate lies in [lo - width, hi], width being the widest box of the run.
"""

from __future__ import annotations

import numpy as np

from streamjoin.access.band.bins import cell_of, coarsen, order_by_cell, total_cells
from streamjoin.access.layout import (
    BEGIN,
    BUCKETS,
    CELLS,
    COMPARED,
    COUNT,
    DIRECTORY,
    END,
    FIRST_AT,
    HIGH,
    LAST_AT,
    LOW,
    ORIGIN,
    ROW,
    RUN,
    RUN_COUNT,
    SCALE,
    STEP,
    WIDTH,
)
from streamjoin.codegen.intrinsics import FARTHEST, down32, prefetch
from streamjoin.codegen.jit import inner, njit

FEW = 256  # probes that are not worth ordering
LAG = 64


@njit(nogil=True, cache=True)
def learn(band, lo, hi, first, stop):
    """Follows the width of the probing boxes first..stop-1: the cells of later runs are cut to it."""
    for d in range(len(band.reach)):
        total, seen = 0.0, 0
        for i in range(first, stop):
            low, high = lo[d, i], hi[d, i]
            if abs(low) < FARTHEST and abs(high) < FARTHEST:
                total += np.float64(high - low)
                seen += 1
        if seen:
            mean = total / seen
            band.reach[d] = mean if np.isnan(band.reach[d]) else 0.9 * band.reach[d] + 0.1 * mean


@njit(nogil=True, cache=True)
def aim(band, p, first, stop, order):
    """Orders probes first..stop-1 by the cells of the largest run: neighbours then read what is in the cache."""
    n, runs, largest = stop - first, band.runs, 0
    if n < FEW or not band.state[RUN_COUNT]:
        for k in range(n):
            order[k] = first + k
        return
    for run in range(1, band.state[RUN_COUNT]):
        if runs[run, END] - runs[run, BEGIN] > runs[largest, END] - runs[largest, BEGIN]:
            largest = run
    box = band.boxes[largest].copy()
    buckets = coarsen(box, runs[largest, BUCKETS], 4 * n)
    starts = np.empty(total_cells(box, buckets) + 1, np.uint32)
    order_by_cell(p.hi, p.key, first, stop, box, buckets, starts, order)
    for k in range(n):
        order[k] += np.uint32(first)


@inner(error_model="numpy", forceinline=True)
def touched(p, i, box, first, last, here):
    """Fills the cells per dimension that probe i touches in a run; returns the number of contiguous ranges, or 0."""
    count, dims = 1, len(first)
    for d in range(dims):
        low, high = down32(p.lo[d, i], box[WIDTH, d]), p.hi[d, i]
        if high < box[LOW, d] or low > box[HIGH, d]:
            return 0
        first[d] = cell_of(low, box[ORIGIN, d], box[SCALE, d], box[CELLS, d])
        last[d] = cell_of(high, box[ORIGIN, d], box[SCALE, d], box[CELLS, d])
        here[d] = first[d]
        if d < dims - 1:
            count *= last[d] - first[d] + 1
    return count


@inner(error_model="numpy", forceinline=True)
def advance(here, first, last):
    """The next combination of cells in all dimensions but the last."""
    for d in range(len(here) - 2, -1, -1):
        if here[d] < last[d]:
            here[d] += 1
            return
        here[d] = first[d]


@inner(error_model="numpy", forceinline=True)
def settle(waiting, late, begin, directory, ranges, count):
    """Turns cells into positions, now that their directory entries have come in. Returns the number of ranges."""
    for w in range(waiting):
        start = begin + np.int64(directory[late[w, 1]])
        stop = begin + np.int64(directory[late[w, 2]])
        ranges.probe[count], ranges.start[count], ranges.stop[count] = late[w, 0] >> 1, start, stop
        ranges.inside[count] = late[w, 0] & 1
        count += np.int64(start < stop)
    return count


@njit(nogil=True, error_model="numpy", cache=True)
def candidates(p, order, probe_count, band, ranges, cursor):
    """Probes order[0], order[1], ... against all runs. Fills `ranges`; returns False if there are more.

    Directory entries are asked for LAG ranges before they are read: most of them are not in the cache.
    """
    runs, directory, dims = band.runs, band.directory, len(band.reach)
    count, capacity = 0, len(ranges.probe) - LAG
    first, last, here = np.empty(dims, np.int64), np.empty(dims, np.int64), np.empty(dims, np.int64)
    late, sizes = np.empty((LAG, 3), np.int64), np.empty(dims, np.int64)
    for run in range(cursor[RUN], band.state[RUN_COUNT]):
        box, mask, at = band.boxes[run], runs[run, BUCKETS] - 1, runs[run, DIRECTORY]
        begin, first_at, last_at = runs[run, BEGIN], runs[run, FIRST_AT], runs[run, LAST_AT]
        for d in range(dims):
            sizes[d] = np.int64(box[CELLS, d])
        waiting = 0
        for k in range(cursor[STEP], probe_count):
            i = np.int64(order[k])
            since, until = p.since[i], p.until[i]
            if since > last_at or until < first_at:
                continue
            mark = 2 * i + np.int64(since <= first_at and last_at <= until)
            bucket = np.int64(p.key[i]) & mask if mask else np.int64(0)  # where there are no equalities, no keys
            found = touched(p, i, box, first, last, here)
            for row in range(found):
                if row >= cursor[ROW]:
                    if waiting == LAG:
                        count, waiting = settle(LAG, late, begin, directory, ranges, count), 0
                        if count >= capacity:
                            cursor[RUN], cursor[STEP], cursor[ROW] = run, k, row
                            add_up(ranges, count, cursor)
                            return False
                    cell = bucket
                    for d in range(dims - 1):
                        cell = cell * sizes[d] + here[d]
                    cell = at + cell * sizes[dims - 1]
                    late[waiting, 0], late[waiting, 1] = mark, cell + first[dims - 1]
                    late[waiting, 2] = cell + last[dims - 1] + 1
                    prefetch(directory, cell + first[dims - 1])
                    waiting += 1
                advance(here, first, last)
            cursor[ROW] = 0
        count = settle(waiting, late, begin, directory, ranges, count)
        cursor[STEP] = 0
        if count >= capacity:
            cursor[RUN] = run + 1
            add_up(ranges, count, cursor)
            return False
    cursor[RUN] = band.state[RUN_COUNT]
    add_up(ranges, count, cursor)
    return True


@inner(error_model="numpy", forceinline=True)
def add_up(ranges, count, cursor):
    cursor[COUNT] = count
    for k in range(count):
        cursor[COMPARED] += ranges.stop[k] - ranges.start[k]
