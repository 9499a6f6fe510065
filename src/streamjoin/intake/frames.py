"""Tables of other libraries on their way in: those that hand their rows out by Arrow's PyCapsule protocol."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from streamjoin.errors import SchemaError

KINDS = "an Arrow table or record batch, a pandas or a Polars DataFrame"


def is_foreign_frame(data: Any) -> bool:
    """Is it a table of another library? Series and arrays follow the protocol too, but have no columns."""
    return not isinstance(data, (pa.Table, pa.RecordBatch)) and all(
        hasattr(data, name) for name in ("__arrow_c_stream__", "columns")
    )


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
        # Polars' own way has text in the layout that Arrow can take rows of; the protocol's has views.
        return data.to_arrow() if hasattr(data, "to_arrow") else pa.table(without_index(data))
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise SchemaError(f"{what} has a column that Arrow cannot hold: {str(error).splitlines()[0]}") from error


def without_index(frame: Any) -> Any:
    """A frame whose rows are known by their position alone: pandas has labels beside them."""
    return frame.reset_index(drop=True) if hasattr(frame, "reset_index") else frame
