"""Rows of plain Python values on their way into a live join, without an Arrow batch."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.codegen.records import Array, address
from streamjoin.errors import SchemaError
from streamjoin.intake.exported import ArrowArray

LETTERS = {"int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B", "uint16": "H", "uint32": "I",
           "uint64": "Q", "float": "f", "double": "d"}  # fmt: skip
UNFIT = (struct.error, OverflowError, ValueError, TypeError, KeyError)


def letter_of(t: pa.DataType) -> str | None:
    """How `struct` writes a value of a type; None if it cannot. Times are counts of their units."""
    if pa.types.is_timestamp(t) or pa.types.is_duration(t):
        return "q"
    return LETTERS.get(str(t))


class PackedRows:
    """A batch of one side for compiled code, exported as a record batch is: see `intake/exported.py`.

    The next rows overwrite its memory.
    """

    def __init__(self, schema: pa.Schema, most: int) -> None:
        """Only if it `serves`."""
        self._schema, self._most = schema, most
        self._names = tuple(schema.names)
        self._pick = itemgetter(*self._names) if len(self._names) > 1 else None
        letters = [letter_of(field.type) or "q" for field in schema]
        self._letters = letters
        self._kinds = [{float} if letter in "fd" else {int} for letter in letters]
        self._types = tuple(next(iter(kind)) for kind in self._kinds)
        self._one = struct.Struct("@" + "".join(f"{letter}0q" for letter in letters))
        self._memory = bytearray(8 * most * len(letters))
        begin = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._starts = [8 * most * k for k in range(len(letters))]
        # A single row has its values eight bytes apart; with several rows each column has a part of the memory.
        self._rows = 0
        self._single = _described([begin + 8 * k for k in range(len(letters))])
        self._several = _described([begin + start for start in self._starts])
        self._used = self._single

    @staticmethod
    def serves(schema: pa.Schema) -> bool:
        """Are all columns plain numbers?"""
        return len(schema) > 0 and all(letter_of(field.type) for field in schema)

    @property
    def num_rows(self) -> int:
        return self._rows

    def fill(self, rows: Sequence[Any]) -> bool:
        """Takes rows, as tuples or dicts. False if they are too many, or do not fit without a conversion."""
        count = len(rows)
        if not 0 < count <= self._most:
            return False
        try:
            if self._pick is not None and isinstance(rows[0], dict):
                rows = self._picked(rows)
            if count == 1:
                (row,) = rows
                if tuple(map(type, row)) != self._types:
                    return False
                self._one.pack_into(self._memory, 0, *row)
                self._used = self._single
            else:
                for column, kind, letter, start in zip(
                    zip(*rows, strict=True), self._kinds, self._letters, self._starts, strict=True
                ):
                    if set(map(type, column)) != kind:
                        return False
                    struct.pack_into(f"@{count}{letter}", self._memory, start, *column)
                self._used = self._several
        except UNFIT:
            return False
        self._rows = count
        self._used[0][0].length = count
        return True

    def column(self, which: str | int) -> pa.Array:
        """A column as an Arrow array."""
        return self.batch().column(which)

    def batch(self) -> pa.RecordBatch:
        """The rows in memory of their own."""
        buffers = [
            pa.py_buffer(bytes(self._memory[start : start + 8 * self._rows]))
            for start in (self._starts if self._rows > 1 else range(0, 8 * len(self._starts), 8))
        ]
        return pa.RecordBatch.from_arrays(
            [
                pa.Array.from_buffers(field.type, self._rows, [None, buffer])
                for field, buffer in zip(self._schema, buffers, strict=True)
            ],
            schema=self._schema,
        )

    def _picked(self, rows: Sequence[Any]) -> list[Any]:
        pick, width = self._pick, len(self._names)
        assert pick is not None
        return [pick(row) for row in rows if len(row) == width]

    def _export_to_c(self, to: int) -> None:
        ctypes.memmove(to, self._used[1], ArrowArray.dtype.itemsize)


def _described(starts: list[int]) -> tuple[Array, int, list[Array]]:
    """Columns without nulls at these addresses, as Arrow's C data interface describes a batch; its address."""
    batch, columns = ArrowArray.array(1), ArrowArray.array(len(starts))
    buffers = np.array([(0, start) for start in starts], np.int64)
    columns["n_buffers"], columns["buffers"] = 2, [address(pair) for pair in buffers]
    children = np.array([address(column) for column in columns], np.int64)
    batch["n_children"], batch["children"] = len(starts), address(children)
    return batch, address(batch), [columns, buffers, children]


def columns_of(side: str, rows: Sequence[Any], schema: pa.Schema) -> dict[str, list[Any]]:
    """Rows as columns, for the general path."""
    names = schema.names
    for k, row in enumerate(rows):
        if isinstance(row, dict):
            missing, other = [n for n in names if n not in row], [n for n in row if n not in names]
            if missing or other:
                what = f'lacks column "{missing[0]}"' if missing else f'has a column "{other[0]}" that its schema lacks'
                raise SchemaError(f"row {k} for {side} {what}; give {', '.join(names)}")
        elif not isinstance(row, (tuple, list)):
            raise SchemaError(f"row {k} for {side} is a {type(row).__name__}; give a tuple or a dict of values")
        elif len(row) != len(names):
            raise SchemaError(
                f"row {k} for {side} has {len(row)} values and the schema {len(names)} columns; give {', '.join(names)}"
            )
    return {name: [row[name] if isinstance(row, dict) else row[k] for row in rows] for k, name in enumerate(names)}
