"""Kinds of joins on pushed streams against the oracle: what comes out, in which order, and not before it is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamjoin as sj
from live_paths import check, each_path
from streamjoin.testing.cases import BY_NAME, Case, long_stream
from streamjoin.testing.conformance import Advance, Poll, Push, Step, StreamJoin
from streamjoin.testing.kinds import AGGREGATES, BY_TIME, BY_VALUE, HOWS, Kind
from streamjoin.testing.oracle import Everything, Interval
from streamjoin.testing.strategies import count_windows, row_windows, stream_joins, time_windows

# Few predicates, because each is compiled; "nulls" has conditions on one side alone, which leave rows of both out.
CASES = [BY_NAME[name] for name in ("band", "equality_band", "nulls")]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
GROUPS = {"hows": HOWS, "by_time": BY_TIME, "by_value": BY_VALUE, "aggregates": AGGREGATES}
each_group = pytest.mark.parametrize("group", GROUPS)


@each_case
@each_group
@given(data=st.data())
def test_pushed_streams(case: Case, group: str, data: st.DataObject) -> None:
    """Disorder within max_delay changes nothing; what is later is dropped, not preserved, and contradicts nothing."""
    check(data.draw(stream_joins([case], kinds=GROUPS[group])))


@each_group
@given(data=st.data())
def test_under_count_windows(group: str, data: st.DataObject) -> None:
    timed = group == "by_time" or data.draw(st.booleans())
    drawn = stream_joins(CASES, count_windows, delays=[1_000], timed=timed, kinds=GROUPS[group])
    check(data.draw(drawn))


@given(data=st.data())
def test_bounds_from_the_row(data: st.DataObject) -> None:
    kinds = [*HOWS, *BY_TIME, *AGGREGATES]
    check(data.draw(stream_joins([BY_NAME["equality"]], row_windows([2, 20]), kinds=kinds)))


@given(data=st.data())
def test_versions_of_a_key(data: st.DataObject) -> None:
    """No window: the latest version of the key, however old."""
    kinds = [kind for kind in BY_TIME if kind.take == "backward"]
    check(data.draw(stream_joins([BY_NAME["equality"]], st.just(Everything()), kinds=kinds)))


@each_path()
@given(data=st.data())
def test_parallel(algorithm: str, access: str, data: st.DataObject) -> None:
    """Workers change nothing: exactly one of them decides about a tuple, once."""
    workers = {} if algorithm in ("hells", "kang") else {"workers": data.draw(st.sampled_from([2, 3, 7, 1]))}
    group = data.draw(st.sampled_from(sorted(GROUPS)))
    counted = group != "by_time" and data.draw(st.booleans())
    windows, delays = (count_windows, [1_000]) if counted else (time_windows, [6, 0])
    join = data.draw(stream_joins([BY_NAME["equality_band"]], windows, delays=delays, kinds=GROUPS[group]))
    check(join, algorithm=algorithm, access=access, batch=data.draw(st.sampled_from([1, 4, 64])), **workers)


@pytest.mark.parametrize("group", GROUPS)
@given(data=st.data())
def test_longer_streams(group: str, data: st.DataObject) -> None:
    """Some hundred tuples, so that windows move on while others wait."""
    seed, kind = data.draw(st.integers(0, 2**32)), data.draw(st.sampled_from(GROUPS[group]))
    rows = {side: long_stream(side, seed, 200, 1, True) for side in "rs"}
    random, steps = np.random.default_rng(seed), list[Step]()
    while rows["r"] or rows["s"]:
        side = "rs"[int(random.integers(2))]
        size = int(random.choice([1, 5, 40]))
        steps += [Push(side, rows[side][:size]), Poll()]
        rows[side] = rows[side][size:]
    ordered = data.draw(st.booleans())
    window = Interval(-int(random.integers(40)), int(random.integers(40)))
    case = BY_NAME["equality_band"]
    join = StreamJoin(case, window, steps, max_delay=6, ordered=ordered, punctuations=ordered, kind=kind)
    options: dict[str, Any] = data.draw(
        st.sampled_from([{}, {"algorithm": "low_latency", "access": "band", "workers": 3}])
    )
    check(join, **options)


NARROW = {side: pa.schema([(f"{side}id", pa.int64()), ("t", pa.int64()), ("x", pa.int64())]) for side in "rs"}


def test_memory_stays_flat_when_nothing_ever_matches() -> None:
    """Every r comes out unmatched, and what was kept for it goes."""
    n, size = 20_000, 500
    with sj.Join(r=NARROW["r"], s=NARROW["s"], on="r.x = s.x", within=100, time="t", how="full") as join:
        alone, most = 0, 0
        for start in range(0, n, size):
            ids = np.arange(start, start + size)
            join.push_r({"rid": ids, "t": ids, "x": ids})
            join.push_s({"sid": ids, "t": ids, "x": -1 - ids})
            alone += sum(batch.num_rows for batch in join.poll())
            stats = join.stats()
            most = max(most, stats["r"]["window"] + stats["s"]["window"])
        assert alone > 2 * n - 2 * size
        assert most < 4 * size
    assert alone + sum(batch.num_rows for batch in join.poll()) == 2 * n


def test_a_quiet_stream_holds_back_until_it_advances() -> None:
    kind = Kind("anti")
    rows = long_stream("r", 3, 20, 1, False)
    last = max(row["t"] for row in rows)
    steps: list[Step] = [Push("r", rows), Poll(), Advance("s", last + 3), Poll(), Advance("s", last + 4), Poll()]
    join = StreamJoin(BY_NAME["band"], Interval(-3, 3), steps, kind=kind)
    watched = join.watch(sj.Join(**join.options))
    join.verify_moments(watched)
    by_step = [sum(item.num_rows for step, item in watched if step == n) for n in (2, 4, 6, 7)]
    waiting = sum(row["t"] == last and row["x"] is not None for row in rows)
    hopeless = sum(row["x"] is None for row in rows)
    assert by_step[0] <= hopeless
    assert by_step[2] == waiting
    assert by_step[3] == 0, "nothing is left for the end"
    assert sum(by_step) == len(rows)
