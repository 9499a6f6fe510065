"""Access by hash: chains of tuples with equal key hash, newest first, through one array of heads and one of links.

Heads and links hold ordinals modulo 2**32: the count of tuples inserted before. The distance from the newest ordinal
tells the position; one that reaches below the segment's begin ends the chain. Nothing is ever deleted: expiry moves
the begin.
"""

from __future__ import annotations

import numpy as np

from streamjoin.access.layout import COMPARED, COUNT, ROW, STEP
from streamjoin.codegen.jit import njit

AHEAD = 64


@njit(nogil=True, cache=True)
def link(key, begin, end, ordinal, heads, links):
    """Puts tuples begin..end-1, the first of which has the given ordinal, in front of their chains."""
    mask = np.uint32(len(heads) - 1)
    for j in range(begin, end):
        slot = key[j] & mask
        links[j] = heads[slot]
        heads[slot] = np.uint32(ordinal + (j - begin))


@njit(nogil=True, cache=True)
def count_below(at, begin, end, horizon):
    """How many of the oldest tuples, without a gap, lie below the horizon."""
    j = begin
    while j < end and at[j] < horizon:
        j += 1
    return j - begin


@njit(nogil=True, error_model="numpy", cache=True)
def candidates(p, key, begin, end, tail, heads, links, ranges, cursor):
    """All probes along their chains; `tail` is the ordinal of the tuple that would lie at `end`.

    Fills `ranges`; returns False if there are more: ROW then holds the position to go on from, plus one.
    """
    n, count, capacity, compared = len(p.since), 0, len(ranges.probe), 0
    mask, low_tail = np.uint32(len(heads) - 1), np.uint32(tail)
    nearest = np.empty(AHEAD, np.int64)
    for block in range(cursor[STEP], n, AHEAD):
        last = min(block + AHEAD, n)
        for i in range(block, last):  # independent loads first: their cache misses overlap
            nearest[i - block] = end - np.int64(np.uint32(low_tail - heads[p.key[i] & mask]))
        if cursor[ROW]:
            nearest[0] = cursor[ROW] - 1
            cursor[ROW] = 0
        for i in range(block, last):
            before, j = end, nearest[i - block]
            while begin <= j and j < before:
                compared += 1
                if key[j] == p.key[i]:
                    if count == capacity:
                        cursor[STEP], cursor[ROW], cursor[COUNT] = i, j + 1, count
                        cursor[COMPARED] += compared
                        return False
                    ranges.probe[count], ranges.start[count], ranges.stop[count] = i, j, j + 1
                    ranges.inside[count] = False
                    count += 1
                before, j = j, end - np.int64(np.uint32(low_tail - links[j]))
    cursor[STEP], cursor[COUNT] = n, count
    cursor[COMPARED] += compared
    return True
