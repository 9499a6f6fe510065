"""Access by band: runs ordered by the cell of their tuples' boxes, so that a probe reads a few contiguous ranges.

cell = (hash bucket, cell of dimension 0, ..., cell of dimension D-1), row-major; the last dimension is contiguous.
A probe [lo, hi] meets stored boxes whose coordinate lies in [lo - width, hi], width being the widest box of the run.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from streamjoin.core.kernels.cells import cell_of
from streamjoin.core.kernels.layout import COMPARED, COUNT, ROW, RUN, STEP
from streamjoin.core.kernels.scalar import down32


@njit(nogil=True, error_model="numpy", forceinline=True)
def touched(p, i, runs, run, first, last, here):
    """Fills the cells per dimension that probe i touches in a run; returns the number of contiguous ranges, or 0."""
    count, dims = 1, len(first)
    for d in range(dims):
        low, high = down32(p.lo[d, i], runs.width[run, d]), p.hi[d, i]
        if high < runs.low[run, d] or low > runs.high[run, d]:
            return 0
        first[d] = cell_of(low, runs.origin[run, d], runs.scale[run, d], runs.cells[run, d])
        last[d] = cell_of(high, runs.origin[run, d], runs.scale[run, d], runs.cells[run, d])
        here[d] = first[d]
        if d < dims - 1:
            count *= last[d] - first[d] + 1
    return count


@njit(nogil=True, error_model="numpy", forceinline=True)
def advance(here, first, last):
    """The next combination of cells in all dimensions but the last."""
    for d in range(len(here) - 2, -1, -1):
        if here[d] < last[d]:
            here[d] += 1
            return
        here[d] = first[d]


@njit(nogil=True, error_model="numpy", cache=True)
def candidates(p, runs, run_count, directory, ranges, cursor):
    """All probes against all runs. Fills `ranges`; returns False if there are more."""
    count, capacity, compared, dims = 0, len(ranges.probe), 0, p.lo.shape[0]
    first, last, here = np.empty(dims, np.int64), np.empty(dims, np.int64), np.empty(dims, np.int64)
    for run in range(cursor[RUN], run_count):
        begin, first_at, last_at = runs.begin[run], runs.first_at[run], runs.last_at[run]
        mask = runs.buckets[run] - 1
        for i in range(cursor[STEP], len(p.since)):
            since, until = p.since[i], p.until[i]
            if since > last_at or until < first_at:
                continue
            inside = since <= first_at and last_at <= until
            found = touched(p, i, runs, run, first, last, here)
            for row in range(found):
                if row >= cursor[ROW]:
                    if count == capacity:
                        cursor[RUN], cursor[STEP], cursor[ROW], cursor[COUNT] = run, i, row, count
                        cursor[COMPARED] += compared
                        return False
                    cell = np.int64(p.key[i]) & mask
                    for d in range(dims - 1):
                        cell = cell * runs.cells[run, d] + here[d]
                    cell = runs.directory[run] + cell * runs.cells[run, dims - 1]
                    start = begin + np.int64(directory[cell + first[dims - 1]])
                    stop = begin + np.int64(directory[cell + last[dims - 1] + 1])
                    if start < stop:
                        ranges.probe[count], ranges.start[count], ranges.stop[count] = i, start, stop
                        ranges.inside[count] = inside
                        count += 1
                        compared += stop - start
                advance(here, first, last)
            cursor[ROW] = 0
        cursor[STEP] = 0
    cursor[RUN], cursor[COUNT] = run_count, count
    cursor[COMPARED] += compared
    return True
