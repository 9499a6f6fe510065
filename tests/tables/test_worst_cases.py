"""Shapes that tempt a join into looking at every pair: what it compares stays near n log n + results.

The judge looks at every pair of some blocks of r, under `make soak` of all blocks, with NumPy alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from profiles import SOAK
from streamjoin.bench.jobs import JOBS
from streamjoin.tables import join as joining
from streamjoin.tables import tasks

N = 20_000
BLOCK = 500
EVERY = 1 if SOAK else 8  # of how many blocks one is judged
FACTOR = 32  # every pair would be some 600 times n log n

Array = np.ndarray
Columns = dict[str, Array]
Holds = Callable[[Columns, Columns], Any]


@dataclass(frozen=True)
class Shape:
    """Two tables by a seed, the predicate, and the same as a function of blocks of columns."""

    name: str
    make: Callable[[np.random.Generator, str], Columns]
    on: str
    holds: Holds
    within: int = 10**9


def ge(a: Array, b: Array) -> Any:
    """SQL's a >= b: NaN equals itself and lies above every number."""
    return (a >= b) | np.isnan(a)


def near(a: Array, b: Array, width: float) -> Any:
    """a BETWEEN b - width AND b + width."""
    return ge(a, b - width) & ge(b + width, a)


def bands(r: Columns, s: Columns) -> Any:
    return near(r["x"], s["x"], 1) & near(r["y"], s["y"], 5)


BANDS = "r.x BETWEEN s.x - 1 AND s.x + 1 AND r.y BETWEEN s.y - 5 AND s.y + 5"


def on_column(draw: Callable[[np.random.Generator], Array]) -> Callable[[np.random.Generator, str], Columns]:
    """One column as drawn, one uniform."""
    return lambda random, side: {"x": draw(random), "y": random.uniform(0, N, N)}


def with_strays(*strays: float) -> Callable[[np.random.Generator], Array]:
    """Uniform, but for a hundredth of the rows of each of these values."""

    def draw(random: np.random.Generator) -> Array:
        values = random.uniform(0, N, N)
        for stray in strays:
            values[random.integers(0, N, N // 100)] = stray
        return values

    return draw


def one_outlier(random: np.random.Generator) -> Array:
    values = random.uniform(0, N, N)
    values[N // 2] = 1e300
    return values


def clustered(random: np.random.Generator) -> Array:
    return random.integers(0, 10**9, 20)[random.integers(0, 20, N)] + random.normal(0, 100, N)


def skewed(random: np.random.Generator, side: str) -> Columns:
    """One key has a tenth of the rows."""
    keys = np.where(random.random(N) < 0.1, 0, random.integers(1, N, N))
    return {"k": keys, "x": random.uniform(0, N, N), "y": random.uniform(0, N, N)}


def three(random: np.random.Generator, side: str) -> Columns:
    """Columns of which each one holds for few pairs, and all three for some 6 partners."""
    shift = 1 - (8 * 6 / N) ** (1 / 6) if side == "s" else 0.0
    return {name: random.random(N) + shift for name in "abc"}


def wide(random: np.random.Generator, side: str) -> Columns:
    """An inequality that holds for half of all pairs, beside columns that hold for few."""
    return {"a": random.random(N), "k": random.integers(0, N // 6, N), "x": random.uniform(0, N, N)}


def intervals(random: np.random.Generator, side: str) -> Columns:
    start = random.integers(0, 10 * N, N)
    return {"a": start, "b": start + np.minimum(5 * random.pareto(1.0, N), 10 * N).astype(np.int64)}


def overlap(r: Columns, s: Columns) -> Array:
    return (r["a"] <= s["b"]) & (s["a"] <= r["b"])


SHAPES = [
    Shape("zipf", on_column(lambda g: g.zipf(1.3, N).clip(0, 10**9).astype(float)), BANDS, bands),
    Shape("clustered", on_column(clustered), BANDS, bands),
    Shape("few values", on_column(lambda g: g.integers(0, 5, N) * 10.0), BANDS, bands),
    Shape("one outlier", on_column(one_outlier), BANDS, bands),
    Shape("nan", on_column(with_strays(math.nan)), BANDS, bands),
    Shape("infinities", on_column(with_strays(math.inf, -math.inf)), BANDS, bands),
    Shape("all equal", on_column(lambda g: np.zeros(N)), BANDS, bands),
    Shape(
        "three inequalities",
        three,
        "r.a > s.a AND r.b > s.b AND r.c > s.c",
        lambda r, s: (r["a"] > s["a"]) & (r["b"] > s["b"]) & (r["c"] > s["c"]),
    ),
    Shape(
        "inequality and equality",
        wide,
        "r.a < s.a AND r.k = s.k",
        lambda r, s: (r["a"] < s["a"]) & (r["k"] == s["k"]),
    ),
    Shape(
        "inequality and band",
        wide,
        "r.a < s.a AND abs(r.x - s.x) <= 3",
        lambda r, s: (r["a"] < s["a"]) & (np.abs(r["x"] - s["x"]) <= 3),
    ),
    Shape("inequality and window", wide, "r.a < s.a", lambda r, s: r["a"] < s["a"], 6),
    Shape("skew and window", skewed, "r.k = s.k", lambda r, s: r["k"] == s["k"], 20),
    Shape(
        "skew and band", skewed, f"r.k = s.k AND {BANDS}", lambda r, s: (r["k"] == s["k"]) & bands(r, s)
    ),
    Shape(
        "skew, band and window",
        skewed,
        "r.k = s.k AND abs(r.x - s.x) <= 500",
        lambda r, s: (r["k"] == s["k"]) & (np.abs(r["x"] - s["x"]) <= 500),
        500,
    ),
    Shape("long-tailed overlap", intervals, "r.a <= s.b AND s.a <= r.b", overlap),
    Shape("long-tailed overlap and window", intervals, "r.a <= s.b AND s.a <= r.b", overlap, 2_000),
]  # fmt: skip


def joined(r: pa.Table, s: pa.Table, on: str, within: int, time: Any, workers: int) -> tuple[Array, int]:
    """The pairs of row numbers, sorted, as one number each; and how many comparisons they took."""
    numbered = [table.append_column(name, [np.arange(N)]) for table, name in ((r, "rid"), (s, "sid"))]
    stats: dict[str, Any] = {}
    out = sj.join(*numbered, on=on, within=within, time=time, workers=workers, stats=stats)
    return np.sort(out["rid"].to_numpy() * N + out["sid"].to_numpy()), stats["comparisons"]


def bound(results: int) -> float:
    return FACTOR * (2 * N * math.log2(2 * N) + results)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_shape_is_not_searched_pair_by_pair(shape: Shape, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "SMALL", 0)
    sides = {}
    for seed, side in enumerate("rs"):
        random = np.random.default_rng(seed)
        sides[side] = {"t": random.permutation(N), **shape.make(random, side)}
    tables = pa.table(sides["r"]), pa.table(sides["s"])
    got, comparisons = joined(*tables, shape.on, shape.within, "t", workers=1)
    assert comparisons <= bound(len(got))
    by_two, comparisons = joined(*tables, shape.on, shape.within, "t", workers=2)
    assert comparisons <= bound(len(got))
    assert np.array_equal(got, by_two)
    s = sides["s"]
    judged = got[got // N // BLOCK % EVERY == 0]
    expected = []
    for first in range(0, N, BLOCK * EVERY):
        r = {name: column[first : first + BLOCK, None] for name, column in sides["r"].items()}
        i, j = np.nonzero((np.abs(s["t"] - r["t"]) <= shape.within) & shape.holds(r, s))
        expected.append((first + i) * N + j)
    assert np.array_equal(judged, np.concatenate(expected))


@pytest.mark.parametrize("name", JOBS)
def test_a_job_of_the_benchmark_is_not_searched_pair_by_pair(name: str) -> None:
    job = JOBS[name]
    inputs = job.inputs(N)
    got, comparisons = joined(inputs.r, inputs.s, job.on, inputs.within, ("t", "u"), 2)
    assert comparisons <= bound(len(got))


@pytest.mark.parametrize("name", JOBS)
def test_no_task_of_a_job_has_much_more_than_its_share(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither where a key has many rows nor where few rows have all the partners."""
    monkeypatch.setattr(tasks, "WORTH", 1)
    monkeypatch.setattr(joining, "SMALL", 0)
    job, stats = JOBS[name], dict[str, Any]()
    inputs = job.inputs(N)
    sj.join(inputs.r, inputs.s, on=job.on, within=inputs.within, time=("t", "u"), workers=2, stats=stats)
    assert stats["tasks"] >= 24
    assert stats["largest_task"] <= 2.5 * stats["comparisons"] / stats["tasks"]
