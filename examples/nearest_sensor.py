"""Which sensor's reading was nearest to an event in time? No key, only places and times, on two streams in Spark.

    python examples/nearest_sensor.py /tmp/nearest_sensor

An event takes the nearest reading within 500 ms and ten metres, or null if there is none. It comes out when the
watermark has passed the end of its window: until then a nearer reading may still arrive. The last events of a stream
that ends therefore stay in the state, as in Spark's own outer joins.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import streamjoin as sj

EVENTS = "t TIMESTAMP, event BIGINT, x DOUBLE"
READINGS = "t TIMESTAMP, reading BIGINT, x DOUBLE, value DOUBLE"
START = np.datetime64("2026-05-04T12:00:00", "us")
OPTIONS: dict[str, Any] = {
    "on": "abs(r.x - s.x) <= 10",
    "within": "500 ms",
    "time": "t",
    "take": "nearest",
    "how": "left",
    "select": "r.t, r.event, s.reading, s.value",
}


def make_files(folder: Path, rows: int = 2_000) -> None:
    """Events along a road of 500 m, ten a second, and the readings of its sensors."""
    random = np.random.default_rng(1)
    for name, number in (("events", "event"), ("readings", "reading")):
        (folder / name).mkdir(parents=True, exist_ok=True)
        times = START + np.sort(random.integers(0, rows * 100_000, rows)).astype("timedelta64[us]")
        columns = {
            "t": pa.array(times).cast(pa.timestamp("us", "UTC")),
            number: np.arange(rows),
            "x": random.uniform(0, 500, rows).round(1),
        }
        if name == "readings":
            columns["value"] = random.normal(20, 5, rows).round(1)
        pq.write_table(pa.table(columns), folder / name / "first.parquet")


def run(spark: Any, folder: Path) -> list[Any]:
    """The events that are decided, each with its reading."""
    events = spark.readStream.schema(EVENTS).parquet(str(folder / "events")).withWatermark("t", "1 second")
    readings = spark.readStream.schema(READINGS).parquet(str(folder / "readings")).withWatermark("t", "1 second")
    query = (
        sj.join(events, readings, **OPTIONS)
        .writeStream.format("parquet")
        .option("path", str(folder / "nearest"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)  # leave this line out to keep it running
        .start()
    )
    query.awaitTermination()
    return list(spark.read.parquet(str(folder / "nearest")).orderBy("event").collect())


if __name__ == "__main__":
    import os

    from pyspark.sql import SparkSession

    from streamjoin.java import java_home
    from streamjoin.spark.settings import recommended

    os.environ.setdefault("JAVA_HOME", java_home() or "")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    place = Path(sys.argv[1] if len(sys.argv) > 1 else "nearest_sensor")
    make_files(place)
    session = SparkSession.builder.master("local[*]").config(map=recommended()).getOrCreate()
    found = run(session, place)
    alone = sum(row["reading"] is None for row in found)
    print(f"{len(found):,} events are decided, {alone:,} of them without a reading; in {place / 'nearest'}")
    session.stop()
