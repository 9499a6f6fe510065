"""One pass over two sides in the order of time: for every r, the last s of its key that came by then."""

from __future__ import annotations

import numpy as np

from streamjoin.codegen.intrinsics import mix
from streamjoin.codegen.jit import inner, njit


@inner
def place_of(words, row, others, slots, part, parts):
    """Where a row's key is, or would be, in a hash table of rows of s; -1 if the key belongs to another part."""
    key = np.uint64(0)
    for k in range(words.shape[1]):
        key = mix(key, words[row, k])
    if np.int64(key >> np.uint64(40)) % parts != part:
        return -1
    mask = len(slots) - 1
    at = np.int64(key & np.uint64(mask))
    while slots[at] >= 0:
        same = True
        for k in range(words.shape[1]):
            same &= words[row, k] == others[slots[at], k]
        if same:
            break
        at = (at + 1) & mask
    return at


@njit(nogil=True, cache=True)
def latest(words_r, keep_r, order_r, limits, words_s, keep_s, order_s, times, backwards, part, parts, slots, found):
    """By row of r: the s of the same key that comes last among those up to its limit.

    Both sides are gone through in their order, or from its end on: then it is the first one from the limit on. Only
    keys of one part of so many are looked at. `slots` has more places than s has rows, all of them -1.
    """
    n_r, n_s = len(order_r), len(order_s)
    come = 0
    for i in range(n_r):
        r = order_r[n_r - 1 - i] if backwards else order_r[i]
        if not keep_r[r]:
            continue
        while come < n_s:
            s = order_s[n_s - 1 - come] if backwards else order_s[come]
            if times[s] < limits[r] if backwards else times[s] > limits[r]:
                break
            come += 1
            if keep_s[s]:
                at = place_of(words_s, s, words_s, slots, part, parts)
                if at >= 0:
                    slots[at] = s
        at = place_of(words_r, r, words_s, slots, part, parts)
        if at >= 0:
            found[r] = slots[at]
