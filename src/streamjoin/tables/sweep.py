"""Candidates of two sorted sides, as ranges: a tuple of one side, and neighbours of the other.

An interval of one side meets one of the other if either begins inside the other one. So two forward scans find all
overlapping pairs once: starts of the other side from an own start to the own end, and the same the other way round with
equal starts left out. Whatever the lengths are, what a scan passes over is a candidate.
"""

from __future__ import annotations

import numpy as np

from streamjoin.access.inequality import FAN_OUT, places_at_most
from streamjoin.codegen.jit import inner, njit

NEAR = 16  # neighbours that are looked at one by one before the end of a range is searched for
POSITION, INSIDE, COMPARED = range(3)  # where a search goes on, and what it has passed over


@inner
def first_from(keys, low, begin, end):
    """The first of the places begin..end-1 whose key is at least `low`; `end` if there is none."""
    while begin < end:
        middle = (begin + end) >> 1
        if keys[middle] < low:
            begin = middle + 1
        else:
            end = middle
    return begin


@njit(nogil=True, cache=True)
def scan(starts, ends, last, others, offset, strict, cursor, stays, begin, length):
    """Ranges of the others' starts inside own intervals, moved by an offset; returns how many.

    `strict`: 1 leaves equal starts out. It goes on at cursor[POSITION], and is done when that is `last`.
    """
    count, room, most = 0, len(stays), len(others) - 1
    position = cursor[POSITION]
    if position >= last:
        return 0
    place = first_from(others, starts[position] + offset + strict, 0, most)
    passed = 0
    while position < last and count < room:
        low, high = starts[position] + offset + strict, ends[position] + offset
        while others[place] < low:
            place += 1
        after = place
        near = min(place + NEAR, most)
        while after < near and others[after] <= high:
            after += 1
        if after == near and near < most:
            step = np.int64(NEAR)
            while after + step < most and others[after + step] <= high:
                after += step
                step *= 2
            after = first_from(others, high + 1, after, min(after + step, most))
        stays[count], begin[count], length[count] = position, place, after - place
        count += after > place
        passed += after - place
        position += 1
    cursor[POSITION] = position
    cursor[COMPARED] += passed
    return count


@njit(nogil=True, cache=True)
def probe(lows, highs, limits, last, others, tree, levels, cursor, found, stays, begin, length):
    """The same by a tree of minima: of the others' keys from an own low to an own high, those below an own limit.

    Lows, or highs, rise from one tuple to the next, and the other ends are often the same.
    """
    count, most = 0, len(others) - 1
    position, inside = cursor[POSITION], cursor[INSIDE]
    low, high = np.int64(-1), np.int64(-1)
    place, end, nodes = np.int64(0), np.int64(0), 0
    while position < last:
        if lows[position] != low:
            low = lows[position]
            place = first_from(others, low, place if low > others[place] else 0, most)
        if highs[position] != high:
            high = highs[position]
            end = first_from(others, high + 1, place, most)
        before = count
        start = inside if inside >= 0 else place
        count, inside, looked = places_at_most(tree, levels, start, end, limits[position], found, count)
        nodes += looked
        for k in range(before, count):
            stays[k], begin[k], length[k] = position, found[k], 1
        if inside >= 0:
            break
        position += 1
    cursor[POSITION], cursor[INSIDE] = position, inside
    cursor[COMPARED] += nodes * FAN_OUT
    return count
