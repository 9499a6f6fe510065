"""sj.join of whole tables against Spark SQL and DuckDB, given the same predicate and the window in SQL."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

import streamjoin as sj

N = 300
START = 1_704_067_200_000_000  # 2024-01-01 in microseconds


def make(side: str, seed: int) -> pa.Table:
    rng = Random(seed)

    def some(f: Any) -> list[Any]:
        return [None if rng.random() < 0.05 else f() for _ in range(N)]

    floats = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0]
    return pa.table(
        {
            f"{side}id": pa.array(range(N), pa.int64()),
            "n": pa.array([rng.randint(0, 500) for _ in range(N)], pa.int64()),
            "ts": pa.array([START + rng.randint(0, 600_000_000) for _ in range(N)], pa.timestamp("us", "UTC")),
            "k": pa.array(some(lambda: rng.randint(0, 9)), pa.int32()),
            "x": pa.array(some(lambda: rng.randint(1, 200)), pa.int32()),
            "y": pa.array(
                some(lambda: rng.choice(floats) if rng.random() < 0.05 else rng.randint(1, 400) / 10),
                pa.float64(),
            ),
            "z": pa.array(some(lambda: rng.randint(1, 400) / 10), pa.float32()),
            "nm": pa.array(some(lambda: rng.choice("abcdef")), pa.string()),
        }
    )


LEFT, RIGHT = make("r", 1), make("s", 2)
EVENT = "ts"

# name, predicate, the package's window, time column, the window in SQL, whether DuckDB means the same
QUESTIONS: list[tuple[str, str, Any, str, str, bool]] = [
    ("band", "r.x BETWEEN s.x - 10 AND s.x + 10", 50, "n", "s.n - r.n BETWEEN -50 AND 50", True),
    (
        "band_2d",
        "abs(r.x - s.x) <= 10 AND r.y BETWEEN s.y - 1 AND s.y + 1",
        "2 minutes",
        EVENT,
        "s.ts BETWEEN r.ts - INTERVAL '120' SECOND AND r.ts + INTERVAL '120' SECOND",
        True,
    ),
    ("float32", "r.z BETWEEN s.z - 10 AND s.z + 10", 100, "n", "s.n - r.n BETWEEN -100 AND 100", False),
    ("float32_decimal", "r.z BETWEEN s.z - 0.1 AND s.z + 0.1", 500, "n", "true", False),
    ("equality", "r.k = s.k", ("interval", -30, 10), "n", "s.n - r.n BETWEEN -30 AND 10", True),
    (
        "equality_band",
        "r.nm = s.nm AND r.y >= s.y - 0.5D AND r.y < s.y + 2.5D",
        200,
        "n",
        "abs(s.n - r.n) <= 200",
        False,
    ),
    (
        "one_sided",
        "r.x <= s.x AND r.k <> s.k",
        ("interval", "1 second", "30 seconds", "left"),
        EVENT,
        "s.ts >= r.ts + INTERVAL '1' SECOND AND s.ts < r.ts + INTERVAL '30' SECOND",
        True,
    ),
    ("opaque", "(r.x * s.x) % 7 = 3", 40, "n", "abs(s.n - r.n) <= 40", True),
    ("either", "r.k = s.k OR r.x > s.x + 150", 40, "n", "abs(s.n - r.n) <= 40", True),
    ("nulls", "r.k IS NULL OR (s.x IS NULL AND NOT (r.x < 50))", 40, "n", "abs(s.n - r.n) <= 40", True),
    ("division", "r.x / s.x > 1.5D AND r.x % 3 = s.x % 3", 40, "n", "abs(s.n - r.n) <= 40", False),
    (
        "case",
        "CASE WHEN r.k < 5 THEN r.x ELSE r.k END BETWEEN s.x - 3 AND s.x + 3",
        90,
        "n",
        "abs(s.n - r.n) <= 90",
        True,
    ),
    (
        "least",
        "greatest(r.x, s.x) - least(r.x, s.x) <= 5 AND r.k IN (1, 2, 3)",
        90,
        "n",
        "abs(s.n - r.n) <= 90",
        True,
    ),
    ("tumbling", "r.x > s.x", ("tumbling", 25), "n", "floor(r.n / 25) = floor(s.n / 25)", True),
    (
        "timestamps",
        "r.ts - s.ts BETWEEN INTERVAL '5' SECOND AND INTERVAL '10' SECOND",
        500,
        "n",
        "true",
        False,
    ),
]


def window(spec: Any) -> Any:
    if not isinstance(spec, tuple):
        return spec
    if spec[0] == "tumbling":
        return sj.tumbling(spec[1])
    return sj.interval(spec[1], spec[2], closed=spec[3] if len(spec) > 3 else "both")


def ours(question: tuple[str, str, Any, str, str, bool]) -> list[tuple[int, int]]:
    _, on, within, time, _, _ = question
    out = sj.join(LEFT, RIGHT, on=on, within=window(within), time=time)
    return sorted(zip(out["rid"].to_pylist(), out["sid"].to_pylist(), strict=True))


def test_spark_agrees(spark: Any) -> None:
    """One query for all questions: Spark's start-up costs more than its work."""
    joined = spark.createDataFrame(LEFT).alias("r").crossJoin(spark.createDataFrame(RIGHT).alias("s"))
    flags = [f"coalesce(({on}) AND ({sql}), false) AS c_{name}" for name, on, _, _, sql, _ in QUESTIONS]
    answer = joined.selectExpr("r.rid", "s.sid", *flags).toArrow()
    for question in QUESTIONS:
        hits = answer.filter(answer[f"c_{question[0]}"])
        want = sorted(zip(hits["rid"].to_pylist(), hits["sid"].to_pylist(), strict=True))
        assert want, f"{question[0]}: no pair, the question is idle"
        assert ours(question) == want, question[0]


@pytest.mark.parametrize("question", [q for q in QUESTIONS if q[5]], ids=lambda q: q[0])
def test_duckdb_agrees(question: tuple[str, str, Any, str, str, bool]) -> None:
    import duckdb

    name, on, _, _, sql, _ = question
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        db.register("tr", LEFT)
        db.register("tss", RIGHT)
        rows = db.sql(f"SELECT r.rid, s.sid FROM tr r, tss s WHERE ({on}) AND ({sql})").fetchall()
    assert ours(question) == sorted(rows), name
