"""The places that a tuple meets on the other side, compiled."""

from __future__ import annotations

from streamjoin.codegen.jit import njit
from streamjoin.windows import FOREVER, SINCE_EVER


@njit(nogil=True, cache=True)
def reach(at, lower, upper, since, until):
    """The times from at + lower to at + upper, within 64 bits; nothing where both ends lie beyond."""
    for i in range(len(at)):
        t = at[i]
        if (lower > 0 and t > FOREVER - lower) or (upper < 0 and t < SINCE_EVER - upper):
            since[i], until[i] = FOREVER, SINCE_EVER
            continue
        since[i] = SINCE_EVER if lower < 0 and t < SINCE_EVER - lower else t + lower
        until[i] = FOREVER if upper > 0 and t > FOREVER - upper else t + upper
