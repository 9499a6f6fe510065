"""Rows of the oracle as Arrow data, and results as pairs of row numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streamjoin.testing.oracle import Row


def to_table(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """Rows as a table of the given schema. Times and dates may be counts since the epoch.

    >>> to_table([{"x": 1}, {"x": None}], pa.schema([("x", pa.int8())]))["x"].to_pylist()
    [1, None]
    """
    columns = []
    for field in schema:
        values = [float(v) if isinstance(v := row[field.name], np.floating) else v for row in rows]
        columns.append(pa.array(values, field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def to_batch(rows: Sequence[Row], schema: pa.Schema) -> pa.RecordBatch:
    """Rows as one batch, of no rows if there are none."""
    return to_table(rows, schema).combine_chunks().to_batches()[0] if rows else pa.RecordBatch.from_pylist([], schema)


def pairs_of(out: pa.Table | pa.RecordBatch, ids: tuple[str, str] = ("rid", "sid")) -> list[tuple[int, int]]:
    """The pairs of row numbers in a result, in its order."""
    return list(zip(out[ids[0]].to_pylist(), out[ids[1]].to_pylist(), strict=True))
