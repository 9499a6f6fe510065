"""Pairs of numbers reduced to something for each tuple, compiled: has it a partner, its best ones, sums of them.

Sums of integers have 128 bits, in two words. Sums of floats carry what rounding has cost them (Neumaier's sum).
"""

from __future__ import annotations

import numpy as np

from streamjoin.codegen.jit import inner, njit

USUAL, LAST, OUT = 0, 1, 2  # ranks of a candidate: by its score, after all scores (null), none at all
_SIGN = np.uint64(1 << 63)


@inner(forceinline=True)
def distance(a, b):
    return np.uint64(a) - np.uint64(b) if a >= b else np.uint64(b) - np.uint64(a)


@inner(forceinline=True)
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
def take_by_time(best, scores, r, s, time_r, time_s, numbers, backward, forward):
    """Takes candidates for the one partner that is chosen by time: both at once, and few branches, for many pairs.

    Tuples s are known by positions; `numbers` tells in which order they came, or has no length: in that of positions.
    """
    for i in range(len(r)):
        row, partner = np.int64(r[i]), np.int64(s[i])
        t, at, other = time_r[row], time_s[partner], best[row]
        score = distance(t, at)
        allowed = ((at <= t) | forward) & ((at >= t) | backward)
        better = allowed & ((other < 0) | (score < scores[row]))
        if allowed & (other >= 0) & (score == scores[row]):
            a, b = partner, other
            if len(numbers):
                a, b = np.int64(numbers[a]), np.int64(numbers[b])
            better = closer(t, a, at, b, time_s[other], not backward)
        best[row] = partner if better else other
        scores[row] = score if better else scores[row]


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


@njit(nogil=True, cache=True)
def mark(matched, numbers):
    """These tuples have a partner."""
    for i in range(len(numbers)):
        matched[numbers[i]] = 1


@njit(nogil=True, cache=True)
def first_of_each(numbers, first, known, found):
    """Tuples that are not known yet, each once, as they come; how many. `known` begins with tuple number `first`."""
    count = 0
    for i in range(len(numbers)):
        at = numbers[i] - first
        found[count] = numbers[i]
        count += not known[at]
        known[at] = True
    return count


@njit(nogil=True, cache=True)
def count_pairs(counts, r):
    for i in range(len(r)):
        counts[r[i]] += 1


@njit(nogil=True, cache=True)
def count_valid(counts, r, valid):
    for i in range(len(r)):
        counts[r[i]] += valid[i]


@njit(nogil=True, cache=True)
def add_integers(low, high, counts, r, values, valid):
    for i in range(len(r)):
        if valid[i]:
            row, value = r[i], np.int64(values[i])
            before = low[row]
            low[row] = before + np.uint64(value)
            high[row] += (value >> 63) + (low[row] < before)
            counts[row] += 1


@njit(nogil=True, cache=True)
def add_wide(low, high, others_low, others_high):
    """Adds 128-bit integers, place by place."""
    for row in range(len(low)):
        before = low[row]
        low[row] = before + others_low[row]
        high[row] += others_high[row] + (low[row] < before)


@njit(nogil=True, cache=True)
def add_floats(sums, lost, counts, r, values, valid):
    for i in range(len(r)):
        if valid[i]:
            row, value = r[i], np.float64(values[i])
            before = sums[row]
            after = before + value
            if abs(before) >= abs(value):
                lost[row] += (before - after) + value
            else:
                lost[row] += (value - after) + before
            sums[row] = after
            counts[row] += 1


@njit(nogil=True, cache=True)
def take_extremes(best, counts, r, values, valid, greatest):
    """The smallest or greatest values; NaN, which is no integer's value, lies above every number."""
    for i in range(len(r)):
        if valid[i]:
            row, value = r[i], values[i]
            old = best[row]
            if greatest:
                better = value > old or (value != value and old == old)
            else:
                better = value < old or (old != old and value == value)
            if counts[row] == 0 or better:
                best[row] = value
            counts[row] += 1
