"""A tree segment in compiled code: arrivals become ordered runs, runs are merged in tiers, old ones dropped.

    oldest  [  closed  ][  closed  ][  closed  ][ run ][ run ][r][head]  newest
             about 1/PARTS of the window each    each at least GROWTH times the next

The head takes arrivals in their order. When it is full, it is sorted and merged with the runs before it that are not
much larger. When the runs that are not closed make up a part of the window, they become one closed run, which is never
merged again, and is dropped when its last tuple has expired. Searches skip a tuple that expires before that, and the
next merge leaves it out.

Invariants: a tuple is in exactly one run. It is moved about log2(window / HEAD) times. Runs lie in the order of their
age, each at a multiple of HEAD. Gaps between them are closed when the end of the index is reached.
"""

from __future__ import annotations

import numpy as np

from streamjoin.access.records import Batch, Column, Stored
from streamjoin.access.tree.ranks import key_of, rank_of
from streamjoin.access.tree.records import FAN_OUT, HEAD, MOST_LEVELS, Forest, level_starts, padded, runs_of, tree_at
from streamjoin.access.tuples import COORD, HIGH, LOW
from streamjoin.codegen.intrinsics import copy_bytes, floats_at, full_number, keys_at, record_at, records_at, words_at
from streamjoin.codegen.jit import inner, on_demand

GROWTH = 2
PARTS = 4
MOST_CLOSED = 2 * PARTS
SMALLEST_PART = 4096
GAPS = (109, 41, 19, 5, 1)  # of a Shell sort


@on_demand(error_model="numpy")
def insert(address):
    """Inserts arrivals. 0: make room, or check the order of runs, and call again. `taken` counts those inserted."""
    segment = record_at(address, Stored)
    forest, source = record_at(segment.index, Forest), record_at(segment.source, Batch)
    taken = segment.begin + forest.taken
    while taken < segment.end:
        free = segment.room - (forest.stop - forest.oldest)
        if free == 0 or forest.stop >= forest.look or not (forest.growing or open_head(forest)):
            forest.taken = taken - segment.begin
            return 0
        runs = runs_of(forest)
        head = runs[forest.run_count - 1]
        count = min(segment.end - taken, HEAD - head.count, free)
        keep(segment, forest, source, taken, count)
        enter(segment, forest, source, taken, count, head.begin + head.count, head.begin, True)
        note(source, taken, count, head)
        forest.stop += count
        head.last = forest.stop - 1
        taken += count
        if head.count == HEAD:
            forest.growing = 0
            put_in_order(forest, head)
            merge_what_is_due(forest)
    forest.taken = 0
    return 1


@inner
def note(source, first, count, run):
    """Notes that a run has `count` more tuples, which lie in a source."""
    at = words_at(source.at, first + count)
    for k in range(first, first + count):
        run.first_at = at[k] if run.count == 0 else min(run.first_at, at[k])
        run.last_at = at[k] if run.count == 0 else max(run.last_at, at[k])
        run.count += 1


@inner
def open_head(forest):
    """Begins a new run behind the others. False if there is no room."""
    runs, k = runs_of(forest), forest.run_count
    if k == forest.run_room:
        return False
    begin = behind(forest)
    if begin + HEAD > forest.capacity:
        close_gaps(forest)
        begin = behind(forest)
        if begin + HEAD > 3 * forest.capacity // 4:  # otherwise gaps would have to be closed again too soon
            return False
    runs[k].begin, runs[k].count = begin, 0
    values, base = floats_at(forest.values, 1, forest.ends * forest.stride)[0], tree_at(begin)
    for e in range(forest.ends):
        for place in range(e * forest.stride + base, e * forest.stride + base + HEAD + FAN_OUT):
            values[place] = np.inf
    forest.run_count, forest.growing = k + 1, 1
    return True


@inner
def behind(forest):
    """The first place behind all runs."""
    if forest.run_count == 0:
        return 0
    last = runs_of(forest)[forest.run_count - 1]
    return last.begin + padded(last.count, HEAD)


@inner
def close_gaps(forest):
    """Moves runs towards the beginning of the index."""
    runs, to, starts = runs_of(forest), 0, np.empty(MOST_LEVELS, np.int64)
    ranks, ordinals = words_at(forest.rank, forest.capacity), keys_at(forest.ordinal, forest.capacity)
    values = floats_at(forest.values, 1, forest.ends * forest.stride)[0]
    for k in range(forest.run_count):
        run = runs[k]
        if run.begin > to:
            for place in range(run.count):
                ranks[to + place], ordinals[to + place] = ranks[run.begin + place], ordinals[run.begin + place]
            size, base, there = starts[level_starts(run.count, starts) + 1], tree_at(run.begin), tree_at(to)
            for e in range(forest.ends):
                for place in range(e * forest.stride, e * forest.stride + size):
                    values[there + place] = values[base + place]
            run.begin = to
        to += padded(run.count, HEAD)


@inner
def keep(segment, forest, source, first, count):
    """Copies arrivals first.. of a source to the ring."""
    own = records_at(segment.columns, segment.column_count, Column)
    theirs = records_at(source.columns, segment.column_count, Column)
    numbers, low = words_at(source.number, first + count), keys_at(segment.number, segment.room)
    done = 0
    while done < count:
        position = (forest.stop + done) & (segment.room - 1)
        some = min(count - done, segment.room - position)
        for c in range(segment.column_count):
            each = own[c].each
            copy_bytes(own[c].start + position * each, theirs[c].start + (first + done) * each, some * each)
        copy_bytes(segment.at + 8 * position, source.at + 8 * (first + done), 8 * some)
        for k in range(some):
            low[position + k] = np.uint32(numbers[first + done + k])
        done += some


@inner
def enter(segment, forest, source, first, count, place, begin, with_minima):
    """Enters arrivals first.. of a source into the index, from `place` on, in a run that begins there or before."""
    ranks, ordinals = words_at(forest.rank, forest.capacity), keys_at(forest.ordinal, forest.capacity)
    values, inside = floats_at(forest.values, 1, forest.ends * forest.stride)[0], place - begin
    key, base = keys_at(source.key, first + count), tree_at(begin)
    for e in range(forest.ends):
        kind, d = forest.kind[e], forest.dim[e]
        corner = source.lo if kind == LOW else source.hi if kind == HIGH else source.coord
        box, start = floats_at(corner, segment.dims, source.stride), e * forest.stride + base
        negated = kind in (HIGH, COORD + 1)
        for k in range(count):
            value = -box[d, first + k] if negated else box[d, first + k]
            values[start + inside + k] = value
            if with_minima:
                above = start + HEAD + (inside + k) // FAN_OUT
                values[above] = min(values[above], value)
    for k in range(count):
        ordinals[place + k] = np.uint32(forest.stop + k)
        ranks[place + k] = rank_of(forest, values, base + inside + k, key[first + k] if forest.keyed else 0)


@inner
def put_in_order(forest, run):
    """Orders a head by rank."""
    ranks, order = words_at(forest.rank, forest.capacity), keys_at(forest.order, forest.capacity)
    for k in range(run.count):
        order[k] = run.begin + k
    for gap in GAPS:
        for k in range(gap, run.count):
            moved, at = order[k], k
            while at >= gap and ranks[order[at - gap]] > ranks[moved]:
                order[at] = order[at - gap]
                at -= gap
            order[at] = moved
    gather(forest, run, run, run.count)
    put_minima(forest, run)


@inner
def gather(forest, one, other, count):
    """Writes the tuples of two neighbouring runs to the places from the first one's on, in the order of `order`."""
    order, spare = keys_at(forest.order, forest.capacity), words_at(forest.spare, forest.capacity)
    ranks, begin = words_at(forest.rank, forest.capacity), one.begin
    for k in range(count):
        spare[k] = ranks[order[k]]
    copy_bytes(forest.rank + 8 * begin, forest.spare, 8 * count)
    small, ordinals = keys_at(forest.spare, 2 * forest.capacity), keys_at(forest.ordinal, forest.capacity)
    for k in range(count):
        small[k] = ordinals[order[k]]
    copy_bytes(forest.ordinal + 4 * begin, forest.spare, 4 * count)
    half = np.int64(other.begin)
    near, far = tree_at(begin) - begin, tree_at(half) - half
    for e in range(forest.ends):
        values = keys_at(forest.values + 4 * e * forest.stride, forest.stride)
        for k in range(count):
            place = np.int64(order[k])
            small[k] = values[place + (far if place >= half else near)]
        copy_bytes(forest.values + 4 * (e * forest.stride + tree_at(begin)), forest.spare, 4 * count)


@inner
def put_minima(forest, run):
    """Computes the trees above the values of a run."""
    values, starts = floats_at(forest.values, 1, forest.ends * forest.stride)[0], np.empty(MOST_LEVELS, np.int64)
    depth = level_starts(run.count, starts)
    for e in range(forest.ends):
        base, filled = e * forest.stride + tree_at(run.begin), run.count
        for level in range(depth + 1):
            here, above = base + starts[level], base + starts[level + 1]
            for place in range(here + filled, above):
                values[place] = np.inf
            if level == depth:
                break
            filled = (above - here) // FAN_OUT
            for k in range(filled):
                least = values[here + k * FAN_OUT]
                for j in range(1, FAN_OUT):
                    least = min(least, values[here + k * FAN_OUT + j])
                values[above + k] = least


@inner
def merge_what_is_due(forest):
    """Merges the newest runs while each is less than GROWTH times as large as all newer ones together.

    When all open runs make up a part of the window, they become one closed run.
    """
    runs, last, part = runs_of(forest), forest.run_count, max((forest.stop - forest.oldest) // PARTS, SMALLEST_PART)
    first, total, open_ones = last - 1, runs[last - 1].count, 0
    while first > forest.closed and runs[first - 1].count < GROWTH * total:
        first -= 1
        total += runs[first].count
    for k in range(forest.closed, last):
        open_ones += runs[k].count
    if open_ones >= part:
        merge(forest, forest.closed, last)
        forest.closed += 1
    else:
        merge(forest, first, last)
    if forest.closed > MOST_CLOSED:  # from before the window grew to its present size
        for first in range(forest.closed - 1):
            if runs[first].count + runs[first + 1].count <= part:
                merge(forest, first, first + 2)
                forest.closed -= 1
                break


@inner
def merge(forest, first, last):
    """Makes one run of runs first..last-1, starting with the newest ones. Leaves out expired tuples."""
    runs = runs_of(forest)
    if last - first < 2:
        return
    ranks, ordinals = words_at(forest.rank, forest.capacity), keys_at(forest.ordinal, forest.capacity)
    order, newest = keys_at(forest.order, forest.capacity), forest.stop - 1
    for k in range(last - 2, first - 1, -1):
        one, other = runs[k], runs[k + 1]
        i, j, count = one.begin, other.begin, 0
        i_end, j_end = i + one.count, j + other.count
        while i < i_end or j < j_end:
            if j == j_end or (i < i_end and ranks[i] <= ranks[j]):
                place = i
                i += 1
            else:
                place = j
                j += 1
            order[count] = place
            count += np.int64(full_number(newest, ordinals[place]) >= forest.oldest)
        gather(forest, one, other, count)
        one.count, one.last = count, other.last
        one.first_at, one.last_at = min(one.first_at, other.first_at), max(one.last_at, other.last_at)
    put_minima(forest, runs[first])
    for k in range(last, forest.run_count):
        runs[k - (last - first - 1)] = runs[k]
    forest.run_count -= last - first - 1


@on_demand(error_model="numpy")
def expire(address):
    """Drops the oldest tuples, up to the first that is not below the horizon, and empty runs."""
    segment = record_at(address, Stored)
    forest, at = record_at(segment.index, Forest), words_at(segment.at, segment.room)
    while forest.oldest < forest.stop and at[forest.oldest & (segment.room - 1)] < segment.horizon:
        forest.oldest += 1
    runs, gone = runs_of(forest), 0
    while gone < forest.run_count and runs[gone].last < forest.oldest:
        gone += 1
    if gone == 0:
        return 1
    for k in range(gone, forest.run_count):
        runs[k - gone] = runs[k]
    forest.run_count -= gone
    forest.closed = max(0, forest.closed - gone)
    if forest.run_count == 0:
        forest.growing = 0
    return 1


@on_demand(error_model="numpy")
def enter_all(address):
    """Inserts all arrivals into an empty segment with room for them, in order of arrival, as one run."""
    segment = record_at(address, Stored)
    forest, source = record_at(segment.index, Forest), record_at(segment.source, Batch)
    run = runs_of(forest)[0]
    run.begin, run.count = 0, 0
    keep(segment, forest, source, segment.begin, segment.end - segment.begin)
    enter(segment, forest, source, segment.begin, segment.end - segment.begin, 0, 0, False)
    note(source, segment.begin, segment.end - segment.begin, run)
    forest.stop += run.count
    run.last = forest.stop - 1
    forest.run_count = forest.closed = 1
    return 1


@on_demand(error_model="numpy")
def rank_again(address):
    """Computes the ranks of all tuples again, by the current axes."""
    forest = record_at(record_at(address, Stored).index, Forest)
    runs, ranks = runs_of(forest), words_at(forest.rank, forest.capacity)
    values = floats_at(forest.values, 1, forest.ends * forest.stride)[0]
    for k in range(forest.run_count):
        begin, base = runs[k].begin, tree_at(runs[k].begin)
        for place in range(runs[k].count):
            ranks[begin + place] = rank_of(forest, values, base + place, key_of(ranks[begin + place]))
    return 1


@on_demand(error_model="numpy")
def order_again(address):
    """Puts every run but a head into the order that `order` has at the places of the run."""
    forest = record_at(record_at(address, Stored).index, Forest)
    runs, order = runs_of(forest), keys_at(forest.order, forest.capacity)
    for k in range(forest.run_count - forest.growing):
        run = runs[k]
        for place in range(run.count):  # writes to no place of a later run
            order[place] = order[run.begin + place]
        gather(forest, run, run, run.count)
        put_minima(forest, run)
    return 1
