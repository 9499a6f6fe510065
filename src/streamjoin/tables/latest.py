"""Keys as small numbers, and one pass over two sides in the order of time: the last s of every r's key."""

from __future__ import annotations

import numpy as np

from streamjoin.codegen.intrinsics import mix
from streamjoin.codegen.jit import inner, njit
from streamjoin.codegen.records import Record, Word

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
def number_keys(words, keep, numbers):
    """Numbers the keys of rows, -1 where a row is not kept. Returns the keys, their table and how many there are."""
    width, count = words.shape[1], 0
    slots = np.full(FIRST, -1, np.int32)
    known = np.empty((FIRST // 2, width), np.int64)
    for row in range(len(keep)):
        numbers[row] = -1
        if not keep[row]:
            continue
        at = place_of(words, row, known, slots)
        if slots[at] < 0:
            if count == len(known):
                wider = np.empty((2 * count, width), np.int64)
                wider[:count] = known
                known = wider
                slots = np.full(4 * count, -1, np.int32)
                for number in range(count):
                    slots[place_of(known, number, known, slots)] = number
                at = place_of(words, row, known, slots)
            known[count] = words[row]
            slots[at] = count
            count += 1
        numbers[row] = slots[at]
    return known, slots, count


@njit(nogil=True, cache=True)
def find_keys(words, keep, known, slots, begin, end, numbers):
    """The numbers of keys that are known; -1 where a row is not kept, or its key is not known."""
    for row in range(begin, end):
        numbers[row] = slots[place_of(words, row, known, slots)] if keep[row] else -1


class RowRange(Record):
    """Some rows of r in their order, from a first to a last one, and those of s that come before or among them."""

    first: Word
    last: Word
    first_s: Word  # those before it have come for all of these r
    last_s: Word
    backwards: Word  # 1: both orders are gone through from their ends
    strict: Word  # 1: an s at the limit itself comes after it


@njit(nogil=True, cache=True)
def latest(row_range, numbers_r, order_r, limits, numbers_s, order_s, times, last, found):
    """By row of r: the s of the same key that comes last among those of the range up to its limit; -1: none does.

    Both sides are gone through in their order, or from its end on: then it is the first one from the limit on. An order
    of no length is that of the rows. `last` has a place for each key, all of them -1, and the last s in the end.
    """
    n_r, n_s, backwards = len(limits), len(times), row_range.backwards
    come = row_range.first_s
    for i in range(row_range.first, row_range.last + 1):  # one more: whatever has not come yet comes
        r = np.int64(0)
        if i < row_range.last:
            r = n_r - 1 - i if backwards else i
            if len(order_r):
                r = np.int64(order_r[r])
        while come < row_range.last_s:
            s = n_s - 1 - come if backwards else come
            if len(order_s):
                s = np.int64(order_s[s])
            if i < row_range.last and (times[s] < limits[r] if backwards else times[s] > limits[r]):
                break
            come += 1
            if numbers_s[s] >= 0:
                last[numbers_s[s]] = s
        if i < row_range.last:
            found[r] = last[numbers_r[r]] if numbers_r[r] >= 0 else -1


@njit(nogil=True, cache=True)
def count_until(row_range, numbers_r, order_r, limits, numbers_s, order_s, times, counts, found):
    """By row of r: how many s of the same key come among those of the range up to its limit.

    `counts` has a place for each key, all of them zero, and how many came in the end.
    """
    come, strict = row_range.first_s, row_range.strict
    for i in range(row_range.first, row_range.last + 1):  # one more: whatever has not come yet comes
        r = np.int64(0)
        if i < row_range.last:
            r = np.int64(order_r[i]) if len(order_r) else i
        while come < row_range.last_s:
            s = np.int64(order_s[come]) if len(order_s) else come
            if i < row_range.last and (times[s] > limits[r] or (strict and times[s] == limits[r])):
                break
            come += 1
            if numbers_s[s] >= 0:
                counts[numbers_s[s]] += 1
        if i < row_range.last:
            found[r] = counts[numbers_r[r]] if numbers_r[r] >= 0 else 0
