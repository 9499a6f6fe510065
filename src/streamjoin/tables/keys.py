"""Sort keys: several columns in one integer, the coarse ones in front.

    key = | hash of the equality keys | cells of strips | place on the axis that is swept |

Places are counted in steps of an axis: monotone, so that what overlaps still does, and as few bits as the intervals'
lengths ask for. What lies beyond an axis is put to its ends.
"""

from __future__ import annotations

from streamjoin.codegen.jit import inner, njit


@inner(forceinline=True)
def step(value, low, scale, most):
    return min(max((value - low) * scale, 0.0), most)


@njit(nogil=True, cache=True)
def add_steps(keys, values, begin, end, low, scale, most, shift):
    """Adds the places of values on an axis to keys, so many bits up."""
    for i in range(begin, end):
        keys[i] += int(step(values[i], low, scale, most)) << shift


@njit(nogil=True, cache=True)
def widest(lows, highs, begin, end, low, scale, most):
    """From how many steps to the next does an interval go at most?"""
    wide = 0
    for i in range(begin, end):
        wide = max(wide, int(step(highs[i], low, scale, most)) - int(step(lows[i], low, scale, most)))
    return wide
