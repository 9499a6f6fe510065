"""Parallel algorithms against the nested loop: workers, layouts, batches and threads must not change one pair."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamjoin as sj
from counts import check_counts
from judge import Judge
from live_paths import each_path
from profiles import few_examples
from streamjoin.access import tape
from streamjoin.testing.cases import Case, band, case_of, long_stream, near, r, s
from streamjoin.testing.conformance import Poll, Push, Step, StreamJoin
from streamjoin.testing.expressions import lit, op
from streamjoin.testing.oracle import Interval, Last, Row, TumblingRows, TumblingTime
from streamjoin.testing.strategies import count_windows, stream_joins, table_joins, time_windows
from streamjoin.threads import driver

# Few predicates, because each is compiled once per side; Hypothesis varies everything else.
CASES = [
    case_of(
        "band_2d",
        op("and", near(r("k"), s("k"), lit(1)), band(r("z"), s("c"), 0.5, 0.5)),
        "scan",
        "sorted",
        "tree",
        "band",
    ),
    case_of(
        "equality",
        op("and", op("eq", r("nm"), s("nm")), op("ne", op("mod", op("mul", r("x"), s("a")), lit(3)), lit(1))),
        "scan",
        "hash",
    ),
    case_of("residual", op("gt", op("mul", r("x"), s("a")), lit(8)), "scan"),
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
        "sorted",
        "tree",
        "band",
        "hash",
    ),
]
PATHS = [
    ("cell", "scan"),
    ("biclique", "scan"),
    ("biclique", "hash"),
    ("biclique", "tree"),
    ("biclique", "band"),
    ("handshake", "scan"),
    ("handshake", "sorted"),
    ("handshake", "hash"),
    ("low_latency", "scan"),
    ("low_latency", "hash"),
    ("low_latency", "band"),
    ("grid", "scan"),
    ("grid", "hash"),
    ("grid", "tree"),
    ("grid", "band"),
    ("hells", "scan"),
]
LAYOUTS = [(1, 2), (2, 1), (2, 2), (1, 3), (3, 2), (7, 1)]
on_each_path = each_path(PATHS)


def cases(access: str) -> list[Case]:
    """The predicates that an access path serves."""
    return [case for case in CASES if access in case.access]


@st.composite
def spreads(draw: st.DrawFn, algorithm: str, access: str) -> dict[str, Any]:
    """So many workers, or where a device's windows lie."""
    ways: list[dict[str, Any]] = [{"workers": n} for n in (2, 3, 7, 1)]
    if algorithm == "hells":
        ways = [{"memory": where} for where in ("host", "device", "parts")]
    if algorithm == "grid":
        ways += [{"layout": layout} for layout in LAYOUTS]
    return {"algorithm": algorithm, "access": access, **draw(st.sampled_from(ways))}


batches = st.sampled_from([1, 4, 64])


@pytest.fixture(autouse=True)
def short_tapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tapes so short that a few tuples fill them: they are written over, and grow."""
    monkeypatch.setattr(tape, "CHUNK", 32)
    monkeypatch.setattr(driver, "FIRST_ROOM", 32)
    monkeypatch.setattr(driver, "UNDER_WAY", 32)


@on_each_path
@few_examples
@given(data=st.data())
def test_tables(algorithm: str, access: str, data: st.DataObject) -> None:
    options = data.draw(spreads(algorithm, access))
    join = data.draw(table_joins(cases(access)))
    stats: dict[str, Any] = {}
    join.verify(sj.join(join.r, join.s, **join.options, **options, stats=stats))
    assert (stats["algorithm"], stats["access"]) == (algorithm, access)


@on_each_path
@few_examples
@given(data=st.data())
def test_pushed_streams(algorithm: str, access: str, data: st.DataObject) -> None:
    """Windows of time: disorder within max_delay changes nothing, what is later is dropped and counted."""
    options = data.draw(spreads(algorithm, access))
    join = data.draw(stream_joins(cases(access)))
    live = sj.Join(**join.options, **options, batch=data.draw(batches))
    join.verify(join.feed(live))
    check_counts(join, live.stats())


@on_each_path
@few_examples
@given(data=st.data())
def test_pushed_streams_under_count_windows(algorithm: str, access: str, data: st.DataObject) -> None:
    """The order of the push calls decides, however far workers have fallen behind each other."""
    options = data.draw(spreads(algorithm, access))
    timed = data.draw(st.booleans())
    join = data.draw(stream_joins(cases(access), count_windows, delays=[1_000], timed=timed))
    join.verify(join.feed(sj.Join(**join.options, **options, batch=data.draw(batches))))


JUDGES = {case.name: Judge(case) for case in CASES}


@given(data=st.data())
def test_the_quick_judge_is_right(data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(CASES))
    join = data.draw(stream_joins([case], time_windows | count_windows, delays=[6]))
    assert JUDGES[case.name].pairs(join.arrivals, join.window) == join.expected()


long_windows = st.one_of(
    st.integers(0, 60).map(lambda w: Interval(-w, w)),
    st.builds(
        lambda lower, width, closed: Interval(lower, lower + width, closed),
        st.integers(-60, 60),
        st.integers(2, 60),
        st.sampled_from(["both", "neither", "left", "right"]),
    ),
    st.integers(1, 100).map(TumblingTime),
    st.builds(Last, st.integers(1, 100), st.integers(1, 100)),
    st.integers(1, 100).map(TumblingRows),
)
RHYTHMS = {"one by one": [1], "a few": [1, 2, 5, 13], "many": [3, 64, 65, 200], "at once": [10_000]}


@on_each_path
@few_examples
@given(data=st.data())
def test_longer_streams(algorithm: str, access: str, data: st.DataObject) -> None:
    """Some hundred tuples: full batches, every worker has its turns, windows move on while others still compare."""
    options = data.draw(spreads(algorithm, access))
    case, window = data.draw(st.sampled_from(cases(access))), data.draw(long_windows)
    seed = data.draw(st.integers(0, 2**32))
    sizes = data.draw(st.sampled_from([(200, 200), (300, 20), (20, 300), (250, 0), (0, 250), (150, 400)]))
    speeds = data.draw(st.sampled_from([(1, 1), (1, 3), (3, 1)]))
    ordered, disorder = data.draw(st.booleans()), data.draw(st.booleans())
    rhythm = RHYTHMS[data.draw(st.sampled_from(sorted(RHYTHMS)))]
    rows = [long_stream(*stream, disorder) for stream in zip("rs", (seed, seed), sizes, speeds, strict=True)]
    join = StreamJoin(
        case,
        window,
        pushes(seed, rows[0], rows[1], rhythm),
        max_delay=6 * disorder,
        ordered=ordered,
        punctuations=ordered,
        sliced=True,
    )
    out = join.feed(sj.Join(**join.options, **options, batch=data.draw(batches)))
    join.verify(out, JUDGES[case.name].pairs(join.arrivals, window))


def pushes(seed: int, r: list[Row], s: list[Row], rhythm: list[int]) -> list[Step]:
    """Both streams in batches of these sizes, the longer one more often, with a poll now and then."""
    random, rest, steps = np.random.default_rng(seed), {"r": r, "s": s}, list[Step]()
    while rest["r"] or rest["s"]:
        side = "rs"[int(random.random() * (len(rest["r"]) + len(rest["s"])) >= len(rest["r"]))]
        size = int(random.choice(rhythm))
        steps.append(Push(side, rest[side][:size]))
        rest[side] = rest[side][size:]
        if random.random() < 0.2:
            steps.append(Poll())
    return steps
