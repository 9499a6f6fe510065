"""Aggregates of the partners of every r, compiled: each pair adds its value to the place of its r.

Sums of integers have 128 bits, in two words. Sums of floats carry what rounding has cost them (Neumaier's sum).
"""

from __future__ import annotations

import numpy as np

from streamjoin.codegen.jit import njit


@njit(nogil=True, cache=True)
def count_pairs(counts, r):
    for i in range(len(r)):
        counts[r[i]] += 1


@njit(nogil=True, cache=True)
def count_valid(counts, r, valid):
    for i in range(len(r)):
        counts[r[i]] += valid[i]


@njit(nogil=True, cache=True)
def add_integers(low, high, counts, r, values, valid):
    for i in range(len(r)):
        if valid[i]:
            row, value = r[i], np.int64(values[i])
            before = low[row]
            low[row] = before + np.uint64(value)
            high[row] += (value >> 63) + (low[row] < before)
            counts[row] += 1


@njit(nogil=True, cache=True)
def add_wide(low, high, others_low, others_high):
    """Adds 128-bit integers, place by place."""
    for row in range(len(low)):
        before = low[row]
        low[row] = before + others_low[row]
        high[row] += others_high[row] + (low[row] < before)


@njit(nogil=True, cache=True)
def add_floats(sums, lost, counts, r, values, valid):
    for i in range(len(r)):
        if valid[i]:
            row, value = r[i], np.float64(values[i])
            before = sums[row]
            after = before + value
            if abs(before) >= abs(value):
                lost[row] += (before - after) + value
            else:
                lost[row] += (value - after) + before
            sums[row] = after
            counts[row] += 1


@njit(nogil=True, cache=True)
def take_extremes(best, counts, r, values, valid, greatest):
    """The smallest or greatest values; NaN, which is no integer's value, lies above every number."""
    for i in range(len(r)):
        if valid[i]:
            row, value = r[i], values[i]
            old = best[row]
            if greatest:
                better = value > old or (value != value and old == old)
            else:
                better = value < old or (old != old and value == value)
            if counts[row] == 0 or better:
                best[row] = value
            counts[row] += 1
