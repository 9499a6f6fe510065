"""The exact test: of the candidates that an access path found, the pairs that match. It alone knows the predicate."""

from __future__ import annotations

from numba import njit

from streamjoin.core.kernels.contract import match
from streamjoin.core.kernels.layout import FOUND, PLACE, RANGE
from streamjoin.core.kernels.scalar import full_number


@njit(nogil=True, error_model="numpy", cache=True)
def sift(columns, since, until, numbers, w, newest, ranges, count, pairs, cursor, trouble):
    """Tests `count` ranges. Returns False when `pairs` is full: empty it, reset FOUND and call again."""
    found, room = cursor[FOUND], len(pairs.probe)
    place = cursor[PLACE]
    for k in range(cursor[RANGE], count):
        i, inside = ranges.probe[k], ranges.inside[k]
        first, last, number = since[i], until[i], numbers[i]
        for j in range(max(ranges.start[k], place), ranges.stop[k]):
            if match(columns, i, w.columns, j, trouble) and (inside or (first <= w.at[j] and w.at[j] <= last)):
                if found == room:
                    cursor[RANGE], cursor[PLACE], cursor[FOUND] = k, j, found
                    return False
                pairs.probe[found] = number
                pairs.stored[found] = full_number(newest, w.number[j])
                found += 1
        place = 0
    cursor[RANGE], cursor[PLACE], cursor[FOUND] = 0, 0, found
    return True
