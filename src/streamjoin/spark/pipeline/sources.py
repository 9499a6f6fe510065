"""Streaming DataFrames from the endpoints of a pipeline, and writers into them."""

from __future__ import annotations

from typing import Any

from streamjoin.errors import FileError, SchemaError, suggest
from streamjoin.formats import SPARK_FORMATS
from streamjoin.spark.metrics import MALFORMED, PREFIX
from streamjoin.spark.pipeline.endpoints import CONSOLE, SCHEMA, Endpoint, schema_json

_STREAMING = (
    "maxfilespertrigger",
    "maxbytespertrigger",
    "maxfileage",
    "latestfirst",
    "cleansource",
    "sourcearchivedir",
)
_CORRUPT = "_streamjoin_malformed"  # Spark's column: the text of a row that does not fit
_BAD = "_streamjoin_bad"
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
        frame = fitting(frame, time, side)
    return frame.withWatermark(time, delay)


def schema_type(option: str, text: str) -> Any:
    """The schema as Spark's StructType. The text form is read by Spark, which must be running."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    if text.startswith("{"):
        return StructType.fromJson(schema_json(option, text))
    try:
        return StructType.fromDDL(text)
    except PySparkException as error:
        reason = str(error).strip().splitlines()[0]
        raise SchemaError(f'{option} "{text}" is not a schema such as {SCHEMA}: {reason}') from error


def fitting(frame: Any, time: str, side: str) -> Any:
    """The rows that are not marked as malformed and have a time; the others are counted."""
    from pyspark.sql import functions as F

    bad = F.col(f"`{time}`").isNull()
    if _BAD in frame.columns:
        bad = bad | F.col(_BAD)
    counted = frame.observe(f"{PREFIX}-{MALFORMED}-{side}", F.count(F.when(bad, 1)).alias(MALFORMED))
    return counted.where(~bad).drop(_BAD)


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
        writer = writer.options(**SPARK_FORMATS[end.format].options)
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
    """The JSON objects in the column `value` as rows; one that does not fit fails the query, or is marked."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructField, StructType

    text = F.col("value").cast("string")
    if malformed == "fail":
        return records.select(F.from_json(text, columns, {"mode": "FAILFAST"}).alias("row")).select("row.*")
    wider = StructType([*columns.fields, StructField(_CORRUPT, StringType())])
    row = F.from_json(text, wider, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT})
    bad = F.col("row").isNull() | F.col(f"row.{_CORRUPT}").isNotNull()
    return records.select(row.alias("row")).select("row.*", bad.alias(_BAD)).drop(_CORRUPT)


def _files(spark: Any, end: Endpoint, columns: Any, malformed: str) -> Any:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructField, StructType

    known = SPARK_FORMATS[end.format]
    if columns is None:
        try:
            options = {**known.options, **known.inferring, **_batch_only(end)}
            if known.skips_malformed:  # else there is a column for what does not fit
                options.setdefault("mode", "FAILFAST" if malformed == "fail" else "DROPMALFORMED")
            reader = spark.read.format(end.format).options(**options)
            columns = reader.load(end.place).schema
        except (PySparkException, Py4JJavaError) as error:
            words = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else str(error)
            reason = str(words).strip().splitlines()[0]
            raise FileError(f'{end.option} "{end.place}" cannot be read as {end.format}: {reason}') from error
        if not columns.fields:
            raise SchemaError(f'{end.option} "{end.place}" has no columns to infer; give {end.option}-schema')
    options = {**known.options, **known.streaming}
    dropping = malformed == "drop" and known.parses
    if dropping:
        options |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
        columns = StructType([*columns.fields, StructField(_CORRUPT, StringType())])
    elif known.parses:
        options["mode"] = "FAILFAST"
    reader = spark.readStream.format(end.format).schema(columns)
    rows = reader.options(**{**options, **end.options}).load(end.place)
    return rows.withColumn(_BAD, F.col(_CORRUPT).isNotNull()).drop(_CORRUPT) if dropping else rows


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
