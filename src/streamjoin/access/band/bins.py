"""The grid of a run: how finely it is cut into cells, which cell a tuple falls into, the order of tuples by cell.

A grid is part of a run's box, an array of BOX_FIELDS rows with one value per dimension; see `layout.py`.
"""

from __future__ import annotations

import numpy as np

from streamjoin.access.layout import CELLS, FINITE_HIGH, FINITE_LOW, HIGH, LOW, ORIGIN, SCALE, WIDTH
from streamjoin.codegen.intrinsics import FARTHEST
from streamjoin.codegen.jit import inner, njit

TUPLES_PER_CELL = 4
CELLS_PER_PROBE_LAST = 4  # cells across a probe's box in the last dimension, where they are contiguous
DENSE = 6.0  # tuples in a probe's box from which on two cells across it pay in the others, where each costs a jump
TOLD_APART = 65536  # key hashes


@inner(forceinline=True)
def cell_of(value, origin, scale, cells):
    """The cell of a coordinate: monotone, so that a range of coordinates lies in the range of its ends' cells."""
    return np.int64(min(max((np.float64(value) - origin) * scale, 0.0), cells - 1.0))


@njit(nogil=True, error_model="numpy", cache=True)
def choose_grid(n, keys, box, reach):
    """Cuts a run of n tuples with about `keys` distinct keys into cells. Returns the hash buckets in front of them.

    Enough that a probe reads little in vain, not more than the tuples pay for: fewer than n / 2, or one, which is the
    room that the directory has. A probe looks across the widest box and its own reach (nan: unknown). Dimensions that
    this does not cut stay whole; the others share what the number of tuples allows in proportion to how far a probe's
    box is from covering them.
    """
    dims, buckets, budget = box.shape[1], 1, max(1, n // TUPLES_PER_CELL)
    while buckets < min(keys, budget) and 4 * buckets < n:
        buckets *= 2
    budget = max(1, budget // buckets)
    inside = np.float64(n) / buckets  # tuples in a probe's box
    for d in range(dims):  # CELLS first holds how many are wanted, zero where nothing is to be cut
        span, box[CELLS, d] = box[FINITE_HIGH, d] - box[FINITE_LOW, d], 0.0
        if span > 0:
            look = box[WIDTH, d] + (0.0 if np.isnan(reach[d]) else reach[d])
            across = min(span / look, np.float64(budget)) if look > 0 else np.float64(budget)
            if across > 2:
                box[CELLS, d] = across
                inside /= across
    for d in range(dims):
        box[CELLS, d] *= CELLS_PER_PROBE_LAST if d == dims - 1 else 2 if inside >= DENSE else 1
    factor, settled = 1.0, budget == 1
    while not settled:
        cut, product = 0, 1.0
        for d in range(dims):
            if box[CELLS, d] > 0:
                cut, product = cut + 1, product * box[CELLS, d]
        factor = min(1.0, (budget / product) ** (1.0 / max(cut, 1)))
        settled = True
        for d in range(dims):
            if 0 < box[CELLS, d] * factor < 1.5:
                box[CELLS, d], settled = 0.0, False
    for d in range(dims):
        low, cells = box[FINITE_LOW, d], np.floor(box[CELLS, d] * factor) if budget > 1 else 0.0
        box[CELLS, d] = max(1.0, cells)
        box[SCALE, d] = cells / (box[FINITE_HIGH, d] - low) if cells > 1 else 0.0
        box[ORIGIN, d] = low if np.isfinite(low) else 0.0
    return buckets


@njit(nogil=True, cache=True)
def total_cells(box, buckets):
    total = np.int64(buckets)
    for d in range(box.shape[1]):
        total *= np.int64(box[CELLS, d])
    return total


@njit(nogil=True, cache=True)
def coarsen(box, buckets, most):
    """Joins neighbouring cells, the last dimension first, until at most `most` are left; returns the hash buckets."""
    for d in range(box.shape[1] - 1, -1, -1):
        while box[CELLS, d] > 1 and total_cells(box, buckets) > most:
            box[CELLS, d] = np.ceil(box[CELLS, d] / 2)
            box[SCALE, d] /= 2
    while buckets > 1 and total_cells(box, buckets) > most:
        buckets //= 2
    return buckets


@njit(nogil=True, cache=True)
def extent(coord, begin, end, box):
    """Smallest and largest coordinate per dimension of tuples begin..end-1; again without those at an axis' end."""
    for d in range(box.shape[1]):
        small, large = np.float32(np.inf), np.float32(-np.inf)
        small_finite, large_finite = np.float32(np.inf), np.float32(-np.inf)
        for j in range(begin, end):
            value = coord[d, j]
            small, large = min(small, value), max(large, value)
            if abs(value) < FARTHEST:
                small_finite, large_finite = min(small_finite, value), max(large_finite, value)
        box[LOW, d], box[HIGH, d] = small, large
        box[FINITE_LOW, d], box[FINITE_HIGH, d] = small_finite, large_finite


@njit(nogil=True, cache=True)
def new_keys(key, begin, end, seen):
    """How many hashes of tuples begin..end-1 were not yet `seen`, a bitmap that tells TOLD_APART of them apart."""
    count = 0
    for j in range(begin, end):
        slot = np.uint64((key[j] ^ (key[j] >> np.uint32(16))) & np.uint32(TOLD_APART - 1))
        word, bit = slot >> np.uint64(6), np.uint64(1) << (slot & np.uint64(63))
        if not seen[word] & bit:
            seen[word] |= bit
            count += 1
    return count


@njit(nogil=True, cache=True)
def number_cells(coord, key, begin, count, box, buckets, cell):
    """The cells, row-major, of tuples begin..begin+count-1."""
    if buckets > 1:
        for k in range(count):
            cell[k] = key[begin + k] & np.uint32(buckets - 1)
    else:
        for k in range(count):
            cell[k] = np.uint32(0)
    for d in range(box.shape[1]):
        origin, scale, cells = box[ORIGIN, d], box[SCALE, d], box[CELLS, d]
        if cells > 1:
            for k in range(count):
                cell[k] = np.uint32(cell[k] * np.int64(cells) + cell_of(coord[d, begin + k], origin, scale, cells))


@njit(nogil=True, cache=True)
def order_by_cell(coord, key, begin, end, box, buckets, starts, order):
    """Counting sort: fills `starts` (one per cell, and the end) and `order` (offsets from begin, cell by cell)."""
    n, total = end - begin, len(starts) - 1
    cell = np.empty(n, np.uint32)
    number_cells(coord, key, begin, n, box, buckets, cell)
    for c in range(total + 1):
        starts[c] = 0
    for k in range(n):
        starts[cell[k]] += np.uint32(1)
    for c in range(total):
        starts[c + 1] += starts[c]
    for k in range(n - 1, -1, -1):  # backwards from the ends of the cells: stable, and leaves their starts
        place = starts[cell[k]] - np.uint32(1)
        starts[cell[k]] = place
        order[place] = k
