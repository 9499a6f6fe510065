"""Which tuples have a partner: a byte each, set by the pairs. Threads may set them at the same time."""

from __future__ import annotations

import numpy as np

from streamjoin.codegen.records import Array


def none_matched(n: int) -> Array:
    """The marks of n tuples without a partner so far."""
    return np.zeros(n, np.uint8)


def unmatched(pairs: tuple[Array, Array], alone_r: Array, alone_s: Array) -> tuple[Array, Array]:
    """Pairs, then rows of r and of s that have no partner."""
    r = np.concatenate([pairs[0], alone_r, np.full(len(alone_s), -1)])
    s = np.concatenate([pairs[1], np.full(len(alone_r), -1), alone_s])
    return r, s
