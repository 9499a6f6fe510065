"""The rows behind the tuple numbers: payload of any Arrow type, kept as long as a pair may need it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.codegen.records import Array
from streamjoin.intake.columns import row_numbers, without_views
from streamjoin.intake.frames import is_foreign_frame, without_index
from streamjoin.windows import FOREVER

GROWTH = 2
SMALL, FEW = 1 << 10, 16  # batches of fewer rows wait to be merged, until there are this many of them
MOST_ROWS, MOST_BYTES = 1 << 20, 1 << 28  # a chunk is dropped as a whole, and copied as a whole when it grows

Chunk = tuple[pa.Table, int, int]  # rows, the first one's number, their largest `at`


class Rows:
    """Consecutive chunks of one stream's rows, oldest first.

    A change is made as a whole: after an interruption at any moment, each row is still found by its number.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.next = 0  # number of the next row
        self._chunks: list[Chunk] = []
        self._small = 0  # chunks at the end that are not merged yet

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for table, _, _ in self._chunks)

    @property
    def oldest(self) -> int:
        """The number of the oldest row that is kept."""
        return self._chunks[0][1] if self._chunks else self.next

    @property
    def first_end(self) -> int:
        """The largest `at` in the oldest chunk, which is dropped when that has expired."""
        return self._chunks[0][2] if self._chunks else FOREVER

    def append(self, table: pa.Table | pa.RecordBatch, last_at: int) -> None:
        """Adds rows whose largest `at` is `last_at`; merges small chunks when there are many."""
        if not table.num_rows:
            return
        if isinstance(table, pa.RecordBatch):
            table = pa.Table.from_batches([table])
        chunks = [*self._chunks, (table, self.next, last_at)]
        small = self._small + 1
        if small == FEW or table.num_rows >= SMALL:
            chunks = [*chunks[:-small], self._merged(chunks[-small:])]
            while len(chunks) > 1 and _mergeable(chunks[-2][0], chunks[-1][0]):
                chunks[-2:] = [self._merged(chunks[-2:])]
            small = 0
        self._chunks = chunks
        self._small = small
        self.next += table.num_rows

    def _merged(self, chunks: list[Chunk]) -> Chunk:
        whole = single_batch(pa.concat_tables([table for table, _, _ in chunks]))
        return pa.Table.from_batches([whole], self.schema), chunks[0][1], max(at for _, _, at in chunks)

    def take(self, numbers: Array, names: list[str] | None = None) -> pa.Table:
        """The rows with these numbers, in their order: all columns, or these."""
        chunks = self._chunks
        if names is not None:
            chunks = [(table.select(names), first, last_at) for table, first, last_at in chunks]
        home = np.searchsorted([first for _, first, _ in chunks], numbers, side="right") - 1
        used = np.flatnonzero(np.bincount(home))
        if len(used) == 1:
            table, first, _ = chunks[used[0]]
            return take_rows(table, numbers - first)
        pieces, order, done = [], np.empty(len(numbers), np.int64), 0
        for chunk in used:
            table, first, _ = chunks[chunk]
            where = np.flatnonzero(home == chunk)
            pieces.append(take_rows(table, numbers[where] - first))
            order[where] = np.arange(done, done + len(where))
            done += len(where)
        return take_rows(pa.concat_tables(pieces), order)

    def expired(self, horizon: int, below: int) -> int:
        """How many chunks lie wholly below the horizon, of rows whose numbers lie below a number."""
        gone = 0
        for table, first, last_at in self._chunks:
            if last_at >= horizon or first + table.num_rows > below:
                break
            gone += 1
        return gone

    def forget(self, chunks: int) -> None:
        """Drops the oldest chunks."""
        self._chunks = self._chunks[chunks:]
        self._small = min(self._small, len(self._chunks))


def _mergeable(before: pa.Table, chunk: pa.Table) -> bool:
    return (
        before.num_rows < GROWTH * chunk.num_rows
        and before.num_rows + chunk.num_rows <= MOST_ROWS
        and bool(before.nbytes + chunk.nbytes <= MOST_BYTES)
    )


def take_rows(table: pa.Table, rows: Array, missing: bool = False) -> pa.Table:
    """The rows with these numbers, in several chunks if one could not hold all of their text.

    `missing`: a number below zero stands for a row of nulls.
    """
    try:
        return table.take(row_numbers(rows, missing))
    except pa.ArrowNotImplementedError:  # Arrow can neither take rows of views nor encode them
        plain = without_views(table)
        if plain is table:
            raise
        return take_rows(plain, rows, missing).cast(table.schema)
    except pa.ArrowInvalid:
        if len(rows) < 2:
            raise
        half = len(rows) // 2
        return pa.concat_tables([take_rows(table, rows[:half], missing), take_rows(table, rows[half:], missing)])


def side_by_side(r: pa.Table, s: pa.Table, schema: pa.Schema) -> pa.Table:
    """Result rows: the columns of both, under the names of the result."""
    return pa.table([*r.columns, *s.columns], schema=schema)


def gather(
    frames: tuple[Any, Any], tables: tuple[pa.Table, pa.Table], rows: tuple[Array, Array], schema: pa.Schema
) -> Any:
    """Rows of two tables side by side, as a table of the frames' kind. pandas and Polars keep their own values.

    `tables` are the frames as Arrow tables, from which results of every other kind are made.
    """
    if not is_foreign_frame(frames[0]):
        return _gathered(tables, rows, schema)
    import narwhals.stable.v2 as nw

    native = [nw.from_native(frame, eager_only=True, pass_through=True) for frame in frames]
    if not all(isinstance(frame, nw.DataFrame) for frame in native):
        return _gathered(tables, rows, schema)
    names, pieces = iter(schema.names), []
    for frame, chosen in zip(native, rows, strict=True):
        taken = frame[chosen, :]
        taken = taken.rename({old: next(names) for old in taken.columns})
        pieces.append(nw.from_native(without_index(taken.to_native()), eager_only=True))
    return nw.to_native(nw.concat(pieces, how="horizontal"))


def _gathered(tables: tuple[pa.Table, pa.Table], rows: tuple[Array, Array], schema: pa.Schema) -> pa.Table:
    return side_by_side(take_rows(tables[0], rows[0]), take_rows(tables[1], rows[1]), schema)


def widened(schema: pa.Schema) -> pa.Schema:
    """The schema with room for the dictionaries of a whole window: a batch's own may need fewer bits."""

    def field(old: pa.Field) -> pa.Field:
        t = old.type
        if not pa.types.is_dictionary(t) or t.index_type.bit_width >= 32:
            return old
        return old.with_type(pa.dictionary(pa.int32(), t.value_type, t.ordered))

    return pa.schema([field(old) for old in schema], schema.metadata)


def single_batch(table: pa.Table) -> pa.RecordBatch:
    """A table as one record batch."""
    batches = table.combine_chunks().to_batches()
    if len(batches) == 1:
        return batches[0]
    return pa.RecordBatch.from_arrays(
        [
            pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
            for column in table.columns
        ],
        schema=table.schema,
    )
