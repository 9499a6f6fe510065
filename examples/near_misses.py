"""How often do bicycles and cars come within ten metres of each other? A join, then an aggregation of its result.

    python examples/near_misses.py /tmp/near_misses

Positions arrive as JSON, one object per line. No two of them are equal in anything, so there is nothing for Spark's own
stream-stream join to hold on to. The encounters of every minute are counted downstream of the join, by the watermark
that the column named by `result_time` carries on.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import streamjoin as sj

POSITION = "ts TIMESTAMP, id BIGINT, x DOUBLE, y DOUBLE, speed DOUBLE"
START = np.datetime64("2026-03-01T08:00:00", "us")


def make_files(folder: Path, rows: int = 1_500) -> None:
    """Positions in a square of 500 m, five a second."""
    for seed, name in enumerate(("bicycles", "cars")):
        (folder / name).mkdir(parents=True, exist_ok=True)
        random = np.random.default_rng(seed)
        times = START + np.arange(rows) * np.timedelta64(200, "ms")
        x, y, speed = (random.uniform(0, high, rows).round(2) for high in (500, 500, 15))
        columns = zip(times, range(rows), x, y, speed, strict=True)
        lines = [
            json.dumps({"ts": f"{ts}Z", "id": number, "x": east, "y": north, "speed": pace})
            for ts, number, east, north, pace in columns
        ]
        (folder / name / "positions.json").write_text("\n".join(lines) + "\n")


def run(spark: Any, folder: Path) -> list[tuple[Any, int]]:
    """The minutes that are over and their encounters."""
    bicycles, cars = (
        spark.readStream.schema(POSITION).json(str(folder / name)).withWatermark("ts", "5 seconds")
        for name in ("bicycles", "cars")
    )
    r, s = sj.r, sj.s
    dx, dy = r.x - s.x, r.y - s.y
    close = (dx >= -10) & (dx <= 10) & (dy >= -10) & (dy <= 10) & (dx * dx + dy * dy <= 100) & (s.speed > 5)
    encounters = sj.join(bicycles, cars, on=close, within="3 seconds", time="ts", result_time="at")
    from pyspark.sql import functions as F

    per_minute = encounters.groupBy(F.window("at", "1 minute")).agg(F.count("*").alias("encounters"))
    query = (
        per_minute.selectExpr("window.start AS minute", "encounters")
        .writeStream.format("parquet")
        .option("path", str(folder / "encounters"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    rows = spark.read.parquet(str(folder / "encounters")).orderBy("minute").collect()
    return [(row["minute"], row["encounters"]) for row in rows]


if __name__ == "__main__":
    import os

    from pyspark.sql import SparkSession

    from streamjoin.java import java_home
    from streamjoin.spark.settings import recommended

    os.environ.setdefault("JAVA_HOME", java_home() or "")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    place = Path(sys.argv[1] if len(sys.argv) > 1 else "near_misses")
    make_files(place)
    session = SparkSession.builder.master("local[*]").config(map=recommended()).getOrCreate()
    for minute, count in run(session, place):
        print(f"{minute}  {count:>5,}")
    session.stop()
