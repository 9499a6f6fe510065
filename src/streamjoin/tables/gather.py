"""Columns for the exact test and rows for the result, gathered in the order of the search.

Columns of fixed width without nulls are taken by one compiled loop, into memory that many results share: a slab. Arrow
takes all the others.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamjoin.codegen.program import Part
from streamjoin.codegen.records import Array, address
from streamjoin.intake.columns import as_numpy, cast, flat, without_views
from streamjoin.results.rows import take_rows
from streamjoin.tables.crew import Crew
from streamjoin.tables.layout import Sorted
from streamjoin.tables.memory import room
from streamjoin.tables.side import taken
from streamjoin.tables.take import WIDTHS, Move, take_values

PAYS = 0.7  # results per row from which on it pays to put the rows in order first
SLAB = 1 << 17  # rows of a result that lie together, at most
ALIGNED = 64  # bytes


def _width(column: pa.Array) -> int:
    """The bytes of a value; 0 if the compiled loop cannot take it."""
    if column.null_count or not pa.types.is_primitive(column.type) or column.type.bit_width % 8:
        return 0
    width = int(column.type.bit_width) // 8
    return width if width in WIDTHS else 0


class Columns:
    """A table's columns: plain ones, and those for Arrow."""

    def __init__(self, table: pa.Table) -> None:
        self.schema = table.schema
        arrays = [flat(column) for column in table.columns]
        self.plain = [k for k, array in enumerate(arrays) if _width(array)]
        self.others = [k for k in range(len(arrays)) if k not in self.plain]
        self.types = [array.type for array in arrays]
        self.widths = [_width(arrays[k]) for k in self.plain]
        self.rest = table.select(self.others)
        self._arrays = arrays  # whose addresses are known
        self._moves = Move.array(len(self.plain))
        self._moves["width"] = self.widths
        self._moves["source"] = [_start(arrays[k], width) for k, width in zip(self.plain, self.widths, strict=True)]

    def moves(self, targets: Sequence[int]) -> Array:
        """How the plain columns are taken, given where each of them goes."""
        found = self._moves.copy()
        found["target"] = targets
        return found


@dataclass(frozen=True)
class Tuples:
    """A side by positions in its order."""

    columns: tuple[Array, ...]  # what the exact test reads
    window: tuple[Array, ...]
    rows: Array | None  # the row at each position; None: the position
    table: pa.Table  # whose rows these are

    def place(self, positions: Array) -> Array:
        """Rows of the table at these positions."""
        if self.rows is None:
            return positions
        return self.rows.take(positions, mode="clip")  # in half the time of [positions]

    def take(self, positions: Array) -> pa.Table:
        """The rows at these positions."""
        if not self.table.num_columns:
            return self.table.slice(0, 0)
        return take_rows(self.table, self.place(positions))

    def numbers(self, positions: Array) -> Array:
        """Row numbers at these positions."""
        return self.place(positions).astype(np.int64)


def in_order(
    side: Sorted, parts: tuple[Part, ...], table: pa.Table, time: str | None, expected: float, crew: Crew
) -> Tuples:
    """A side's tuples in order. If more rows are `expected` than there are, the table is put in order, too.

    Neighbours in the result are then neighbours in memory, and the exact test reads the same columns; `time` is the one
    that its window reads, None if it reads none.
    """
    own, order, table = side.side, side.order, without_views(table)
    rows = order if own.rows is None else taken(own.rows, order, crew)
    if rows is None or expected <= PAYS * table.num_rows or not table.num_columns:
        window = own.window if time is None else tuple(taken(array, order, crew) for array in own.window)
        return Tuples(tuple(taken(column, order, crew) for column in own.columns), window, rows, table)
    moved = rows_in_order(table, rows, crew)

    def read(array: Array, name: str) -> Array:
        shared = name in table.column_names and _is_column(array, flat(table.column(name)))
        return as_numpy(flat(moved.column(name))) if shared else taken(array, order, crew)

    columns = tuple(read(column, part.column) for part, column in zip(parts, own.columns, strict=True))
    window = own.window if time is None else tuple(read(array, time) for array in own.window)
    return Tuples(columns, window, None, moved)


def _is_column(array: Array, column: pa.Array) -> bool:
    """Does the array share its memory with a column?"""
    width = _width(column)
    return bool(width) and array.itemsize == width and len(array) > 0 and address(array) == _start(column, width)


def _start(column: pa.Array, width: int) -> int:
    """The address of the first value of a plain column."""
    buffer = column.buffers()[1]
    return int(buffer.address) + int(column.offset) * width if buffer else 0


def rows_in_order(table: pa.Table, rows: Array, crew: Crew) -> pa.Table:
    """The rows with these numbers."""
    columns, n = Columns(table), len(rows)
    arrays: dict[int, pa.Array | pa.ChunkedArray] = {}
    made = [room(n, f"u{width}") for width in columns.widths]
    moves = columns.moves([address(array) for array in made])
    crew.each(lambda begin, end: take_values(moves, rows[begin:end], begin), crew.cut(n))
    for k, array in zip(columns.plain, made, strict=True):
        arrays[k] = pa.Array.from_buffers(columns.types[k], n, [None, pa.py_buffer(array)])
    if columns.others:
        parts = crew.each(take_rows, [(columns.rest, rows[begin:end]) for begin, end in crew.cut(n)])
        whole = pa.concat_tables(parts)
        arrays |= zip(columns.others, crew.each(flat, [(column,) for column in whole.columns]), strict=True)
    return pa.table([arrays[k] for k in range(len(columns.types))], schema=columns.schema)


def take_in_parts(table: pa.Table, rows: Array, missing: bool, crew: Crew) -> pa.Table:
    """The same in the order of a result; `missing`: a number below zero stands for a row of nulls."""
    if not missing:
        return rows_in_order(without_views(table), rows.astype(np.uint32), crew).cast(table.schema)
    parts = [(table, rows[begin:end], True) for begin, end in crew.cut(len(rows))]
    return pa.concat_tables(crew.each(take_rows, parts))


class Slab:
    """Memory for a number of result rows, column after column."""

    def __init__(self, rows: int, widths: Sequence[int]) -> None:
        self.rows, self.used = rows, 0
        self.starts, size = [], 0
        for width in widths:
            self.starts.append(size)
            size += -(-rows * width // ALIGNED) * ALIGNED
        self.buffer = pa.allocate_buffer(size)


@dataclass
class Piece:
    """Some rows of a result: where their plain columns lie, and the others by side."""

    slab: Slab
    first: int
    last: int
    others: list[tuple[pa.Table, pa.Table]]


class ResultRows:
    """Rows of pairs, gathered by several threads: each has a slab of its own."""

    def __init__(self, r: Tuples, s: Tuples, schema: pa.Schema) -> None:
        self._sides, self._schema = (r, s), schema
        self._columns = Columns(r.table), Columns(s.table)
        self._widths = [width for side in self._columns for width in side.widths]
        self._local = threading.local()

    def put(self, a: Array, b: Array) -> list[Piece]:
        """Gathers the rows at these positions of r and s: a slab is filled to its end before there is another one."""
        found, done = [], 0
        while done < len(a):
            slab = getattr(self._local, "slab", None)
            if slab is None or slab.used == slab.rows:
                slab = self._local.slab = Slab(SLAB, self._widths)
                targets = [slab.buffer.address + start for start in slab.starts]
                plain = len(self._columns[0].plain)
                self._local.moves = self._columns[0].moves(targets[:plain]), self._columns[1].moves(targets[plain:])
            end = min(len(a), done + slab.rows - slab.used)
            found.append(self._put(slab, self._local.moves, (a[done:end], b[done:end])))
            done = end
        return found

    def _put(self, slab: Slab, moves: tuple[Array, Array], pairs: tuple[Array, Array]) -> Piece:
        rest, n = [], len(pairs[0])
        for side, columns, move, positions in zip(self._sides, self._columns, moves, pairs, strict=True):
            rows = side.place(positions)
            take_values(move, rows, slab.used)
            rest.append(take_rows(columns.rest, rows) if columns.others else columns.rest)
        slab.used += n
        return Piece(slab, slab.used - n, slab.used, [(rest[0], rest[1])])

    def table(self, found: list[list[Piece]]) -> pa.Table:
        """All rows, in the order of the pieces."""
        pieces = [piece for some in found for piece in some]
        if not pieces:
            return self._schema.empty_table()
        runs = _runs(pieces)
        made: list[pa.ChunkedArray] = []
        number = 0
        for side, columns in enumerate(self._columns):
            parts = [part[side] for piece in pieces for part in piece.others]
            rest = dict(zip(columns.others, pa.concat_tables(parts).columns, strict=True)) if columns.others else {}
            for k, kind in enumerate(columns.types):
                if k in rest:
                    made.append(rest[k])
                    continue
                width = self._widths[number]
                chunks = [_chunk(run, kind, run.slab.starts[number], width) for run in runs]
                made.append(pa.chunked_array(chunks, kind))
                number += 1
        return pa.table(
            [cast(column, field.type) for column, field in zip(made, self._schema, strict=True)], schema=self._schema
        )


def _runs(pieces: list[Piece]) -> list[Piece]:
    """Joins pieces that are adjacent in memory."""
    found: list[Piece] = []
    for piece in pieces:
        if found and found[-1].slab is piece.slab and found[-1].last == piece.first:
            found[-1] = Piece(piece.slab, found[-1].first, piece.last, [])
        else:
            found.append(piece)
    return found


def _chunk(run: Piece, kind: pa.DataType, start: int, width: int) -> pa.Array:
    rows = run.last - run.first
    values = run.slab.buffer.slice(start + run.first * width, rows * width)
    return pa.Array.from_buffers(kind, rows, [None, values], 0)
