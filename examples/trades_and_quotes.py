"""Which quotes stood near a trade's price around its time? Two folders of Parquet in, one out, exactly once.

    python examples/trades_and_quotes.py /tmp/trades_and_quotes

New files in the folders `trades` and `quotes` are joined as they come. The first run makes some files to begin with;
every later run resumes from the checkpoint and makes a few more. Nothing is missed and nothing is joined twice, however
a run ended.
"""

from __future__ import annotations

import sys
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import streamjoin as sj

TRADES = "ts TIMESTAMP, trade BIGINT, symbol STRING, price DOUBLE, qty INT"
QUOTES = "ts TIMESTAMP, quote BIGINT, symbol STRING, bid DOUBLE, ask DOUBLE, size INT"
START = np.datetime64("2026-01-05T14:30:00", "us")


def make_files(folder: Path, rows: int = 2_000) -> None:
    """One more file of trades and one of quotes: ten a second, from where the last files ended."""
    for name in ("trades", "quotes"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    first = rows * len(list((folder / "trades").glob("*.parquet")))
    random = np.random.default_rng(first)
    number = np.arange(first, first + rows)
    ts = pa.array(START + number * np.timedelta64(100, "ms")).cast(pa.timestamp("us", "UTC"))
    symbols = np.array(["AAA", "BBB", "CCC"])
    price = 100 + np.cumsum(random.normal(0, 0.05, rows))
    bid = price + random.normal(0, 0.5, rows)
    trades = {
        "ts": ts,
        "trade": number,
        "symbol": symbols[random.integers(0, 3, rows)],
        "price": price.round(2),
        "qty": random.integers(1, 500, rows).astype(np.int32),
    }
    quotes = {
        "ts": ts,
        "quote": number,
        "symbol": symbols[random.integers(0, 3, rows)],
        "bid": bid.round(2),
        "ask": (bid + 0.1).round(2),
        "size": random.integers(1, 1_000, rows).astype(np.int32),
    }
    for name, columns in (("trades", trades), ("quotes", quotes)):
        unfinished = folder / f".{uuid.uuid4().hex}"
        pq.write_table(pa.table(columns), unfinished)
        unfinished.rename(folder / name / f"{first:09}.parquet")  # Spark must never see half a file


def run(spark: Any, folder: Path) -> int:
    """Joins all that is there and returns how many rows the output has."""
    trades = spark.readStream.schema(TRADES).parquet(str(folder / "trades")).withWatermark("ts", "10 seconds")
    quotes = spark.readStream.schema(QUOTES).parquet(str(folder / "quotes")).withWatermark("ts", "10 seconds")
    near = sj.join(
        trades,
        quotes,
        on="r.symbol = s.symbol AND r.price BETWEEN s.bid - 0.05 AND s.ask + 0.05 AND r.qty <= s.size",
        within="2 seconds",
        time="ts",
    )
    query = (
        near.writeStream.format("parquet")
        .option("path", str(folder / "near"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)  # leave this line out to keep it running
        .start()
    )
    query.awaitTermination()
    return int(spark.read.parquet(str(folder / "near")).count())


if __name__ == "__main__":
    import os

    from pyspark.sql import SparkSession

    from streamjoin.java import java_home
    from streamjoin.spark.settings import recommended

    os.environ.setdefault("JAVA_HOME", java_home() or "")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    place = Path(sys.argv[1] if len(sys.argv) > 1 else "trades_and_quotes")
    make_files(place)
    session = SparkSession.builder.master("local[*]").config(map=recommended()).getOrCreate()
    print(f"{run(session, place):,} quotes near a trade, in {place / 'near'}")
    session.stop()
