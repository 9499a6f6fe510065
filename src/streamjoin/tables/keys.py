"""Sort keys: several columns in one integer, the coarse ones in front.

    key = | hash of the equality keys | cells of strips | place on the axis that is swept |

Places are counted in steps of an axis: monotone, so that what overlaps still does, and as few bits as the intervals'
lengths ask for. What lies beyond an axis is put to its ends.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from streamjoin.codegen.intrinsics import doubles_at, keys_at, words_at
from streamjoin.codegen.jit import inner, njit
from streamjoin.codegen.records import KEYS, WORDS, Address, Array, Record, Word, address
from streamjoin.plan.shape import Axis
from streamjoin.plan.statistics import Values

BLOCK = 1 << 10  # rows whose keys are put together in the nearest cache
POSITION_BITS = 32  # of a packed word: the key stands above the position
FAR = np.int64(1) << 40  # rows: more than there are
HASH, FLOATS, INTEGERS = range(3)


class Digits(Record):
    """One column of a key: what it is, where it lies, and how its values become bits of the key."""

    kind: Word
    values: Address
    bias: Word  # of integers: what is added first
    low: Annotated[float, np.float64]
    scale: Annotated[float, np.float64]
    most: Annotated[float, np.float64]
    right: Word  # of hashes: bits that are dropped
    left: Word  # bits by which the digits are shifted


def digits(values: Values, axis: Axis, left: int) -> Array:
    """The places of values on an axis."""
    found = Digits.array(1)
    kind = FLOATS if values.array.dtype == np.float64 else INTEGERS
    found[0] = kind, address(values.array), values.word, axis.low, axis.scale, axis.most, 0, left
    return found


def hash_digits(key: Array, bits: int, left: int) -> Array:
    """The highest bits of hashes."""
    found = Digits.array(1)
    found[0] = HASH, address(key), 0, 0.0, 0.0, 0.0, 32 - bits, left
    return found


@inner(forceinline=True)
def step(value, low, scale, most):
    return min(max((value - low) * scale, 0.0), most)


@inner(forceinline=True)
def _value(column, i):
    """A row's value in float64."""
    if column.kind == INTEGERS:
        return np.float64(words_at(column.values, i + 1)[i] + column.bias)
    return doubles_at(column.values, i + 1)[i]


@inner(forceinline=True)
def _place(column, i):
    """The step that a row's value lies in."""
    return np.int64(step(_value(column, i), column.low, column.scale, column.most))


@inner
def _add(keys, column, begin, count):
    """Adds a column's part to the keys of a block."""
    low, scale, most, left, bias = column.low, column.scale, column.most, column.left, column.bias
    if column.kind == HASH:
        hashes, right = keys_at(column.values, begin + count), column.right
        for i in range(count):
            keys[i] += np.int64(hashes[begin + i]) >> right << left
    elif column.kind == INTEGERS:
        whole = words_at(column.values, begin + count)
        for i in range(count):
            keys[i] += np.int64(step(np.float64(whole[begin + i] + bias), low, scale, most)) << left
    else:
        values = doubles_at(column.values, begin + count)
        for i in range(count):
            keys[i] += np.int64(step(values[begin + i], low, scale, most)) << left


@njit(nogil=True, cache=True, usual=lambda: (Digits.array(1), 0, 0, True, 0, WORDS, WORDS))
def make_keys(columns, begin, end, packed, shift, words, counts):
    """Puts together the keys of rows; counts their highest bits; returns whether they are in order already.

    `packed`: words have the row's position below the key.
    """
    keys = np.empty(BLOCK, np.int64)
    ordered, before = True, np.int64(-1)
    for first in range(begin, end, BLOCK):
        count = min(BLOCK, end - first)
        for i in range(count):
            keys[i] = 0
        for c in range(len(columns)):
            _add(keys, columns[c], first, count)
        for i in range(count):
            key = keys[i]
            counts[key >> shift] += 1
            ordered &= before <= key
            before = key
            words[first + i] = key << POSITION_BITS | (first + i) if packed else key
    return ordered


@inner
def _read(values, column, order, begin, count):
    """The values of a block of rows in an order, in float64: nothing but loads, so that many are under way at once."""
    if column.kind == INTEGERS:
        whole, bias = words_at(column.values, FAR), column.bias
        if len(order):
            for i in range(count):
                values[i] = np.float64(whole[np.int64(order[begin + i])] + bias)
        else:
            for i in range(count):
                values[i] = np.float64(whole[begin + i] + bias)
    else:
        numbers = doubles_at(column.values, FAR)
        if len(order):
            for i in range(count):
                values[i] = numbers[np.int64(order[begin + i])]
        else:
            for i in range(count):
                values[i] = numbers[begin + i]


@njit(nogil=True, cache=True, usual=lambda: (KEYS, KEYS, Digits.array(1), 0, 0, 0, KEYS))
def end_keys(starts, order, columns, bits, begin, end, out):
    """Where the intervals end that begin at some keys: the same cell, another place on the axis."""
    column, values = columns[0], np.empty(BLOCK)
    low, scale, most = column.low, column.scale, column.most
    for first in range(begin, end, BLOCK):
        count = min(BLOCK, end - first)
        _read(values, column, order, first, count)
        for i in range(count):
            out[first + i] = (np.int64(starts[first + i]) >> bits << bits) + np.int64(step(values[i], low, scale, most))


@njit(nogil=True, cache=True)
def places_of(columns, order, begin, end, out):
    """The values of rows in an order: steps of an axis or, if it has none, the values with its sign."""
    column, values = columns[0], np.empty(BLOCK)
    low, scale, most = column.low, column.scale, column.most
    for first in range(begin, end, BLOCK):
        count = min(BLOCK, end - first)
        _read(values, column, order, first, count)
        for i in range(count):
            if most:
                out[first + i] = np.int64(step(values[i], low, scale, most))
            else:
                out[first + i] = values[i] * scale


@njit(nogil=True, cache=True, usual=lambda: (Digits.array(1), Digits.array(1), 0, 0))
def widest(lows, highs, begin, end):
    """From how many steps to the next does an interval go at most?"""
    wide = np.int64(0)
    for i in range(begin, end):
        wide = max(wide, _place(highs[0], i) - _place(lows[0], i))
    return wide
