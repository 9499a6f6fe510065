"""Access by trees of minima: every tuple of a run whose box touches the probe's, whatever the boxes look like.

    level 2                      [ 1 ]
    level 1        [ 3 ]         [ 1 ]         [ 7 ]         minima of 16 below, one tree for every end of the boxes
    level 0   [ 5 3 9 ... ] [ 1 8 4 ... ] [ 7 7 8 ... ]      the values, in the order of the run

A probe enters a node only if the minima of all ends are within its limits. In a run ordered by one end, all nodes
before the first value above that end's limit hold tuples within it. So with two ends, a node that is entered has a
tuple that touches, except for one node on each level: about 16 * levels comparisons for each tuple found and for one
more. More ends only rule out more nodes.
"""

from __future__ import annotations

import numpy as np

from streamjoin.access.inequality import at_most, lowest_bit
from streamjoin.access.records import Batch, Probing, Range, Stored
from streamjoin.access.tree.ranks import key_of, lowest_rank
from streamjoin.access.tree.records import (
    ASIDE,
    FAN_OUT,
    HEAD,
    MOST_ENDS,
    MOST_LEVELS,
    Forest,
    level_starts,
    runs_of,
    tree_at,
)
from streamjoin.codegen.intrinsics import floats_at, full_number, keys_at, record_at, records_at, words_at
from streamjoin.codegen.jit import inner, on_demand

ALL = (1 << FAN_OUT) - 1
FEW_ASIDE = 4  # probes of a search that are kept as a sample


@inner(forceinline=True)
def fill_limits(forest, lo, hi, i, limits):
    """The limits of arrival i: the values of an end must not exceed its limit for boxes to touch."""
    for e in range(forest.ends):
        d = forest.dim[e]
        limits[e] = -lo[d, i] if forest.kind[e] & 1 else hi[d, i]


@inner
def put_aside(forest, lo, hi, first, end):
    """Keeps the limits of a few arrivals, for the choice of the runs' order."""
    kept = floats_at(forest.limits, ASIDE, MOST_ENDS)
    count = min(end - first, FEW_ASIDE)
    for k in range(count):
        fill_limits(forest, lo, hi, first + (end - first) * k // count, kept[forest.asked % ASIDE])
        forest.asked += 1


@inner
def with_key(ranks, begin, end, key):
    """The places in begin..end-1 whose ranks have this key in their upper half, as first and last + 1."""
    least = lowest_rank(key)
    first, last = begin, end
    while first < last:
        middle = (first + last) // 2
        if ranks[middle] < least:
            first = middle + 1
        else:
            last = middle
    step, past = 1, first  # most keys are rare
    while past < end and key_of(ranks[past]) == key:
        past, step = past + step, 2 * step
    low, high = max(first, past - step // 2), min(past, end)
    while low < high:
        middle = (low + high) // 2
        if key_of(ranks[middle]) == key:
            low = middle + 1
        else:
            high = middle
    return first, low


@inner(forceinline=True)
def within(values, ends, stride, place, limits):
    """Bit k of the result: are all ends of child k of the node at `place` within the limits?"""
    mask = ALL
    for e in range(ends):
        mask &= at_most(values, e * stride + place, limits[e])
        if mask == 0:
            break
    return mask


@on_demand(error_model="numpy")
def find(address):
    """The arrivals of a search against all runs. If the ranges fill up, `row` is where to continue in a run."""
    search = record_at(address, Probing)
    batch, segment = record_at(search.batch, Batch), record_at(search.stored, Stored)
    forest = record_at(segment.index, Forest)
    runs, ends, stride, keyed = runs_of(forest), forest.ends, forest.stride, forest.keyed
    lo, hi = floats_at(batch.lo, segment.dims, batch.stride), floats_at(batch.hi, segment.dims, batch.stride)
    since, until, key = (
        words_at(batch.since, search.end),
        words_at(batch.until, search.end),
        keys_at(batch.key, search.end),
    )
    values, ordinals = floats_at(forest.values, 1, ends * stride)[0], keys_at(forest.ordinal, forest.capacity)
    ranks, ranges = words_at(forest.rank, forest.capacity), records_at(search.ranges, search.range_room, Range)
    newest, oldest, wrap = forest.stop - 1, forest.oldest, segment.room - 1
    limits, starts = np.empty(MOST_ENDS, np.float32), np.empty(MOST_LEVELS, np.int64)
    if search.run == 0 and search.step == 0 and search.row == 0:
        put_aside(forest, lo, hi, search.first, search.end)
    count, nodes = 0, 0
    for which in range(search.run, forest.run_count):
        run = runs[which]
        begin, first_at, last_at = run.begin, run.first_at, run.last_at
        as_they_came = forest.growing and which == forest.run_count - 1
        depth, base = level_starts(HEAD if as_they_came else run.count, starts), tree_at(begin)
        for i in range(search.first + search.step, search.end):
            if since[i] > last_at or until[i] < first_at:
                continue
            inside = np.int64(since[i] <= first_at and last_at <= until[i])
            place, last = np.int64(0), run.count
            if keyed and not as_they_came:
                place, last = with_key(ranks, begin, begin + last, key[i])
                place, last = place - begin, last - begin
            fill_limits(forest, lo, hi, i, limits)
            place, search.row = max(place, search.row), 0
            level = 0 if place else depth
            while place << (4 * level) < last:
                node = place & ~(FAN_OUT - 1)
                nodes += 1
                behind = place - node
                mask = within(values, ends, stride, base + starts[level] + node, limits) >> behind << behind
                if mask == 0:
                    if level == depth:
                        break
                    level, place = level + 1, (node >> 4) + 1
                elif level > 0:
                    level, place = level - 1, (node + lowest_bit(mask)) << 4
                elif count + FAN_OUT > search.range_room:
                    search.run, search.step, search.row, search.count = which, i - search.first, place, count
                    search.compared += FAN_OUT * nodes
                    return 0
                else:
                    while mask:
                        place = node + lowest_bit(mask)
                        mask &= mask - 1
                        ordinal = full_number(newest, ordinals[begin + place])
                        live = place < last and ordinal >= oldest
                        if keyed and as_they_came:
                            live = live and key_of(ranks[begin + place]) == key[i]
                        found, position = ranges[count], ordinal & wrap
                        found.probe, found.start, found.stop, found.inside = i, position, position + 1, inside
                        count += np.int64(live)
                    level = min(depth, 1)
                    place = (node >> (4 * level)) + (1 if level else FAN_OUT)
        search.step = 0
    search.run, search.count = forest.run_count, count
    search.compared += FAN_OUT * nodes
    return 1
