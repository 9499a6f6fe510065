"""The exact test: of the candidates that an access path found, the pairs that match. It alone knows the predicate."""

from __future__ import annotations

import numpy as np

from streamjoin.access.layout import FOUND, PLACE, RANGE
from streamjoin.access.stand_ins import GUARDED, fetch, match
from streamjoin.codegen.intrinsics import full_number, prefetch
from streamjoin.codegen.jit import njit

AHEAD = 32  # ranges
LINE = 16  # values of four bytes in a cache line


@njit(nogil=True, error_model="numpy", cache=True, no_cfunc_wrapper=True)
def sift(columns, since, until, numbers, w, newest, ranges, count, pairs, cursor, trouble):
    """Tests `count` ranges. Returns False when `pairs` is full: empty it, reset FOUND and call again.

    Every candidate is written and the next one overwrites it unless it matched: whether it does cannot be foreseen, and
    a wrong guess of the processor would cost more than the two stores.
    """
    found, room, place = cursor[FOUND], len(pairs.probe), cursor[PLACE]
    for k in range(cursor[RANGE], count):
        if k + AHEAD < count:  # ranges lie far apart: what the one after next needs is asked for now
            for j in range(ranges.start[k + AHEAD], ranges.stop[k + AHEAD], LINE):
                fetch(w.columns, j)
                prefetch(w.number, j)
            if not ranges.inside[k + AHEAD]:
                prefetch(w.at, ranges.start[k + AHEAD])
        i, inside, stop = ranges.probe[k], ranges.inside[k], ranges.stop[k]
        first, last, number = since[i], until[i], numbers[i]
        place = max(ranges.start[k], place)
        while place < stop:
            if found == room:
                cursor[RANGE], cursor[PLACE], cursor[FOUND] = k, place, found
                return False
            end = min(stop, place + room - found)
            if inside:
                for j in range(place, end):
                    pairs.probe[found] = number
                    pairs.stored[found] = full_number(newest, w.number[j])
                    found += np.int64(match(columns, i, w.columns, j, trouble))
            else:
                for j in range(place, end):
                    near = (first <= w.at[j]) & (w.at[j] <= last)
                    if GUARDED and not near:
                        continue
                    pairs.probe[found] = number
                    pairs.stored[found] = full_number(newest, w.number[j])
                    found += np.int64(near & match(columns, i, w.columns, j, trouble))
            place = end
        place = 0
    cursor[RANGE], cursor[PLACE], cursor[FOUND] = 0, 0, found
    return True
