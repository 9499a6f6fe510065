"""Tables of other libraries on their way in: those that export their rows by Arrow's PyCapsule protocol."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pyarrow as pa

from streamjoin.errors import SchemaError

KINDS = "an Arrow table or record batch, a pandas or a Polars DataFrame, or what hands out an Arrow stream"


def is_foreign_frame(data: Any) -> bool:
    """Is it a table of another library? Series and arrays follow the protocol too, but have no columns."""
    return not isinstance(data, (pa.Table, pa.RecordBatch)) and all(
        hasattr(data, name) for name in ("__arrow_c_stream__", "columns")
    )


def is_lazy(data: Any) -> bool:
    """Is it a query that has not run yet, as a Polars LazyFrame?"""
    return all(hasattr(data, name) for name in ("collect", "collect_schema", "head"))


def eager(data: Any, rows: bool = True) -> Any:
    """The table behind a lazy frame or a stream of Arrow batches; anything else unchanged.

    `rows`: are they needed? If not, a query runs for no rows, and a stream is not read.
    """
    if is_lazy(data):
        return data.collect() if rows else data.head(0).collect()
    if isinstance(data, pa.RecordBatchReader) and not rows:
        return data.schema.empty_table()
    if isinstance(data, (pa.Table, pa.RecordBatch)) or hasattr(data, "columns"):
        return data
    if hasattr(data, "__arrow_c_stream__"):
        with suppress(pa.ArrowInvalid, pa.ArrowTypeError, TypeError):  # arrays are streams too; they have no columns
            return pa.RecordBatchReader.from_stream(data).read_all()
    return data


def to_arrow(data: Any, what: str) -> pa.Table:
    """Any kind of table as an Arrow table. A pandas index is not a column and stays behind."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if not is_foreign_frame(data):
        raise SchemaError(f"{what} is a {type(data).__module__}.{type(data).__name__}; give {KINDS}")
    names = [str(name) for name in data.columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SchemaError(f"{what} has several columns named {', '.join(twice)}; rename all but one of each")
    try:
        # Polars' to_arrow() has text in a layout of which Arrow can take rows; the protocol has views.
        table = data.to_arrow() if hasattr(data, "to_arrow") else pa.table(without_index(data))
        return table if isinstance(table, pa.Table) else table.read_all()
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise SchemaError(f"{what} has a column that Arrow cannot hold: {str(error).splitlines()[0]}") from error


def without_index(frame: Any) -> Any:
    """A frame whose rows have positions only, without the labels of pandas."""
    return frame.reset_index(drop=True) if hasattr(frame, "reset_index") else frame
