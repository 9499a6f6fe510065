"""The compiled part of windows, for batches of arrivals: bounds and lateness."""

from __future__ import annotations

from streamjoin.codegen.jit import njit
from streamjoin.windows import FOREVER, SINCE_EVER


@njit(nogil=True, cache=True)
def shift(at, lower, upper, since, until):
    """The times from at + lower to at + upper, within 64 bits; an empty range where both ends lie beyond 64 bits."""
    for i in range(len(at)):
        t = at[i]
        if (lower > 0 and t > FOREVER - lower) or (upper < 0 and t < SINCE_EVER - upper):
            since[i], until[i] = FOREVER, SINCE_EVER
            continue
        since[i] = SINCE_EVER if lower < 0 and t < SINCE_EVER - lower else t + lower
        until[i] = FOREVER if upper > 0 and t > FOREVER - upper else t + upper


@njit(nogil=True, cache=True)
def earliest(newest, max_delay, promised):
    """The earliest time that is not late, given the newest time so far and the user's promise."""
    return max(SINCE_EVER if newest < SINCE_EVER + max_delay else newest - max_delay, promised)


@njit(nogil=True, cache=True)
def find_late(at, newest, max_delay, promised, late):
    """Marks which tuples, in order of arrival, are late; returns how many."""
    count = 0
    for i in range(len(at)):
        late[i] = at[i] < earliest(newest, max_delay, promised)
        newest = max(newest, at[i])
        count += late[i]
    return count
