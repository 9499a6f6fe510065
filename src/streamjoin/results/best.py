"""The best partners of every r: by time, or by the smallest or greatest value of an expression.

Each r keeps k candidates, the best one first. Candidates are compared by score (smaller is better), then by their
distance in time from r. Of two equally far ones the earlier one wins. Of several at the same time, the last to arrive
wins up to r's time, and the first to arrive after it. `forward` counts r's own time as after it. The result depends on
the candidates only, not on their order, so parts can be reduced separately and merged.
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
        """An empty one for the same tuples."""
        n, k = self.partners.shape
        return Best(n, k, self._times, self._forward)

    def add(self, r: Array, s: Array, score: Array, rank: Array) -> None:
        """Takes candidates."""
        state = self.partners, self._scores, self._ranks
        improve(*state, r, s, score, rank, *self._times, self._forward)

    def merge(self, other: Best) -> None:
        """Adds the candidates that another one has kept."""
        r, place = np.nonzero(other.partners >= 0)
        self.add(r, other.partners[r, place], other._scores[r, place], other._ranks[r, place])

    def pairs(self) -> tuple[Array, Array]:
        """All candidates that are kept."""
        r, place = np.nonzero(self.partners >= 0)
        return r, self.partners[r, place]


def scores_by_time(take: Take, r: Array, s: Array, times: tuple[Array, Array]) -> tuple[Array, Array]:
    """Scores and ranks of pairs for a choice by time."""
    score, rank = np.empty(len(r), np.uint64), np.empty(len(r), np.uint8)
    by_time(r, s, *times, take.name != FORWARD, take.name != BACKWARD, score, rank)
    return score, rank


def scores_of(values: Array, valid: Array, greatest: bool, missing: int) -> tuple[Array, Array]:
    """Scores and ranks of pairs by their values of an expression."""
    score, rank = np.empty(len(values), np.uint64), np.empty(len(values), np.uint8)
    if values.dtype.kind == "f":
        by_floats(values.astype(np.float64), valid, greatest, missing, score, rank)
    else:
        by_integers(values.astype(np.int64, copy=False), valid, greatest, missing, score, rank)
    return score, rank


def distance(own: Array, other: Array) -> Array:
    """The distance of two times, which may be twice the largest signed number."""
    apart = own.view(np.uint64) - other.view(np.uint64)
    return np.where(own >= other, apart, -apart)


def after(own: Array, distance: Array, less: int) -> Array:
    """The times at a distance after others, less one or none, limited to the largest time."""
    further = np.minimum(distance - np.minimum(distance, less), (FOREVER - own).view(np.uint64))
    return np.asarray(own + further.view(np.int64))


def due_by_time(take: Take, own: Array, best: Array, by_content: bool = False) -> Array:
    """What s must have passed before none can follow that beats the best so far, given the times of both.

    `by_content`: it is not the order of arrival that decides among several at one time, so all of them must have come.
    """
    if take.name == BACKWARD:
        return own
    due = best - 1 if take.name == FORWARD else after(own, distance(own, best), 1)
    return np.maximum(due, best) if by_content else due


def certain_by_time(take: Take, own: Array, partner: Array, end: Array) -> Array:
    """The times of results of "forward" and "nearest", given those of r, of its partner, and the end of its window."""
    return partner if take.name == FORWARD else np.minimum(after(own, distance(own, partner), 0), end)
