"""How finely a run is cut into cells: enough that a probe reads little in vain, not more than its tuples pay for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamjoin.core.kernels.layout import Array

TUPLES_PER_CELL = 4
CELLS_PER_PROBE = 2  # cells across a probe's box in all dimensions but the last: each costs a jump
CELLS_PER_PROBE_LAST = 4  # and in the last, where they are contiguous


@dataclass(frozen=True)
class Grid:
    """Cells per dimension, and hash buckets in front of them."""

    origin: Array  # float64 (dims)
    scale: Array  # float64 (dims): cells per unit
    cells: Array  # int64 (dims)
    buckets: int

    @property
    def total(self) -> int:
        return int(self.cells.prod()) * self.buckets

    def coarser(self, most: int) -> Grid:
        """The same grid with neighbouring cells joined, the last dimension first, until at most `most` are left."""
        cells, scale, buckets = self.cells.copy(), self.scale.copy(), self.buckets
        for d in reversed(range(len(cells))):
            while cells[d] > 1 and int(cells.prod()) * buckets > most:
                cells[d] = (cells[d] + 1) // 2
                scale[d] /= 2
        while buckets > 1 and int(cells.prod()) * buckets > most:
            buckets //= 2
        return Grid(self.origin, scale, cells, buckets)


def choose_grid(n: int, keys: int, low: Array, high: Array, width: Array, reach: Array) -> Grid:
    """The grid of a run of n tuples with about `keys` distinct keys and finite coordinates in [low, high].

    A probe looks across width + reach (unknown reach: nan). Dimensions that this does not cut stay whole; the others
    share what the number of tuples allows in proportion to how far a probe's box is from covering them.
    """
    budget = max(1, n // TUPLES_PER_CELL)
    buckets = 1 << (min(keys, budget) - 1).bit_length() if keys > 1 else 1
    budget = max(1, budget // buckets)
    dims = len(low)
    low64, high64 = low.astype(np.float64), high.astype(np.float64)
    span = np.where(high64 > low64, high64 - low64, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        look = width.astype(np.float64) + np.nan_to_num(reach, nan=0.0)
        across = np.where(span > 0, span / np.where(look > 0, look, span / budget), 1.0)
    across = np.clip(np.nan_to_num(across, nan=1.0, posinf=budget), 0.0, budget)
    wanted = across * CELLS_PER_PROBE
    wanted[dims - 1] = across[dims - 1] * CELLS_PER_PROBE_LAST
    cells = np.ones(dims)
    cut = (across > 2) & (span > 0)
    while cut.any() and budget > 1:
        factor = (budget / wanted[cut].prod()) ** (1 / cut.sum())
        cells = np.where(cut, np.maximum(1.0, wanted * min(1.0, factor)), 1.0)
        useless = cut & (wanted * min(1.0, factor) < 1.5)
        if not useless.any():
            break
        cut &= ~useless
        cells = np.where(cut, cells, 1.0)
    counts = np.maximum(1, cells.astype(np.int64))
    scale = np.where(counts > 1, counts / np.where(span > 0, span, 1.0), 0.0)
    return Grid(np.where(np.isfinite(low64), low64, 0.0), scale, counts, buckets)
