"""The best partners of every r: by time, or by the smallest or greatest value of an expression.

Each r has k places, the best one first. A candidate is compared by its score, smaller is better, and at equal scores by
its distance in time from r; of two equally far ones the earlier wins, of several at one time up to r's the last to
arrive, after it the first. `forward` counts r's own time as after it. What is kept depends on the candidates alone, not
on the order in which they come, so that parts can be reduced apart and merged.
"""

from __future__ import annotations

import numpy as np

from streamjoin.codegen.jit import inner, njit
from streamjoin.codegen.records import Array
from streamjoin.kinds import BACKWARD, FORWARD, Take

USUAL, LAST, OUT = 0, 1, 2  # ranks of a candidate: by its score, after all scores (null), none at all
_SIGN = np.uint64(1 << 63)


@inner(forceinline=True)
def distance(a, b):
    return np.uint64(a) - np.uint64(b) if a >= b else np.uint64(b) - np.uint64(a)


@inner
def closer(t, s, at, other, other_at, forward):
    """At equal scores: does s, at a time, come before another one?"""
    near, far = distance(t, at), distance(t, other_at)
    if near != far:
        return near < far
    before = at < t or (at == t and not forward)
    if before != (other_at < t or (other_at == t and not forward)):
        return before
    return s > other if before else s < other


@njit(nogil=True, cache=True)
def improve(best, scores, ranks, r, s, score, rank, time_r, time_s, forward):
    """Takes candidates: of tuples r their partners s, with scores and ranks."""
    k = best.shape[1]
    for i in range(len(r)):
        if rank[i] == OUT:
            continue
        row, partner = np.int64(r[i]), np.int64(s[i])
        place = k
        while place > 0:
            other = best[row, place - 1]
            if other >= 0:
                if rank[i] != ranks[row, place - 1]:
                    better = rank[i] < ranks[row, place - 1]
                elif score[i] != scores[row, place - 1]:
                    better = score[i] < scores[row, place - 1]
                else:
                    better = closer(time_r[row], partner, time_s[partner], other, time_s[other], forward)
                if not better:
                    break
            place -= 1
        if place == k:
            continue
        for later in range(k - 1, place, -1):
            best[row, later] = best[row, later - 1]
            scores[row, later], ranks[row, later] = scores[row, later - 1], ranks[row, later - 1]
        best[row, place], scores[row, place], ranks[row, place] = partner, score[i], rank[i]


@njit(nogil=True, cache=True)
def by_time(r, s, time_r, time_s, backward, forward, score, rank):
    """Scores of partners by their distance in time, before or after r, or in both directions."""
    for i in range(len(r)):
        t, at = time_r[r[i]], time_s[s[i]]
        score[i] = distance(t, at)
        rank[i] = OUT if (at > t and not forward) or (at < t and not backward) else USUAL


@njit(nogil=True, cache=True)
def by_integers(values, valid, greatest, missing, score, rank):
    """Scores of integers; where they are not valid, the rank `missing`."""
    for i in range(len(values)):
        ordered = np.uint64(values[i]) ^ _SIGN
        score[i] = ~ordered if greatest else ordered
        rank[i] = USUAL if valid[i] else missing
        if not valid[i]:
            score[i] = 0


@njit(nogil=True, cache=True)
def by_floats(values, valid, greatest, missing, score, rank):
    """The same of floats: NaN lies above every number, and one zero equals the other."""
    bits = (values + 0.0).view(np.uint64)
    for i in range(len(values)):
        if values[i] != values[i]:
            ordered = ~np.uint64(0)
        else:
            ordered = ~bits[i] if bits[i] & _SIGN else bits[i] | _SIGN
        score[i] = ~ordered if greatest else ordered
        rank[i] = USUAL if valid[i] else missing
        if not valid[i]:
            score[i] = 0


class Best:
    """The best k partners of n tuples r, as numbers; -1 where there are fewer."""

    def __init__(self, n: int, k: int, times: tuple[Array, Array], forward: bool = False) -> None:
        self.partners: Array = np.full((n, k), -1, np.int64)
        self._scores, self._ranks = np.zeros((n, k), np.uint64), np.zeros((n, k), np.uint8)
        self._times, self._forward = times, forward

    def fresh(self) -> Best:
        """Another one for the same tuples, with nothing in it."""
        return Best(*self.partners.shape, self._times, self._forward)

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
