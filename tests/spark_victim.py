"""A driver that joins two folders of Parquet files as streams until it is killed: python spark_victim.py folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ON = "abs(r.x - s.a) <= 3 AND r.y BETWEEN s.b - 0.3 AND s.b + 0.3"


def main(folder: Path) -> None:
    from streamjoin.java import java_home

    home = java_home()
    if home:
        os.environ["JAVA_HOME"] = home
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    import streamjoin as sj
    from streamjoin.spark.settings import recommended

    spark = (
        SparkSession.builder.master("local[2, 4]")  # a task may fail and be tried again
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config(map=recommended(cores=2))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    sides = []
    for side in "rs":
        schema = spark.read.parquet(str(folder / side)).schema
        stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / side))
        sides.append(stream.withWatermark("t", "6 seconds"))
    out = sj.join(*sides, on=ON, within="9 seconds", time="t")
    query = (
        out.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "out"))
    )
    query.awaitTermination()
    (folder / "done").touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
