"""Streams from folders on Spark: rows as Parquet files, one per micro-batch, and a folder of results."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from streamjoin.testing import cases, oracle
from streamjoin.testing.rows import to_table

EPOCH = dt.datetime.fromtimestamp(13 * 120_000_000, dt.UTC)  # where slices of 13 seconds begin
R, S = cases.schemas(pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC"))


def timed(rows: list[oracle.Row]) -> list[oracle.Row]:
    """Integer times as seconds after an epoch of ours."""
    return [{**row, "t": EPOCH + dt.timedelta(seconds=row["t"])} for row in rows]


def seconds(window: Any) -> Any:
    return cases.within(window, "seconds")


class Folders:
    """Two folders of Parquet files that are read as streams, one file per micro-batch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = 0
        for name in ("r", "s", "chunks"):
            (folder / name).mkdir(parents=True)

    def add(self, r: list[oracle.Row], s: list[oracle.Row]) -> None:
        for side, rows, schema in (("r", r, R), ("s", s, S)):
            target = self.folder / side / f"{self.files:05}.parquet"
            pq.write_table(to_table(timed(rows), schema), target.with_suffix(".part"))
            target.with_suffix(".part").rename(target)
        self.files += 1


class Feed(Folders):
    """The folders as streams of a session, and a folder of results."""

    def __init__(self, spark: Any, folder: Path) -> None:
        super().__init__(folder)
        self.spark = spark

    def read(self, side: str, delay: str = "6 seconds") -> Any:
        schema = self.spark.read.parquet(str(self.folder / side)).schema
        stream = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return stream.parquet(str(self.folder / side)).withWatermark("t", delay)

    def run(self, frame: Any, name: str = "out", **options: Any) -> Any:
        query = (
            frame.writeStream.format("parquet")
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(self.folder / name))
        )
        query.awaitTermination(300)
        return query

    def pairs(self, name: str = "out") -> list[tuple[int, int]]:
        rows = self.spark.read.parquet(str(self.folder / name)).select("rid", "sid").collect()
        return sorted((row.rid, row.sid) for row in rows)
