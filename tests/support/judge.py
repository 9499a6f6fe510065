"""A quick judge for longer streams: windows as matrices, each pair of values asked once. The oracle judges it."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamjoin.testing.cases import Case
from streamjoin.testing.expressions import columns
from streamjoin.testing.oracle import Arrival, Interval, Last, Row, TumblingRows, TumblingTime, Window


class Judge:
    """A case's answers for pairs of values, asked from the oracle when they first occur."""

    def __init__(self, case: Case) -> None:
        assert case.tree is not None
        used = columns(case.tree)
        self._used = {side: sorted(name for where, name in used if where == side) for side in ("r", "s")}
        self._codes: dict[str, dict[str, int]] = {"r": {}, "s": {}}
        self._holds = case.holds
        self._known: dict[tuple[int, int], bool] = {}

    def _code(self, side: str, row: Row) -> int:
        key = repr([row[name] for name in self._used[side]])
        return self._codes[side].setdefault(key, len(self._codes[side]))

    def pairs(self, arrivals: list[Arrival], window: Window) -> list[tuple[int, int]]:
        rows = {side: [row for where, row in arrivals if where == side] for side in ("r", "s")}
        codes = {side: [self._code(side, row) for row in rows[side]] for side in ("r", "s")}
        found = []
        for i, j in np.argwhere(in_window(arrivals, window)):
            key = codes["r"][i], codes["s"][j]
            if key not in self._known:
                self._known[key] = self._holds(rows["r"][i], rows["s"][j])
            if self._known[key]:
                found.append((rows["r"][i]["rid"], rows["s"][j]["sid"]))
        return sorted(found)


def in_window(arrivals: list[Arrival], window: Window) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which pairs of r and s, in order of arrival, lie in the window."""
    side = np.array([where == "s" for where, _ in arrivals], np.bool_)
    place = np.flatnonzero(~side)[:, None], np.flatnonzero(side)[None, :]  # among all arrivals
    number = np.arange(place[0].size)[:, None], np.arange(place[1].size)[None, :]  # in the own stream
    times = np.array([row["t"] for _, row in arrivals], np.int64)
    time_r, time_s = (times[p] for p in place)
    match window:
        case Interval(lower, upper, closed):
            apart = time_s - time_r
            low = apart >= lower if closed in ("both", "left") else apart > lower
            return low & (apart <= upper if closed in ("both", "right") else apart < upper)
        case TumblingTime(width):
            return np.equal(time_r // width, time_s // width)
        case TumblingRows(rows):
            return np.equal(number[0] // rows, number[1] // rows)
        case Last(n, m):
            come_r, come_s = place[1] - number[1], place[0] - number[0]  # of the other stream, before this one
            return np.where(place[0] < place[1], number[0] >= come_r - n, number[1] >= come_s - m)
    raise TypeError(window)
