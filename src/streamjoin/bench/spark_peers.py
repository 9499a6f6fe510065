"""Spark's own joins of the same two streams or tables, rewritten by hand as an expert would do it.

Spark refuses a stream-stream join without an equality. Three rewrites give it one:

    grid        an r goes to one cell, an s to all of them: any predicate, every pair is compared
    bucket 1-D  the band on x as an equality of buckets of 10, s repeated for the three that its band touches
    bucket 2-D  the same on x and y with buckets of 20, s repeated for the two that it touches in each dimension
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from streamjoin.papers import BAND, HALF_WIDTH

NARROW, WIDE = 10, 20


def grid(r: Any, s: Any, on: str, seconds: int, labels: list[int]) -> Any:
    """Any predicate: s is copied into as many cells as there are labels, one for each core."""
    from pyspark.sql import functions as F

    choice = F.element_at(F.array(*map(F.lit, labels)), F.pmod(F.hash("n"), F.lit(len(labels))) + 1)
    left = r.withColumn("cell", choice)
    right = s.withColumn("cell", F.explode(F.array(*map(F.lit, labels))))
    return _joined(left, right, ["cell"], on, seconds)


def bucket_1d(r: Any, s: Any, seconds: int) -> Any:
    left = r.withColumn("bx", _bucket("x", NARROW))
    right = s.withColumn("bx", _touched("a", NARROW))
    return _joined(left, right, ["bx"], BAND, seconds)


def bucket_2d(r: Any, s: Any, seconds: int) -> Any:
    left = r.withColumn("bx", _bucket("x", WIDE)).withColumn("by", _bucket("y", WIDE))
    right = s.withColumn("bx", _touched("a", WIDE)).withColumn("by", _touched("b", WIDE))
    return _joined(left, right, ["bx", "by"], BAND, seconds)


def left_outer(r: Any, s: Any, on: str, seconds: int) -> Any:
    """With an equality Spark has an outer join of its own."""
    return _joined(r, s, [], on, seconds, "leftOuter")


def labels_of(spark: Any, partitions: int) -> list[int]:
    """A cell for each shuffle partition: integers that Spark's hash sends to different ones."""
    rows = spark.range(1_000).selectExpr("CAST(id AS INT) AS id", f"pmod(hash(CAST(id AS INT)), {partitions}) AS p")
    found: dict[int, int] = {}
    for row in rows.collect():
        found.setdefault(row["p"], row["id"])
    return [found[partition] for partition in range(partitions)]


def _bucket(column: str, width: int) -> Any:
    from pyspark.sql import functions as F

    return F.floor(F.col(column) / width).cast("int")


def _touched(column: str, width: int) -> Any:
    from pyspark.sql import functions as F

    low, high = (F.floor((F.col(column) + offset) / width).cast("int") for offset in (-HALF_WIDTH, HALF_WIDTH))
    return F.explode(F.sequence(low, high))


def _joined(left: Any, right: Any, keys: list[str], on: str, seconds: int, how: str = "inner") -> Any:
    from pyspark.sql import functions as F

    equal = [f"r.{key} = s.{key}" for key in keys]
    near = f"s.ts BETWEEN r.ts - INTERVAL {seconds} SECONDS AND r.ts + INTERVAL {seconds} SECONDS"
    joined = left.alias("r").join(right.alias("s"), F.expr(" AND ".join([*equal, on, near])), how)
    return joined.select("r.n", "s.m")


class Nothing(StatefulProcessor):
    """Counts rows."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "n BIGINT")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        seen = self._count.get()
        self._count.update(((seen[0] if seen else 0) + sum(1 for _ in rows),))
        return iter(())

    def close(self) -> None:
        pass
