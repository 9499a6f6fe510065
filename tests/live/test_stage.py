"""What is decided about a tuple, when, and in which order it comes out: against the oracle's pairs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.testing.cases import BY_NAME
from streamjoin.testing.conformance import StreamJoin
from streamjoin.testing.oracle import Interval, TumblingTime
from streamjoin.testing.strategies import count_windows, stream_joins, time_windows

HOWS = ["left", "right", "full", "semi", "anti"]
NAMES = ["band", "equality_band", "nulls"]  # the last one leaves rows of both sides out before they are joined
PARALLEL = ["cell", "biclique", "handshake", "low_latency", "grid", pytest.param("hells", marks=pytest.mark.device)]

Key = tuple[int | None, int | None]  # rid and sid of a result
each_how = pytest.mark.parametrize("how", HOWS)


def expected(join: StreamJoin, how: str) -> dict[Key, int]:
    """The results, and the time of each."""
    arrived = join.split()[0]
    r, s = ({row[f"{side}id"]: row["t"] for at, row in arrived if at == side} for side in "rs")
    pairs = {(a, b): max(r[a], s[b]) for a, b in join.expected()}
    alone_r: dict[Key, int] = {(a, None): _end(join, r[a], 0) for a in r.keys() - {a for a, _ in pairs}}
    alone_s: dict[Key, int] = {(None, b): _end(join, s[b], 1) for b in s.keys() - {b for _, b in pairs}}
    first: dict[Key, int] = {}
    for (a, _), time in pairs.items():
        first[a, None] = min(time, first.get((a, None), time))
    found: dict[str, dict[Any, int]] = {
        "inner": pairs,
        "left": pairs | alone_r,
        "right": pairs | alone_s,
        "full": pairs | alone_r | alone_s,
        "semi": first,
        "anti": alone_r,
    }
    return found[how]


def _end(join: StreamJoin, time: int, side: int) -> int:
    """The end of the window of a tuple."""
    match join.window:
        case Interval(lower, upper, closed):
            lower += closed in ("right", "neither")
            upper -= closed in ("left", "neither")
            return time + max(0, -lower if side else upper)
        case TumblingTime(width):
            return time - time % width + width - 1
    return time


def verify(join: StreamJoin, out: list[Any], results: dict[Key, int]) -> None:
    """Every result once; in order and with promises that hold, if asked for."""
    found: list[Key] = []
    promised, last = None, None
    for item in out:
        if not isinstance(item, pa.RecordBatch):
            assert promised is None or item.time > promised
            promised = item.time
            continue
        sids = item["sid"].to_pylist() if "sid" in item.schema.names else [None] * item.num_rows
        for key in zip(item["rid"].to_pylist(), sids, strict=True):
            assert key in results, f"{key} is no result"
            time = results[key]
            assert promised is None or time >= promised, f"{key} at {time} after the promise {promised}"
            assert not join.ordered or last is None or time >= last, f"{key} at {time} after {last}"
            found, last = [*found, key], time
    assert sorted(found, key=str) == sorted(results, key=str)


@each_how
@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_time_windows(how: str, name: str, data: st.DataObject) -> None:
    join = data.draw(stream_joins([BY_NAME[name]], time_windows))
    verify(join, join.feed(sj.Join(**join.options, how=how)), expected(join, how))


@each_how
@given(data=st.data())
def test_count_windows(how: str, data: st.DataObject) -> None:
    timed = data.draw(st.booleans())
    join = data.draw(stream_joins([BY_NAME["equality_band"]], count_windows, delays=[1_000], timed=timed))
    verify(join, join.feed(sj.Join(**join.options, how=how)), expected(join, how))


@pytest.mark.parametrize("algorithm", PARALLEL)
@given(data=st.data())
def test_workers(algorithm: str, data: st.DataObject) -> None:
    how = data.draw(st.sampled_from(HOWS))
    join = data.draw(stream_joins([BY_NAME["equality_band"]], time_windows | count_windows, delays=[1_000]))
    workers: dict[str, Any] = {} if algorithm == "hells" else {"workers": data.draw(st.integers(1, 3)), "batch": 2}
    verify(join, join.feed(sj.Join(**join.options, how=how, algorithm=algorithm, **workers)), expected(join, how))
