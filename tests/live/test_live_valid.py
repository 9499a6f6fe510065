"""Tuples that are valid for a while, on pushed streams: against the oracle, and what is refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamjoin as sj
from live_paths import PATHS, check, each_path
from streamjoin.errors import DataError, StreamjoinError, WindowError
from streamjoin.testing.cases import BY_NAME, LASTING, lasting, long_stream, time
from streamjoin.testing.kinds import AGGREGATES, BY_VALUE, HOWS, INNER
from streamjoin.testing.oracle import Valid, Validity
from streamjoin.testing.strategies import stream_joins, validities

EQUALITY = BY_NAME["equality"]
KINDS = [INNER, *HOWS, *BY_VALUE, *AGGREGATES]
joins = stream_joins([EQUALITY], validities(), orders=[False], kinds=KINDS)


@given(data=st.data())
def test_pushed_streams(data: st.DataObject) -> None:
    """A point in an interval, and two intervals that overlap; late is what begins before its stream's watermark."""
    check(data.draw(joins))


@each_path([("kang", "tree"), *PATHS])
@given(data=st.data())
def test_every_algorithm(algorithm: str, access: str, data: st.DataObject) -> None:
    workers = {} if algorithm in ("hells", "kang") else {"workers": data.draw(st.sampled_from([2, 3]))}
    check(data.draw(joins), algorithm=algorithm, access=access, batch=data.draw(st.sampled_from([1, 64])), **workers)


@pytest.mark.parametrize("how", ["left", "full", "anti"])
def test_tables_and_streams_agree(how: str) -> None:
    """The same rows as two tables, `most` included."""
    window = Valid(Validity("t", "until", "both", 5), Validity("t", "until", most=3))
    rows = {
        side: pa.Table.from_pylist(lasting(side, long_stream(side, 7, 300, 1, False)), LASTING[side]) for side in "rs"
    }
    options: dict[str, Any] = {"on": EQUALITY.on, "time": time(window), "how": how}
    with sj.Join(**LASTING, **options) as join:
        for start in range(0, 300, 40):
            join.push_r(rows["r"].slice(start, 40))
            join.push_s(rows["s"].slice(start, 40))
    found = pa.Table.from_batches(list(join.poll()), join.schema)
    whole = sj.join(rows["r"], rows["s"], **options)
    assert found.num_rows > 50
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, whole.to_pylist()))


def test_an_end_lets_go_before_the_longest_one() -> None:
    """An s whose end is known comes out when r has passed it, long before `most`; one that is open waits for it."""
    window = Valid(None, Validity("t", "until", most=1_000))
    s = [{**row, "k": None if n == 2 else 1} for n, row in enumerate(long_stream("s", 1, 3, 0, False))]
    s = [{**row, "t": 0, "until": until} for row, until in zip(s, (10, None, 20), strict=True)]
    with sj.Join(**LASTING, on=EQUALITY.on, time=time(window), how="right", select="s.sid") as join:
        join.push_s(pa.Table.from_pylist(s, LASTING["s"]))
        out = []
        for now in (9, 10, 1_000, 1_001):
            join.advance(r=now)
            out.append([row["sid"] for batch in join.poll() for row in batch.to_pylist()])
    assert out == [[], [0], [1], [2]] or out == [[], [0], [1, 2], []], out


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"time": ("t", sj.valid("t", "until"))}, WindowError, ["valid(t, until)", "most="]),
        ({"time": ("t", sj.valid("t", "until", most=-1))}, WindowError, ["most=-1", "negative"]),
        ({"time": ("t", sj.valid("t", "until", most="1 day"))}, WindowError, ["most", "integer"]),
        ({"take": "backward"}, WindowError, ["backward", "valid for a while"]),
        ({"ordered": True}, WindowError, ["ordered", "valid for a while"]),
        ({"punctuations": True}, WindowError, ["punctuations", "valid for a while"]),
        ({"within": 5}, WindowError, ["within", "valid"]),
    ],
)
def test_what_is_refused(options: dict[str, Any], error: type[StreamjoinError], words: list[str]) -> None:
    given: dict[str, Any] = {"on": EQUALITY.on, "time": ("t", sj.valid("t", "until", most=5))}
    with pytest.raises(error) as caught:
        sj.Join(**LASTING, **(given | options))
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_batch_that_is_wrong_changes_nothing() -> None:
    schema = {side: pa.schema([("a", pa.int64()), ("b", pa.int64())]) for side in "rs"}
    with sj.Join(**schema, on="TRUE", time=("a", sj.valid("a", "b", most=9)), select="r.a, s.b") as join:
        with pytest.raises(DataError, match=r"s.a is 5 and s.b is 4 in row 1"):
            join.push_s({"a": [1, 5], "b": [3, 4]})
        with pytest.raises(DataError, match=r"s.a is null in row 0"):
            join.push_s({"a": pa.array([None], pa.int64()), "b": [3]})
        join.push_r({"a": [1, 4], "b": [0, 0]})
        join.push_s({"a": [1], "b": [3]})
        assert [batch.to_pylist() for batch in join.poll()] == [[{"a": 1, "b": 3}]]
