"""Keys in order: a radix sort of int64 keys that are not negative, on all cores.

One pass deals the keys out to 256 buckets by their highest bits; then every bucket, small enough for the cache, is
sorted by the rest of them, lowest digit first. A digit that all keys of a bucket share costs one look. Few rows are one
bucket.

Keys of up to 31 bits travel in one word with their positions, and come out as 32 bits; longer ones beside them.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from streamjoin.codegen.jit import inner, njit
from streamjoin.codegen.records import KEYS, WORDS, Array
from streamjoin.plan.shape import Axis
from streamjoin.plan.statistics import Values
from streamjoin.tables.crew import Crew
from streamjoin.tables.keys import POSITION_BITS, digits, make_keys
from streamjoin.tables.lanes import LANES
from streamjoin.tables.memory import room

FAN_OUT = 8  # bits of the first pass
FEW = 1 << 18  # rows that fit the cache as they are, at most
DIGIT = 11  # bits of the others, at most
EXACT_BITS = 52  # of integers that float64 holds
PACKED_BITS = 31  # of keys that fit a word with their positions, and leave its sign alone


@njit(nogil=True, cache=True)
def deal_words(words, begin, end, shift, place, out):
    """Puts packed words into their buckets, whose next places are known."""
    for i in range(begin, end):
        word = words[i]
        bucket = np.uint64(word) >> np.uint64(shift)
        at = place[bucket]
        place[bucket] = at + 1
        out[at] = word


@inner
def _places(words, begin, end, shift, counts):
    """Where the words with each digit go, in `counts`; False if all of them have the same one."""
    size = len(counts)
    for k in range(size):
        counts[k] = 0
    for i in range(begin, end):
        counts[(words[i] >> shift) & (size - 1)] += 1
    if counts[(words[begin] >> shift) & (size - 1)] == end - begin:
        return False
    place = begin
    for k in range(size):
        counts[k], place = place, place + counts[k]
    return True


@njit(nogil=True, cache=True, usual=lambda: (WORDS, WORDS, WORDS, 0, 0, 0, 0, KEYS, KEYS))
def sort_words(words, other, starts, first, last, bits, digit, keys, order):
    """Sorts packed words of buckets first..last-1 by the lowest bits of their keys; the other array is room for that.

    The last pass takes them apart into keys and positions.
    """
    size, low = 1 << digit, POSITION_BITS
    counts = np.empty(size, np.int64)
    for bucket in range(first, last):
        begin, end = starts[bucket], starts[bucket + 1]
        a, b = words, other
        for shift in range(low, low + bits, digit):
            if end - begin < 2:
                break
            if not _places(a, begin, end, shift, counts):
                continue
            for i in range(begin, end):
                k = (a[i] >> shift) & (size - 1)
                at = counts[k]
                counts[k] = at + 1
                b[at] = a[i]
            a, b = b, a
        for i in range(begin, end):
            keys[i] = np.uint32(np.uint64(a[i]) >> np.uint64(low))
            order[i] = np.uint32(a[i])


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
    """Sorts keys and positions of buckets first..last-1 by their lowest bits; the other arrays are room for that."""
    size = 1 << digit
    counts = np.empty(size, np.int64)
    for bucket in range(first, last):
        begin, end = starts[bucket], starts[bucket + 1]
        if end - begin < 2:
            continue
        a, b, c, d = keys, order, other_keys, other_order
        moved = False
        for shift in range(0, bits, digit):
            if not _places(a, begin, end, shift, counts):
                continue
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


def in_order(columns: Array, bits: int, n: int, crew: Crew) -> tuple[Array, Array | None]:
    """The keys of `bits` bits that columns (`keys.Digits`) make, in order, and the position that each had.

    None if they were in order. Behind the last key stand as many of the highest one as a vector has lanes.
    """
    fan_out = FAN_OUT if n > FEW else 0
    packed, shift = bits <= PACKED_BITS, max(bits - fan_out, 0)
    parts = crew.cut(n)
    words, counts = room(n, np.int64), np.zeros((len(parts), 1 << fan_out), np.int64)
    made = [(columns, *part, packed, shift, words, counts[k]) for k, part in enumerate(parts)]
    ordered = crew.each(make_keys, made)
    keys = room(n + LANES, np.uint32 if packed else np.int64)
    keys[n:] = np.iinfo(keys.dtype).max
    if all(ordered) and all(words[end - 1] <= words[end] for _, end in parts[:-1]):
        crew.each(_bare, [(keys, words, *part, POSITION_BITS if packed else 0) for part in parts])
        return keys, None
    order = room(n, np.uint32)
    starts = np.concatenate([[0], np.cumsum(counts.sum(axis=0))])
    places = np.cumsum(counts.T.ravel()).reshape(counts.T.shape).T - counts
    cuts = [0, *np.searchsorted(starts, [begin for begin, _ in parts[1:]]).tolist(), 1 << fan_out]
    digit = -(-shift // max(-(-shift // DIGIT), 1)) if shift else 1
    if packed:
        spare = room(n, np.int64)
        if fan_out:
            deal = [(words, *part, shift + POSITION_BITS, places[k].copy(), spare) for k, part in enumerate(parts)]
            crew.each(deal_words, deal)
            words, spare = spare, words
        crew.each(sort_words, [(words, spare, starts, a, b, shift, digit, keys, order) for a, b in pairwise(cuts)])
        return keys, order
    crew.each(deal_keys, [(words, *part, shift, places[k].copy(), keys, order) for k, part in enumerate(parts)])
    if shift:
        others = words, room(n, np.uint32)
        crew.each(sort_buckets, [(keys, order, *others, starts, a, b, shift, digit) for a, b in pairwise(cuts)])
    return keys, order


def order_of(times: Array, crew: Crew) -> Array | None:
    """The positions of int64 values in their order, equal ones as they stood; None if they are in order."""
    if not len(times):
        return None
    first, last = int(times.min()), int(times.max())
    bits = max((last - first).bit_length(), 1)
    if bits > EXACT_BITS:
        return np.argsort(times, kind="stable").astype(np.uint32)
    return in_order(digits(Values(times, -first), Axis(0, 0.0, 1.0, bits), 0), bits, len(times), crew)[1]


def _bare(keys: Array, words: Array, begin: int, end: int, bits: int) -> None:
    """Keys without positions."""
    np.right_shift(words[begin:end], bits, out=keys[begin:end], casting="unsafe")
