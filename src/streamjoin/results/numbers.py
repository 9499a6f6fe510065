"""Numbers of tuples in results: of tuples that take part in the join, of no tuple, and of tuples aside.

A tuple whose own values keep it from matching anything takes no part in the join. If it comes out nevertheless, it is
a tuple aside: it has a number of its own, and these count down in results.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from streamjoin.codegen.records import Array

NOBODY = -1  # stands for a missing partner

Numbers = TypeVar("Numbers", int, Array)


def aside(numbers: Numbers) -> Numbers:
    """The number in results of a tuple aside, from its own number, and back.

    >>> aside(0), aside(7), aside(aside(7))
    (-2, -9, 7)
    """
    return NOBODY - 1 - numbers


def none_matched(n: int) -> Array:
    """The marks of n tuples without a partner so far: a byte each, which threads may set at the same time."""
    return np.zeros(n, np.uint8)


def unmatched(pairs: tuple[Array, Array], alone_r: Array, alone_s: Array) -> tuple[Array, Array]:
    """Pairs, then rows of r and of s that have no partner."""
    r = np.concatenate([pairs[0], alone_r, np.full(len(alone_s), NOBODY)])
    s = np.concatenate([pairs[1], np.full(len(alone_r), NOBODY), alone_s])
    return r, s
