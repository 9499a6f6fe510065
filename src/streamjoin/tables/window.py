"""Windows of two whole tables: for every row of r, from where to where its partners in s lie.

All kinds of windows become that, windows of rows included: which s an r meets as the later one, and which it is met by
as the earlier one, lie side by side in the order of s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamjoin.codegen.records import Array
from streamjoin.plan.statistics import Ends, Values
from streamjoin.windows import FOREVER, SINCE_EVER
from streamjoin.windows.window import Window

FAR = 1 << 62  # differences below that fit 64 bits, whatever they are counted from


@dataclass(frozen=True)
class Places:
    """The bounds of each r, from `since` to `until`, and the `at` of each s.

    Without `until`, an r meets what lies from `lower` ticks behind `since` on, up to `width` more.
    """

    since: Array
    until: Array | None
    lower: int
    width: int
    at: Array
    extremes: tuple[int, int, int, int] | None = None  # of `since` and `at`, if they are known: least, greatest

    @property
    def of_r(self) -> tuple[Array, ...]:
        return (self.since,) if self.until is None else (self.since, self.until)


def places(window: Window, times_r: Array, times_s: Array) -> Places:
    """Partners by time, or by their positions in the order of arrival."""
    if not window.by_rows:
        return _by_time(window, times_r, times_s)
    (at_r, order_r), (at_s, order_s) = _ranks(times_r), _ranks(times_s)
    # at equal times r arrives first
    before_r = np.searchsorted(times_s[order_s], times_r, side="left")
    since, until = window.bounds(0, at_r, before_r)
    if window.by_arrival:
        before_s = np.searchsorted(times_r[order_r], times_s[order_s], side="right")
        oldest, _ = window.bounds(1, np.arange(len(times_s)), before_s)  # which rises from s to s
        until = np.searchsorted(oldest, at_r, side="right") - 1
    return Places(since, until, 0, 0, at_s)


def _ranks(times: Array) -> tuple[Array, Array]:
    order = np.argsort(times, kind="stable")
    ranks = np.empty(len(times), np.int64)
    ranks[order] = np.arange(len(times))
    return ranks, order


def _by_time(window: Window, times_r: Array, times_s: Array) -> Places:
    differences = window.differences(0)
    if differences is not None and len(times_r) and len(times_s):
        lower, upper = differences
        extremes = int(times_r.min()), int(times_r.max()), int(times_s.min()), int(times_s.max())
        ends = extremes[0] + lower, extremes[1] + upper, extremes[2], extremes[3]
        if min(ends) >= SINCE_EVER and max(ends) <= FOREVER and max(ends) - min(ends) < FAR:
            return Places(times_r, None, lower, upper - lower, times_s, extremes)
    since, until = window.bounds(0, times_r if times_r.flags.writeable else times_r.copy(), 0)
    return Places(since, until, 0, 0, times_s)


def on_axis(window: Places) -> tuple[Ends, Ends] | None:
    """The window as intervals and points, counted from the first s; None if every pair lies in it."""
    since, until, at = window.since, window.until, window.at
    if not len(since) or not len(at):
        return None
    extremes = window.extremes or (int(since.min()), int(since.max()), int(at.min()), int(at.max()))
    oldest, newest, first, last = extremes
    latest = newest + window.lower
    earliest = oldest + window.lower + window.width if until is None else int(until.min())
    if latest <= first and earliest >= last:
        return None
    if until is None:
        low, points = window.lower - first, Values(at, -first)
        return (Values(since, low), Values(since, low + window.width)), (points, points)
    if last - first >= FAR:  # neighbours may coincide, but never change their order
        points = Values(at.astype(np.float64))
        return (Values(since.astype(np.float64)), Values(until.astype(np.float64))), (points, points)
    # What meets nothing ends before it begins.
    before, after = max(first - 1, SINCE_EVER), min(last + 1, FOREVER)
    begin, end = np.clip(since, first, after) - first, np.clip(until, before, last) - first
    points = Values(at, -first)
    return (Values(begin.astype(np.float64)), Values(end.astype(np.float64))), (points, points)
