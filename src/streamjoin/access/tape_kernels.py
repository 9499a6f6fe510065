"""Writing tuples to a tape, compiled."""

from __future__ import annotations

import numpy as np

from streamjoin.access.job import position
from streamjoin.codegen.intrinsics import copy_bytes
from streamjoin.codegen.jit import njit


@njit(nogil=True, cache=True)
def write(tape, batch, begin, first, stop, stretch, chunk, turns):
    """Puts tuples begin.. of a batch at the places of numbers first..stop-1. Notes the widest box of every chunk."""
    room, dims = len(tape.at), len(tape.coord)
    number = first
    while number < stop:
        end = min(stop, (number // stretch + 1) * stretch)
        place, source, count = position(number, stretch, chunk, turns, room), begin + number - first, end - number
        for c in range(tape.columns.shape[1]):
            size = tape.columns[1, c]
            copy_bytes(tape.columns[0, c] + place * size, batch.columns[c] + source * size, count * size)
        for k in range(count):
            i, j = place + k, source + k
            for d in range(dims):
                tape.lo[d, i], tape.hi[d, i], tape.coord[d, i] = batch.lo[d, j], batch.hi[d, j], batch.coord[d, j]
            tape.at[i], tape.since[i], tape.until[i] = batch.at[j], batch.since[j], batch.until[j]
            tape.number[i], tape.low_number[i] = number + k, np.uint32(number + k)
            if len(tape.key) > 1:
                tape.key[i] = batch.key[j]
        widest = tape.width[place // chunk]
        for d in range(dims):
            widest[d] = max(np.float32(0) if place % chunk == 0 else widest[d], batch.width[d])
        number = end
