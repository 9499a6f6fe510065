"""The one call that joins whatever it is given."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from streamjoin.errors import OptionError, SchemaError
from streamjoin.keywords import takes
from streamjoin.options import LIVE, TABLES, Options

if TYPE_CHECKING:
    from streamjoin.plan.explain import Explanation


@takes(Options)
def join(left: Any, right: Any, options: Options) -> Any:
    """Joins two tables under a predicate and within a window; the result is a table of the same kind.

    left, right   Arrow tables or record batches, pandas, Polars or Spark DataFrames: r and s in the predicate; Polars
                  LazyFrames are collected first and give a LazyFrame, streaming Spark DataFrames a streaming one, and
                  whatever else hands out an Arrow stream (a DuckDB relation, a RecordBatchReader) an Arrow table
    {options}

    >>> import pyarrow as pa, streamjoin as sj
    >>> trades = pa.table({"ts": [1, 2, 30], "price": [10.0, 20.0, 10.2]})
    >>> quotes = pa.table({"ts": [3, 4], "bid": [9.9, 19.0], "ask": [10.1, 21.0]})
    >>> sj.join(trades, quotes, on="r.price BETWEEN s.bid AND s.ask", within=10, time="ts", ordered=True).to_pylist()
    [{'ts_r': 1, 'price': 10.0, 'ts_s': 3, 'bid': 9.9, 'ask': 10.1}, \
{'ts_r': 2, 'price': 20.0, 'ts_s': 4, 'bid': 19.0, 'ask': 21.0}]
    """
    if options.analyze:
        raise OptionError("analyze=True is for explain(); stats={} collects what a join measures")
    if _on_spark(left, right):
        from streamjoin.spark.dataframes import join_frames

        return join_frames(left, right, options)
    from streamjoin.intake.frames import eager, is_lazy
    from streamjoin.tables.join import join_tables

    joined = join_tables(eager(left), eager(right), options)
    return joined.lazy() if is_lazy(left) and is_lazy(right) else joined


@takes(Options)
def explain(left: Any, right: Any, options: Options) -> Explanation:
    """Which keys were found, how the work is done, and why. Takes tables, schemas or Spark DataFrames.

    Of tables it reads the rows, to tell the shape of the join and estimates; with `analyze=True` it runs the join, and
    tells what it measured. Of all others it reads none.

    The options are those of `join`, and `rate`, the expected tuples per second. Of Spark DataFrames it shows the
    routing, the copies per tuple, the cells and, given a rate, the state.

    >>> import pyarrow as pa, streamjoin as sj
    >>> r = pa.schema({"ts": pa.int64(), "x": pa.int32()})
    >>> s = pa.schema({"ts": pa.int64(), "a": pa.int32()})
    >>> sj.explain(r, s, on="abs(r.x - s.a) <= 10", within=60, time="ts").to_dict()["access"]
    'band'
    """
    if _on_spark(left, right):
        from streamjoin.spark.dataframes import plan_frames

        return plan_frames(left, right, options).explanation()
    import pyarrow as pa

    from streamjoin.intake.frames import eager, is_foreign_frame, is_lazy, to_arrow
    from streamjoin.plan.explain import explain as explain_schemas

    named = (("left", left), ("right", right))
    schemas = [
        data if isinstance(data, pa.Schema) else to_arrow(eager(data, rows=False), what).schema for what, data in named
    ]
    static = any(schema is not data for schema, (_, data) in zip(schemas, named, strict=True))
    if options.analyze:
        options.for_engine(TABLES if static else LIVE)
    known = replace(options, analyze=False)
    found = explain_schemas(schemas[0], schemas[1], known.for_engine(LIVE), static, _device)
    there = [isinstance(data, (pa.Table, pa.RecordBatch)) or is_foreign_frame(data) for _, data in named]
    if options.analyze or all(there):
        found = _with_rows(found, eager(left), eager(right), options)
    lazy = [
        f"{what} is a {type(data).__name__}: it is collected before the join" for what, data in named if is_lazy(data)
    ]
    return replace(found, reasons=(*found.reasons, *lazy))


def _with_rows(found: Explanation, left: Any, right: Any, options: Options) -> Explanation:
    """What the rows of two tables tell."""
    from streamjoin.intake.frames import to_arrow
    from streamjoin.tables.explain import with_estimates, with_measurements

    found = with_estimates(found, to_arrow(left, "left"), to_arrow(right, "right"), options.ordered)
    return with_measurements(found, left, right, options) if options.analyze else found


def _device(wanted: int | str | None) -> dict[str, Any]:
    """The device that `device=` means."""
    from streamjoin.device.devices import choose, describe

    return describe(choose(wanted))


def _on_spark(left: Any, right: Any) -> bool:
    """Are both Spark DataFrames? They can only be if PySpark has been imported."""
    if "pyspark" not in sys.modules:
        return False
    found = [type(data).__module__.startswith("pyspark.sql") for data in (left, right)]
    if found[0] != found[1]:
        raise SchemaError(
            f"left is a {type(left).__module__}.{type(left).__name__}, right a {type(right).__module__}."
            f"{type(right).__name__}; make both Spark DataFrames (spark.createDataFrame), or neither"
        )
    return found[0]
