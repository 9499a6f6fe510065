"""Candidates of two sorted sides, as pairs of positions.

An interval of one side meets one of the other if either begins inside the other one. So two forward scans find all
overlapping pairs once: starts of the other side from an own start to the own end, and the same the other way round with
equal starts left out. Whatever the lengths are, what a scan passes over is a candidate.

Neighbours are compared as vectors, and pairs are written as vectors: how many of them count is known afterwards. So
buffers have room for one vector more than they hold.
"""

from __future__ import annotations

import numpy as np

from streamjoin.access.inequality import FAN_OUT, at_most, lowest_bit, next_place
from streamjoin.codegen.jit import inner, njit
from streamjoin.codegen.records import KEYS, Record, Word
from streamjoin.tables import lanes
from streamjoin.tables.lanes import LANES, store_rising, store_same

NEAR = 8  # vectors that are looked through before a search in larger steps pays


class Cursor(Record):
    """A search of own positions up to `last`, and where it goes on."""

    last: Word
    offset: Word  # by how much keys of the others lie above own ones
    strict: Word  # 1: equal starts are left out
    others: Word  # how many there are
    position: Word
    inside: Word  # the next place of the others if a position is not done with; else -1
    compared: Word
    pairs: Word  # in the buffer, or ranges
    full: Word  # the buffer takes no more than that


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


@inner
def first_above(keys, high, begin, end):
    """The first of the places begin..end-1 whose key is above `high`, which is near if there are few before it."""
    step = np.int64(LANES)
    while begin + step < end and keys[begin + step] <= high:
        begin += step
        step *= 2
    return first_from(keys, high + 1, begin, min(begin + step, end))


@inner
def forward(keys, place, low, most):
    """The first place from here on, of those before `most`, whose key is at least `low`, which is near."""
    while True:
        ahead = lanes.below(keys, place, low)
        place += ahead
        if ahead < LANES:
            return min(place, most)


@inner
def behind_inside(keys, place, high, most):
    """The first place from here on, of those before `most`, whose key is above `high`."""
    for _ in range(NEAR):
        inside = lanes.at_most(keys, place, high)
        place += inside
        if inside < LANES or place >= most:
            return min(place, most)
    return first_above(keys, high, place, most)


@njit(nogil=True, cache=True, error_model="numpy", usual=lambda: (KEYS, KEYS, KEYS, Cursor.new(), KEYS, KEYS))
def scan(starts, ends, others, cursor, out, out_others):
    """The others whose starts lie inside own intervals, moved by an offset. Done when the position is the last."""
    most, last, offset, strict = cursor.others, cursor.last, cursor.offset, cursor.strict
    top = np.int64(others[most])  # the highest key there may be
    count, full, position, inside = cursor.pairs, cursor.full, cursor.position, cursor.inside
    passed, place = np.int64(0), np.int64(0)
    if position < last:
        place = first_from(others, np.int64(starts[position]) + offset + strict, 0, most)
    while position < last and count <= full:
        low, high = np.int64(starts[position]) + offset + strict, np.int64(ends[position]) + offset
        if low > top or place >= most:  # and so are all that follow
            position = last
            break
        if high < low or high < 0:
            position += 1
            continue
        place = forward(others, place, others.dtype.type(max(low, 0)), most)
        begin = place
        if inside >= 0:
            begin, inside = inside, -1
        final = others.dtype.type(min(high, top))
        near = min(lanes.at_most(others, begin, final), most - begin)
        store_same(out, count, position)
        store_rising(out_others, count, begin)
        count += near
        passed += near
        if near == LANES:
            after = first_above(others, final, begin + LANES, most)
            begin += LANES
            while begin < after and count <= full:
                store_same(out, count, position)
                store_rising(out_others, count, begin)
                now = min(after - begin, LANES)
                begin += now
                count += now
                passed += now
            if begin < after:
                inside = begin
                break
        position += 1
    cursor.position, cursor.inside, cursor.pairs = position, inside, count
    cursor.compared += passed


@njit(nogil=True, cache=True, error_model="numpy")
def ranges(starts, ends, others, cursor, begins, stops):
    """Where the others lie whose starts lie inside own intervals, moved by an offset: a range for each position."""
    most, last, offset, strict = cursor.others, cursor.last, cursor.offset, cursor.strict
    top = np.int64(others[most])
    first, position = cursor.position, cursor.position
    until, place = min(last, first + len(begins)), np.int64(0)
    if first < last:
        place = first_from(others, np.int64(starts[first]) + offset + strict, 0, most)
    passed = np.int64(0)
    while position < until:
        low, high = np.int64(starts[position]) + offset + strict, np.int64(ends[position]) + offset
        if low > top or place >= most:  # and so are all that follow
            last = position
            break
        stop = place
        if high >= low and high >= 0:
            place = forward(others, place, others.dtype.type(max(low, 0)), most)
            stop = behind_inside(others, place, others.dtype.type(min(high, top)), most)
        begins[position - first], stops[position - first] = place, stop
        passed += stop - place
        position += 1
    cursor.last, cursor.position, cursor.pairs = last, position, position - first
    cursor.compared += passed


@njit(nogil=True, cache=True, error_model="numpy")
def probe(starts, ends, others, cursor, tree, levels, behind, limits, out, out_others):
    """The same by a tree of minima: of the others with keys from an own start to an own end, those below a limit."""
    most, last = cursor.others, cursor.last
    top = np.int64(others[most])
    count, full, position, inside = cursor.pairs, cursor.full, cursor.position, cursor.inside
    place, end, before, nodes = np.int64(0), np.int64(0), np.int64(-1), np.int64(0)
    if position < last:
        place = first_from(others, np.int64(starts[position]), 0, most)
    while position < last and count <= full:
        first, high = starts[position], np.int64(ends[position])
        place = forward(others, place, first, most)
        if place >= most:
            position = last
            break
        if high != before:
            before = high
            end = most if high >= top else first_from(others, high + 1, place, most)
        begin, limit = place, limits[position]
        if inside >= 0:
            begin, inside = inside, -1
        node = begin & ~(FAN_OUT - 1)
        from_here = begin - node
        while node < end:
            nodes += 1
            mask = at_most(tree, node, limit) >> from_here << from_here
            from_here = 0
            if node + FAN_OUT > end:
                mask &= (1 << (end - node)) - 1
            if mask:
                if count > full:
                    inside = node + lowest_bit(mask)
                    break
                store_same(out, count, position)
                while mask:
                    out_others[count] = node + lowest_bit(mask)
                    count += 1
                    mask &= mask - 1
                if behind[node >> 4] > limit:
                    break
                node += FAN_OUT
            else:
                if behind[node >> 4] > limit:
                    break
                found, looked = next_place(tree, levels, node + FAN_OUT, limit)
                nodes += looked
                if found < 0:
                    break
                node = found & ~(FAN_OUT - 1)
        if inside >= 0:
            break
        position += 1
    cursor.position, cursor.inside, cursor.pairs = position, inside, count
    cursor.compared += nodes * FAN_OUT
