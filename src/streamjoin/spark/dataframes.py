"""From two DataFrames to one: the plan that Spark runs, for streams and for tables.

r ─▶ route ─┐                                 ┌─▶ cell 0 ─┐
            ├─▶ rows as bytes, shuffle by cell ─▶ cell 1   ├─▶ result rows as bytes ─▶ observe ─▶ columns
s ─▶ route ─┘                                 └─▶ cell n ─┘
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import reduce
from itertools import count
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkAttributeError, PySparkTypeError
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import DataType, MapType, StructField, StructType, VariantType

from streamjoin.errors import SchemaError, UnsupportedError
from streamjoin.options import SPARK, Options
from streamjoin.plan.columns import columns
from streamjoin.predicate.tree import SIDES
from streamjoin.spark import settings
from streamjoin.spark.metrics import BY_CELL, COUNTS, PREFIX, RECORD
from streamjoin.spark.processor import IN, OUT, JoinProcessor
from streamjoin.spark.routing import cell_keys
from streamjoin.spark.spec import AT, BEFORE, CONTENT, JoinSpec, make_spec
from streamjoin.spark.wire import HEAVIEST, packets, unpack

WATERMARK = "spark.watermarkDelayMs"  # the mark that withWatermark leaves on a column
AT_ONCE = 1 << 16  # rows that are routed together
UNSET = "200"  # Spark's default number of shuffle partitions
UNKNOWN, MOST = 16, 128  # cells of a stream by default; at most, if partitions were set: more mean many copies
_names = count()


def join_frames(df_r: Any, df_s: Any, options: Options) -> Any:
    """See `streamjoin.spark.join`."""
    spec = plan_frames(df_r, df_s, options)
    df_r, df_s = (_needed(df, side, spec) for df, side in ((df_r, "r"), (df_s, "s")))
    if spec.streaming:
        settings.check(df_r.sparkSession)
    joined = [(_streaming if spec.streaming else _static)(df_r, df_s, part) for part in spec.parts]
    return reduce(lambda one, other: one.unionAll(other), joined)


def _needed(df: Any, side: str, spec: JoinSpec) -> Any:
    """The columns of a side that the join needs."""
    names = spec.plan.schemas[side].names
    return df if df.columns == names else df.select(*map(_column, names))


def plan_frames(df_r: Any, df_s: Any, options: Options) -> JoinSpec:
    """The plan of a join of two DataFrames."""
    options = options.for_engine(SPARK)
    frames = {"r": df_r, "s": df_s}
    streaming = {side: bool(df.isStreaming) for side, df in frames.items()}
    if streaming["r"] != streaming["s"]:
        stream, table = ("r", "s") if streaming["r"] else ("s", "r")
        raise UnsupportedError(
            f"{stream} is a stream and {table} is not; join two streams, or two tables: read {table} with "
            "spark.readStream, or write the stream to a table first"
        )
    schemas = {side: _arrow_schema(df.schema, side) for side, df in frames.items()}
    cells = options.cells or default_cells(df_r.sparkSession, streaming["r"])
    any_case = df_r.sparkSession.conf.get("spark.sql.caseSensitive", "false").lower() != "true"
    spec = make_spec(schemas["r"], schemas["s"], options, cells, any_case, streaming["r"])
    if spec.streaming:
        _check_stream(frames, spec)
    return spec


def _arrow_schema(schema: StructType, side: str) -> pa.Schema:
    """The columns as Python workers will see them."""
    fields = []
    for field in schema.fields:
        try:
            fields += list(to_arrow_schema(StructType([field]).toNullable(), timezone="UTC"))
        except PySparkTypeError as error:
            raise SchemaError(
                f"{side}.{field.name} has type {field.dataType.simpleString()}, which Spark cannot pass to Python; "
                "cast it before the join, for example to STRING, and cast it back after the join"
            ) from error
    return pa.schema(fields)


def default_cells(spark: Any, streaming: bool) -> int:
    """Tables get two cells per core, for even loads. Streams get one per core in local mode, else one per partition.

    A cluster's cores come and go, and a stream that is started again must find as many cells as it left.
    """
    partitions = int(spark.conf.get(settings.PARTITIONS, UNSET))
    told = min(partitions, MOST) if str(partitions) != UNSET else UNKNOWN
    master, cores = _cluster(spark)
    if not streaming:
        cores = cores or told
        return 2 * cores if cores > 1 else 1
    found = min(partitions, cores) if cores and master.split("[")[0] == "local" else told
    if partitions > 4 * found:
        warnings.warn(
            f"{settings.PARTITIONS} is {partitions}: every micro-batch starts that many tasks, on "
            f"{cores or 'an unknown number of'} cores; before the first start, give it the number of cores: "
            f'spark.conf.set("{settings.PARTITIONS}", "{cores or found}")',
            stacklevel=4,
        )
    return found


def _cluster(spark: Any) -> tuple[str, int | None]:
    """Master and cores, which Spark Connect does not tell."""
    try:
        return str(spark.sparkContext.master), int(spark.sparkContext.defaultParallelism)
    except PySparkAttributeError:
        return "", None


def _check_stream(frames: dict[str, Any], spec: JoinSpec) -> None:
    if spec.plan.window.by_rows:
        raise UnsupportedError(
            "a window of rows needs an order of arrival, and the micro-batches of two streams have none; use a window "
            'of time such as within="2 seconds", or join static DataFrames, whose rows are taken in order of time'
        )
    for side, df in frames.items():
        name = str(spec.plan.times[side])
        if spec.plan.unit == "int":
            raise SchemaError(
                f"{side}.{name} is an integer, and a stream needs a watermark, which Spark keeps on timestamps; add: "
                f'df_{side} = df_{side}.withColumn("{name}", F.timestamp_seconds("{name}")), and a watermark on it'
            )
        if WATERMARK not in (df.schema[name].metadata or {}) or not _watches(df):
            raise SchemaError(
                f"{side}.{name} has no watermark, so its tuples would be kept forever; add: "
                f'df_{side} = df_{side}.withWatermark("{name}", "10 seconds") (how late its rows may be). The result '
                'of another join carries one in the column that result_time="..." names'
            )


def _watches(df: Any) -> bool:
    """Is there a watermark in the query itself? The mark on a column also comes with another query's schema."""
    try:
        return "EventTimeWatermark" in df._jdf.queryExecution().analyzed().toString()
    except PySparkAttributeError:  # Spark Connect does not tell
        return True


def _streaming(df_r: Any, df_s: Any, spec: JoinSpec) -> Any:
    routed = _routed(df_r, "r", spec).unionAll(_routed(df_s, "s", spec))
    cells = routed.groupBy("cell").transformWithState(
        statefulProcessor=JoinProcessor(spec), outputStructType=OUT, outputMode="Append", timeMode="EventTime"
    )
    sums = [F.sum(name).alias(name) for name in COUNTS]
    by_cell = F.substring(F.bitmap_or_agg(BY_CELL), 1, RECORD.size * spec.router.cells)
    seen = cells.observe(f"{PREFIX}-{next(_names)}", *sums, by_cell.alias(BY_CELL))
    out = seen.mapInArrow(_unpacked, _output(df_r, df_s, spec))
    delays = [int(df.schema[spec.plan.times[side]].metadata[WATERMARK]) for side, df in (("r", df_r), ("s", df_s))]
    marked = _later_column(spec)
    return out.select(
        *(
            _column(name).alias(name, metadata={WATERMARK: max(delays)}) if name == marked else _column(name)
            for name in out.columns
        )
    )


def _later_column(spec: JoinSpec) -> str | None:
    """The column of the result whose times keep up with the watermark: the later one of each pair."""
    plan = spec.plan
    side = plan.window.later_side
    if spec.result_time or side is None or spec.duty.deciding:
        return spec.result_time
    found = (side, plan.times[SIDES[side]])
    return next((column.name for column in columns(plan) if (column.side, column.source.name) == found), None)


def _static(df_r: Any, df_s: Any, spec: JoinSpec) -> Any:
    frames = {"r": df_r, "s": df_s}
    if spec.plan.window.by_rows:
        frames = _numbered(frames, spec)
    routed = [_routed(frames[side], side, spec).repartition(spec.router.cells, "cell").groupBy("cell") for side in "rs"]
    return routed[0].cogroup(routed[1]).applyInArrow(_meet(spec), _output(df_r, df_s, spec))


def _numbered(frames: dict[str, Any], spec: JoinSpec) -> dict[str, Any]:
    """Each row with its position in its stream and the number of rows of the other that arrived before it.

    Arrival is by time, then r before s, then in the order in which Spark reads the rows. One task counts: it sees
    every row once, in order.
    """
    from pyspark.sql import Window

    parts = []
    for k, side in enumerate("rs"):
        df = frames[side]
        null = F.lit(None).cast(frames["s" if side == "r" else "r"].schema)
        row = F.struct(*(_column(name) for name in df.columns))
        both = [row.alias("r"), null.alias("s")] if side == "r" else [null.alias("r"), row.alias("s")]
        order = [_column(str(spec.plan.times[side])).alias("time"), F.lit(k).alias("side")]
        parts.append(df.select(*order, F.monotonically_increasing_id().alias("place"), *both))
    arrivals = Window.orderBy("time", "side", "place").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    counted = (
        parts[0]
        .unionAll(parts[1])
        .select(
            "side", "r", "s", *(F.sum((F.col("side") == k).cast("long")).over(arrivals).alias(f"n{k}") for k in (0, 1))
        )
    )
    return {
        side: counted.where(F.col("side") == k).select(
            f"{side}.*", (F.col(f"n{k}") - 1).alias(AT), F.col(f"n{1 - k}").alias(BEFORE)
        )
        for k, side in enumerate("rs")
    }


def _routed(df: Any, side: str, spec: JoinSpec) -> Any:
    """The rows of one side as (cell, side, rows as bytes)."""
    hashed = [_column(field.name) for field in df.schema.fields if _hashable(field.dataType)]
    content = F.xxhash64(*hashed) if hashed else F.lit(0).cast("long")
    return df.withColumn(CONTENT, content).mapInArrow(_route(spec, side), IN)


def _column(name: str) -> Any:
    """A column by its very name, dots and all."""
    return F.col(f"`{name.replace('`', '``')}`")


def _hashable(t: DataType) -> bool:
    if isinstance(t, (MapType, VariantType)):
        return False
    inner = [field.dataType for field in t.fields] if isinstance(t, StructType) else [getattr(t, "elementType", None)]
    return all(part is None or _hashable(part) for part in inner)


def _output(df_r: Any, df_s: Any, spec: JoinSpec) -> StructType:
    """The result's columns, with the types that the inputs have; all of them may be null, as in files."""
    schemas = (df_r.schema, df_s.schema)
    fields = [
        StructField(column.name, from_arrow_type(column.source.type))
        if column.side is None
        else StructField(column.name, schemas[column.side][column.source.name].dataType)
        for column in columns(spec.plan)
    ]
    if spec.result_time:
        side = spec.result_side
        fields.append(StructField(spec.result_time, schemas[side == "s"][spec.plan.times[side]].dataType))
    return StructType(fields).toNullable()


Batches = Iterator[pa.RecordBatch]


def _route(spec: JoinSpec, side: str) -> Callable[[Batches], Batches]:
    code = "rs".index(side)

    def route(batches: Batches) -> Batches:
        from streamjoin.spark.cell_kernels import engine_of

        engine, keys = engine_of(spec), cell_keys(spec.router.cells)
        waiting: list[pa.RecordBatch] = []
        rows = size = seen = 0
        # Every cell gets at least an empty message, so that in every micro-batch all expire, and agree on what is late.
        parts: list[tuple[int, int, bytes | None]] = [(key, 2, None) for key in keys]

        def out() -> pa.RecordBatch:
            columns = zip(*parts, strict=True)
            types = (pa.int32(), pa.int32(), pa.binary())
            arrays = [pa.array(column, t) for column, t in zip(columns, types, strict=True)]
            parts.clear()
            return pa.RecordBatch.from_arrays(arrays, names=IN.names)

        def flush() -> Batches:
            for cell, part in engine.route(side, pa.Table.from_batches(waiting)):
                parts.extend((keys[cell], code, data) for data in packets(part))
                yield out()

        for batch in batches:
            waiting.append(batch)
            rows, size, seen = rows + batch.num_rows, size + batch.nbytes, seen + batch.num_rows
            if rows >= AT_ONCE or size >= HEAVIEST:
                yield from flush()
                waiting, rows, size = [], 0, 0
        if rows:
            yield from flush()
        if seen and parts:  # no row was routed
            yield out()

    return route


def _unpacked(batches: Batches) -> Batches:
    """Result rows from their bytes."""
    for batch in batches:
        for data in batch.column(0):
            if data.is_valid:
                yield from unpack(data.as_buffer()).to_batches()


def _meet(spec: JoinSpec) -> Callable[[Any, pa.Table, pa.Table], pa.Table]:
    """Both sides of one cell, known as a whole: one becomes a run, the other one probes it."""

    def meet(key: Any, left: pa.Table, right: pa.Table) -> pa.Table:
        from streamjoin.spark.cell_kernels import engine_of
        from streamjoin.spark.tables import meet_tables

        cell = cell_keys(spec.router.cells).index(key[0].as_py())
        return meet_tables(engine_of(spec), cell, left, right)

    return meet
