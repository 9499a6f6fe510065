"""The grid of a run: which cell a tuple falls into, and the order of tuples by cell."""

from __future__ import annotations

import numpy as np
from numba import njit

from streamjoin.core.kernels.scalar import FARTHEST


@njit(nogil=True, forceinline=True)
def cell_of(value, origin, scale, cells):
    """The cell of a coordinate: monotone, so that a range of coordinates lies in the range of its ends' cells."""
    if cells == 1:
        return np.int64(0)
    place = (np.float64(value) - origin) * scale
    if place < 1.0:
        return np.int64(0)
    if place >= cells:
        return np.int64(cells - 1)
    return np.int64(place)


@njit(nogil=True, cache=True)
def extent(coord, begin, end, low, high, finite_low, finite_high):
    """Smallest and largest coordinate per dimension of tuples begin..end-1; again without those at an axis' end."""
    for d in range(coord.shape[0]):
        small, large = np.float32(np.inf), np.float32(-np.inf)
        small_finite, large_finite = np.float32(np.inf), np.float32(-np.inf)
        for j in range(begin, end):
            value = coord[d, j]
            small, large = min(small, value), max(large, value)
            if abs(value) < FARTHEST:
                small_finite, large_finite = min(small_finite, value), max(large_finite, value)
        low[d], high[d] = small, large
        finite_low[d], finite_high[d] = small_finite, large_finite


@njit(nogil=True, cache=True)
def distinct_keys(key, begin, end):
    """A rough count of the distinct hashes among tuples begin..end-1, at most 65536."""
    seen = np.zeros(65536, np.bool_)
    count = 0
    for j in range(begin, end):
        slot = (key[j] ^ (key[j] >> np.uint32(16))) & np.uint32(65535)
        if not seen[slot]:
            seen[slot] = True
            count += 1
    return count


@njit(nogil=True, cache=True)
def order_by_cell(coord, key, begin, end, origin, scale, cells, buckets, starts, order):
    """Counting sort: fills `starts` (one per cell, and the end) and `order` (offsets from begin, cell by cell)."""
    n, dims, keyed = end - begin, coord.shape[0], buckets > 1
    cell = np.empty(n, np.uint32)
    starts[:] = 0
    for k in range(n):
        number = np.int64(key[begin + k]) & (buckets - 1) if keyed else np.int64(0)
        for d in range(dims):
            number = number * cells[d] + cell_of(coord[d, begin + k], origin[d], scale[d], cells[d])
        cell[k] = number
        starts[number + 1] += np.uint32(1)
    for c in range(1, len(starts)):
        starts[c] += starts[c - 1]
    for k in range(n - 1, -1, -1):  # backwards over the ends: stable, and leaves the starts in place
        ends = starts[cell[k] + 1] - np.uint32(1)
        starts[cell[k] + 1] = ends
        order[ends] = k
    # every entry but the first now holds the start of the cell before it
    for c in range(1, len(starts) - 1):
        starts[c] = starts[c + 1]
    starts[len(starts) - 1] = n
