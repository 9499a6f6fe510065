"""Search by band: runs are ordered by the bins of their tuples' boxes, so that a probe reads a few contiguous ranges.

bin = (hash bucket, bin of dimension 0, ..., bin of dimension D-1), row-major; the last dimension is contiguous.
A probe [lo, hi] meets stored boxes whose coordinate lies in [lo - width, hi], width being the widest box of the run.
"""

from __future__ import annotations

import numpy as np

from streamjoin.access.band.bins import bin_of, coarsen, order_by_bin, total_bins
from streamjoin.access.band.records import EVERYWHERE, Band, Run, runs_of
from streamjoin.access.records import Batch, Probing, Range, Stored
from streamjoin.codegen.intrinsics import (
    FARTHEST,
    down32,
    floats_at,
    keys_at,
    prefetch,
    record_at,
    records_at,
    words_at,
)
from streamjoin.codegen.jit import inner, on_demand

FEW = 256  # with fewer probes, ordering them does not pay
LAG = 64


@inner
def learn(band, lo, hi, first, end):
    """Updates the mean width of probing boxes by boxes first..end-1: the bins of later runs are chosen for it."""
    for d in range(band.dims):
        total, seen = 0.0, 0
        for i in range(first, end):
            low, high = lo[d, i], hi[d, i]
            if abs(low) < FARTHEST and abs(high) < FARTHEST:
                total += np.float64(high - low)
                seen += 1
        if seen:
            mean, before = total / seen, band.probe_width[d]
            band.probe_width[d] = mean if np.isnan(before) else 0.9 * before + 0.1 * mean


@inner
def put_in_order(band, hi, key, first, end, order):
    """Orders probes first..end-1 by the bins of the largest run, so that neighbours read cached data."""
    n, runs, largest = end - first, runs_of(band), 0
    if n < FEW or not band.run_count:
        for k in range(n):
            order[k] = first + k
        return
    for k in range(1, band.run_count):
        if runs[k].end - runs[k].begin > runs[largest].end - runs[largest].begin:
            largest = k
    grid = np.empty(1, Run)
    grid[0] = runs[largest]
    coarsen(grid[0], 4 * n, band.dims)
    starts = np.empty(total_bins(grid[0], band.dims) + 1, np.uint32)
    order_by_bin(hi, key, first, end, grid[0], band.dims, starts, order)
    for k in range(n):
        order[k] += np.uint32(first)


@inner
def aim_at(search, batch, band):
    """Prepares a search: updates the width of probes, and orders its arrivals."""
    lo, hi = floats_at(batch.lo, band.dims, batch.stride), floats_at(batch.hi, band.dims, batch.stride)
    key, order = keys_at(batch.key, search.end), keys_at(search.order, search.end - search.first)
    learn(band, lo, hi, search.first, search.end)
    put_in_order(band, hi, key, search.first, search.end, order)
    search.ordered = search.end - search.first


@on_demand
def aim(address):
    """The same as a call by address, for a caller that reads the order."""
    search = record_at(address, Probing)
    aim_at(search, record_at(search.batch, Batch), record_at(record_at(search.stored, Stored).index, Band))
    return 1


@inner(error_model="numpy", forceinline=True)
def touched(lo, hi, i, run, dims, first, last, here):
    """Fills the bins per dimension that probe i touches in a run; returns the number of contiguous ranges, or 0."""
    count = 1
    for d in range(dims):
        low, high = down32(lo[d, i], run.width[d]), hi[d, i]
        if high < run.low[d] or low > run.high[d]:
            return 0
        first[d] = bin_of(low, run.origin[d], run.scale[d], run.bins[d])
        last[d] = bin_of(high, run.origin[d], run.scale[d], run.bins[d])
        here[d] = first[d]
        if d < dims - 1:
            count *= last[d] - first[d] + 1
    return count


@inner(error_model="numpy", forceinline=True)
def advance(here, first, last):
    """The next combination of bins in all dimensions but the last."""
    for d in range(len(here) - 2, -1, -1):
        if here[d] < last[d]:
            here[d] += 1
            return
        here[d] = first[d]


@inner(error_model="numpy", forceinline=True)
def look_up(waiting, late, begin, directory, ranges, count):
    """Turns bins into positions, after their directory entries were prefetched. Returns the number of ranges."""
    for w in range(waiting):
        found, start = ranges[count], begin + np.int64(directory[late[w, 1]])
        stop = begin + np.int64(directory[late[w, 2]])
        found.probe, found.start, found.stop, found.inside = late[w, 0] >> 1, start, stop, late[w, 0] & 1
        count += np.int64(start < stop)
    return count


@on_demand(error_model="numpy")
def find(address):
    """The arrivals of a search, in order, against all runs.

    Directory entries are prefetched LAG ranges before they are read: most of them are not in the cache.
    """
    search = record_at(address, Probing)
    batch, band = record_at(search.batch, Batch), record_at(record_at(search.stored, Stored).index, Band)
    if search.ordered == 0:
        aim_at(search, batch, band)
    runs, directory, dims = runs_of(band), keys_at(band.directory, EVERYWHERE), band.dims
    lo, hi = floats_at(batch.lo, dims, batch.stride), floats_at(batch.hi, dims, batch.stride)
    key, order = keys_at(batch.key, search.end), keys_at(search.order, search.ordered)
    since, until = words_at(batch.since, search.end), words_at(batch.until, search.end)
    ranges = records_at(search.ranges, search.range_room, Range)
    count, capacity = 0, search.range_room - LAG
    first, last, here = np.empty(dims, np.int64), np.empty(dims, np.int64), np.empty(dims, np.int64)
    late, sizes = np.empty((LAG, 3), np.int64), np.empty(dims, np.int64)
    for which in range(search.run, band.run_count):
        run = runs[which]
        mask, at, begin, first_at, last_at = run.buckets - 1, run.directory, run.begin, run.first_at, run.last_at
        for d in range(dims):
            sizes[d] = np.int64(run.bins[d])
        waiting, done = 0, search.row
        for k in range(search.step, search.ordered):
            i = np.int64(order[k])
            if since[i] > last_at or until[i] < first_at:
                continue
            mark = 2 * i + np.int64(since[i] <= first_at and last_at <= until[i])
            bucket = np.int64(key[i]) & mask if mask else np.int64(0)  # without equalities there are no keys
            for row in range(touched(lo, hi, i, run, dims, first, last, here)):
                if row >= done:
                    if waiting == LAG:
                        count, waiting = look_up(LAG, late, begin, directory, ranges, count), 0
                        if count >= capacity:
                            search.run, search.step, search.row = which, k, row
                            add_up(search, ranges, count)
                            return 0
                    entry = bucket
                    for d in range(dims - 1):
                        entry = entry * sizes[d] + here[d]
                    entry = at + entry * sizes[dims - 1]
                    late[waiting, 0], late[waiting, 1] = mark, entry + first[dims - 1]
                    late[waiting, 2] = entry + last[dims - 1] + 1
                    prefetch(directory, entry + first[dims - 1])
                    waiting += 1
                advance(here, first, last)
            done = 0
        count = look_up(waiting, late, begin, directory, ranges, count)
        search.step = search.row = 0
        if count >= capacity:
            search.run = which + 1
            add_up(search, ranges, count)
            return 0
    search.run = band.run_count
    add_up(search, ranges, count)
    return 1


@inner(error_model="numpy", forceinline=True)
def add_up(search, ranges, count):
    search.count = count
    for k in range(count):
        search.compared += ranges[k].stop - ranges[k].start
