"""Whole tables of many rows and of every distribution, against DuckDB; what they cost is counted in comparisons."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.tables import join as joining

duckdb = pytest.importorskip("duckdb")

N = 5_000
Columns = dict[str, Any]
rng = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "SMALL", 0)


def uniform() -> Columns:
    return {"x": rng.uniform(0, 1_000, N), "y": rng.uniform(0, 1_000, N)}


def zipf() -> Columns:
    return {"x": rng.zipf(1.3, N).clip(0, 10**9).astype(float), "y": rng.zipf(1.5, N).clip(0, 10**6).astype(float)}


def clustered() -> Columns:
    centres = rng.integers(0, 10**9, 30)
    return {"x": centres[rng.integers(0, 30, N)] + rng.normal(0, 400, N), "y": rng.normal(0, 3_000, N)}


def outlier() -> Columns:
    found = uniform()
    found["x"][5], found["y"][N // 2], found["x"][9], found["y"][11] = 1e300, -1e305, math.inf, -math.inf
    return found


def few_values() -> Columns:
    return {"x": rng.integers(0, 400, N) * 10.0, "y": rng.integers(0, 400, N) * 10.0}


DISTRIBUTIONS = [uniform, zipf, clustered, outlier, few_values]
BAND = "r.x BETWEEN s.x - 2 AND s.x + 2 AND r.y BETWEEN s.y - 2 AND s.y + 2"


def made(columns: Columns, seed: int) -> pa.Table:
    n = len(next(iter(columns.values())))
    times = np.random.default_rng(seed).integers(0, 50_000, n)
    return pa.table({"id": np.arange(n), "t": times, **columns})


def compared(left: pa.Table, right: pa.Table, on: str, window: int, workers: int = 2) -> tuple[int, int]:
    """Joins, compares the pairs with DuckDB's; returns candidates and results."""
    stats: dict[str, Any] = {}
    out = sj.join(left, right, on=on, within=window, time="t", workers=workers, stats=stats)
    with duckdb.connect(config={"threads": 2}) as connection:
        connection.register("r", left)
        connection.register("s", right)
        text = f"SELECT r.id AS a, s.id AS b FROM r JOIN s ON {on} AND s.t - r.t BETWEEN -{window} AND {window}"
        want = connection.sql(text).to_arrow_table()

    def pairs(first: Any, second: Any) -> np.ndarray:
        return np.sort(first.to_numpy() * 10**7 + second.to_numpy())

    assert np.array_equal(pairs(out["id_r"], out["id_s"]), pairs(want["a"], want["b"]))
    return int(stats["comparisons"]), out.num_rows


@pytest.mark.parametrize("make", DISTRIBUTIONS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("window", [10**6, 500])
def test_two_bands(make: Callable[[], Columns], window: int) -> None:
    candidates, results = compared(made(make(), 1), made(make(), 2), BAND, window)
    assert candidates <= 60 * (2 * N + results)


@pytest.mark.parametrize("make", DISTRIBUTIONS, ids=lambda make: make.__name__)
def test_one_band(make: Callable[[], Columns]) -> None:
    candidates, results = compared(made(make(), 1), made(make(), 2), "abs(r.x - s.x) <= 0.5", 2_000)
    assert candidates <= 60 * (2 * N + results)


@pytest.mark.parametrize("tail", [False, True])
@pytest.mark.parametrize("window", [10**6, 100])
def test_overlap(tail: bool, window: int) -> None:
    def side(seed: int) -> pa.Table:
        start = np.random.default_rng(seed).integers(0, 10 * N, N)
        length = rng.integers(1, 40, N) if not tail else (rng.pareto(1.0, N) * 10).astype(np.int64) + 1
        return made({"a": start, "b": start + length}, seed)

    candidates, results = compared(side(1), side(2), "r.a <= s.b AND s.a < r.b", window)
    assert candidates <= 20 * (2 * N + results) or window == 100


def pairs_of_columns(how: str, seed: int) -> pa.Table:
    own = np.random.default_rng(seed)
    a = own.integers(0, 10 * N, N)
    b = {
        "correlated": a // 3 + own.integers(0, 40, N),
        "independent": own.integers(0, 10 * N, N),
        "anti-correlated": -a + own.integers(0, 40, N),
    }[how]
    return made({"a": a, "b": b, "c": own.integers(0, 100, N)}, seed)


INEQUALITIES = {
    "correlated": "r.a < s.a AND r.b > s.b",
    "independent": f"r.a + {9.99 * N} < s.a AND r.b > s.b + {5 * N}",
    "anti-correlated": "r.a < s.a AND r.b < s.b",
}


@pytest.mark.parametrize("how", INEQUALITIES)
@pytest.mark.parametrize("more", ["", " AND r.c < s.c", " AND r.c = s.c"])
def test_inequalities(how: str, more: str) -> None:
    left, right = pairs_of_columns(how, 1), pairs_of_columns(how, 2)
    candidates, results = compared(left, right, INEQUALITIES[how] + more, 10**6)
    if not more:
        assert candidates <= 16 * (2 * 5 + 1) * (2 * N + results)


def test_one_key_with_a_tenth_of_both_sides() -> None:
    def side(seed: int) -> pa.Table:
        own = np.random.default_rng(seed)
        keys = np.where(own.random(N) < 0.1, 7, own.integers(0, N, N))
        return made({"k": keys, "x": own.uniform(0, 1_000, N), "y": own.uniform(0, 1_000, N)}, seed)

    left, right = side(1), side(2)
    for on, window in (
        ("r.k = s.k", 50),
        ("r.k = s.k AND abs(r.x - s.x) <= 1", 10**6),
        (f"r.k = s.k AND {BAND}", 10**6),
    ):
        candidates, results = compared(left, right, on, window)
        assert candidates <= 60 * (2 * N + results)


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
@pytest.mark.parametrize("sizes", [(50, N), (N, 50), (1, N), (N, 1)])
def test_sides_of_different_sizes(workers: int, sizes: tuple[int, int]) -> None:
    left, right = (made(uniform(), seed).slice(0, n) for seed, n in zip((1, 2), sizes, strict=True))
    compared(left, right, BAND, 10_000, workers)
    compared(left, right, "r.x < s.x AND r.y > s.y + 900", 10**6, workers)


def test_more_pairs_than_a_buffer_holds() -> None:
    left, right = made(few_values(), 1).slice(0, 3_000), made(few_values(), 2).slice(0, 3_000)
    _, results = compared(left, right, "r.x <= s.x + 4000", 10**6)
    assert results > 2_000_000
