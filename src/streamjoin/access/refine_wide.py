"""The exact test for predicates that no access path narrows down: long ranges, few matches.

A first pass over a block only asks whether anything matched, without branches, so that the compiler may vectorise it;
blocks that hit are visited again.
"""

from __future__ import annotations

from streamjoin.access.layout import FOUND, PLACE, RANGE
from streamjoin.access.stand_ins import match
from streamjoin.codegen.intrinsics import full_number
from streamjoin.codegen.jit import inner, njit

BLOCK = 64


@inner(error_model="numpy")
def any_match(p, i, w, first, last, trouble):
    hit = False
    for j in range(first, last):
        hit |= match(p, i, w, j, trouble)
    return hit


@njit(nogil=True, error_model="numpy", cache=True, no_cfunc_wrapper=True)
def sift(columns, since, until, numbers, w, newest, ranges, count, pairs, cursor, trouble):
    """Tests `count` ranges. Returns False when `pairs` is full: empty it, reset FOUND and call again."""
    found, room = cursor[FOUND], len(pairs.probe)
    place = cursor[PLACE]
    for k in range(cursor[RANGE], count):
        i, stop = ranges.probe[k], ranges.stop[k]
        for first in range(max(ranges.start[k], place), stop, BLOCK):
            last = min(first + BLOCK, stop)
            if not any_match(columns, i, w.columns, first, last, trouble):
                continue
            if found + BLOCK > room:
                cursor[RANGE], cursor[PLACE], cursor[FOUND] = k, first, found
                return False
            for j in range(first, last):
                if since[i] <= w.at[j] and w.at[j] <= until[i] and match(columns, i, w.columns, j, trouble):
                    pairs.probe[found] = numbers[i]
                    pairs.stored[found] = full_number(newest, w.number[j])
                    found += 1
        place = 0
    cursor[RANGE], cursor[PLACE], cursor[FOUND] = 0, 0, found
    return True
