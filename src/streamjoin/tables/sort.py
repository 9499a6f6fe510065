"""Keys in order: a radix sort of int64 keys that are not negative, on all cores.

One pass deals the keys out to 256 buckets by their highest bits; then every bucket, small enough for the cache, is
sorted by the rest of them, lowest digit first. A digit that all keys of a bucket share costs one look.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from streamjoin.codegen.jit import njit
from streamjoin.codegen.records import Array
from streamjoin.tables.crew import Crew

FAN_OUT = 8  # bits of the first pass
DIGIT = 9  # bits of the others, at most
END = np.iinfo(np.int64).max  # stands behind the last key: whoever looks for a larger one stops there


@njit(nogil=True, cache=True)
def count_keys(keys, begin, end, shift, counts):
    """How many keys go to which bucket; returns whether they are in order already."""
    ordered, before = True, np.int64(-1)
    for i in range(begin, end):
        key = keys[i]
        counts[key >> shift] += 1
        ordered &= before <= key
        before = key
    return ordered


@njit(nogil=True, cache=True)
def deal_keys(keys, begin, end, shift, place, out, order):
    """Puts keys and their positions into their buckets, whose next places are known."""
    for i in range(begin, end):
        key = keys[i]
        at = place[key >> shift]
        place[key >> shift] = at + 1
        out[at] = key
        order[at] = i


@njit(nogil=True, cache=True)
def sort_buckets(keys, order, other_keys, other_order, starts, first, last, bits, digit):
    """Sorts buckets first..last-1 by their lowest bits; the other arrays are room for that."""
    size = 1 << digit
    counts = np.empty(size, np.int64)
    for bucket in range(first, last):
        begin, end = starts[bucket], starts[bucket + 1]
        if end - begin < 2:
            continue
        a, b, c, d = keys, order, other_keys, other_order
        moved = False
        for shift in range(0, bits, digit):
            for k in range(size):
                counts[k] = 0
            for i in range(begin, end):
                counts[(a[i] >> shift) & (size - 1)] += 1
            if counts[(a[begin] >> shift) & (size - 1)] == end - begin:
                continue
            place = begin
            for k in range(size):
                counts[k], place = place, place + counts[k]
            for i in range(begin, end):
                k = (a[i] >> shift) & (size - 1)
                at = counts[k]
                counts[k] = at + 1
                c[at] = a[i]
                d[at] = b[i]
            a, b, c, d = c, d, a, b
            moved = not moved
        if moved:
            for i in range(begin, end):
                keys[i] = a[i]
                order[i] = b[i]


def in_order(keys: Array, crew: Crew) -> tuple[Array, Array | None]:
    """The keys in order, END behind them, and where each of them stood; None if they were in order."""
    n = len(keys)
    bits = max(int(keys.max(initial=0)).bit_length(), 1)
    shift = max(bits - FAN_OUT, 0)
    parts = crew.cut(n)
    counts = np.zeros((len(parts), 1 << FAN_OUT), np.int64)
    ordered = crew.each(count_keys, [(keys, begin, end, shift, counts[k]) for k, (begin, end) in enumerate(parts)])
    out = np.empty(n + 1, np.int64)
    out[n] = END
    if all(ordered) and all(keys[end - 1] <= keys[end] for _, end in parts[:-1]):
        out[:n] = keys
        return out, None
    order = np.empty(n, np.uint32)
    places = np.cumsum(counts.T.ravel()).reshape(counts.T.shape).T - counts
    crew.each(deal_keys, [(keys, *part, shift, places[k].copy(), out, order) for k, part in enumerate(parts)])
    if shift:
        starts = np.concatenate([[0], np.cumsum(counts.sum(axis=0))])
        digit = -(-shift // -(-shift // DIGIT))
        room = np.empty(n, np.int64), np.empty(n, np.uint32)
        cuts = [0, *np.searchsorted(starts, [begin for begin, _ in parts[1:]]).tolist(), 1 << FAN_OUT]
        crew.each(sort_buckets, [(out, order, *room, starts, a, b, shift, digit) for a, b in pairwise(cuts)])
    return out, order
