"""Tables of other libraries, in and out. They are recognised without being imported."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa

from streamjoin.errors import SchemaError
from streamjoin.intake.columns import take_rows

KINDS = "an Arrow table or record batch, a pandas or a Polars DataFrame"


def is_foreign_frame(data: Any) -> bool:
    """Is it a DataFrame of a library that has been imported (so it may be one)?"""
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    return (pandas is not None and isinstance(data, pandas.DataFrame)) or (
        polars is not None and isinstance(data, polars.DataFrame)
    )


def to_arrow(data: Any, what: str) -> pa.Table:
    """Any kind of table as an Arrow table. A pandas index is not a column and stays behind."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if is_foreign_frame(data):
        names = [str(name) for name in data.columns]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise SchemaError(f"{what} has several columns named {', '.join(twice)}; rename all but one of each")
        try:
            return data.to_arrow() if hasattr(data, "to_arrow") else pa.Table.from_pandas(data, preserve_index=False)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise SchemaError(f"{what} has a column that Arrow cannot hold: {str(error).splitlines()[0]}") from error
    raise SchemaError(f"{what} is a {type(data).__module__}.{type(data).__name__}; give {KINDS}")


def result_schema(schemas: dict[str, pa.Schema], names: dict[str, list[str]]) -> pa.Schema:
    """The columns of r, then those of s, under their names in the result."""
    return pa.schema(
        [field.with_name(name) for side in "rs" for field, name in zip(schemas[side], names[side], strict=True)]
    )


def gather(left: Any, right: Any, rows_left: Any, rows_right: Any, names: dict[str, list[str]]) -> Any:
    """Rows of both tables side by side, as a table of the left one's kind; cells are not converted."""
    if isinstance(left, (pa.Table, pa.RecordBatch)):
        parts = [take_rows(to_arrow(data, ""), rows) for data, rows in ((left, rows_left), (right, rows_right))]
        columns = [column for part in parts for column in part.columns]
        schemas = {side: part.schema for side, part in zip("rs", parts, strict=True)}
        return pa.table(columns, schema=result_schema(schemas, names))
    import narwhals.stable.v2 as nw

    pieces = []
    for data, rows, side in ((left, rows_left, "r"), (right, rows_right, "s")):
        frame = nw.from_native(data, eager_only=True)[rows, :]
        frame = frame.rename(dict(zip(frame.columns, names[side], strict=True)))
        pieces.append(nw.from_native(_fresh_index(frame.to_native())))
    return nw.to_native(nw.concat(pieces, how="horizontal"))


def _fresh_index(native: Any) -> Any:
    """pandas aligns rows by index when it puts tables side by side; positions are what counts here."""
    return native.reset_index(drop=True) if hasattr(native, "reset_index") else native
