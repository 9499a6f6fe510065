"""Keys as small numbers, and one pass over two sides in the order of time: the last s of every r's key."""

from __future__ import annotations

import numpy as np

from streamjoin.codegen.intrinsics import mix
from streamjoin.codegen.jit import inner, njit

FIRST = 1 << 10  # places of a hash table in the beginning


@inner(forceinline=True)
def hash_of(words, row):
    key = np.uint64(0)
    for k in range(words.shape[1]):
        key = mix(key, words[row, k])
    return key


@inner(forceinline=True)
def place_of(words, row, known, slots):
    """Where the number of a row's key stands, or would stand."""
    mask = np.uint64(len(slots) - 1)
    at = hash_of(words, row) & mask
    while slots[at] >= 0:
        same = True
        for k in range(words.shape[1]):
            same &= words[row, k] == known[slots[at], k]
        if same:
            break
        at = (at + np.uint64(1)) & mask
    return at


@njit(nogil=True, cache=True)
def number_keys(words_s, keep_s, words_r, keep_r, numbers_s, numbers_r):
    """Numbers the keys of s, and gives r the same ones; -1 where a row is not kept, or has a key that s has not."""
    width, count = words_s.shape[1], 0
    slots = np.full(FIRST, -1, np.int32)
    known = np.empty((FIRST // 2, width), np.int64)
    for s in range(len(keep_s)):
        numbers_s[s] = -1
        if not keep_s[s]:
            continue
        at = place_of(words_s, s, known, slots)
        if slots[at] < 0:
            if count == len(known):
                wider = np.empty((2 * count, width), np.int64)
                wider[:count] = known
                known = wider
                slots = np.full(4 * count, -1, np.int32)
                for number in range(count):
                    slots[place_of(known, number, known, slots)] = number
                at = place_of(words_s, s, known, slots)
            known[count] = words_s[s]
            slots[at] = count
            count += 1
        numbers_s[s] = slots[at]
    for r in range(len(keep_r)):
        numbers_r[r] = slots[place_of(words_r, r, known, slots)] if keep_r[r] else -1
    return count


@njit(nogil=True, cache=True)
def latest(numbers_r, order_r, limits, numbers_s, order_s, times, backwards, last, found):
    """By row of r: the s of the same key that comes last among those up to its limit; -1 if there is none.

    Both sides are gone through in their order, or from its end on: then it is the first one from the limit on. `last`
    has a place for each key, all of them -1.
    """
    n_r, n_s = len(order_r), len(order_s)
    come = 0
    for i in range(n_r):
        r = order_r[n_r - 1 - i] if backwards else order_r[i]
        while come < n_s:
            s = order_s[n_s - 1 - come] if backwards else order_s[come]
            if times[s] < limits[r] if backwards else times[s] > limits[r]:
                break
            come += 1
            if numbers_s[s] >= 0:
                last[numbers_s[s]] = s
        found[r] = last[numbers_r[r]] if numbers_r[r] >= 0 else -1
