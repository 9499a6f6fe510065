"""Expressions over pairs as arrays: of positions in two tables, or of rows side by side."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from streamjoin.codegen.compute import FAULT, FAULT_WORDS, OUT, POSITIONS_R, POSITIONS_S, ROWS, Computation
from streamjoin.codegen.records import Array, address
from streamjoin.errors import DataError
from streamjoin.intake.columns import physical_columns, show
from streamjoin.predicate.tree import Node, brief
from streamjoin.predicate.types import Type, range_of, to_arrow


@dataclass(frozen=True)
class Values:
    """Of one expression: its values, and where it is not null."""

    values: Array
    valid: Array


@lru_cache(maxsize=64)
def computation(nodes: tuple[Node, ...], aligned: bool) -> Computation:
    """The computation of expressions, kept, since live results are computed batch by batch."""
    return Computation(nodes, aligned)


class Computed:
    """Expressions over the rows of two tables, by positions in them."""

    def __init__(self, nodes: tuple[Node, ...], r: pa.Table, s: pa.Table, aligned: bool = False) -> None:
        self._computation = computation(nodes, aligned)
        sides = zip("rs", (r, s), self._computation.sides(), strict=True)
        self._columns = tuple(physical_columns(table, parts, side) for side, table, parts in sides)

    def of(self, r: Array, s: Array) -> list[Values]:
        """The values of all expressions for these pairs of positions."""
        return self._run(len(r), np.ascontiguousarray(r, np.int64), np.ascontiguousarray(s, np.int64))

    def rows(self, n: int) -> list[Values]:
        """The values for n rows that lie side by side."""
        none = np.zeros(0, np.int64)
        return self._run(n, none, none)

    def _run(self, n: int, r: Array, s: Array) -> list[Values]:
        made = self._computation
        found = [Values(np.zeros(n, dtype), np.zeros(n, np.bool_)) for dtype in made.dtypes]
        if not made.nodes or not n:
            return found
        fault = np.zeros(FAULT_WORDS, np.int64)
        outs = [address(one.values) for one in found] + [address(one.valid) for one in found]
        columns = [address(column) for side in self._columns for column in side]
        frame = np.zeros(OUT + len(outs) + len(columns), np.int64)
        frame[ROWS], frame[FAULT] = n, address(fault)
        frame[POSITIONS_R], frame[POSITIONS_S] = address(r), address(s)
        frame[OUT:] = outs + columns
        made.compute(address(frame))
        if fault[0]:
            at = int(fault[1])
            pair = (int(r[at]), int(s[at])) if len(r) else (at, at)
            raise self._overflow(made.nodes[int(fault[0]) - 1], pair)
        return found

    def _overflow(self, node: Node, pair: tuple[int, int]) -> DataError:
        values = [
            f"{side}.{part.column} = {show(column[row], part.type)}"
            for side, parts, columns, row in zip("rs", self._computation.sides(), self._columns, pair, strict=True)
            for part, column in zip(parts, columns, strict=True)
            if part.role == "value"
        ]
        return DataError(
            f"integer overflow in {brief(node)} for {', '.join(values)}: the result does not fit its type; cast an "
            "operand to DOUBLE, or filter such values out"
        )


def as_arrow(found: Values, node: Node) -> pa.Array:
    """Computed values as an Arrow array of the expression's type."""
    t = node.typed
    low, high = range_of(t)
    values = found.values
    if t.kind in ("int", "date", "decimal"):
        wrong = found.valid & ((values < low) | (values > high))
        if wrong.any():
            raise DataError(
                f"{brief(node)} is {show(values[wrong.argmax()], t)} in some row, which is no {t}; cast an operand to "
                "a wider type"
            )
    return to_array(values, found.valid, t)


def to_array(values: Array, valid: Array | None, t: Type) -> pa.Array:
    """Values as they are stored, as an Arrow array of a type; null where they are not valid."""
    n, kind = len(values), to_arrow(t)
    bitmap = None
    if valid is not None and not valid.all():
        bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
    if t.kind == "bool":
        return pa.Array.from_buffers(kind, n, [bitmap, pa.py_buffer(np.packbits(values, bitorder="little"))])
    if t.kind == "decimal":
        return decimals(values.view(np.uint64), values >> 63, bitmap, kind)
    stored = np.ascontiguousarray(values, t.stored)
    return pa.Array.from_buffers(kind, n, [bitmap, pa.py_buffer(stored)])


def decimals(low: Array, high: Array, bitmap: pa.Buffer | None, kind: pa.DataType) -> pa.Array:
    """Decimals from the two words of their scaled integers."""
    words = np.empty((len(low), 2), np.uint64)
    words[:, 0], words[:, 1] = low, high.view(np.uint64)
    return pa.Array.from_buffers(kind, len(low), [bitmap, pa.py_buffer(words)])
