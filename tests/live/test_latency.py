"""Latencies that are counted for many results at once are those that are counted one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.results.latency import Latency

MILLISECOND = 10**6


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(1, 5)), min_size=2, max_size=12), st.data())
def test_many_at_once_as_one_by_one(arrivals: list[tuple[int, int]], data: st.DataObject) -> None:
    at_once, single = Latency(), Latency()
    arrivals = [(0, 1), (1, 1), *arrivals]
    numbers = [0, 0]
    for moment, (side, count) in enumerate(arrivals):
        numbers[side] += count
        for latency in (at_once, single):
            latency.arrived(side, numbers[side], moment * MILLISECOND)
    pairs = st.tuples(*(st.integers(0, last - 1) for last in numbers))
    r, s = np.array(data.draw(st.lists(pairs, min_size=1, max_size=20))).T
    at_once.record_many(r, s, 100 * MILLISECOND)
    for k in range(len(r)):
        single.record(r[k : k + 1], s[k : k + 1], 100 * MILLISECOND)
    assert at_once.summary() == single.summary()
