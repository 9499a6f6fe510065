"""Rows in transit: Arrow tables as bytes, so that every Spark type travels as it is and a row costs little."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from streamjoin.codegen.records import Array
from streamjoin.intake.columns import as_numpy, flat

HEAVIEST = 1 << 25  # approximate size in bytes of rows that are handled or kept in one piece
PACKET = 1 << 18  # bytes that Spark handles as one value: it may put a thousand of them into one Arrow batch

_FOR_STATE = pa.ipc.IpcWriteOptions(compression="lz4") if pa.Codec.is_available("lz4") else pa.ipc.IpcWriteOptions()


def pack(table: pa.Table, compress: bool = False) -> bytes:
    """A table as an Arrow stream. Bytes for the state store are compressed, those for the shuffle or a file are not."""
    sink = pa.BufferOutputStream()
    options = _FOR_STATE if compress else pa.ipc.IpcWriteOptions()
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


def packets(table: pa.Table) -> Iterator[bytes]:
    """A table as Arrow streams of a size that Spark can take many of."""
    rows = 1 + int(PACKET / (1 + row_bytes(table)))
    for start in range(0, table.num_rows, rows):
        yield pack(table.slice(start, rows))


def row_bytes(table: pa.Table) -> float:
    """The average size of a row."""
    return float(table.nbytes / max(1, table.num_rows))


def unpack(data: bytes | pa.Buffer) -> pa.Table:
    """The table in an Arrow stream; its columns lie in `data` unless they were compressed."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


def conformed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with these columns' types; further ones stay. Time zones and nullability vary with the session."""
    known = set(schema.names)
    wanted = pa.schema([schema.field(field.name) if field.name in known else field for field in table.schema])
    return table if table.schema.equals(wanted) else table.cast(wanted)


def integers(table: pa.Table, name: str) -> Array:
    """A column of 64-bit integers without nulls."""
    return as_numpy(flat(table.column(name)))


def with_integers(table: pa.Table, name: str, values: Array) -> pa.Table:
    """The table with one more column of 64-bit integers."""
    values = np.ascontiguousarray(values, np.int64)
    return table.append_column(name, pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)]))
