"""Result rows from tuple numbers: which columns each side keeps for them, and how they are put together."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamjoin.codegen.records import Array
from streamjoin.plan.plan import SIDES, Plan
from streamjoin.results.numbers import NOBODY, aside
from streamjoin.results.rows import Rows, take_rows
from streamjoin.results.schema import columns

NOTHING = pa.schema([("", pa.null())])  # stands for rows of which no column is needed; it takes no memory


class Payload:
    """The rows of one side, as far as results need them."""

    def __init__(self, schema: pa.Schema) -> None:
        """`schema`: of the columns that are needed."""
        self._needed = bool(schema.names)
        self._schema = schema if self._needed else NOTHING
        self.clear()

    def clear(self) -> None:
        """Forgets all rows."""
        self.rows = Rows(self._schema)  # of tuples that take part in the join
        self.aside = Rows(self._schema)  # of those that cannot match anything, and come out nevertheless

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.aside.nbytes

    def append(self, table: pa.Table, last_at: int, member: bool = True) -> None:
        """The next rows, with their largest place in the window."""
        rows, names = self.rows if member else self.aside, self._schema.names
        if not self._needed:
            table = pa.table([pa.nulls(table.num_rows)], schema=NOTHING)
        elif table.num_columns > len(names):
            table = table.select(names)
        rows.append(table, last_at)

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
        self.sides = Payload(r), Payload(s)

    def table(self, r: Array, s: Array) -> pa.Table:
        """The rows of results."""
        return pa.table([*self.sides[0].take(r), *self.sides[1].take(s)], schema=self.schema)
