"""Tables of other kinds: lazy frames, streams of Arrow batches, relations; and `pipe` of pandas and Polars."""

from __future__ import annotations

from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.errors import SchemaError

R = pa.table({"ts": [1, 2, 30], "x": pa.array([5, 100, 7], pa.int32())})
S = pa.table({"ts": [3, 4], "x": pa.array([7, 90], pa.int32())})
JOIN: dict[str, Any] = {"on": "abs(r.x - s.x) <= 10", "within": 10, "time": "ts", "ordered": True}
EXPECTED = [{"ts_r": 1, "x_r": 5, "ts_s": 3, "x_s": 7}, {"ts_r": 2, "x_r": 100, "ts_s": 4, "x_s": 90}]


def test_lazy_frames_give_a_lazy_frame() -> None:
    r, s = pl.from_arrow(R), pl.from_arrow(S)
    joined = sj.join(r.lazy(), s.lazy(), **JOIN)
    assert isinstance(joined, pl.LazyFrame) and joined.collect().to_dicts() == EXPECTED
    assert isinstance(sj.join(r.lazy(), s, **JOIN), pl.DataFrame)
    reasons = sj.explain(r.lazy(), s, **JOIN).to_dict()["reasons"]
    assert "left is a LazyFrame: it is collected before the join" in reasons


def test_pipe() -> None:
    assert R.to_pandas().pipe(sj.join, S.to_pandas(), **JOIN).to_dict("records") == EXPECTED
    assert pl.from_arrow(R).pipe(sj.join, pl.from_arrow(S), **JOIN).to_dicts() == EXPECTED


def test_streams_of_batches() -> None:
    joined = sj.join(R.to_reader(), S, **JOIN)
    assert isinstance(joined, pa.Table) and joined.to_pylist() == EXPECTED
    reader = R.to_reader()
    assert sj.explain(reader, S, **JOIN).to_dict()["access"] == "band"
    assert reader.read_all().num_rows == R.num_rows  # a plan reads no rows


def test_relations_of_duckdb() -> None:
    database = duckdb.connect()
    r, s = database.from_arrow(R), database.from_arrow(S)
    assert pa.table(sj.join(r, s, **JOIN)).to_pylist() == EXPECTED


def test_an_array_is_no_table() -> None:
    with pytest.raises(SchemaError, match="hands out an Arrow stream"):
        sj.join(pa.chunked_array([[1, 2]]), S, **JOIN)
