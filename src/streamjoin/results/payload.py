"""Result rows from tuple numbers: which columns each side keeps for them, and how they are put together."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamjoin.codegen.records import Array
from streamjoin.intake.packed import PackedRows
from streamjoin.plan.plan import SIDES, Plan
from streamjoin.results.numbers import NOBODY, aside
from streamjoin.results.plain import PlainRows, ResultBlocks, is_plain
from streamjoin.results.rows import Rows, take_rows
from streamjoin.results.schema import columns

NOTHING = pa.schema([("", pa.null())])  # stands for rows of which no column is needed; it takes no memory


class Payload:
    """The rows of one side, as far as results need them."""

    def __init__(self, schema: pa.Schema, pushed: pa.Schema) -> None:
        """`schema`: of the columns that are needed, of those that batches have."""
        self._needed, self._pushed = bool(schema.names), pushed
        self._schema = schema if self._needed else NOTHING
        self.clear()

    def clear(self) -> None:
        """Forgets all rows."""
        self.rows = self._new_rows()  # of tuples that take part in the join
        self.aside = self._new_rows()  # of those that cannot match anything, and come out nevertheless

    def _new_rows(self) -> Rows | PlainRows:
        return PlainRows(self._schema, self._pushed) if is_plain(self._schema) else Rows(self._schema)

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.aside.nbytes

    def append(self, table: pa.Table | pa.RecordBatch | PackedRows, last_at: int, member: bool = True) -> None:
        """The next rows, with their largest place in the window."""
        rows, names = self.rows if member else self.aside, self._schema.names
        if isinstance(rows, PlainRows):
            rows.append(table, last_at)
            return
        if not self._needed:
            table = pa.table([pa.nulls(table.num_rows)], schema=NOTHING)
        elif isinstance(table, PackedRows):
            table = table.batch()
        rows.append(table.select(names) if table.num_columns > len(names) else table, last_at)

    def kept(self, batch: pa.RecordBatch | PackedRows, last_at: int, nulls: bool) -> None:
        """Compiled code has copied the next rows."""
        assert isinstance(self.rows, PlainRows)
        self.rows.kept(batch, last_at, nulls)

    def take(self, numbers: Array) -> list[pa.ChunkedArray]:
        """The columns of the rows with these numbers; nulls for nobody."""
        parts = (self.rows, numbers >= 0, numbers), (self.aside, numbers < NOBODY, aside(numbers))
        if not self._needed:
            return []
        if parts[0][1].all():
            return list(self.rows.take(numbers).columns)
        pieces, where, done = [self._schema.empty_table()], np.full(len(numbers), NOBODY), 0
        for rows, mine, own in parts:
            if mine.any():
                pieces.append(rows.take(own[mine]))
                where[mine] = np.arange(done, done + pieces[-1].num_rows)
                done += pieces[-1].num_rows
        return list(take_rows(pa.concat_tables(pieces), where, missing=True).columns)


class Assembler:
    """Keeps the rows of both sides, and makes result rows of them."""

    def __init__(self, plan: Plan) -> None:
        found = columns(plan)
        self.schema = pa.schema([column.field for column in found])
        needed = [{column.source.name for column in found if column.side == side} for side in (0, 1)]
        r, s = (
            pa.schema([field for field in plan.schemas[letter] if field.name in names])
            for letter, names in zip(SIDES, needed, strict=True)
        )
        self.sides = Payload(r, plan.schemas["r"]), Payload(s, plan.schemas["s"])
        both = self.sides[0].rows, self.sides[1].rows
        self._blocks: ResultBlocks | None = None
        if isinstance(both[0], PlainRows) and isinstance(both[1], PlainRows):
            sources = [(side, k) for side in (0, 1) for k in range(len(both[side].schema))]
            self._blocks = ResultBlocks(self.schema, (both[0], both[1]), sources)

    def batches(self, r: Array, s: Array) -> list[pa.RecordBatch]:
        """The rows of results, in as many batches as their text needs."""
        batch = self._blocks.batch(r, s) if self._blocks is not None else None
        return [batch] if batch is not None else list(self.table(r, s).to_batches())

    def table(self, r: Array, s: Array) -> pa.Table:
        """The rows of results."""
        return pa.table([*self.sides[0].take(r), *self.sides[1].take(s)], schema=self.schema)
