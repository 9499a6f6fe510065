"""From Arrow columns to the arrays that kernels read."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamjoin.codegen.program import Part
from streamjoin.codegen.records import Array
from streamjoin.codegen.values import digest
from streamjoin.errors import DataError
from streamjoin.predicate.types import Type, to_arrow

FEW = 64  # texts up to which a lookup in Python is faster than Arrow's dictionary encoding


def physical_columns(table: pa.Table, parts: tuple[Part, ...], side: str) -> tuple[Array, ...]:
    """The arrays for a side's parts, in order. Nulls hold zero; the validity marks them."""
    ready: dict[str, dict[str, Array]] = {}
    found = []
    for part in parts:
        name = part.column
        roles = ready.get(name)
        if roles is None:
            roles = ready[name] = roles_of(flat(table.column(name)), part, side)
        found.append(roles[part.role])
    return tuple(found)


def flat(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column as one array."""
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # too long for one array of its type
            column = pa.concat_arrays(column.chunks)
    return column


def as_numpy(array: pa.Array) -> Array:
    """The values of a boolean or fixed-width array; those of nulls are undefined.

    Arrow's own to_numpy() imports pandas where it is installed, which takes longer than a small join.
    """
    dtype = _dtype(array.type)
    if not len(array):
        return np.zeros(0, dtype)
    buffer = array.buffers()[1]
    if dtype == np.bool_:
        bits = np.unpackbits(np.frombuffer(buffer, np.uint8), count=array.offset + len(array), bitorder="little")
        return bits[array.offset :].view(np.bool_)
    return np.frombuffer(buffer, dtype, len(array), array.offset * dtype.itemsize)


@lru_cache
def _dtype(t: pa.DataType) -> np.dtype[Any]:
    if pa.types.is_boolean(t):
        return np.dtype(np.bool_)
    kind = "f" if pa.types.is_floating(t) else "u" if pa.types.is_unsigned_integer(t) else "i"
    return np.dtype(f"{kind}{t.bit_width // 8}")


def cast(array: pa.Array | pa.ChunkedArray, t: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """The array as another type. Arrow's cast takes long even if the type is the same, and small batches are many."""
    return array if array.type == t else array.cast(t)


def row_numbers(rows: Array, nulls: bool = False) -> pa.Array:
    """Row numbers for take(); with `nulls`, null for those below zero. (`pa.array` imports pandas, too.)"""
    short = rows.dtype == np.uint32
    rows = np.ascontiguousarray(rows, np.uint32 if short else np.int64)
    valid = pa.py_buffer(np.packbits(rows >= 0, bitorder="little")) if nulls else None
    return pa.Array.from_buffers(pa.uint32() if short else pa.int64(), len(rows), [valid, pa.py_buffer(rows)])


def without_views(table: pa.Table) -> pa.Table:
    """The table with plain text instead of views."""
    types = table.schema.types
    plain = [_without_view(t) for t in types]
    if plain == types:
        return table
    return table.cast(pa.schema([field.with_type(t) for field, t in zip(table.schema, plain, strict=True)]))


@lru_cache
def _without_view(t: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(t):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(t) else t


@lru_cache
def lies_as(t: pa.DataType, wanted: Type) -> bool:
    """Does an Arrow column of this type have the memory layout that a predicate reads for that type?"""
    if wanted.kind == "timestamp":
        return bool(pa.types.is_timestamp(t) and t.unit == wanted.unit)
    return wanted.kind in ("int", "float", "interval", "date") and bool(t == to_arrow(wanted))


def roles_of(array: pa.Array, part: Part, side: str) -> dict[str, Array]:
    """A column's arrays, by role."""
    if pa.types.is_dictionary(array.type) and array.dictionary.null_count:  # the indices do not show these nulls
        array = array.dictionary_decode()
    valid = np.ones(len(array), np.bool_)
    if array.null_count:
        valid = as_numpy(array.is_valid())
    elif lies_as(array.type, part.type):
        return {"value": as_numpy(array), "valid": valid}
    if part.type.kind in ("string", "binary"):
        high, low = _digests(array)
        return {"high": high, "low": low, "valid": valid}
    try:
        value = _values(array, part.type)
    except (pa.ArrowInvalid, OverflowError) as error:
        raise DataError(
            f"{side}.{part.column} has type {array.type}, which the predicate reads as {part.type}, and holds a value "
            f"that does not fit: {_extreme(array)} ({str(error).splitlines()[0]}); cast the column or filter it out"
        ) from error
    return {"value": value if value.dtype == part.dtype else value.astype(part.dtype), "valid": valid}


def _extreme(array: pa.Array) -> str:
    try:
        return str(pc.max(array).as_py())
    except Exception:
        return "one of its values"


def _values(array: pa.Array, t: Type) -> Array:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if t.kind == "null" or pa.types.is_null(array.type):
        return np.zeros(len(array), np.int64)
    if t.kind == "decimal":
        return _unscaled(array, t)
    if t.kind == "timestamp":
        array = cast(array, pa.timestamp(t.unit, array.type.tz))
    else:
        array = cast(array, to_arrow(t))
    if array.null_count:
        whole = array if t.kind == "bool" else array.view(pa.from_numpy_dtype(t.stored))
        array = whole.fill_null(False if t.kind == "bool" else 0)
    return as_numpy(array)


def _unscaled(array: pa.Array, t: Type) -> Array:
    """Decimals as integers: value times 10**scale."""
    array = array.cast(pa.decimal128(max(t.precision, array.type.precision), t.scale))
    words = np.frombuffer(array.buffers()[1], np.int64)[2 * array.offset : 2 * (array.offset + len(array))]
    values = words[::2].copy()
    if array.null_count:
        values[~as_numpy(array.is_valid())] = 0
    return values


def _digests(array: pa.Array) -> tuple[Array, Array]:
    if len(array) <= FEW:
        few = np.array([_digest(value) for value in array.to_pylist()], np.int64).reshape(-1, 2)
        return np.ascontiguousarray(few[:, 0]), np.ascontiguousarray(few[:, 1])
    if not pa.types.is_dictionary(array.type):
        if pa.types.is_fixed_size_binary(array.type):
            array = array.cast(pa.binary())
        array = cast(array, _without_view(array.type)).dictionary_encode()
    pairs = [_digest(value) for value in array.dictionary.to_pylist()]
    table = np.array(pairs or [(0, 0)], np.int64)
    codes = as_numpy(array.indices.fill_null(0))
    return np.ascontiguousarray(table[codes, 0]), np.ascontiguousarray(table[codes, 1])


@lru_cache(1 << 16)
def _digest(value: str | bytes | None) -> tuple[int, int]:
    return (0, 0) if value is None else digest(value)


def ticks_of(array: pa.Array, name: str, unit: str) -> Array:
    """Times in ticks of a unit."""
    if array.null_count:
        row = int(np.argmax(as_numpy(array.is_null())))
        raise DataError(
            f"{name} is null in row {row} of {len(array)}: a tuple without a time belongs to no window; "
            "filter such rows out before joining"
        )
    try:
        if unit == "int":
            return as_numpy(cast(array, pa.int64()))
        zone = getattr(array.type, "tz", None)
        return as_numpy(cast(array, pa.timestamp(unit, zone)))
    except pa.ArrowInvalid as error:
        raise DataError(
            f"{name} has a time that does not fit 64 bits in the joint unit {unit}: {str(error).splitlines()[0]}"
        ) from error


def show_time(value: int, unit: str) -> str:
    """The time that a count of ticks stands for."""
    return str(value) if unit == "int" else str(np.array(value, f"M8[{unit}]"))


def show(value: Any, t: Type) -> str:
    """A stored value as the user gave it."""
    if t.kind == "timestamp":
        return show_time(int(value), t.unit)
    if t.kind == "date":
        return show_time(int(value), "D")
    if t.kind == "decimal":
        return str(Decimal(int(value)).scaleb(-t.scale))
    return str(value)
