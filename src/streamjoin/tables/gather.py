"""From positions of pairs to result rows, part by part, in the threads that found them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamjoin.codegen.records import Array
from streamjoin.intake.columns import flat, without_views
from streamjoin.results.rows import take_rows
from streamjoin.tables.crew import Crew
from streamjoin.tables.layout import Sorted

PAYS = 0.7  # results per row from which on it pays to put the rows in order first


class Payload:
    """A table whose rows are asked for by their positions in a sorted side."""

    def __init__(self, table: pa.Table, side: Sorted, expected: float, crew: Crew) -> None:
        rows = side.side.rows if side.order is None else side.side.rows[side.order]
        as_they_are = side.order is None and len(rows) == table.num_rows
        self._rows: Array | None = None if as_they_are else rows
        self._table = table = without_views(table)  # which Arrow cannot take rows of
        if not as_they_are and expected > PAYS * table.num_rows:  # neighbours in the result are then neighbours here
            self._table, self._rows = _in_order(table, rows, crew), None

    def take(self, positions: Array) -> pa.Table:
        """The rows at these positions."""
        return take_rows(self._table, positions if self._rows is None else self._rows[positions])


def _in_order(table: pa.Table, rows: Array, crew: Crew) -> pa.Table:
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


def in_row_numbers(parts: list[tuple[Array, Array]], r: Sorted, s: Sorted) -> tuple[Array, Array]:
    """Row numbers of pairs of positions."""
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    found = []
    for k, side in enumerate((r, s)):
        positions = np.concatenate([part[k] for part in parts])
        rows = side.side.rows if side.order is None else side.side.rows[side.order]
        found.append(rows[positions].astype(np.int64))
    return found[0], found[1]
