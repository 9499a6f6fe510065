"""The one call that joins whatever it is given."""

from __future__ import annotations

import sys
from typing import Any

from streamjoin.errors import OptionError, SchemaError

ELSEWHERE = {
    "algorithm": "its cells divide the work; cells= sets their number",
    "workers": "cells= sets how far the work is divided",
    "layout": "cells= and split= shape the routing",
    "device": "its cells run on the executors' cores",
    "memory": "its state lies in Spark's state store",
    "ordered": "use orderBy on tables; a stream has no order",
    "stats": "see the observed metrics in lastProgress, or streamjoin.spark.metrics.JoinListener",
}


def join(
    left: Any,
    right: Any,
    *,
    on: Any,
    within: Any,
    time: Any = None,
    how: str = "inner",
    algorithm: str = "auto",
    access: str = "auto",
    workers: int | str = "auto",
    layout: Any = "auto",
    device: int | str | None = None,
    memory: str = "auto",
    ordered: bool = False,
    suffixes: Any = ("_r", "_s"),
    stats: dict[str, Any] | None = None,
    **spark: Any,
) -> Any:
    """Joins two tables under a predicate and within a window; the result is a table of the same kind.

    left, right   Arrow tables or record batches, pandas, Polars or Spark DataFrames: r and s in the predicate;
                  streaming Spark DataFrames give a streaming one
    on            the predicate: SQL text, an expression of streamjoin.r and streamjoin.s, or a function of two tuples
    within        the window: "15 minutes", an integer, interval(), last() or tumbling()
    time          the time column, or one of each side
    algorithm     "auto": the tables as a whole, on one core; a parallel algorithm ("cell", "biclique", "handshake",
                  "low_latency", "grid") with so many workers takes their rows as a stream, as does "hells", on an
                  OpenCL device (`device`, `memory`: see Join)
    ordered       results by time, which is the later one of the pair's two
    suffixes      for column names that both sides have; None makes them an error
    stats         a dict to be filled with what was done: algorithm, access, comparisons

    Spark DataFrames take `on`, `within`, `time`, `how`, `access` and `suffixes` from here, and the options of
    `streamjoin.spark.join` besides: cells, split, bucket, expected_rate, result_time.

    >>> import pyarrow as pa, streamjoin as sj
    >>> trades = pa.table({"ts": [1, 2, 30], "price": [10.0, 20.0, 10.2]})
    >>> quotes = pa.table({"ts": [3, 4], "bid": [9.9, 19.0], "ask": [10.1, 21.0]})
    >>> sj.join(trades, quotes, on="r.price BETWEEN s.bid AND s.ask", within=10, time="ts", ordered=True).to_pylist()
    [{'ts_r': 1, 'price': 10.0, 'ts_s': 3, 'bid': 9.9, 'ask': 10.1}, \
{'ts_r': 2, 'price': 20.0, 'ts_s': 4, 'bid': 19.0, 'ask': 21.0}]
    """
    if _on_spark(left, right):
        own = (algorithm, workers, layout, device, memory, ordered, stats)
        usually = ("auto", "auto", "auto", None, "auto", False, None)
        for name, value, usual in zip(ELSEWHERE, own, usually, strict=True):
            if value != usual:
                raise OptionError(f"{name}={value!r} is not for Spark DataFrames; {ELSEWHERE[name]}")
        from streamjoin import spark as engine

        return engine.join(
            left, right, on=on, within=within, time=time, how=how, access=access, suffixes=suffixes, **spark
        )
    if spark:
        raise OptionError(f"{next(iter(spark))}= is for Spark DataFrames only; left is a {type(left).__name__}")
    from streamjoin.tables.whole import join_tables

    return join_tables(
        left,
        right,
        on=on,
        within=within,
        time=time,
        how=how,
        algorithm=algorithm,
        access=access,
        workers=workers,
        layout=layout,
        device=device,
        memory=memory,
        ordered=ordered,
        suffixes=suffixes,
        stats=stats,
    )


def explain(left: Any, right: Any, **options: Any) -> Any:
    """Which keys were found, how the work is done, and why. Takes tables, schemas or Spark DataFrames; reads no rows.

    The options are those of `join`, and `rate`, the expected tuples per second; see `streamjoin.plan.explain`. Of
    Spark DataFrames it shows the routing, the copies per tuple, the cells and, given expected_rate=, the state.

    >>> import pyarrow as pa, streamjoin as sj
    >>> r = pa.schema({"ts": pa.int64(), "x": pa.int32()})
    >>> s = pa.schema({"ts": pa.int64(), "a": pa.int32()})
    >>> sj.explain(r, s, on="abs(r.x - s.a) <= 10", within=60, time="ts").to_dict()["access"]
    'band'
    """
    if _on_spark(left, right):
        from streamjoin.spark.explain import explain_frames

        return explain_frames(left, right, **options)
    import pyarrow as pa

    from streamjoin.intake.frames import to_arrow
    from streamjoin.plan.explain import explain as explain_schemas

    named = (("left", left), ("right", right))
    schemas = [data if isinstance(data, pa.Schema) else to_arrow(data, what).schema for what, data in named]
    static = any(schema is not data for schema, (_, data) in zip(schemas, named, strict=True))
    return explain_schemas(*schemas, static=static, **options)


def _on_spark(left: Any, right: Any) -> bool:
    """Are both Spark DataFrames? They can only be so if somebody has imported PySpark."""
    if "pyspark" not in sys.modules:
        return False
    found = [type(data).__module__.startswith("pyspark.sql") for data in (left, right)]
    if found[0] != found[1]:
        raise SchemaError(
            f"left is a {type(left).__module__}.{type(left).__name__}, right a {type(right).__module__}."
            f"{type(right).__name__}; make both Spark DataFrames (spark.createDataFrame), or neither"
        )
    return found[0]
