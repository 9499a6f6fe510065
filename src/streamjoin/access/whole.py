"""Access without any help from the predicate: every run that meets a probe's window is a candidate range."""

from __future__ import annotations

from streamjoin.access.layout import COMPARED, COUNT, RUN, STEP
from streamjoin.codegen.jit import njit

BLOCK = 2048  # stays in the first-level cache while all probes pass over it


@njit(nogil=True, cache=True)
def candidates(p, runs, run_count, ranges, cursor):
    """Fills `ranges`; returns False if there are more."""
    n, count, capacity = len(p.since), 0, len(ranges.probe)
    for run in range(cursor[RUN], run_count):
        begin, end = runs.begin[run], runs.end[run]
        for step in range(cursor[STEP], (end - begin + BLOCK - 1) // BLOCK * n):
            if count == capacity:
                cursor[RUN], cursor[STEP], cursor[COUNT] = run, step, count
                return False
            i, start = step % n, begin + step // n * BLOCK
            if p.since[i] <= runs.last_at[run] and p.until[i] >= runs.first_at[run]:
                stop = min(start + BLOCK, end)
                ranges.probe[count], ranges.start[count], ranges.stop[count] = i, start, stop
                ranges.inside[count] = False
                cursor[COMPARED] += stop - start
                count += 1
        cursor[STEP] = 0
    cursor[RUN], cursor[COUNT] = run_count, count
    return True
