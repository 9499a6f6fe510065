"""The memory under a band window: columns by address, free places for runs, pages that come and go.

Capacity is address space. A block of positions is held once something was written to it, and given back to the
operating system when nothing lies there and more is held than the tuples account for. So a window grows without being
copied and shrinks without being compacted.
"""

from __future__ import annotations

import numpy as np
from numba import carray, types

from streamjoin.access.layout import BEGIN, CAPACITY, END, HELD, JOB_COUNT, LIVE, NURSERY, PAGE, RUN_COUNT, TOP
from streamjoin.codegen.intrinsics import pointer
from streamjoin.codegen.jit import inner, njit

GRANULE = 64  # runs begin at multiples of this
BLOCK = 1024  # positions that are held or not
KEPT = 1.35  # held positions per tuple before memory is given back: a quarter of the window may be merged at a time
GIVEN_BACK = 512  # blocks at a time
EVERYWHERE = 1 << 60
DONT_NEED = 4  # MADV_DONTNEED

madvise = types.ExternalFunction("madvise", types.int32(types.uintp, types.uintp, types.int32))


@inner(forceinline=True)
def address_of(array):
    return np.int64(array.ctypes.data)


@inner(error_model="numpy", forceinline=True)
def scattered(column, start, count, begin, target):
    for k in range(count):
        column[begin + target[k]] = column[start + k]


@inner(error_model="numpy")
def scatter_column(size, address, start, count, begin, target):
    """Copies the value at position start + k of a column to position begin + target[k], for k in 0..count-1."""
    a = pointer(address)
    if size == 8:
        scattered(carray(a, EVERYWHERE, np.uint64), start, count, begin, target)
    elif size == 4:
        scattered(carray(a, EVERYWHERE, np.uint32), start, count, begin, target)
    elif size == 2:
        scattered(carray(a, EVERYWHERE, np.uint16), start, count, begin, target)
    else:
        scattered(carray(a, EVERYWHERE, np.uint8), start, count, begin, target)


@inner(error_model="numpy", forceinline=True)
def rounded_up(position, unit):
    return (position + unit - 1) // unit * unit


@inner(error_model="numpy")
def next_taken(state, runs, position):
    """Begin and end of the first stretch of positions that is in use and ends behind this one; the capacity if none."""
    begin, end = state[CAPACITY], state[CAPACITY]
    for k in range(-state[JOB_COUNT], state[RUN_COUNT]):  # the jobs' rows are the last ones
        behind = rounded_up(runs[k, END], GRANULE)
        if behind > position and runs[k, BEGIN] < begin:
            begin, end = runs[k, BEGIN], behind
    return begin, end


@inner(error_model="numpy")
def best_fit(state, runs, size, low, high):
    """The begin of the smallest free stretch within low..high-1 that has room for `size` positions, or -1."""
    best, smallest, position = -1, high + 1, low
    while position + size <= high:
        begin, end = next_taken(state, runs, position)
        room = min(begin, high) - position
        if size <= room and room < smallest:
            best, smallest = position, room
        position = end
    return best


@inner(error_model="numpy")
def place(state, runs, size, small):
    """The begin of a free stretch for a run of `size` tuples, or -1. Small runs stay among themselves if they can."""
    nursery, begin = state[NURSERY], -1
    if small:
        begin = best_fit(state, runs, size, 0, nursery)
    return begin if begin >= 0 else best_fit(state, runs, size, nursery, state[CAPACITY])


@njit(nogil=True, error_model="numpy", cache=True)
def hold(state, held, begin, end):
    """Notes that positions begin..end-1 are written to."""
    for block in range(begin // BLOCK, (end - 1) // BLOCK + 1):
        if not held[block]:
            held[block] = True
            state[HELD] += 1
    state[TOP] = max(state[TOP], rounded_up(end, BLOCK))


@inner(error_model="numpy")
def touch(columns, which, begin, end, page):
    """Writes to every page of positions begin..end-1 of one array, so that the memory is there when it is needed."""
    address, size = columns[0, which], columns[1, which]
    memory = carray(pointer(address), EVERYWHERE, np.uint8)
    for place in range(begin * size, end * size, page):
        memory[place] = 0
    if end > begin:
        memory[end * size - 1] = 0


@inner(error_model="numpy", forceinline=True)
def in_vain(state):
    """How many blocks are held beyond what is kept; all of them if the window is empty."""
    allowed = np.int64(state[LIVE] * KEPT) + state[NURSERY] if state[LIVE] else 0
    return state[HELD] - allowed // BLOCK


@inner(error_model="numpy")
def give_back(state, runs, held, columns):
    """Has the operating system take back some of what is held in vain, the last positions first."""
    left = min(in_vain(state), GIVEN_BACK) if state[LIVE] else state[HELD]
    floor = state[NURSERY] if state[LIVE] else 0
    while state[TOP] > floor and not held[state[TOP] // BLOCK - 1]:
        state[TOP] -= BLOCK
    last = state[TOP]
    while left > 0 and last > floor:
        first, before = floor, floor  # the free stretch below `last`, and where what lies before it begins
        for k in range(-state[JOB_COUNT], state[RUN_COUNT]):
            if runs[k, BEGIN] < last and runs[k, END] > first:
                first, before = rounded_up(runs[k, END], GRANULE), runs[k, BEGIN]
        block = last // BLOCK
        while left > 0 and block * BLOCK > first:
            stop = block
            while block * BLOCK - BLOCK >= first and held[block - 1] and stop - block < left:
                block -= 1
                held[block] = False
            if stop > block:
                left -= stop - block
                state[HELD] -= stop - block
                free_pages(columns, block * BLOCK, stop * BLOCK, state[PAGE])
            block -= 1
        last = before


@inner(error_model="numpy")
def free_pages(columns, begin, end, page):
    for which in range(columns.shape[1]):
        address, size = columns[0, which], columns[1, which]
        first, last = rounded_up(address + begin * size, page), (address + end * size) // page * page
        if last > first:
            madvise(np.uint64(first), np.uint64(last - first), DONT_NEED)
