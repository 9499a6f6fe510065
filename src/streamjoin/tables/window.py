"""Windows of two whole tables: for every row of r, from where to where its partners in s lie.

All kinds of windows become that, windows of rows included: which s an r meets as the later one, and which it is met by
as the earlier one, lie side by side in the order of s.
"""

from __future__ import annotations

import numpy as np

from streamjoin.codegen.records import Array
from streamjoin.windows import FOREVER, SINCE_EVER
from streamjoin.windows.window import Window

Places = tuple[Array, Array, Array]  # of r: since, until; of s: at


def places(window: Window, times_r: Array, times_s: Array) -> Places:
    """What each r meets, and where each s is: by time, or by its place in the order of arrival."""
    if not window.by_rows:
        return *_reach(window, times_r), times_s
    (at_r, order_r), (at_s, order_s) = _ranks(times_r), _ranks(times_s)
    # at equal times r arrives first
    before_r = np.searchsorted(times_s[order_s], times_r, side="left")
    since, until = window.bounds("r", at_r, before_r)
    if window.by_arrival:
        before_s = np.searchsorted(times_r[order_r], times_s[order_s], side="right")
        oldest, _ = window.bounds("s", np.arange(len(times_s)), before_s)  # which rises from s to s
        until = np.searchsorted(oldest, at_r, side="right") - 1
    return since, until, at_s


def _ranks(times: Array) -> tuple[Array, Array]:
    order = np.argsort(times, kind="stable")
    ranks = np.empty(len(times), np.int64)
    ranks[order] = np.arange(len(times))
    return ranks, order


def _reach(window: Window, at: Array) -> tuple[Array, Array]:
    differences = window.differences("r")
    if differences is not None and len(at):
        lower, upper = differences
        if int(at.min()) + lower >= SINCE_EVER and int(at.max()) + upper <= FOREVER:
            return at + lower, at + upper
    return window.bounds("r", at if at.flags.writeable else at.copy(), 0)


def on_axis(since: Array, until: Array, at: Array) -> tuple[tuple[Array, Array], Array] | None:
    """The window as intervals and points in float64, counted from the first s; None if every pair lies in it."""
    if not len(since) or not len(at):
        return None
    first, last = int(at.min()), int(at.max())
    if int(since.max()) <= first and int(until.min()) >= last:
        return None
    if last - first >= 1 << 62:
        return (since.astype(np.float64), until.astype(np.float64)), at.astype(np.float64)
    low = np.clip(since, first, min(last + 1, FOREVER)) - first  # what meets nothing begins after its end
    high = np.clip(until, max(first - 1, SINCE_EVER), last) - first
    return (low.astype(np.float64), high.astype(np.float64)), (at - first).astype(np.float64)
