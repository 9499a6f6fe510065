"""Streaming DataFrames from the endpoints of a pipeline, and writers into them."""

from __future__ import annotations

from typing import Any

from streamjoin.errors import FileError, SchemaError, suggest
from streamjoin.spark.pipeline.endpoints import CONSOLE, Endpoint
from streamjoin.spark.pipeline.schemas import schema_type

_READ = {"csv": {"header": "true", "escape": '"'}}  # a quote inside quotes is doubled, as everywhere but in Spark
_INFER = {
    "csv": {**_READ["csv"], "inferSchema": "true"},
    "json": {"inferTimestamp": "true"},
}
_STREAMING = (
    "maxfilespertrigger",
    "maxbytespertrigger",
    "maxfileage",
    "latestfirst",
    "cleansource",
    "sourcearchivedir",
)
_CORRUPT = "_streamjoin_malformed"
TIMES = ("timestamp", "timestamp_ntz")


def stream(spark: Any, end: Endpoint, side: str, schema: str | None, time: str, delay: str, malformed: str) -> Any:
    """The rows of one side as a streaming DataFrame with a watermark."""
    option = f"{end.option}-schema"
    columns = None if schema is None else schema_type(option, schema)
    if end.kind == "generate":
        frame = _generated(spark, end, side)
    elif end.kind == "kafka":
        frame = _consumed(spark, end, columns, malformed)
    else:
        frame = _files(spark, end, columns, malformed)
    _check_time(frame, end, time)
    if malformed == "drop":
        frame = frame.where(frame[f"`{time}`"].isNotNull())
    return frame.withWatermark(time, delay)


def write(frame: Any, end: Endpoint, checkpoint: str | None) -> Any:
    """A writer of the results, ready to be started."""
    writer = frame
    if end.kind == "kafka":
        writer = frame.selectExpr("to_json(struct(*)) AS value")
    writer = writer.writeStream.outputMode("append")
    if end.kind == "kafka":
        writer = writer.format("kafka").option("kafka.bootstrap.servers", end.place).option("topic", end.topic)
    elif end.kind == CONSOLE:
        writer = writer.format("console").option("truncate", "false")
    else:
        writer = writer.format(end.format).option("path", end.place)
        writer = writer.options(**_READ.get(end.format, {}))
    writer = writer.options(**end.options)
    return writer if checkpoint is None else writer.option("checkpointLocation", checkpoint)


def _generated(spark: Any, end: Endpoint, side: str) -> Any:
    from streamjoin.spark.pipeline.generator import NAME, Papers

    spark.dataSource.register(Papers)
    return spark.readStream.format(NAME).options(side=side, **end.options).load()


def _consumed(spark: Any, end: Endpoint, columns: Any, malformed: str) -> Any:
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", end.place)
    reader = reader.option("subscribe", end.topic).option("startingOffsets", "earliest").options(**end.options)
    return parsed(reader.load(), columns, malformed)


def parsed(records: Any, columns: Any, malformed: str) -> Any:
    """The JSON objects in the column `value` as rows; one that does not fit fails the query, or is left out."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructField, StructType

    text = F.col("value").cast("string")
    if malformed == "fail":
        return records.select(F.from_json(text, columns, {"mode": "FAILFAST"}).alias("row")).select("row.*")
    wider = StructType([*columns.fields, StructField(_CORRUPT, StringType())])
    row = F.from_json(text, wider, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT})
    fitting = records.select(row.alias("row")).where(F.col("row").isNotNull()).select("row.*")
    return fitting.where(F.col(_CORRUPT).isNull()).drop(_CORRUPT)


def _files(spark: Any, end: Endpoint, columns: Any, malformed: str) -> Any:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    if columns is None:
        try:
            reader = spark.read.format(end.format).options(**{**_INFER.get(end.format, {}), **_batch_only(end)})
            columns = reader.load(end.place).schema
        except (PySparkException, Py4JJavaError) as error:
            words = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else str(error)
            reason = str(words).strip().splitlines()[0]
            raise FileError(f'{end.option} "{end.place}" cannot be read as {end.format}: {reason}') from error
        if not columns.fields:
            raise SchemaError(f'{end.option} "{end.place}" tells no columns; give {end.option}-schema')
    options = dict(_READ.get(end.format, {}))
    if end.format != "parquet":
        options["mode"] = "FAILFAST" if malformed == "fail" else "DROPMALFORMED"
    reader = spark.readStream.format(end.format).schema(columns)
    return reader.options(**{**options, **end.options}).load(end.place)


def _batch_only(end: Endpoint) -> dict[str, str]:
    """The options without those that only a stream knows."""
    return {key: value for key, value in end.options.items() if key.lower() not in _STREAMING}


def _check_time(frame: Any, end: Endpoint, time: str) -> None:
    types = dict(frame.dtypes)
    if time not in types:
        raise SchemaError(f'{end.option} has no column "{time}" for --time, {suggest(time, types)}')
    if types[time] not in TIMES:
        raise SchemaError(
            f'{end.option}: the time column "{time}" is {types[time]}; a stream needs a timestamp. Give '
            f'{end.option}-schema with "{time} TIMESTAMP"'
        )
