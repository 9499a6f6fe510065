"""What streamjoin is measured against: DuckDB and Polars in their best phrasing, and C by hand."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from streamjoin.errors import StreamjoinError
from streamjoin.papers import HALF_WIDTH, Array

SOURCE = Path(__file__).parents[3] / "benchmarks" / "scan.c"
ROUNDS = 5


def reference_scan(r: tuple[Array, Array, Array], s: tuple[Array, Array, Array], pairs: int) -> float | None:
    """Comparisons per second of the C scan, or None if it cannot be built here."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or not SOURCE.exists():
        return None
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "scan.so"
        command = [compiler, "-O3", "-march=native", "-shared", "-fPIC", "-o", str(library), str(SOURCE)]
        if subprocess.run(command, capture_output=True).returncode:
            return None
        function = ctypes.CDLL(str(library)).band_scan
    function.restype = ctypes.c_int64
    columns = [np.ascontiguousarray(column, np.float32) for column in (r[1], r[2], s[1], s[2])]
    out = np.empty((2, max(2 * pairs, 1 << 20)), np.int64)
    pointers = [column.ctypes.data_as(ctypes.POINTER(ctypes.c_float)) for column in columns]
    target = out.ctypes.data_as(ctypes.POINTER(ctypes.c_int64))
    sizes = ctypes.c_int64(len(columns[0])), ctypes.c_int64(len(columns[2])), ctypes.c_int64(out.shape[1])
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        found = function(*pointers, ctypes.c_float(HALF_WIDTH), *sizes, target)
        best = min(best, time.perf_counter() - start)
    if abs(found - pairs) > max(4, pairs // 100):  # it computes in single precision throughout
        raise StreamjoinError(f"the C reference found {found} pairs, the scan {pairs}")
    return len(columns[0]) * len(columns[2]) / best


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
