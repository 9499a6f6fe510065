"""What is read of two sides in their order: columns for the exact test, and rows for the result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamjoin.codegen.program import Part
from streamjoin.codegen.records import Array
from streamjoin.intake.columns import as_numpy, flat, lies_as, without_views
from streamjoin.results.rows import take_rows
from streamjoin.tables.crew import Crew
from streamjoin.tables.layout import Sorted
from streamjoin.tables.side import taken

PAYS = 0.7  # results per row from which on it pays to put the rows in order first


@dataclass(frozen=True)
class Tuples:
    """A side by positions in its order."""

    columns: tuple[Array, ...]  # what the exact test reads
    window: tuple[Array, ...]
    rows: Array | None  # the row at each position; None: the position
    table: pa.Table  # whose rows these are

    def take(self, positions: Array) -> pa.Table:
        """The rows at these positions."""
        if not self.table.num_columns:
            return self.table.slice(0, 0)
        return take_rows(self.table, positions if self.rows is None else self.rows[positions])

    def numbers(self, positions: Array) -> Array:
        """Row numbers at these positions."""
        return positions.astype(np.int64) if self.rows is None else self.rows[positions].astype(np.int64)


def in_order(
    side: Sorted, parts: tuple[Part, ...], table: pa.Table, windowed: bool, expected: float, crew: Crew
) -> Tuples:
    """A side's tuples in order. If more rows are `expected` than there are, the table is put in order, too.

    Neighbours in the result are then neighbours in memory, and the exact test reads the same columns.
    """
    own, order, table = side.side, side.order, without_views(table)
    rows = order if own.rows is None else taken(own.rows, order, crew)
    window = tuple(taken(array, order, crew) for array in own.window) if windowed else own.window
    if rows is None or expected <= PAYS * table.num_rows or not table.num_columns:
        return Tuples(tuple(taken(column, order, crew) for column in own.columns), window, rows, table)
    table = _rows_in_order(table, rows, crew)
    columns = []
    for part, column in zip(parts, own.columns, strict=True):
        moved = flat(table.column(part.column)) if part.column in table.column_names else None
        if moved is not None and part.role == "value" and lies_as(moved.type, part.dtype) and not moved.null_count:
            columns.append(as_numpy(moved))
        else:
            columns.append(taken(column, order, crew))
    return Tuples(tuple(columns), window, None, table)


def _rows_in_order(table: pa.Table, rows: Array, crew: Crew) -> pa.Table:
    parts = crew.each(take_rows, [(table, rows[begin:end]) for begin, end in crew.cut(len(rows))])
    whole = pa.concat_tables(parts)
    return pa.table(crew.each(flat, [(column,) for column in whole.columns]), schema=whole.schema)


def side_by_side(parts: list[tuple[pa.Table, pa.Table]], schema: pa.Schema) -> pa.Table:
    """Rows of r and s beside each other."""
    if not parts:
        return schema.empty_table()
    whole = pa.concat_tables([pa.table([*r.columns, *s.columns], names=schema.names) for r, s in parts])
    return pa.table(
        [_as(column, field.type) for column, field in zip(whole.columns, schema, strict=True)], schema=schema
    )


def _as(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    return column if column.type == kind else column.cast(kind)
