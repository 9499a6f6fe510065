"""What explain() expects of two tables, and what it measures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj

N = 3_000
ON = "r.x BETWEEN s.a - 10 AND s.a + 10"


def side(name: str, seed: int, first: int = 0) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table({"t": np.arange(N), name: first + random.integers(0, 10_000, N).astype(np.int32)})


def test_estimates_are_near_what_is_measured() -> None:
    left, right = side("x", 1), side("a", 2)
    found = sj.explain(left, right, on=ON, within=10**6, time="t", analyze=True)
    facts = found.to_dict()
    out = sj.join(left, right, on=ON, within=10**6, time="t")
    estimated, measured = facts["estimated"], facts["measured"]
    assert facts["shape"] == "sweep"
    assert estimated["rows"] == [N, N]
    assert measured["rows"] == out.num_rows
    assert measured["rows"] <= measured["comparisons"]
    assert measured["rows"] / 2 < estimated["pairs"] < 2 * measured["rows"]
    assert measured["comparisons"] / 2 < estimated["candidates"] < 2 * measured["comparisons"]
    assert set(measured["steps"]) == {"prepare", "sort", "compile", "search"}
    assert f"{out.num_rows:,} rows in" in str(found)


def test_rows_beyond_the_other_side_are_not_expected_to_match() -> None:
    left, right = side("x", 1), side("a", 2, first=9_000)
    facts = sj.explain(left, right, on=ON, within=10**6, time="t").to_dict()
    assert max(facts["estimated"]["rows"]) < N // 4
    assert "measured" not in facts
    want = sum(abs(x - a) <= 10 for x in left["x"].to_pylist() for a in right["a"].to_pylist() if x > 8_000)
    assert sj.join(left, right, on=ON, within=10**6, time="t").num_rows == want


def test_what_has_no_rows_has_no_estimates() -> None:
    left, right = side("x", 1), side("a", 2)
    options: dict[str, Any] = {"on": ON, "within": 10, "time": "t"}
    assert "estimated" not in sj.explain(left.schema, right.schema, **options).to_dict()
    assert "estimated" not in sj.explain(left.slice(0, 0), right, **options).to_dict()


def test_analyze_is_for_explaining_tables() -> None:
    left, right = side("x", 1), side("a", 2)
    with pytest.raises(sj.OptionError, match=r"analyze=True is for explain\(\); stats="):
        sj.join(left, right, on=ON, within=10, time="t", analyze=True)
    with pytest.raises(sj.OptionError, match=r"analyze=True is not for live streams; a live join tells it by stats"):
        sj.explain(left.schema, right.schema, on=ON, within=10, time="t", analyze=True)
