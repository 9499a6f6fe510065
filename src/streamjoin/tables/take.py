"""Values of plain columns by their positions."""

from __future__ import annotations

import numpy as np

from streamjoin.codegen.intrinsics import bytes_at, halves_at, keys_at, words_at
from streamjoin.codegen.jit import njit
from streamjoin.codegen.records import KEYS, Address, Record, Word

WIDTHS = (1, 2, 4, 8)  # bytes


class Move(Record):
    """A column to be taken: the size of its values, the source and the target."""

    width: Word
    source: Address
    target: Address


@njit(nogil=True, cache=True, usual=lambda: (Move.array(1), KEYS, 0))
def take_values(moves, positions, first):
    """Writes the columns' values at these positions to their targets, from a row on."""
    n = len(positions)
    for m in range(len(moves)):
        width, far = moves[m].width, np.int64(1) << 40
        source, target = moves[m].source, moves[m].target + first * width
        if width == 8:
            words, wide = words_at(source, far), words_at(target, n)
            for k in range(n):
                wide[k] = words[np.int64(positions[k])]
        elif width == 4:
            keys, short = keys_at(source, far), keys_at(target, n)
            for k in range(n):
                short[k] = keys[np.int64(positions[k])]
        elif width == 2:
            halves, shorter = halves_at(source, far), halves_at(target, n)
            for k in range(n):
                shorter[k] = halves[np.int64(positions[k])]
        else:
            single, shortest = bytes_at(source, far), bytes_at(target, n)
            for k in range(n):
                shortest[k] = single[np.int64(positions[k])]


@njit(nogil=True, cache=True)
def put_values(out, positions, values):
    """Writes values to these positions."""
    for k in range(len(values)):
        out[np.int64(positions[k])] = values[k]
