"""A driver that joins two folders of Parquet files as streams: python spark_victim.py folder --master local[2].

It takes files as they come until the file `last` appears, finishes what is there, and leaves the pairs that it finds in
its sink in the file `done`. Every micro-batch's figures are a line of its output. With --tables it also joins the same
files as tables. With --kinds it hands out these kinds of joins in one query instead of the pairs.
"""

from __future__ import annotations

import argparse
import json
from functools import reduce
from pathlib import Path
from typing import Any

ON = "abs(r.x - s.a) <= 3 AND r.y BETWEEN s.b - 0.3D AND s.b + 0.3D"
WITHIN = 120  # seconds
COLUMNS = ["kind", "rid", "sid", "n", "total"]
KINDS: dict[str, dict[str, Any]] = {
    "left": {"how": "left", "select": "r.rid, s.sid"},
    "anti": {"how": "anti", "select": "r.rid"},
    "take": {"how": "left", "take": "max_by(s.sid, 2)", "select": "r.rid, s.sid"},
    "aggregate": {"aggregate": {"n": "count(*)", "total": "sum(s.sid)"}, "select": "r.rid"},
}


def of_kinds(names: list[str], frames: list[Any], options: dict[str, Any]) -> Any:
    """Several kinds in one query, each with a column that says which it is."""
    import streamjoin as sj

    found = []
    for name in names:
        out = sj.join(*frames, **options, **KINDS[name])
        asked = [column if column in out.columns else f"CAST(NULL AS BIGINT) AS {column}" for column in COLUMNS[1:]]
        found.append(out.selectExpr(f"'{name}' AS kind", *asked))
    return reduce(lambda one, other: one.unionAll(other), found)


def main(folder: Path, spark: Any, tables: bool, kinds: list[str]) -> None:
    import streamjoin as sj
    from streamjoin.spark.metrics import JoinListener

    spark.streams.addListener(JoinListener(lambda figures: print(json.dumps(figures), flush=True)))
    options: dict[str, Any] = {"on": ON, "within": f"{WITHIN} seconds", "time": "t"}
    static = [spark.read.parquet(str(folder / side)) for side in "rs"]
    streams = [
        spark.readStream.schema(table.schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / side))
        .withWatermark("t", "6 seconds")
        for side, table in zip("rs", static, strict=True)
    ]
    joined = of_kinds(kinds, streams, options) if kinds else sj.join(*streams, **options)
    writer = joined.writeStream.format("parquet")
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start(str(folder / "out"))
    while not (folder / "last").exists():
        query.awaitTermination(0.2)
    query.processAllAvailable()
    query.stop()
    found = {"out": spark.read.parquet(str(folder / "out"))}
    if tables:
        found["tables"] = sj.join(*(spark.read.parquet(str(folder / side)) for side in "rs"), **options)
    columns = COLUMNS if kinds else ["rid", "sid"]
    rows = {name: [tuple(row) for row in frame.select(columns).collect()] for name, frame in found.items()}
    (folder / "part").write_text(json.dumps(rows))
    (folder / "part").rename(folder / "done")
    spark.stop()  # behind Connect there is a server that would go on


def session(master: str, remote: str | None) -> Any:
    from pyspark.sql import SparkSession

    from sessions import SETTINGS, prepare
    from streamjoin.spark.settings import recommended

    prepare()
    builder = SparkSession.builder
    builder = builder.remote(remote) if remote else builder.master(master)
    own = {
        "spark.deploy.maxExecutorRetries": "-1",
        "spark.task.maxFailures": "20",
        "spark.shuffle.io.retryWait": "200ms",
    }
    return builder.config(map=SETTINGS | own | recommended(cores=2)).getOrCreate()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--remote")
    parser.add_argument("--tables", action="store_true")
    parser.add_argument("--kinds", type=lambda words: words.split(","), default=[], help="names in KINDS, with commas")
    asked = parser.parse_args()
    main(asked.folder, session(asked.master, asked.remote), asked.tables, asked.kinds)
