"""Rows of plain values: stored row by row in blocks, gathered into result batches by compiled code.

    number      ....|  block  |  block  |  block ..
    block       [ts x y][ts x y][ts x y] ..           a row lies in one or two cache lines

Arrow's `take` costs some ten microseconds a side, however few rows it takes, and a table of small batches must be
merged repeatedly. Here a batch is copied once. Result rows are written into a block of Arrow columns, of which slices
are handed out as they are filled. A slice never changes, and keeps its block alive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.codegen.records import Array, address, words
from streamjoin.intake.columns import as_numpy
from streamjoin.intake.exported import ArrowArray, release
from streamjoin.intake.packed import PackedRows
from streamjoin.results.plain_kernels import BLOCK, SHIFT, TILE, Cell, Gather, Kept, Source, gather, keep
from streamjoin.windows import FOREVER, SINCE_EVER

WIDTHS = (1, 2, 4, 8, 16)
BLOCK_BYTES = 1 << 17  # of a block of results
EXPORTED, FIRST, BLOCKS, MASK = (Kept.word(name) for name in ("exported", "first", "blocks", "mask"))
DONE, COUNT, NUMBERS = (Gather.word(name) for name in ("done", "count", "numbers"))


def is_plain(schema: pa.Schema) -> bool:
    """Are there columns, and do the values of each have a fixed size in bytes?"""
    return len(schema) > 0 and all(width_of(field.type) for field in schema)


def width_of(t: pa.DataType) -> int:
    """The bytes of a value; 0 if its size varies or is less than a byte, or if it lies in another buffer."""
    plain = (pa.types.is_primitive(t) and not pa.types.is_boolean(t)) or pa.types.is_decimal128(t)
    return t.bit_width // 8 if plain and t.bit_width // 8 in WIDTHS else 0


class PlainRows:
    """Rows of one side, oldest first, for columns of plain values. See `Rows`."""

    def __init__(self, schema: pa.Schema, pushed: pa.Schema) -> None:
        """`schema`: the kept ones of the columns of pushed batches."""
        self.schema = schema
        widths = [width_of(field.type) for field in schema]
        offset, cells = 0, np.zeros(len(schema), Cell.dtype)
        for k in sorted(range(len(widths)), key=lambda k: -widths[k]):  # so that each is aligned
            cells[k] = pushed.get_field_index(schema.field(k).name), widths[k], offset
            offset += widths[k]
        self.cells = cells
        self._row = -(-offset // 8) * 8
        self._records = Kept.array(1)
        self.address, self._words = address(self._records), words(self._records)
        record = self._records[0]
        record.cells, record.cell_count, record.row, record.keep = address(cells), len(cells), self._row, keep.address
        self._exported = ArrowArray.array(1)
        self._slot = address(self._exported)
        self._keep, self._let_go = keep.compiled, release.compiled
        self.next = 0
        self._base = 0  # the first block
        self._blocks: list[Array] = []
        self._ends: list[int] = []  # the largest `at` in each
        self.has_nulls = False
        self._nulls: list[dict[int, Array]] = []  # by block and column: which values are not null, if some are
        self._spare: Array | None = None
        self._use_table(np.zeros(16, np.int64))

    def _use_table(self, table: Array) -> None:
        """The addresses of the blocks: block b at index b modulo the table's length, a power of two."""
        self._table = table
        self._words[BLOCKS], self._words[MASK] = address(table), len(table) - 1

    def _add_block(self, block: Array) -> None:
        """Adds a block at the end. It does not move until it is dropped."""
        if len(self._blocks) == len(self._table):
            first, old = self._base, self._table
            numbers = np.arange(first, first + len(old))
            table = np.zeros(2 * len(old), np.int64)
            table[numbers & (len(table) - 1)] = old[numbers & (len(old) - 1)]
            self._use_table(table)
        self._table[(self._base + len(self._blocks)) & (len(self._table) - 1)] = address(block)
        self._blocks.append(block)
        self._ends.append(SINCE_EVER)
        self._nulls.append({})

    @property
    def nbytes(self) -> int:
        return (self.next - self.oldest) * self._row

    @property
    def oldest(self) -> int:
        """The number of the oldest row that is kept."""
        return self._base << SHIFT

    @property
    def first_end(self) -> int:
        """The largest `at` in the oldest block, which is dropped when that has expired and the block is full."""
        return self._ends[0] if (self._base + 1) << SHIFT <= self.next else FOREVER

    def append(self, rows: pa.Table | pa.RecordBatch | PackedRows, last_at: int) -> None:
        """Adds rows whose largest `at` is `last_at`."""
        for batch in rows.to_batches() if isinstance(rows, pa.Table) else (rows,):
            if batch.num_rows:
                self._append(batch, last_at)

    def _append(self, batch: pa.RecordBatch | PackedRows, last_at: int) -> None:
        if self.room < batch.num_rows:
            self.make_room(batch.num_rows)
        self._words[FIRST], self._words[EXPORTED] = self.next, self._slot
        batch._export_to_c(self._slot)
        nulls = self._keep(self.address)
        self._let_go(self._slot)
        self.kept(batch, last_at, bool(nulls))

    def kept(self, batch: pa.RecordBatch | PackedRows, last_at: int, nulls: bool) -> None:
        """Compiled code has copied the next rows."""
        if nulls:
            self._note_nulls(batch)
        stop, ends, base = self.next + batch.num_rows, self._ends, self._base
        for block in range((self.next >> SHIFT) - base, ((stop - 1) >> SHIFT) - base + 1):
            if ends[block] < last_at:
                ends[block] = last_at
        self.next = stop

    @property
    def room(self) -> int:
        """Rows that fit without another block."""
        return ((self._base + len(self._blocks)) << SHIFT) - self.next

    def make_room(self, count: int) -> None:
        """Makes room for `count` rows."""
        while self.room < count:
            block, self._spare = self._spare, None
            self._add_block(np.empty(BLOCK * self._row, np.uint8) if block is None else block)

    def _note_nulls(self, batch: pa.RecordBatch | PackedRows) -> None:
        for c, child in enumerate(self.cells["child"].tolist()):
            column = batch.column(child)
            if not column.null_count:
                continue
            valid, done = as_numpy(column.is_valid()), 0
            while done < len(valid):
                block, inside = divmod(self.next + done, BLOCK)
                count = min(len(valid) - done, BLOCK - inside)
                known = self._nulls[block - self._base].setdefault(c, np.ones(BLOCK, np.bool_))
                known[inside : inside + count] = valid[done : done + count]
                done += count
        self.has_nulls = True

    def take(self, numbers: Array, names: list[str] | None = None) -> pa.Table:
        """The rows with these numbers, in their order: all columns, or these."""
        count = len(numbers)
        numbers = np.ascontiguousarray(numbers, np.int64)
        chosen = [self.schema.get_field_index(name) for name in self.schema.names if names is None or name in names]
        cells = self.cells[chosen]
        columns = [np.empty(count * width, np.uint8) for width in cells["each"].tolist()]
        asked, sources = Gather.new(), Source.array(len(columns))
        for source, cell, column in zip(sources, cells, columns, strict=True):
            source.each, source.offset, source.start = cell["each"], cell["offset"], address(column)
        asked.kept[0], asked.numbers[0], asked.count = self.address, address(numbers), count
        asked.sources, asked.source_count = address(sources), len(sources)
        gather(address(asked))
        arrays = []
        schema = pa.schema([self.schema.field(c) for c in chosen])
        for c, field, column in zip(chosen, schema, columns, strict=True):
            arrays.append(pa.Array.from_buffers(field.type, count, [self._validity(c, numbers), pa.py_buffer(column)]))
        return pa.table(arrays, schema=schema)

    def _validity(self, c: int, numbers: Array) -> pa.Buffer | None:
        """Which of the rows are not null in a column; None if all are."""
        if not any(c in nulls for nulls in self._nulls):
            return None
        everywhere = np.ones(BLOCK, np.bool_)
        known = np.concatenate([nulls.get(c, everywhere) for nulls in self._nulls])
        return pa.py_buffer(np.packbits(known[numbers - (self._base << SHIFT)], bitorder="little"))

    def expired(self, horizon: int, below: int) -> int:
        """How many blocks lie wholly below the horizon, of rows whose numbers lie below a number.

        Only full blocks count: compiled code may be writing to the last one.
        """
        gone, stop = 0, min(below, self.next)
        while (self._base + gone + 1) << SHIFT <= stop and self._ends[gone] < horizon:
            gone += 1
        return gone

    def forget(self, blocks: int) -> None:
        """Drops the oldest blocks."""
        self._spare = self._blocks[0]
        self._blocks, self._ends, self._nulls = self._blocks[blocks:], self._ends[blocks:], self._nulls[blocks:]
        self._base += blocks
        self.has_nulls = any(self._nulls)


class ResultBlocks:
    """Makes batches of results with plain columns: slices of a block that is filled from its beginning."""

    def __init__(
        self, schema: pa.Schema, sides: dict[int, PlainRows], sources: Sequence[tuple[int, int] | None]
    ) -> None:
        """`sides`: the sides with result columns. `sources`: for each result column its side, and its index there.

        A column without a source has nulls only.
        """
        self._schema, self._sides = schema, list(sides.values())
        self._filled = [source is not None for source in sources]
        known = [source for source in sources if source is not None]
        self._sources = Source.array(len(known))
        for source, (side, c) in zip(self._sources, known, strict=True):
            cell = sides[side].cells[c]
            source["side"], source["each"], source["offset"] = side, cell["each"], cell["offset"]
        self._widths = self._sources["each"].tolist()
        self._asked = Gather.array(1)
        self._address, self._words = address(self._asked), words(self._asked)
        asked = self._asked[0]
        for number, rows in sides.items():
            asked.kept[number] = rows.address
        asked.sources, asked.source_count = address(self._sources), len(known)
        self._gather = gather.compiled
        self._room = 0
        self._usual = max(TILE, BLOCK_BYTES // sum(self._widths))
        self._block: Any = None

    def batch(self, r: Array, s: Array) -> pa.RecordBatch | None:
        """The rows of results; None if some of their values are null."""
        count, known = len(r), self._words
        for side in self._sides:
            if side.has_nulls:
                return None
        done = known[DONE]
        if done + count > self._room:
            self._begin(max(count, self._usual))
            done = 0
        known[COUNT], known[NUMBERS], known[NUMBERS + 1] = count, address(r), address(s)
        if not self._gather(self._address):
            return None
        return self._block.slice(done, count)

    def _begin(self, room: int) -> None:
        """A new block, for `room` results."""
        buffers = [pa.allocate_buffer(room * width) for width in self._widths]
        self._sources["start"] = [buffer.address for buffer in buffers]
        values = iter(buffers)
        columns = [
            pa.Array.from_buffers(field.type, room, [None, next(values)]) if filled else pa.nulls(room, field.type)
            for field, filled in zip(self._schema, self._filled, strict=True)
        ]
        self._block = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        self._room, self._words[DONE] = room, 0
