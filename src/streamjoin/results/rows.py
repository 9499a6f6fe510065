"""The rows behind the tuple numbers: payload of any Arrow type, kept as long as a pair may need it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamjoin.codegen.records import Array
from streamjoin.intake.columns import take_rows

GROWTH = 2
MOST_ROWS, MOST_BYTES = 1 << 20, 1 << 28  # a chunk is dropped as a whole, and copied as a whole when it grows


class Rows:
    """Consecutive chunks of one stream's rows, oldest first."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.next = 0  # number of the next row
        self._chunks: list[pa.RecordBatch] = []
        self._first: list[int] = []
        self._last_at: list[int] = []

    @property
    def nbytes(self) -> int:
        return sum(chunk.nbytes for chunk in self._chunks)

    @property
    def oldest(self) -> int:
        """The number of the oldest row that is kept."""
        return self._first[0] if self._first else self.next

    def append(self, table: pa.Table, last_at: int) -> None:
        """Adds rows whose largest place is `last_at`, merging small chunks so that they stay few."""
        if not table.num_rows:
            return
        chunk, first = single_batch(table), self.next
        self.next += len(chunk)
        while self._chunks and self._mergeable(chunk):
            before = self._chunks.pop()
            first, last_at = self._first.pop(), max(last_at, self._last_at.pop())
            chunk = single_batch(pa.Table.from_batches([before, chunk], self.schema))
        self._chunks.append(chunk)
        self._first.append(first)
        self._last_at.append(last_at)

    def _mergeable(self, chunk: pa.RecordBatch) -> bool:
        before = self._chunks[-1]
        return (
            len(before) < GROWTH * len(chunk)
            and len(before) + len(chunk) <= MOST_ROWS
            and before.nbytes + chunk.nbytes <= MOST_BYTES
        )

    def take(self, numbers: Array) -> pa.Table:
        """The rows with these numbers, in their order."""
        home = np.searchsorted(np.asarray(self._first), numbers, side="right") - 1
        used = np.unique(home)
        if len(used) == 1:
            chunk = int(used[0])
            return self._take(chunk, numbers)
        pieces, order = [], np.empty(len(numbers), np.int64)
        done = 0
        for chunk in used:
            where = np.flatnonzero(home == chunk)
            pieces.append(self._take(int(chunk), numbers[where]))
            order[where] = np.arange(done, done + len(where))
            done += len(where)
        return take_rows(pa.concat_tables(pieces), order)

    def _take(self, chunk: int, numbers: Array) -> pa.Table:
        return take_rows(pa.Table.from_batches([self._chunks[chunk]]), numbers - self._first[chunk])

    def expire(self, horizon: int, below: int) -> None:
        """Forgets chunks that lie wholly below the horizon, of rows whose numbers lie below a number."""
        gone = 0
        while gone < len(self._chunks) and self._last_at[gone] < horizon:
            if self._first[gone] + len(self._chunks[gone]) > below:
                break
            gone += 1
        if gone:
            del self._chunks[:gone], self._first[:gone], self._last_at[:gone]


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
