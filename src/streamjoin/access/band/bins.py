"""The grid of a run: the number of bins, the bin of a tuple, the order of tuples by bin."""

from __future__ import annotations

import numpy as np

from streamjoin.codegen.intrinsics import FARTHEST
from streamjoin.codegen.jit import inner

TUPLES_PER_BIN = 4
BINS_PER_PROBE_LAST = 4  # bins across a probe's box in the last dimension, where they are contiguous
DENSE = 6.0  # tuples in a probe's box from which on two bins across it pay in the other dimensions, at a jump each
TOLD_APART = 65536  # key hashes that the count of keys distinguishes


@inner(forceinline=True)
def bin_of(value, origin, scale, bins):
    """The bin of a coordinate. Monotone, so a range of coordinates lies in the bins from its lower to its upper end."""
    return np.int64(min(max((np.float64(value) - origin) * scale, 0.0), bins - 1.0))


@inner(error_model="numpy")
def choose_grid(n, keys, run, probe_width, dims):
    """Divides a run of n tuples with about `keys` distinct keys into bins, behind buckets of key hashes.

    With more bins a probe reads fewer tuples that do not match, but each bin has a cost. There are fewer than n / 2
    bins, or one: the room of the directory. A probe spans the widest box and its own width (nan: unknown). A dimension
    that this span covers stays whole. The others share the bins that the number of tuples allows, in proportion to how
    far a probe's box is from covering them.
    """
    buckets, budget = 1, max(1, n // TUPLES_PER_BIN)
    while buckets < min(keys, budget) and 4 * buckets < n:
        buckets *= 2
    run.buckets, budget = buckets, max(1, budget // buckets)
    inside = np.float64(n) / buckets  # tuples in a probe's box
    for d in range(dims):  # `bins` first holds the wanted number, zero where a dimension stays whole
        span, run.bins[d] = run.finite_high[d] - run.finite_low[d], 0.0
        if span > 0:
            look = run.width[d] + (0.0 if np.isnan(probe_width[d]) else probe_width[d])
            across = min(span / look, np.float64(budget)) if look > 0 else np.float64(budget)
            if across > 2:
                run.bins[d] = across
                inside /= across
    for d in range(dims):
        run.bins[d] *= BINS_PER_PROBE_LAST if d == dims - 1 else 2 if inside >= DENSE else 1
    factor, settled = 1.0, budget == 1
    while not settled:
        cut, product = 0, 1.0
        for d in range(dims):
            if run.bins[d] > 0:
                cut, product = cut + 1, product * run.bins[d]
        factor = min(1.0, (budget / product) ** (1.0 / max(cut, 1)))
        settled = True
        for d in range(dims):
            if 0 < run.bins[d] * factor < 1.5:
                run.bins[d], settled = 0.0, False
    for d in range(dims):
        low, bins = run.finite_low[d], np.floor(run.bins[d] * factor) if budget > 1 else 0.0
        run.bins[d] = max(1.0, bins)
        run.scale[d] = bins / (run.finite_high[d] - low) if bins > 1 else 0.0
        run.origin[d] = low if np.isfinite(low) else 0.0


@inner
def total_bins(run, dims):
    total = run.buckets
    for d in range(dims):
        total *= np.int64(run.bins[d])
    return total


@inner
def coarsen(run, most, dims):
    """Joins neighbouring bins, in the last dimension first, until at most `most` are left."""
    for d in range(dims - 1, -1, -1):
        while run.bins[d] > 1 and total_bins(run, dims) > most:
            run.bins[d] = np.ceil(run.bins[d] / 2)
            run.scale[d] /= 2
    while run.buckets > 1 and total_bins(run, dims) > most:
        run.buckets //= 2


@inner
def extent(coord, begin, end, run, dims):
    """Smallest and largest coordinate per dimension of tuples begin..end-1, with and without those at an axis' end."""
    for d in range(dims):
        small, large = np.float32(np.inf), np.float32(-np.inf)
        small_finite, large_finite = np.float32(np.inf), np.float32(-np.inf)
        for j in range(begin, end):
            value = coord[d, j]
            small, large = min(small, value), max(large, value)
            if abs(value) < FARTHEST:
                small_finite, large_finite = min(small_finite, value), max(large_finite, value)
        run.low[d], run.high[d] = small, large
        run.finite_low[d], run.finite_high[d] = small_finite, large_finite


@inner
def new_keys(key, begin, end, seen):
    """How many hashes of tuples begin..end-1 are not in the bitmap `seen`, which distinguishes TOLD_APART of them."""
    count = 0
    for j in range(begin, end):
        slot = np.uint64((key[j] ^ (key[j] >> np.uint32(16))) & np.uint32(TOLD_APART - 1))
        word, bit = slot >> np.uint64(6), np.uint64(1) << (slot & np.uint64(63))
        if not seen[word] & bit:
            seen[word] |= bit
            count += 1
    return count


@inner
def number_bins(coord, key, begin, count, run, dims, bins):
    """The bins, row-major, of tuples begin..begin+count-1."""
    if run.buckets > 1:
        for k in range(count):
            bins[k] = key[begin + k] & np.uint32(run.buckets - 1)
    else:
        for k in range(count):
            bins[k] = np.uint32(0)
    for d in range(dims):
        origin, scale, number = run.origin[d], run.scale[d], run.bins[d]
        if number > 1:
            for k in range(count):
                bins[k] = np.uint32(bins[k] * np.int64(number) + bin_of(coord[d, begin + k], origin, scale, number))


@inner
def order_by_bin(coord, key, begin, end, run, dims, starts, order):
    """Counting sort: fills `starts` (one per bin, and the end) and `order` (offsets from begin, bin by bin)."""
    n, total = end - begin, total_bins(run, dims)
    bins = np.empty(n, np.uint32)
    number_bins(coord, key, begin, n, run, dims, bins)
    for b in range(total + 1):
        starts[b] = 0
    for k in range(n):
        starts[bins[k]] += np.uint32(1)
    for b in range(total):
        starts[b + 1] += starts[b]
    for k in range(n - 1, -1, -1):  # backwards from the ends of the bins: stable, and leaves their starts
        target = starts[bins[k]] - np.uint32(1)
        starts[bins[k]] = target
        order[target] = k
