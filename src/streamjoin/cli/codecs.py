"""How each file format is read into an Arrow table and written from one; files.py knows where the bytes are.

Streams and columns are typed Any: the published stubs of pyarrow describe neither its files nor its compute
functions well enough.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa

from streamjoin.formats import FORMATS

_ROWS = 65_536  # per batch or block of text
_ROWS_PER_GROUP = 1_048_576  # of Parquet, which is read best in large row groups
_CSV_BLOCK, _JSON_BLOCK = 1 << 20, 16 << 20  # bytes; more if a row is longer
_ARROW_END = b"\xff\xff\xff\xff\0\0\0\0"
_ESCAPED = r'[\x00-\x1f"\\]'  # characters that JSON strings must escape
_TIMESTAMPS = (pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.timestamp("ns", "UTC"))


@dataclass(frozen=True)
class TextOptions:
    """What text leaves open: which column is the time, and which words besides the empty one mean null."""

    time: str = ""
    nulls: tuple[str, ...] = ()


Gaps = Callable[[tuple[int, str]], None]  # told how many rows lack a column that others have, and where one begins


def read(kind: str, stream: Any, options: TextOptions, gaps: Gaps = lambda found: None) -> pa.Table:
    """The whole table. Text is refused with a TextError where it can be told what is wrong."""
    return CODECS[kind].read(stream, options, gaps)


def read_schema(kind: str, stream: Any) -> pa.Schema:
    """The schema of a format that stores one, without its rows."""
    return CODECS[kind].schema(stream)


def _parquet(stream: Any) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetFile(stream, page_checksum_verification=True)


def _read_parquet(stream: Any, options: TextOptions, gaps: Gaps) -> pa.Table:
    table: pa.Table = _parquet(stream).read()
    return table


def _read_arrow(stream: Any, options: TextOptions, gaps: Gaps) -> pa.Table:
    reader = _open_arrow(stream)
    table: pa.Table = reader.read_all()
    table.validate(full=True)  # a damaged offset would otherwise be followed into foreign memory
    if isinstance(reader, pa.RecordBatchReader):
        _check_end(stream)
    return table


def _open_arrow(stream: Any) -> Any:
    """A reader of either Arrow layout; the file's first bytes tell which it is, whatever its name says."""
    start = stream.read(6)
    stream.seek(0)
    return pa.ipc.open_file(stream) if start == FORMATS["arrow"].magic else pa.ipc.open_stream(stream)


def _check_end(stream: Any) -> None:
    """A stream of batches may be cut between two of them; only the writer's end marker shows that it is complete."""
    end = stream.tell()
    stream.seek(max(0, end - len(_ARROW_END)))
    if stream.read(len(_ARROW_END)) != _ARROW_END:
        raise ValueError("the end-of-stream marker is missing, so batches may be missing, too")
    if stream.read().strip(b"\0"):
        raise ValueError(f"something follows the end of the stream at byte {end:,}, perhaps another stream")


def _read_csv(stream: Any, options: TextOptions, gaps: Gaps) -> pa.Table:
    import pyarrow.csv as csv

    from streamjoin.cli.text import check_csv, check_csv_numbers

    data = stream.read_buffer()
    view = memoryview(data).cast("B")
    seen = check_csv(view)
    if seen.rows < 2:
        return pa.table({})

    # Arrow would read "nan" and "NA" as null. NaN is a value here, and NA may be Namibia: only an empty
    # field without quotes is null unless the user names more.
    def parse(**only: Any) -> pa.Table:
        return csv.read_csv(
            pa.BufferReader(data),
            read_options=csv.ReadOptions(block_size=max(_CSV_BLOCK, seen.longest + 2)),
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                null_values=["", *options.nulls], strings_can_be_null=True, quoted_strings_can_be_null=False, **only
            ),
        )

    def as_written(name: str) -> Any:
        return parse(include_columns=[name], column_types={name: pa.string()})[name]

    table = parse()
    for name in [column.name for column in table.schema if pa.types.is_floating(column.type)]:
        check_csv_numbers(view, name, table[name], partial(as_written, name))
    return _dates_as_timestamps(table, options.time)


def _read_ndjson(stream: Any, options: TextOptions, gaps: Gaps) -> pa.Table:
    import pyarrow.json as reader

    from streamjoin.cli.text import check_ndjson, check_ndjson_numbers, explain_ndjson, incomplete

    data = stream.read_buffer()
    view = memoryview(data).cast("B")
    seen = check_ndjson(view)

    def parse(texts: list[Any]) -> pa.Table:
        return reader.read_json(
            pa.BufferReader(data),
            read_options=reader.ReadOptions(block_size=max(_JSON_BLOCK, seen.longest + 2)),
            parse_options=reader.ParseOptions(explicit_schema=pa.schema(texts), newlines_in_values=seen.across),
        )

    # Arrow drops the zone of a timestamp that it recognises in JSON, and recognises none with fractions of a
    # second. So all of them are read as text and converted here, but for those inside lists and objects.
    try:
        table = parse([])
        recognised = [column.with_type(_as_text(column.type)) for column in table.schema]
        recognised = [new for new, old in zip(recognised, table.schema, strict=True) if new.type != old.type]
        if recognised:
            table = parse(recognised).select(table.column_names)
    except pa.ArrowException:
        explain_ndjson(view)
        raise
    check_ndjson_numbers(view, table)
    if seen.columns < table.num_columns * table.num_rows:
        gaps(incomplete(view, table.column_names))
    for index, column in enumerate(table.schema):
        if pa.types.is_string(column.type):
            table = table.set_column(index, column.name, _as_timestamps(table.column(index)))
    return _dates_as_timestamps(table, options.time)


def _as_text(type: Any) -> Any:
    """The type with text in the place of every timestamp."""
    if pa.types.is_struct(type):
        return pa.struct([field.with_type(_as_text(field.type)) for field in type])
    if pa.types.is_list(type):
        return pa.list_(_as_text(type.value_type))
    return pa.string() if pa.types.is_timestamp(type) else type


def _as_timestamps(texts: Any) -> Any:
    """The column as timestamps if every text in it is one, else as it is."""
    first = texts.drop_null()[:1]
    for type in _TIMESTAMPS if len(first) else ():
        try:
            first.cast(type)  # most columns of text fail here, before anything is copied
            return texts.cast(type)
        except pa.ArrowInvalid:
            continue
    return texts


def _dates_as_timestamps(table: pa.Table, name: str) -> pa.Table:
    """A time column whose every text is a mere date was read as dates; a window needs timestamps."""
    for index, column in enumerate(table.schema):
        if column.name == name and pa.types.is_date(column.type):
            table = table.set_column(index, name, table.column(index).cast(pa.timestamp("s")))
    return table


def write(kind: str, table: pa.Table, sink: Any, progress: Callable[[int], None] = lambda rows: None) -> None:
    """Writes the table piece by piece, telling `progress` how many rows each piece had.

    Pieces are cut anew: a join returns many small chunks, and each would become a row group of its own.
    """
    codec = CODECS[kind]
    table = codec.plain(table).unify_dictionaries()  # an Arrow file takes one dictionary per column
    with codec.writer(sink, table.schema) as writer:
        for start in range(0, table.num_rows, codec.rows):
            for batch in table.slice(start, codec.rows).combine_chunks().to_batches():
                writer.write_batch(batch)
                progress(batch.num_rows)


def _parquet_writer(sink: Any, schema: pa.Schema) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetWriter(sink, schema, write_page_checksum=True)


def _csv_writer(sink: Any, schema: pa.Schema) -> Any:
    import pyarrow.csv as csv

    return csv.CSVWriter(sink, schema)


def _without_views(table: pa.Table) -> pa.Table:
    """Strings as Arrow's CSV writer knows them; Polars hands over views."""
    plain: dict[Any, Any] = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    columns = [column.with_type(plain.get(column.type, column.type)) for column in table.schema]
    return table.cast(pa.schema(columns))


class _NdjsonWriter:
    """One object per line, assembled column by column: exact numbers, few values pass through Python."""

    def __init__(self, sink: Any, schema: pa.Schema) -> None:
        self._sink = sink

    def __enter__(self) -> _NdjsonWriter:
        return self

    def __exit__(self, *failure: object) -> None:
        pass

    def write_batch(self, batch: pa.RecordBatch) -> None:
        parts: list[Any] = []
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            parts += [("," if parts else "{") + json.dumps(name) + ":", _json_texts(column)]
        if batch.num_rows:
            self._sink.write(_concatenated(*parts, "}\n").buffers()[2])


def _json_texts(column: Any) -> Any:
    """Every value of the column as JSON text."""
    import pyarrow.compute as pc

    kind, types = column.type, pa.types
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_decimal(kind):
        texts = column.cast(pa.large_string())
    elif types.is_floating(kind) and pc.all(pc.is_finite(column)).as_py() is not False:
        texts = column.cast(pa.large_string())
    elif types.is_duration(kind):
        texts = column.cast(pa.int64()).cast(pa.large_string())
    elif types.is_timestamp(kind):
        texts = _quoted(pc.replace_substring(_utc(column).cast(pa.large_string()), " ", "T"))
    elif types.is_string(kind) and not pc.any(pc.match_substring_regex(column, _ESCAPED)).as_py():
        texts = _quoted(column.cast(pa.large_string()))
    else:
        rows = [None if value is None else json.dumps(_plain(value)) for value in column.to_pylist()]
        texts = pa.array(rows, pa.large_string())
    return pc.fill_null(texts, "null")


def _utc(moments: Any) -> Any:
    """Aware timestamps in UTC, which is written Z; naive ones as they are."""
    return moments if moments.type.tz is None else moments.cast(pa.timestamp(moments.type.unit, "UTC"))


def _quoted(texts: Any) -> Any:
    return _concatenated('"', texts, '"')


def _concatenated(*parts: Any) -> Any:
    """Texts glued together row by row; a plain string stands for the same text in every row."""
    import pyarrow.compute as pc

    columns = [pa.scalar(part, pa.large_string()) if isinstance(part, str) else part for part in (*parts, "")]
    return pc.binary_join_element_wise(*columns)  # the last one is the separator


def _plain(value: Any) -> Any:
    """The value in JSON's types: bytes as base64, dates and times as ISO text.

    NaN and the infinities come out as the bare words NaN and Infinity, which Arrow and Python read back.
    """
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal | timedelta):
        return str(value)
    return value


@dataclass(frozen=True)
class Codec:
    """How one format is read and written."""

    read: Callable[[Any, TextOptions, Gaps], pa.Table]
    writer: Callable[[Any, pa.Schema], Any]
    schema: Callable[[Any], pa.Schema] = lambda stream: _open_arrow(stream).schema  # of a format that stores one
    plain: Callable[[pa.Table], pa.Table] = lambda table: table  # the types that the writer knows
    rows: int = _ROWS


CODECS = {
    "parquet": Codec(
        _read_parquet, _parquet_writer, lambda stream: _parquet(stream).schema_arrow, rows=_ROWS_PER_GROUP
    ),
    "arrow": Codec(_read_arrow, pa.ipc.new_file),
    "arrows": Codec(_read_arrow, pa.ipc.new_stream),
    "csv": Codec(_read_csv, _csv_writer, plain=_without_views),
    "ndjson": Codec(_read_ndjson, _NdjsonWriter),
}
