"""The chain in lock step, cycle by cycle: every pair of the window once, whatever throttles it; and as an engine."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamjoin as sj
from chains import Feed, chains, feeds
from counts import check_counts
from streamjoin.algorithms.lockstep import MOST_ROWS, Chain
from streamjoin.circuit.model import Model
from streamjoin.testing.cases import band, case_of, near, r, s
from streamjoin.testing.conformance import StreamJoin, TableJoin
from streamjoin.testing.expressions import lit, op
from streamjoin.testing.oracle import Last
from streamjoin.testing.strategies import stream_joins, table_joins

# Predicates of the other parallel algorithms, so that nothing new is compiled.
CASES = [
    case_of("band_2d", op("and", near(r("k"), s("k"), lit(1)), band(r("z"), s("c"), 0.5, 0.5)), "scan"),
    case_of(
        "equality_band",
        op(
            "and",
            op("eq", r("k"), s("k")),
            near(r("y"), s("b"), lit(0.5)),
            op("ge", r("w"), lit(0)),  # drops rows of r before they are joined
            op("lt", s("tol"), lit(3)),
        ),
        "scan",
    ),
]
rows = st.builds(Last, st.integers(1, 12), st.integers(1, 12))
RAMP = pa.schema({"t": pa.int64(), "x": pa.int64()})


def pairs_of(model: Model, feed: Feed) -> list[tuple[int, int]]:
    """What comes out of a chain, when all that is in it has met."""
    found = list[tuple[int, int]]()
    for steps in ((feed.r, feed.s, feed.matches, feed.pause, feed.ready), (*model.flush(), feed.matches)):
        places_r, places_s, _ = model.feed(*steps)
        found += zip(places_r.tolist(), places_s.tolist(), strict=True)
    return sorted(found)


@given(chain=chains(), feed=feeds())
def test_every_pair_meets_once(chain: Chain, feed: Feed) -> None:
    assert pairs_of(Model(chain), feed) == feed.expected(chain)


@given(chain=chains(), feed=feeds())
def test_expedited_tuples_meet_at_once(chain: Chain, feed: Feed) -> None:
    """A result of a low-latency chain waits for the cores, the FIFOs and the network, never for later arrivals."""
    chain = replace(chain, expedited=True)
    model = Model(chain)
    *found, latency = model.feed(feed.r, feed.s, feed.matches)
    assert sorted(zip(*(places.tolist() for places in found), strict=True)) == feed.expected(chain)
    assert len(latency) == 0 or latency.min() >= chain.blind - 1 - chain.up


def test_the_margin_is_used_up_to_the_last_entry() -> None:
    """All pairs match and nothing is taken for long: FIFOs come to be full, and no result is lost."""
    n = 200
    feed = Feed(np.arange(n), np.arange(n), np.zeros(n, np.int64), np.arange(512) >= 500, np.ones((256, 256), np.bool_))
    for scanners, segment in ((2, 8), (2, 3), (1, 4)):
        chain = Chain(cores=4, rows=(4 * segment, 4 * segment), scanners=scanners)
        model = Model(replace(chain, entries=chain.margin(0)))
        assert pairs_of(model, feed) == feed.expected(chain)
        figures = model.figures()
        assert max(figures["fifo_high_water"]) > chain.margin(0) - chain.scan(0)
        assert figures["throttled_cycles"] > 100


@pytest.mark.parametrize("scanners", [1, 2])
def test_a_smaller_margin_loses_results(scanners: int) -> None:
    """Whatever the segment: some feed fills the FIFOs beyond a margin that is one smaller."""
    lost = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        chain = Chain(cores=2, rows=(6, 6), scanners=scanners, spare=-1)
        chain = replace(chain, entries=chain.margin(0) + int(rng.integers(0, 6)))
        matches = rng.random((256, 256)) < 0.8
        try:
            Model(chain).feed(np.arange(100), np.arange(100), matches, ready=np.arange(400) > 390)
        except AssertionError:
            lost += 1
    assert lost


@pytest.mark.parametrize(("scanners", "cycles"), [(2, 8), (1, 16)])
def test_a_step_takes_as_long_as_its_scan(scanners: int, cycles: int) -> None:
    model = Model(Chain(cores=4, rows=(32, 32), scanners=scanners))
    n = 500
    model.feed(np.arange(n), np.arange(n), np.zeros((256, 256), np.bool_))
    assert abs(model.figures()["cycles"] - n * cycles) < 3 * cycles
    assert min(model.figures()["utilisation"]) > 0.8


def lockstep(join: StreamJoin | TableJoin, workers: int | str) -> dict[str, Any]:
    return {**join.options, "algorithm": "lockstep", "workers": workers}


cores = st.sampled_from([2, 3, 7, 1, "auto"])


@given(join=table_joins(CASES, rows), workers=cores)
def test_tables(join: TableJoin, workers: int | str) -> None:
    join.verify(sj.join(join.r, join.s, **lockstep(join, workers)))


@given(data=st.data(), workers=cores, timed=st.booleans())
def test_pushed_streams(data: st.DataObject, workers: int | str, timed: bool) -> None:
    join = data.draw(stream_joins(CASES, rows, delays=[1_000], timed=timed))
    live = sj.Join(**lockstep(join, workers))
    join.verify(join.feed(live))
    check_counts(join, live.stats())


def joined(n: int = 64, **options: Any) -> sj.Join:
    usual: dict[str, Any] = {"on": "r.x = s.x", "within": sj.last(n), "algorithm": "lockstep"}
    return sj.Join(r=RAMP, s=RAMP, **usual | options)


def test_stats_tell_of_cycles_and_cores() -> None:
    with joined(64, workers=4) as join:
        for start in range(0, 400, 50):
            join.push_r({"t": np.arange(50), "x": np.arange(start, start + 50)})
            join.push_s({"t": np.arange(50), "x": np.arange(start, start + 50)})
        stats = join.stats()
    told = stats["circuit"]
    assert (told["cores"], told["segment"], told["cycles_per_step"]) == (4, 16, 16)
    assert told["steps"] == 800 - 8, "the last r of a push moves with the first s of the next"
    assert told["cycles"] >= told["steps"] * 16
    assert len(stats["workers"]) == len(told["utilisation"]) == 4
    assert 0 < stats["comparisons"] == sum(worker["comparisons"] for worker in stats["workers"])
    assert all(0 < worker["utilisation"] < 1 for worker in stats["workers"])
    results = sum(batch.num_rows for batch in join.poll())
    assert results == join.stats()["results"] == 400


def test_an_r_and_the_s_behind_it_move_in_one_step() -> None:
    with joined(8) as join:
        for k in range(20):
            join.push_r({"t": [k], "x": [k]})
            join.push_s({"t": [k], "x": [k]})
        assert join.stats()["circuit"]["steps"] == 20


def test_results_come_in_the_order_of_time() -> None:
    with joined(5, time="t", ordered=True) as join:
        for k in range(0, 60, 3):
            join.push_r({"t": [k, k + 1, k + 2], "x": [1, 2, 3]})
            join.push_s({"t": [k + 1, k + 2], "x": [1, 2]})
    times = [max(row["t_r"], row["t_s"]) for batch in join.poll() for row in batch.to_pylist()]
    assert times and all(a <= b for a, b in pairwise(times))


def test_what_fills_the_windows_beforehand_is_not_compared() -> None:
    with joined(8) as join:
        with join.prefill():
            join.push_r({"t": [0, 1], "x": [1, 2]})
            join.push_s({"t": [0, 1], "x": [1, 2]})
        join.push_r({"t": [2], "x": [2]})
    assert join.to_arrow()["x_r"].to_pylist() == [2]


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"within": 10, "time": "t"}, "sj.last"),
        ({"within": sj.tumbling(rows=4)}, "the same slice of 4 rows"),
        ({"within": sj.last(r=3, s=MOST_ROWS + 1)}, "last 4,097 rows of s"),
        ({"workers": 1000, "within": sj.last(2000)}, "workers=1000"),
        ({"access": "band", "on": "abs(r.x - s.x) <= 1"}, 'access="band"'),
    ],
)
def test_what_a_chain_cannot_do_is_refused(options: dict[str, Any], part: str) -> None:
    with pytest.raises(sj.StreamjoinError, match=part):
        joined(**options)


def test_explain_counts_the_cores() -> None:
    told = sj.explain(RAMP, RAMP, on="r.x = s.x", within=sj.last(100), algorithm="lockstep")
    assert told.to_dict()["workers"] == 13
    assert "a chain of 13 join cores" in str(told)


@pytest.mark.parametrize("within", [10, sj.last(MOST_ROWS + 1)])
def test_explain_refuses_the_windows_that_a_join_refuses(within: Any) -> None:
    with pytest.raises(sj.WindowError, match='algorithm="lockstep"'):
        sj.explain(RAMP, RAMP, on="r.x = s.x", within=within, time="t", algorithm="lockstep")
