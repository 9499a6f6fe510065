"""The best partners of every r: by time, or by the smallest or greatest value of an expression.

Each r has k places, the best one first. A candidate is compared by its score, smaller is better, and at equal scores by
its distance in time from r; of two equally far ones the earlier wins, of several at one time up to r's the last to
arrive, after it the first. `forward` counts r's own time as after it. What is kept depends on the candidates alone, not
on the order in which they come, so that parts can be reduced apart and merged.
"""

from __future__ import annotations

import numpy as np

from streamjoin.codegen.records import Array
from streamjoin.kinds import BACKWARD, FORWARD, Take
from streamjoin.results.reduce import by_floats, by_integers, by_time, improve
from streamjoin.windows import FOREVER


class Best:
    """The best k partners of n tuples r, as numbers; -1 where there are fewer."""

    def __init__(self, n: int, k: int, times: tuple[Array, Array], forward: bool = False) -> None:
        self.partners: Array = np.full((n, k), -1, np.int64)
        self._scores, self._ranks = np.zeros((n, k), np.uint64), np.zeros((n, k), np.uint8)
        self._times, self._forward = times, forward

    def fresh(self) -> Best:
        """Another one for the same tuples, with nothing in it."""
        n, k = self.partners.shape
        return Best(n, k, self._times, self._forward)

    def add(self, r: Array, s: Array, score: Array, rank: Array) -> None:
        """Takes candidates."""
        state = self.partners, self._scores, self._ranks
        improve(*state, r, s, score, rank, *self._times, self._forward)

    def merge(self, other: Best) -> None:
        """Takes what another one has kept of other candidates."""
        r, place = np.nonzero(other.partners >= 0)
        self.add(r, other.partners[r, place], other._scores[r, place], other._ranks[r, place])

    def pairs(self) -> tuple[Array, Array]:
        """All that is kept."""
        r, place = np.nonzero(self.partners >= 0)
        return r, self.partners[r, place]


def scores_by_time(take: Take, r: Array, s: Array, times: tuple[Array, Array]) -> tuple[Array, Array]:
    """Scores and ranks of pairs for a choice by time."""
    score, rank = np.empty(len(r), np.uint64), np.empty(len(r), np.uint8)
    by_time(r, s, *times, take.name != FORWARD, take.name != BACKWARD, score, rank)
    return score, rank


def scores_of(values: Array, valid: Array, greatest: bool, missing: int) -> tuple[Array, Array]:
    """Scores and ranks of pairs by values of theirs."""
    score, rank = np.empty(len(values), np.uint64), np.empty(len(values), np.uint8)
    if values.dtype.kind == "f":
        by_floats(values.astype(np.float64), valid, greatest, missing, score, rank)
    else:
        by_integers(values.astype(np.int64, copy=False), valid, greatest, missing, score, rank)
    return score, rank


def distance(own: Array, other: Array) -> Array:
    """How far two times are apart: up to twice as far as a signed number can tell."""
    apart = own.view(np.uint64) - other.view(np.uint64)
    return np.where(own >= other, apart, -apart)


def after(own: Array, distance: Array, less: int) -> Array:
    """The times that lie so far after others, less one or none, as far as there is time."""
    further = np.minimum(distance - np.minimum(distance, less), (FOREVER - own).view(np.uint64))
    return np.asarray(own + further.view(np.int64))
