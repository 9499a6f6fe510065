"""Batches on their way into a live join: any supported kind of table, checked against the schema of its side."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from streamjoin.errors import SchemaError, suggest
from streamjoin.intake.frames import KINDS, is_foreign_frame, to_arrow


def as_table(side: str, data: Any, schema: pa.Schema) -> pa.Table:
    """A pushed batch as an Arrow table of exactly the side's schema."""
    if isinstance(data, dict):
        data = _from_dict(side, data, schema)
    elif not isinstance(data, (pa.Table, pa.RecordBatch)) and not is_foreign_frame(data):
        raise SchemaError(f"push_{side} takes {KINDS}, or a dict of arrays, not a {type(data).__name__}")
    # The owner may change a frame later; the join needs the rows as they are now.
    mutable = is_foreign_frame(data) and hasattr(data, "copy")
    table = to_arrow(data.copy() if mutable else data, f"the batch for {side}")
    if table.schema.equals(schema):
        return table
    _check_columns(side, table.column_names, schema)
    table = table.select(schema.names)
    both = list(zip(schema, table.schema, strict=True))
    others = [(mine, theirs) for mine, theirs in both if not _same_kind(theirs.type, mine.type)]
    if others:
        raise SchemaError(f"the batch does not fit the schema: {_differences(side, others)}; cast before pushing")
    try:
        return table.cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        reason = str(error).splitlines()[0]
        wrong = _differences(side, [(mine, theirs) for mine, theirs in both if mine.type != theirs.type]) or reason
        raise SchemaError(f"the batch does not fit the schema: {wrong} ({reason})") from error


def as_batch(data: Any, schema: pa.Schema) -> pa.RecordBatch | None:
    """The pushed batch if it is a record batch of exactly the side's schema, otherwise None."""
    if isinstance(data, pa.Table):
        batches = data.to_batches() if data.num_rows else []
        data = batches[0] if len(batches) == 1 else None
    return data if isinstance(data, pa.RecordBatch) and data.schema.equals(schema) else None


def _differences(side: str, fields: list[tuple[pa.Field, pa.Field]]) -> str:
    return "; ".join(f"{side}.{mine.name} is {theirs.type} instead of {mine.type}" for mine, theirs in fields)


def _same_kind(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Can values of one type become values of the other without a change of meaning? (Some may still not fit.)"""
    return pa.types.is_null(given) or _kind(given) == _kind(wanted)


def _kind(t: pa.DataType) -> str:
    is_ = pa.types
    if is_.is_dictionary(t):
        return _kind(t.value_type)
    if is_.is_timestamp(t) or is_.is_date(t):
        return "aware time" if is_.is_timestamp(t) and t.tz else "naive time"
    if is_.is_integer(t) or is_.is_floating(t) or is_.is_decimal(t):
        return "number"
    if is_.is_string(t) or is_.is_large_string(t) or is_.is_string_view(t):
        return "text"
    if is_.is_binary(t) or is_.is_large_binary(t) or is_.is_binary_view(t) or is_.is_fixed_size_binary(t):
        return "bytes"
    if is_.is_boolean(t) or is_.is_duration(t) or is_.is_time(t):
        return str(t).partition("[")[0].rstrip("3264")
    return "nested or other"


def _from_dict(side: str, data: dict[str, Any], schema: pa.Schema) -> pa.Table:
    _check_columns(side, list(data), schema)
    columns = []
    for field in schema:
        try:
            columns.append(_array(data[field.name], field.type))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError) as error:
            raise SchemaError(
                f"{side}.{field.name} does not fit type {field.type}: {str(error).splitlines()[0]}"
            ) from error
    lengths = {name: len(column) for name, column in zip(schema.names, columns, strict=True)}
    if len(set(lengths.values())) > 1:
        raise SchemaError(f"the columns of the batch for {side} differ in length: {lengths}")
    return pa.table(columns, schema=schema)


def _array(values: Any, t: pa.DataType) -> pa.Array:
    """Values as an Arrow array. Arrow would drop the fraction of a Python float silently."""
    if pa.types.is_integer(t) and isinstance(values, (list, tuple)):
        for row, value in enumerate(values):
            if isinstance(value, float) and not value.is_integer():
                raise pa.ArrowInvalid(f"{value!r} in row {row} is no whole number")
    # The owner may change an array or a pandas series later; the join needs the values as they are now.
    return pa.array(values.copy() if hasattr(values, "copy") else values, t)


def _check_columns(side: str, names: list[str], schema: pa.Schema) -> None:
    for name in schema.names:
        if name not in names:
            raise SchemaError(f'the batch for {side} lacks column "{name}"; {suggest(name, names)}')
    for name in names:
        if name not in schema.names:
            raise SchemaError(
                f'the batch for {side} has a column "{name}" that its schema lacks; {suggest(name, schema.names)}'
            )
