"""The selected columns of results, by row numbers: of both sides, null where a partner is missing, and computed ones.

The result is a table of the inputs' kind. pandas and Polars keep their own values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.codegen.records import Array
from streamjoin.intake.columns import cast
from streamjoin.intake.frames import is_foreign_frame, without_index
from streamjoin.plan.columns import Column
from streamjoin.predicate.tree import SIDES, columns
from streamjoin.results.computed import Computed, as_arrow
from streamjoin.results.rows import take_rows

Rows = tuple[Array, Array]  # of r and of s; -1 where there is none
Take = Callable[[pa.Table, Array, bool], pa.Table]  # rows by their numbers; are some of them -1?


def needed(wanted: list[Column], side: int) -> list[str]:
    """The columns of a side that results need."""
    letter = SIDES[side]
    found = [column.source.name for column in wanted if column.side == side]
    nodes = [column.node for column in wanted if column.node is not None]
    found += [name for owner, name in sorted(columns(*nodes)) if owner == letter]
    return list(dict.fromkeys(found))


def beside(wanted: list[Column], r: pa.Table, s: pa.Table, more: Mapping[str, pa.Array] | None = None) -> pa.Table:
    """A result from rows that lie side by side; `more` are columns that were computed elsewhere, by name."""
    nodes = tuple(column.node for column in wanted if column.node is not None)
    made = iter(zip(nodes, Computed(nodes, r, s, aligned=True).rows(_length(r, s)), strict=True) if nodes else ())
    arrays = []
    for column in wanted:
        if column.side is not None:
            array = (r, s)[column.side].column(column.source.name)
        elif column.node is not None:
            node, values = next(made)
            array = as_arrow(values, node)
        else:
            array = (more or {})[column.name]
        arrays.append(cast(array, column.source.type))
    return pa.table(arrays, schema=pa.schema([column.field for column in wanted]))


def _length(r: pa.Table, s: pa.Table) -> int:
    return int(r.num_rows if r.num_columns else s.num_rows)


@dataclass(frozen=True)
class Assembly:
    """The inputs of results: the given frames, the same as Arrow tables, and the selected columns.

    `take_rows` takes rows of a table, possibly in several threads.
    """

    frames: tuple[Any, Any]
    tables: tuple[pa.Table, pa.Table]
    wanted: list[Column]
    take_rows: Take = take_rows

    def take(self, rows: Rows) -> tuple[pa.Table, pa.Table]:
        """The needed columns of both sides, side by side."""
        found = []
        for side in (0, 1):
            table = self.tables[side].select(needed(self.wanted, side))
            if table.num_columns:
                table = self.take_rows(table, rows[side], bool((rows[side] < 0).any()))
            found.append(table)
        return found[0], found[1]

    def table(self, rows: Rows, more: Mapping[str, pa.Array] | None = None) -> pa.Table:
        """The result as an Arrow table."""
        return beside(self.wanted, *self.take(rows), more)

    def result(self, rows: Rows, more: Mapping[str, pa.Array] | None = None) -> Any:
        """The result as a table of the frames' kind."""
        if self._namespace is None:
            return self.table(rows, more)
        made: dict[str, pa.ChunkedArray] = {}
        computed = [column for column in self.wanted if column.side is None]
        if computed:
            part = replace(self, frames=self.tables, wanted=computed).table(rows, more)
            made = dict(zip(part.column_names, part.columns, strict=True))
        taken = [self._native(side, rows[side]) for side in (0, 1)]
        found = {}
        for column in self.wanted:
            found[column.name] = (
                self._series(made[column.name]) if column.side is None else taken[column.side][column.source.name]
            )
        return self._namespace.DataFrame(found)

    @cached_property
    def _namespace(self) -> Any:
        """The library of the frames, if it keeps its own values."""
        if not is_foreign_frame(self.frames[0]):
            return None
        import narwhals.stable.v2 as nw

        native = [nw.from_native(frame, eager_only=True, pass_through=True) for frame in self.frames]
        if not all(isinstance(frame, nw.DataFrame) for frame in native):
            return None
        known = native[0].implementation
        return nw.get_native_namespace(native[0]) if known.is_pandas_like() or known.is_polars() else None

    def _native(self, side: int, rows: Array) -> dict[str, Any]:
        """Columns of a side, as their library has them."""
        names = [column.source.name for column in self.wanted if column.side == side]
        frame = without_index(self.frames[side])
        index = {str(name): k for k, name in enumerate(frame.columns)}
        missing = bool((rows < 0).any())
        if hasattr(frame, "iloc"):
            part = frame.iloc[:, [index[name] for name in dict.fromkeys(names)]]
            part = without_index(part.reindex(rows) if missing else part.take(rows))
            return {name: part.iloc[:, k] for k, name in enumerate(dict.fromkeys(names))}
        chosen = self._namespace.from_arrow(pa.array(np.where(rows < 0, 0, rows)))
        if missing:
            chosen = self._namespace.from_arrow(pa.array(rows, mask=rows < 0))
        return {name: frame.to_series(index[name]).gather(chosen) for name in dict.fromkeys(names)}

    def _series(self, column: pa.ChunkedArray) -> Any:
        return column.to_pandas() if not hasattr(self._namespace, "from_arrow") else self._namespace.from_arrow(column)
