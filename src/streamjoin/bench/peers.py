"""The papers' band join over whole tables in other engines, each phrased as well as its planner allows.

A plain band join makes both compare far too many pairs. The best rewrite known for them is an equality on buckets of
20 x 20, wide enough that partners lie in the same or a neighbouring bucket, with s repeated for its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

BUCKET = 20
Peer = Callable[[pa.Table, pa.Table, int, int], pa.Table]

_DUCKDB = """
        WITH near AS (
            SELECT *, CAST(floor(a / {bucket}) AS INT) + dx AS bx, CAST(floor(b / {bucket}) AS INT) + dy AS by_
            FROM s, (SELECT unnest([-1, 0, 1]) AS dx), (SELECT unnest([-1, 0, 1]) AS dy))
        SELECT r.ts AS ts_r, r.x, r.y, near.ts AS ts_s, near.a, near.b
        FROM r JOIN near
          ON CAST(floor(r.x / {bucket}) AS INT) = near.bx AND CAST(floor(r.y / {bucket}) AS INT) = near.by_
        WHERE r.x BETWEEN near.a - 10 AND near.a + 10 AND r.y BETWEEN near.b - 10 AND near.b + 10
          AND near.ts BETWEEN r.ts - INTERVAL {seconds} SECOND AND r.ts + INTERVAL {seconds} SECOND
"""


def duckdb_join(r: pa.Table, s: pa.Table, seconds: int, threads: int) -> pa.Table:
    """DuckDB: equality on two bucket columns, neighbours unnested."""
    import duckdb

    with duckdb.connect(config={"threads": threads}) as connection:
        connection.register("r", r)
        connection.register("s", s)
        return connection.sql(_DUCKDB.format(bucket=BUCKET, seconds=seconds)).to_arrow_table()


def polars_join(r: pa.Table, s: pa.Table, seconds: int, threads: int) -> pa.Table:
    """Polars: the same rewrite; it takes its number of threads from the machine."""
    import polars as pl

    left, right = pl.DataFrame(r).lazy(), pl.DataFrame(s).lazy()
    offsets = pl.LazyFrame({"dx": [-1, 0, 1]}).join(pl.LazyFrame({"dy": [-1, 0, 1]}), how="cross")
    bucket = {"bx": (pl.col("x") / BUCKET).floor().cast(pl.Int32), "by": (pl.col("y") / BUCKET).floor().cast(pl.Int32)}
    near = right.join(offsets, how="cross").with_columns(
        bx=(pl.col("a") / BUCKET).floor().cast(pl.Int32) + pl.col("dx").cast(pl.Int32),
        by=(pl.col("b") / BUCKET).floor().cast(pl.Int32) + pl.col("dy").cast(pl.Int32),
    )
    length = pl.duration(seconds=seconds)
    return (
        left.with_columns(**bucket)
        .join(near, on=["bx", "by"], suffix="_s")
        .filter(
            pl.col("x").is_between(pl.col("a") - 10, pl.col("a") + 10),
            pl.col("y").is_between(pl.col("b") - 10, pl.col("b") + 10),
            (pl.col("ts_s") - pl.col("ts")).is_between(-length, length),
        )
        .select(pl.col("ts").alias("ts_r"), "x", "y", "ts_s", "a", "b")
        .collect()
        .to_arrow()
    )


PEERS: dict[str, Peer] = {"duckdb": duckdb_join, "polars": polars_join}
