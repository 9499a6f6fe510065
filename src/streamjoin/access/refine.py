"""The exact test: of the candidates that an access path found, the pairs that match. It alone knows the predicate."""

from __future__ import annotations

import numpy as np

from streamjoin.access.records import FULL, TESTED, Batch, Probing, Range, Stored
from streamjoin.access.stand_ins import GUARDED, WIDE, fetch, matches, probing_columns, stored_columns
from streamjoin.codegen.intrinsics import full_number, keys_at, prefetch, record_at, records_at, words_at
from streamjoin.codegen.jit import inner, on_demand

AHEAD = 32  # ranges
LINE = 16  # values of four bytes in a cache line
BLOCK = 64


@inner(error_model="numpy", forceinline=True)
def ask_ahead(ranges, k, count, w, numbers, at):
    """Prefetches the memory of a later range: ranges lie far apart."""
    if k + AHEAD < count:
        later = ranges[k + AHEAD]
        for j in range(later.start, later.stop, LINE):
            fetch(w, j)
            prefetch(numbers, j)
        if not later.inside:
            prefetch(at, later.start)


@inner(error_model="numpy")
def any_match(p, i, w, first, last, fault):
    """Does any tuple match? Without branches, so that the compiler can vectorise it."""
    hit = False
    for j in range(first, last):
        hit |= matches(p, i, w, j, fault)
    return hit


@on_demand(error_model="numpy")
def refine(address):
    """Tests the candidates of a Probing. FULL: take the pairs, reset `found` and call again.

    In short ranges every candidate is written, and the next one overwrites it unless it matched. Matches cannot be
    predicted, and a mispredicted branch would cost more than the two stores. In long ranges with few matches, blocks
    without any match are skipped.
    """
    search = record_at(address, Probing)
    batch, stored = record_at(search.batch, Batch), record_at(search.stored, Stored)
    p, w = probing_columns(batch.columns), stored_columns(stored.columns)
    since, until, numbers = (
        words_at(batch.since, search.end),
        words_at(batch.until, search.end),
        words_at(batch.number, search.end),
    )
    at, number = words_at(stored.at, stored.room), keys_at(stored.number, stored.room)
    ranges = records_at(search.ranges, search.range_room, Range)
    room, fault, newest, count = search.pair_room, search.fault, search.newest, search.count
    out_probe, out_stored = words_at(search.pair_probe, room), words_at(search.pair_stored, room)
    found, position = search.found, search.at_position
    for k in range(search.at_range, count):
        if not WIDE:
            ask_ahead(ranges, k, count, w, number, at)
        i, stop, inside = ranges[k].probe, ranges[k].stop, ranges[k].inside
        first, last, arrival = since[i], until[i], numbers[i]
        position = max(ranges[k].start, position)
        while position < stop:
            if WIDE:
                end = min(stop, position + BLOCK)
                if not any_match(p, i, w, position, end, fault):
                    position = end
                    continue
            else:
                end = min(stop, position + room - found)
            if found == room or (WIDE and found + BLOCK > room):
                search.at_range, search.at_position, search.found = k, position, found
                return FULL
            if inside:
                for j in range(position, end):
                    out_probe[found], out_stored[found] = arrival, full_number(newest, number[j])
                    found += np.int64(matches(p, i, w, j, fault))
            else:
                for j in range(position, end):
                    near = (first <= at[j]) & (at[j] <= last)
                    if (GUARDED or WIDE) and not near:
                        continue
                    out_probe[found], out_stored[found] = arrival, full_number(newest, number[j])
                    found += np.int64(near & matches(p, i, w, j, fault))
            position = end
        position = 0
    search.at_range, search.at_position, search.found = 0, 0, found
    return TESTED
