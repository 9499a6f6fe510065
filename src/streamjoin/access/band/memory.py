"""The memory of a band window: columns by address, free ranges for runs, pages that are allocated and given back.

Capacity is address space. A block of positions is held once something was written to it. It is given back to the
operating system when it is free and more is held than the tuples need. So a window grows without being copied and
shrinks without being compacted.
"""

from __future__ import annotations

import numpy as np
from numba import types

from streamjoin.access.band.records import EVERYWHERE, merges_of, runs_of
from streamjoin.access.records import Column
from streamjoin.codegen.intrinsics import carray, pointer, records_at
from streamjoin.codegen.jit import inner

GRANULE = 64  # runs begin at multiples of this
BLOCK = 1024  # positions that are held or given back together
KEPT = 1.35  # held positions per tuple before memory is given back: a quarter of the window may be merged at a time
GIVEN_BACK = 512  # blocks at a time
DONT_NEED = 4  # MADV_DONTNEED

madvise = types.ExternalFunction("madvise", types.int32(types.uintp, types.uintp, types.int32))


@inner(error_model="numpy", forceinline=True)
def scattered(to, source, start, count, begin, target):
    for k in range(count):
        to[begin + target[k]] = source[start + k]


@inner(error_model="numpy")
def scatter_column(each, to, source, start, count, begin, target):
    """Copies the value at position start + k of a column to position begin + target[k] of another one."""
    a, b = pointer(to), pointer(source)
    if each == 8:
        scattered(carray(a, EVERYWHERE, np.uint64), carray(b, EVERYWHERE, np.uint64), start, count, begin, target)
    elif each == 4:
        scattered(carray(a, EVERYWHERE, np.uint32), carray(b, EVERYWHERE, np.uint32), start, count, begin, target)
    elif each == 2:
        scattered(carray(a, EVERYWHERE, np.uint16), carray(b, EVERYWHERE, np.uint16), start, count, begin, target)
    else:
        scattered(carray(a, EVERYWHERE, np.uint8), carray(b, EVERYWHERE, np.uint8), start, count, begin, target)


@inner(error_model="numpy", forceinline=True)
def rounded_up(position, unit):
    return (position + unit - 1) // unit * unit


@inner(error_model="numpy")
def in_use(band, k):
    """The k-th range of positions that is in use: of a run, or for the result of a merge."""
    return runs_of(band)[k] if k < band.run_count else merges_of(band)[k - band.run_count].result


@inner(error_model="numpy")
def next_taken(band, position):
    """Begin and end of the first range in use that ends behind this position; the capacity if there is none."""
    begin, end = band.capacity, band.capacity
    for k in range(band.run_count + band.merge_count):
        run = in_use(band, k)
        behind = rounded_up(run.end, GRANULE)
        if behind > position and run.begin < begin:
            begin, end = run.begin, behind
    return begin, end


@inner(error_model="numpy")
def best_fit(band, size, low, high):
    """The begin of the smallest free range within low..high-1 that has room for `size` positions, or -1."""
    best, smallest, position = -1, high + 1, low
    while position + size <= high:
        begin, end = next_taken(band, position)
        room = min(begin, high) - position
        if size <= room and room < smallest:
            best, smallest = position, room
        position = end
    return best


@inner(error_model="numpy")
def free_range(band, size, small):
    """The begin of a free range for a run of `size` tuples, or -1. Small runs lie in the nursery if it has room."""
    begin = best_fit(band, size, 0, band.nursery) if small else -1
    return begin if begin >= 0 else best_fit(band, size, band.nursery, band.capacity)


@inner(forceinline=True)
def held_of(band):
    return carray(pointer(band.held), (band.capacity // BLOCK,), np.bool_)


@inner(error_model="numpy")
def hold(band, begin, end):
    """Notes that positions begin..end-1 are written to."""
    held = held_of(band)
    for block in range(begin // BLOCK, (end - 1) // BLOCK + 1):
        if not held[block]:
            held[block] = True
            band.held_count += 1
    band.top = max(band.top, rounded_up(end, BLOCK))


@inner(error_model="numpy")
def touch(column, begin, end, page):
    """Writes to every page of positions begin..end-1 of one array, so that the system allocates it now."""
    memory = carray(pointer(column.start), EVERYWHERE, np.uint8)
    for byte in range(begin * column.each, end * column.each, page):
        memory[byte] = 0
    if end > begin:
        memory[end * column.each - 1] = 0


@inner(error_model="numpy", forceinline=True)
def in_vain(band):
    """How many blocks are held in excess; all of them if the window is empty."""
    allowed = np.int64(band.live * KEPT) + band.nursery if band.live else 0
    return band.held_count - allowed // BLOCK


@inner(error_model="numpy")
def give_back(band):
    """Gives some of the excess blocks back to the operating system, those at the last positions first."""
    left = min(in_vain(band), GIVEN_BACK) if band.live else band.held_count
    floor, held = band.nursery if band.live else 0, held_of(band)
    while band.top > floor and not held[band.top // BLOCK - 1]:
        band.top -= BLOCK
    last = band.top
    while left > 0 and last > floor:
        first, before = floor, floor  # the begin of the free range below `last`, and of the run before it
        for k in range(band.run_count + band.merge_count):
            run = in_use(band, k)
            if run.begin < last and run.end > first:
                first, before = rounded_up(run.end, GRANULE), run.begin
        block = last // BLOCK
        while left > 0 and block * BLOCK > first:
            stop = block
            while block * BLOCK - BLOCK >= first and held[block - 1] and stop - block < left:
                block -= 1
                held[block] = False
            if stop > block:
                left -= stop - block
                band.held_count -= stop - block
                free_pages(band, block * BLOCK, stop * BLOCK)
            block -= 1
        last = before


@inner(error_model="numpy")
def free_pages(band, begin, end):
    columns = records_at(band.columns, band.column_count, Column)
    for which in range(band.column_count):
        start, each = columns[which].start, columns[which].each
        first, last = rounded_up(start + begin * each, band.page), (start + end * each) // band.page * band.page
        if last > first:
            madvise(np.uint64(first), np.uint64(last - first), DONT_NEED)
