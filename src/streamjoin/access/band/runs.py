"""A band segment in compiled code: arrivals become runs ordered by bin, runs are merged in tiers, old ones dropped.

    oldest  [  closed  ][  closed  ][  closed  ][ run ][ run ][r][raw]  newest
             about 1/PARTS of the window each    each at least GROWTH times the next

The newest arrivals are in a raw run, in order of arrival, which is scanned. A raw run that is long enough is ordered,
together with smaller runs before it. While the newest run is more than 1/GROWTH of the one before, the two become one,
so that a probe searches few runs. When the newest runs together make up a part of the window, they become one closed
run, which is never merged again, and is dropped when its last tuple has expired. `merge.py` merges runs.

Invariants: a tuple is in exactly one run. An insert of n tuples does the work of about PACE * n + AT_ONCE moved tuples.
"""

from __future__ import annotations

import numpy as np

from streamjoin.access.band.bins import TOLD_APART, choose_grid, extent, new_keys, order_by_bin
from streamjoin.access.band.memory import free_range, give_back, hold, in_vain, scatter_column
from streamjoin.access.band.merge import AT_ONCE, HEAD, work
from streamjoin.access.band.records import EVERYWHERE, MOST_MERGES, Band, merges_of, runs_of
from streamjoin.access.records import Batch, Chunk, Column, Stored
from streamjoin.codegen.intrinsics import (
    carray,
    copy_bytes,
    floats_at,
    keys_at,
    pointer,
    record_at,
    records_at,
    words_at,
)
from streamjoin.codegen.jit import inner, on_demand

PACE = 32
LEAST_PACE = 256  # tuples of work per insert, however small
ENDLESS = 1 << 60


@on_demand(error_model="numpy")
def insert(address):
    """Inserts arrivals. 0: make room, or check the grids, and call again. `taken` counts those inserted."""
    segment = record_at(address, Stored)
    band, source, runs = record_at(segment.index, Band), record_at(segment.source, Batch), runs_at(segment)
    taken = segment.begin + band.taken
    while taken < segment.end:
        count = min(segment.end - taken, AT_ONCE)
        if band.starved or band.entered >= band.look or not add(segment, band, source, taken, count):
            band.taken = taken - segment.begin
            return 0
        taken += count
        newest = runs[band.run_count - 1]
        if band.merge_count or band.raw > 1 or newest.end - newest.begin >= HEAD:
            work(band, ENDLESS if crowded(band) else max(PACE * count, LEAST_PACE))
    band.taken = 0
    if in_vain(band) > 0:
        give_back(band)
    return 1


@inner(forceinline=True)
def runs_at(segment):
    return runs_of(record_at(segment.index, Band))


@on_demand(error_model="numpy")
def expire(address):
    """Drops the oldest runs whose tuples all lie below the horizon; the runs of a merge only all together."""
    segment = record_at(address, Stored)
    band = record_at(segment.index, Band)
    runs, merges = runs_of(band), merges_of(band)
    gone, dropped = 0, 0
    while gone < band.run_count and runs[gone].last_at < segment.horizon:
        gone += 1
    for k in range(band.merge_count):
        if merges[k].last <= gone:
            dropped = k + 1
        else:
            gone = min(gone, merges[k].first)
    if gone == 0:
        return 1
    seen = carray(pointer(band.seen), (MOST_MERGES, band.seen_words), np.uint64)
    for k in range(dropped, band.merge_count):
        merges[k - dropped] = merges[k]
        merges[k - dropped].first -= gone
        merges[k - dropped].last -= gone
        for word in range(band.seen_words if dropped else 0):
            seen[k - dropped, word] = seen[k, word]
    band.merge_count -= dropped
    for run in range(band.run_count):
        if run < gone:
            band.live -= runs[run].end - runs[run].begin
        else:
            runs[run - gone] = runs[run]
    band.run_count -= gone
    band.closed = max(0, band.closed - gone)
    band.raw = min(band.raw, band.run_count)
    if in_vain(band) > 0:
        give_back(band)
    return 1


@inner(error_model="numpy", forceinline=True)
def crowded(band):
    """Is there no record for another run?"""
    return band.run_count + 1 >= band.run_room


@inner(error_model="numpy")
def add(segment, band, source, first, count):
    """Copies arrivals to the newest run if it is raw and has room, otherwise to a new one."""
    runs, k = runs_of(band), band.run_count - 1
    if band.raw == 0 or runs[k].end - runs[k].begin + count > HEAD:
        begin = -1 if crowded(band) else free_range(band, count, True)
        if begin < 0:
            return False
        k += 1
        new, at = runs[k], words_at(source.at, first + 1)
        new.begin, new.end, new.first_at, new.last_at = begin, begin, at[first], at[first]
        new.buckets, new.directory = 1, begin // 2
        for d in range(band.dims):
            new.width[d], new.origin[d], new.scale[d], new.bins[d] = 0.0, 0.0, 0.0, 1.0
        band.run_count += 1
        band.raw += 1
    run = runs[k]
    end = run.end
    copy_in(band, source, first, count, end)
    note(segment, source, first, count, run)
    extent(floats_at(band.coord, band.dims, band.stride), run.begin, end + count, run, band.dims)
    directory = keys_at(band.directory, EVERYWHERE)
    directory[run.directory], directory[run.directory + 1] = 0, end + count - run.begin
    hold(band, end, end + count)
    run.end += count
    band.live += count
    band.entered += count
    return True


@inner(error_model="numpy")
def note(segment, source, first, count, run):
    """Extends a run to arrivals first.. of the source: the range of `at`, and the widest box."""
    at = words_at(source.at, first + count)
    for k in range(first, first + count):
        run.first_at, run.last_at = min(run.first_at, at[k]), max(run.last_at, at[k])
    if segment.chunks:  # from a tape: its chunks have the widest boxes
        width = records_at(segment.chunks, first // segment.chunk + 1, Chunk)[first // segment.chunk].width
        for d in range(segment.dims):
            run.width[d] = max(run.width[d], np.float64(width[d]))
    else:
        for d in range(segment.dims):
            run.width[d] = max(run.width[d], np.float64(floats_at(source.width, 1, segment.dims)[0, d]))


@inner(error_model="numpy")
def column_of(band, source, c):
    """The address, in arrivals, of what a segment stores in column c; 0 if it is not stored in the same form."""
    own = band.column_count - band.dims - 3 - band.keyed
    if c < own:
        return records_at(source.columns, own, Column)[c].start
    if c < own + band.dims:
        return source.coord + (c - own) * source.stride * 4
    if c == own + band.dims:
        return source.at
    return np.int64(0) if c == own + band.dims + 1 else source.key


@inner(error_model="numpy")
def copy_in(band, source, first, count, end):
    """Copies arrivals first.. of a source to positions end.. of all columns but the last, the directory."""
    columns, numbers = records_at(band.columns, band.column_count, Column), words_at(source.number, first + count)
    for c in range(band.column_count - 1):
        start, each, there = columns[c].start, columns[c].each, column_of(band, source, c)
        if there:
            copy_bytes(start + end * each, there + first * each, count * each)
        else:
            low = keys_at(start, EVERYWHERE)
            for k in range(count):
                low[end + k] = np.uint32(numbers[first + k])


@on_demand(error_model="numpy")
def build(address):
    """Inserts all arrivals, at least one, into an empty segment with room for them, as one run."""
    segment = record_at(address, Stored)
    band, source, n = record_at(segment.index, Band), record_at(segment.source, Batch), segment.end
    run, dims, key = runs_of(band)[0], band.dims, keys_at(source.key, n)
    coord, numbers = floats_at(source.coord, dims, source.stride), words_at(source.number, n)
    at, directory = words_at(source.at, n), keys_at(band.directory, EVERYWHERE)
    run.begin, run.end, run.directory, run.first_at, run.last_at = 0, n, 0, at[0], at[0]
    for d in range(dims):
        run.width[d] = 0.0
    note(segment, source, 0, n, run)
    extent(coord, 0, n, run, dims)
    keys = new_keys(key, 0, n, np.zeros(TOLD_APART // 64, np.uint64)) if band.keyed else 1
    choose_grid(n, keys, run, band.probe_width, dims)
    order, target = np.empty(n, np.uint32), np.empty(n, np.uint32)
    order_by_bin(coord, key, 0, n, run, dims, directory, order)
    for k in range(n):
        target[order[k]] = k
    columns = records_at(band.columns, band.column_count, Column)
    for c in range(band.column_count - 1):
        there = column_of(band, source, c)
        if there:
            scatter_column(columns[c].each, columns[c].start, there, 0, n, 0, target)
        else:
            low = keys_at(columns[c].start, n)
            for k in range(n):
                low[target[k]] = np.uint32(numbers[k])
    band.run_count, band.live = 1, n
    hold(band, 0, n)
    return 1
