"""Merges: several runs of a band segment become one, in small steps.

Up to AT_ONCE tuples are merged at once. For more, each inserted tuple pays for PACE tuples moved. The result is made in
a free range. Its sources are probed until it is complete and replaces them. Merges form a stack. One that becomes due
while another is under way concerns newer runs, is much smaller, and goes first. A tuple is moved once per tier, and
there are fewer tiers than PACE. So a merge of n tuples is done after a small part of n inserts, long before the next
one of its size is due.
"""

from __future__ import annotations

import numpy as np

from streamjoin.access.band.bins import choose_grid, new_keys, number_bins, total_bins
from streamjoin.access.band.memory import BLOCK, GRANULE, free_range, held_of, hold, scatter_column, touch
from streamjoin.access.band.records import EVERYWHERE, MOST_MERGES, merges_of, runs_of
from streamjoin.access.records import Column
from streamjoin.codegen.intrinsics import carray, floats_at, keys_at, pointer, records_at
from streamjoin.codegen.jit import inner

GROWTH = 2
PARTS = 4
MOST_CLOSED = 2 * PARTS
SMALLEST_PART = 4096
HEAD = GRANULE  # a raw run below this size may take more arrivals: it lies in one granule
AT_ONCE = 1 << 14
ENDLESS = 1 << 60
PIECE = 512  # tuples between two checks of the budget

# Phases, in this order: counting sort, cut into steps.
SEE, TOUCH, CLEAR, COUNT, SUM, MOVE, DONE = range(7)
# How much of each other operation costs one unit of work, which is one tuple moved.
SEEN, CLEARED, COUNTED, SUMMED = 8, 64, 4, 16
TOUCHED = 64  # units for one array of a block


@inner(error_model="numpy")
def work(band, budget):
    """Starts due merges. Completes small ones at once, and spends a budget on the rest, the smallest merge first."""
    look = True
    while True:
        if look:
            first, last, closes = due(band)
            look = first < last and start(band, first, last, closes)
        if band.merge_count == 0:
            return
        merge = merges_of(band)[band.merge_count - 1]
        small = merge.result.end - merge.result.begin <= AT_ONCE + HEAD
        if budget <= 0 and not small:
            return
        spent = step(band, merge, ENDLESS if small else budget)
        band.work += spent
        if not small:
            budget -= max(spent, 1)
        if merge.phase == DONE:
            swap(band, merge)
            look = True


@inner(error_model="numpy")
def tuples(runs, first, last):
    """How many tuples runs first..last-1 have."""
    total = 0
    for k in range(first, last):
        total += runs[k].end - runs[k].begin
    return total


@inner(error_model="numpy")
def due(band):
    """The runs first..last-1 that are to become one, and whether that one is closed."""
    runs, closed, free, last = runs_of(band), band.closed, band.closed, band.run_count
    if band.merge_count:
        free = max(free, merges_of(band)[band.merge_count - 1].last)

    # The raw runs, except one that may take more arrivals, with smaller runs before them.
    first = max(free, last - band.raw)
    if first < last and tuples(runs, last - 1, last) < HEAD:
        last -= 1
    if first < last:
        total = tuples(runs, first, last)
        while first > free:
            before = tuples(runs, first - 1, first)
            if before >= GROWTH * total or total + before > AT_ONCE:
                break
            first -= 1
            total += before
        return first, last, False

    # Closed runs from before the window grew to its current size, up to a part of it.
    part = max(band.live // PARTS, SMALLEST_PART)
    if closed > MOST_CLOSED and band.merge_count == 0:
        for first in range(closed - 1):
            behind = first + 1
            while behind < closed and tuples(runs, first, behind + 1) <= part:
                behind += 1
            if behind > first + 1:
                return first, behind, False

    # All open runs, when they make up a part.
    if free == closed and tuples(runs, closed, last) >= part:
        if last > closed + 1:
            return closed, last, True
        band.closed += 1
        return 0, 0, False

    # The newest runs, while each is less than GROWTH times as large as all newer ones together.
    first = max(last - 1, free)
    while first > free and tuples(runs, first - 1, first) < GROWTH * tuples(runs, first, last):
        first -= 1
    return (first, last, False) if first < last - 1 else (0, 0, False)


@inner(error_model="numpy")
def start(band, first, last, closes):
    """Pushes a merge of runs first..last-1 onto the stack. False if there is no room."""
    if band.merge_count == MOST_MERGES:
        return False
    runs, total = runs_of(band), tuples(runs_of(band), first, last)
    begin = free_range(band, total, total <= AT_ONCE + HEAD)
    if begin < 0:
        band.starved = 1
        return False
    merge = merges_of(band)[band.merge_count]
    merge.first, merge.last, merge.closes, merge.keys = first, last, np.int64(closes), 0
    merge.phase, merge.at_run, merge.at_tuple = SEE, 0, 0
    merge.result = runs[first]
    result = merge.result
    for k in range(first + 1, last):
        run = runs[k]
        result.first_at = min(result.first_at, run.first_at)
        result.last_at = max(result.last_at, run.last_at)
        for d in range(band.dims):
            result.low[d], result.high[d] = min(result.low[d], run.low[d]), max(result.high[d], run.high[d])
            result.finite_low[d] = min(result.finite_low[d], run.finite_low[d])
            result.finite_high[d] = max(result.finite_high[d], run.finite_high[d])
            result.width[d] = max(result.width[d], run.width[d])
    result.begin, result.end, result.directory = begin, begin + total, begin // 2
    seen = seen_of(band, band.merge_count)
    for word in range(band.seen_words):
        seen[word] = 0
    band.merge_count += 1
    return True


@inner(forceinline=True)
def seen_of(band, merge):
    """The bitmap of key hashes that a merge has seen."""
    return carray(pointer(band.seen + merge * band.seen_words * 8), (band.seen_words,), np.uint64)


@inner(error_model="numpy")
def swap(band, merge):
    """Replaces the runs of a merge by its complete result."""
    runs, fewer = runs_of(band), merge.last - merge.first - 1
    runs[merge.first] = merge.result
    for k in range(merge.last, band.run_count):
        runs[k - fewer] = runs[k]
    band.raw = min(band.raw, band.run_count - merge.last)
    if merge.closes:
        band.closed += 1
    elif merge.first < band.closed:
        band.closed -= fewer
    band.run_count -= fewer
    band.merge_count -= 1


@inner(error_model="numpy")
def step(band, merge, budget):
    """Continues the newest merge, through as many phases as the budget pays for. Returns the work done."""
    result, done = merge.result, 0
    while done < budget and merge.phase != DONE:
        phase = merge.phase
        if phase == SEE:
            if band.keyed:
                done += pass_over(band, merge, budget - done, SEEN)
            else:
                next_phase(merge)
            if merge.phase != SEE:
                choose_grid(result.end - result.begin, max(1, merge.keys), result, band.probe_width, band.dims)
        elif phase == TOUCH:
            done += make_ready(band, merge, budget - done)
        elif phase in (CLEAR, SUM):
            done += pass_directory(band, merge, budget - done, CLEARED if phase == CLEAR else SUMMED)
        else:
            done += pass_over(band, merge, budget - done, COUNTED if phase == COUNT else 1)
    return done


@inner(error_model="numpy")
def next_phase(merge):
    merge.phase += 1
    merge.at_run, merge.at_tuple = 0, 0


@inner(error_model="numpy")
def make_ready(band, merge, budget):
    """Lets the system allocate the memory of the result, array by array, so that few inserts wait for a page."""
    begin, end, held = merge.result.begin, merge.result.end, held_of(band)
    entries = total_bins(merge.result, band.dims) + 1
    columns = records_at(band.columns, band.column_count, Column)
    spent = 0
    while spent < budget:
        which, block = merge.at_run, begin // BLOCK + merge.at_tuple
        if which == band.column_count:
            next_phase(merge)
            break
        if block * BLOCK >= end:
            merge.at_run, merge.at_tuple = which + 1, 0
            continue
        merge.at_tuple += 1
        if held[block]:
            spent += 1
            continue
        first, last = max(begin, block * BLOCK), min(end, block * BLOCK + BLOCK)
        if which < band.column_count - 1:
            touch(columns[which], first, last, band.page)
        else:  # the directory: two positions per entry, up to the number of bins
            touch(columns[which], first, min(last, begin + 2 * entries), band.page)
            hold(band, first, last)
        spent += TOUCHED
    return spent


@inner(error_model="numpy")
def pass_directory(band, merge, budget, per_unit):
    """Clears the counts of bins, or turns them into the bins' ends, which become starts when tuples are moved."""
    directory, at = keys_at(band.directory, EVERYWHERE), merge.result.directory
    entries, first = total_bins(merge.result, band.dims) + 1, merge.at_tuple
    last = min(entries, first + min(budget, entries) * per_unit)
    if merge.phase == CLEAR:
        for entry in range(at + first, at + last):
            directory[entry] = 0
    else:
        for entry in range(at + max(first, 1), at + last):
            directory[entry] += directory[entry - 1]
    merge.at_tuple = last
    if last == entries:
        next_phase(merge)
    return (last - first) // per_unit


@inner(error_model="numpy")
def pass_over(band, merge, budget, per_unit):
    """One of three passes over the tuples of a merge's runs: counts keys, counts tuples by bin, or moves tuples."""
    runs, result, bins = runs_of(band), merge.result, keys_at(band.target, PIECE)
    coord, key = floats_at(band.coord, band.dims, band.stride), keys_at(band.key, band.capacity)
    directory, columns = keys_at(band.directory, EVERYWHERE), records_at(band.columns, band.column_count, Column)
    phase, at, done = merge.phase, result.directory, 0
    while done // per_unit < budget:
        if merge.first + merge.at_run == merge.last:
            next_phase(merge)
            break
        run = runs[merge.first + merge.at_run]
        begin = run.begin + merge.at_tuple
        count = min(run.end - begin, PIECE, min(budget, PIECE) * per_unit)
        if phase == SEE:
            merge.keys += new_keys(key, begin, begin + count, seen_of(band, band.merge_count - 1))
        else:
            number_bins(coord, key, begin, count, result, band.dims, bins)
        if phase == COUNT:
            for k in range(count):
                directory[at + bins[k]] += np.uint32(1)
        if phase == MOVE:  # from each bin's end downwards
            for k in range(count):
                directory[at + bins[k]] -= np.uint32(1)
                bins[k] = directory[at + bins[k]]
            for c in range(band.column_count - 1):  # without the directory, which is the last one
                column = columns[c]
                scatter_column(column.each, column.start, column.start, begin, count, result.begin, bins)
        done += count
        merge.at_tuple += count
        if begin + count == run.end:
            merge.at_run, merge.at_tuple = merge.at_run + 1, 0
    return done // per_unit
