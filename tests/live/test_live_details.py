"""What a live join owes beyond the right pairs: buffers may be reused, refusals leave no trace, memory comes back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj

R = pa.schema({"ts": pa.int64(), "x": pa.int64()})
S = pa.schema({"ts": pa.int64(), "a": pa.int64()})


def live(on: str = "r.x = s.a", within: Any = 10, **options: Any) -> sj.Join:
    return sj.Join(r=options.pop("r", R), s=options.pop("s", S), on=on, within=within, time="ts", **options)


def rows(join: sj.Join) -> list[dict[str, object]]:
    return [row for batch in join.poll() for row in batch.to_pylist()]


def test_the_caller_may_reuse_its_arrays() -> None:
    ts, x = np.array([1]), np.array([7])
    with live() as join:
        join.push_r({"ts": ts, "x": x})
        ts[0], x[0] = 55, 99
        join.push_s({"ts": [2], "a": [7]})
        assert rows(join) == [{"ts_r": 1, "x": 7, "ts_s": 2, "a": 7}]


def test_the_caller_may_change_its_frame() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"ts": [1], "x": [7]})
    with live() as join:
        join.push_r(frame)
        frame.loc[0, "x"] = 99
        join.push_s({"ts": [2], "a": [7]})
        assert [row["x"] for row in rows(join)] == [7]


def test_the_caller_may_change_its_series() -> None:
    pandas = pytest.importorskip("pandas")
    x = np.array([7])
    with live() as join:
        join.push_r({"ts": pandas.Series([1]), "x": pandas.Series(x, copy=False)})
        x[0] = 99
        join.push_s({"ts": [2], "a": [7]})
        assert [row["x"] for row in rows(join)] == [7]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.timestamp("us", "UTC"), pa.timestamp("us")),
        (pa.int64(), pa.timestamp("us")),
        (pa.string(), pa.timestamp("us")),
    ],
)
def test_a_batch_of_another_kind_of_time_is_refused(given: pa.DataType, wanted: pa.DataType) -> None:
    schemas = [pa.schema({"ts": wanted, name: pa.int64()}) for name in "xa"]
    other = pa.table({"ts": pa.array([0], pa.int64()).cast(given), "x": [7]})
    with live(within="1 second", r=schemas[0], s=schemas[1]) as join:
        with pytest.raises(sj.SchemaError, match=r"r\.ts is .* instead of timestamp.*; cast before pushing"):
            join.push_r(other)
        finer = pa.array([1_000_000_000], pa.timestamp("ns", wanted.tz))
        join.push_r(pa.table({"ts": finer, "x": pa.array([7], pa.int8())}))
        join.push_s({"ts": pa.array([1_500_000], wanted), "a": [7]})
        assert len(rows(join)) == 1


def test_nulls_among_the_words_of_a_dictionary() -> None:
    words = pa.array(["a", None]).dictionary_encode(null_encoding="encode")
    numbers = pa.array([0, None]).dictionary_encode(null_encoding="encode")
    for values in (words, numbers):
        table = pa.table({"ts": [0, 0], "k": values})
        out = sj.join(table, table, on="r.k = s.k", within=1, time="ts")
        assert out["k_r"].combine_chunks().dictionary_decode().to_pylist() == [values[0].as_py()]
        assert sj.join(table, table, on="r.k IS NULL AND s.k IS NULL", within=1, time="ts").num_rows == 1


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view(), pa.large_string()])
def test_views_of_text(kind: pa.DataType) -> None:
    values = pa.array(["a", None, "text of more than twelve bytes"]).cast(kind)
    table = pa.table({"ts": [0, 0, 0], "k": values})
    out = sj.join(table, table, on="r.k = s.k", within=1, time="ts")
    assert out.num_rows == 2 and out["k_s"].type == kind


@pytest.mark.parametrize(("r", "s", "bounds"), [(2**63 - 3, 2**63 - 1, (5, 10)), (-(2**63) + 2, -(2**63), (-10, -5))])
def test_intervals_beyond_the_last_time_are_empty(r: int, s: int, bounds: tuple[int, int]) -> None:
    one, two = pa.table({"ts": [r], "x": [1]}), pa.table({"ts": [s], "a": [1]})
    assert sj.join(one, two, on="r.x = s.a", within=sj.interval(*bounds), time="ts").num_rows == 0
    assert sj.join(two, one, on="r.a = s.x", within=sj.interval(-bounds[1], -bounds[0]), time="ts").num_rows == 0


def test_a_refused_batch_leaves_the_join_as_it_was() -> None:
    wide = pa.schema({"ts": pa.int64(), "x": pa.uint64()})
    with live(r=wide, late="keep") as join:
        join.push_r({"ts": [100], "x": [1]})
        for _ in range(2):
            with pytest.raises(sj.DataError):
                join.push_r({"ts": [1, 101], "x": [5, 2**63]})
        counts = join.stats()["r"]
        assert counts["late"] == 0 and counts["pushed"] == 1
        assert join.late() == []
        join.push_r({"ts": [1, 101], "x": [5, 6]})
        assert [batch.to_pylist() for _, batch in join.late()] == [[{"ts": 1, "x": 5}]]


def test_a_refused_advance_promises_nothing() -> None:
    with live() as join:
        with pytest.raises(sj.WindowError, match="integer"):
            join.advance(r=50, s="x")
        for wrong in (2**70, 3.5):
            with pytest.raises(sj.WindowError):
                join.advance(r=wrong)
        join.push_r({"ts": [10], "x": [1]})
        assert join.stats()["r"]["late"] == 0


def test_a_promise_is_named_when_it_makes_a_tuple_late() -> None:
    with live(late="error") as join:
        join.advance(r=50)
        with pytest.raises(sj.LateError, match=r"promised to have passed 50.*advance"):
            join.push_r({"ts": [10], "x": [1]})


def test_dictionaries_may_outgrow_their_index() -> None:
    labelled = pa.schema({"ts": pa.int64(), "x": pa.int64(), "label": pa.dictionary(pa.int8(), pa.string())})
    with live(r=labelled, within=1_000) as join:
        for i in range(300):
            label = pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.array([f"label {i}"]))
            join.push_r(pa.record_batch([pa.array([i]), pa.array([i]), label], schema=labelled))
        join.push_s({"ts": [300], "a": [123]})
        assert [row["label"] for row in rows(join)] == ["label 123"]


def test_row_windows_promise_no_times() -> None:
    with live(within=sj.last(5)) as join:
        join.push_r({"ts": [100], "x": [1]})
        join.push_s({"ts": [100], "a": [1]})
        assert join.stats()["punctuation"] is None


def test_poll_ends_with_what_was_ready() -> None:
    with live() as join:
        join.push_r({"ts": [1], "x": [7]})
        join.push_s({"ts": [2], "a": [7]})
        ready = 0
        for _ in join.poll():
            ready += 1
            join.push_s({"ts": [2], "a": [7]})
        assert ready == 1


@pytest.mark.parametrize(
    ("on", "access"), [("r.x = s.a", "hash"), *(("abs(r.x - s.a) <= 1", access) for access in ("scan", "tree", "band"))]
)
def test_memory_comes_back(on: str, access: str) -> None:
    n = 200_000
    join = live(on, access=access)
    join.push_r({"ts": np.arange(n), "x": np.arange(n)})
    full = join.stats()["r"]["store_bytes"]
    join.advance(r=10 * n, s=10 * n)
    assert join.stats()["r"]["window"] == 0
    assert join.stats()["r"]["store_bytes"] < full / 20
    join.push_r({"ts": [10 * n], "x": [5]})
    join.push_s({"ts": [10 * n], "a": [5]})
    assert len(rows(join)) == 1
    join.close()


def test_more_text_than_one_arrow_array_holds() -> None:
    text = "x" * (1 << 16)
    one = pa.table({"ts": [1], "x": [1], "text": [text]})
    n = (1 << 15) + 5
    two = pa.table({"ts": pa.array(np.ones(n, np.int64)), "a": pa.array(np.ones(n, np.int64))})
    out = sj.join(one, two, on="r.x = s.a", within=1, time="ts")
    assert out.num_rows == n and out["text"][n - 1].as_py() == text
