"""The rows behind live results: the columns that each side keeps, and the assembly of result rows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from streamjoin.codegen.records import Array
from streamjoin.intake.columns import flat
from streamjoin.intake.packed import PackedRows
from streamjoin.plan.columns import columns
from streamjoin.plan.plan import Plan
from streamjoin.predicate.tree import SIDES, Node
from streamjoin.predicate.tree import columns as columns_of
from streamjoin.results.computed import Computed, Values, as_arrow
from streamjoin.results.numbers import NOBODY, aside
from streamjoin.results.plain import PlainRows, ResultBlocks, is_plain
from streamjoin.results.plain_values import PlainValues, serves
from streamjoin.results.rows import Rows, take_rows
from streamjoin.results.selected import beside, needed

NOTHING = pa.schema([("", pa.null())])  # stands for rows of which no column is needed; takes no memory


class Payload:
    """The rows of one side, with the columns that results need."""

    def __init__(self, schema: pa.Schema, pushed: pa.Schema) -> None:
        """`schema`: the needed ones of the columns of pushed batches."""
        self._schema, self._pushed = schema if schema.names else NOTHING, pushed
        self.clear()

    def clear(self) -> None:
        """Forgets all rows."""
        self.rows = self._new_rows()  # of tuples that take part in the join
        self.aside = self._new_rows()  # of tuples aside

    def _new_rows(self) -> Rows | PlainRows:
        return PlainRows(self._schema, self._pushed) if is_plain(self._schema) else Rows(self._schema)

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.aside.nbytes

    def append(self, table: pa.Table | pa.RecordBatch | PackedRows, last_at: int, member: bool = True) -> None:
        """Adds rows, with their largest `at`."""
        rows, names = self.rows if member else self.aside, self._schema.names
        if isinstance(rows, PlainRows):
            rows.append(table, last_at)
            return
        if self._schema is NOTHING:
            table = pa.table([pa.nulls(table.num_rows)], schema=NOTHING)
        elif isinstance(table, PackedRows):
            table = table.batch()
        rows.append(table.select(names) if table.num_columns > len(names) else table, last_at)

    def kept(self, batch: pa.RecordBatch | PackedRows, last_at: int, nulls: bool) -> None:
        """Compiled code has copied the next rows."""
        assert isinstance(self.rows, PlainRows)
        self.rows.kept(batch, last_at, nulls)

    def take(self, numbers: Array, names: list[str] | None = None) -> pa.Table:
        """The rows with these numbers, all kept columns or these; nulls for NOBODY."""
        parts = (self.rows, numbers >= 0, numbers), (self.aside, numbers < NOBODY, aside(numbers))
        empty = self._schema.empty_table() if names is None else self._schema.empty_table().select(names)
        if not empty.num_columns:
            return empty
        if parts[0][1].all() and len(numbers):
            return self.rows.take(numbers, names)
        if (numbers == NOBODY).all():
            return pa.table([pa.nulls(len(numbers), field.type) for field in empty.schema], schema=empty.schema)
        pieces, where, done = [empty], np.full(len(numbers), NOBODY), 0
        for rows, mine, own in parts:
            if mine.any():
                pieces.append(rows.take(own[mine], names))
                where[mine] = np.arange(done, done + pieces[-1].num_rows)
                done += pieces[-1].num_rows
        return take_rows(pa.concat_tables(pieces), where, missing=True)


class Assembler:
    """Keeps the rows of both sides, assembles result rows, and computes expressions over them."""

    def __init__(self, plan: Plan) -> None:
        kind = plan.kind
        self._wanted = columns(plan)
        self.schema = pa.schema([column.field for column in self._wanted])
        nodes = [node for aggregate in kind.aggregate for node in aggregate.args]
        nodes += [kind.take.by] if kind.take.by is not None else []
        read = columns_of(*nodes)
        kept = []
        for side, letter in enumerate(SIDES):
            names = {*needed(self._wanted, side), *(name for owner, name in read if owner == letter)}
            if plan.window.carries and side == 1:  # its tuples may be pushed again
                names = set(plan.schemas[letter].names)
            kept.append(pa.schema([field for field in plan.schemas[letter] if field.name in names]))
        self.sides = Payload(kept[0], plan.schemas["r"]), Payload(kept[1], plan.schemas["s"])
        self._plain: dict[tuple[Node, ...], PlainValues | None] = {}
        self._as_they_are = kind.select is None and not kind.per_r
        self._blocks = self._result_blocks(kept)
        keeps = kind.how.keeps if kind.how.pairs and self._blocks is not None else (False, False)
        self._alone = {side: self._result_blocks(kept, side) for side in (0, 1) if keeps[side]}

    def _result_blocks(self, kept: list[pa.Schema], alone: int | None = None) -> ResultBlocks | None:
        """What makes batches, if results have nothing but columns of plain values: of pairs, or of one side `alone`."""
        if any(column.side is None for column in self._wanted):
            return None
        sources = [
            (column.side, kept[column.side].get_field_index(column.source.name))
            if column.side is not None and alone in (None, column.side)
            else None
            for column in self._wanted
        ]
        used = {side: self.sides[side].rows for side in sorted({source[0] for source in sources if source})}
        plain = {side: rows for side, rows in used.items() if isinstance(rows, PlainRows)}
        if len(plain) < len(used) or not used:
            return None
        return ResultBlocks(self.schema, plain, sources)

    def batches(self, r: Array, s: Array, more: Mapping[str, pa.Array] | None = None) -> list[pa.RecordBatch]:
        """The rows of results, in as many batches as their text requires; `more` as in `table`."""
        batch = self._blocks.batch(r, s) if self._blocks is not None else None
        if batch is None:
            batch = self._without_partners(r, s)
        return [batch] if batch is not None else list(self.table(r, s, more).to_batches())

    def _without_partners(self, r: Array, s: Array) -> pa.RecordBatch | None:
        """The rows of results that all lack a partner on one side; None if some do not, or if values are null."""
        for side, blocks in self._alone.items():
            own, other = (s, r) if side else (r, s)
            if blocks is None or other[0] != NOBODY or not (other == NOBODY).all():
                continue
            return blocks.batch(own, own)
        return None

    def table(self, r: Array, s: Array, more: Mapping[str, pa.Array] | None = None) -> pa.Table:
        """The rows of results; `more` are columns that were computed elsewhere, by name."""
        rows = self.sides[0].take(r), self.sides[1].take(s)
        if self._as_they_are:
            return pa.table([*rows[0].columns, *rows[1].columns], schema=self.schema)
        return beside(self._wanted, *rows, more)

    def values(self, nodes: tuple[Node, ...], r: Array, s: Array) -> list[Values]:
        """The values of expressions for pairs of tuples, valid until the next call."""
        if nodes not in self._plain:
            rows = self.sides[0].rows, self.sides[1].rows
            self._plain[nodes] = PlainValues(nodes, rows) if serves(nodes, rows) else None
        plain = self._plain[nodes]
        found = None if plain is None else plain.of(r, s)
        return self._values(nodes, r, s) if found is None else found

    def _values(self, nodes: tuple[Node, ...], r: Array, s: Array) -> list[Values]:
        """The same of any rows, in memory of its own."""
        read = sorted(columns_of(*nodes))
        names = [[name for owner, name in read if owner == letter] for letter in SIDES]
        rows_r, rows_s = self.sides[0].take(r, names[0]), self.sides[1].take(s, names[1])
        return Computed(nodes, rows_r, rows_s, aligned=True).rows(len(r))

    def column(self, node: Node, r: Array, s: Array) -> pa.Array:
        """An expression for pairs of tuples, or a column of any type, as an Arrow array; null where there is no s."""
        alone = s == NOBODY
        if node.op == "column":
            (side, name), numbers = node.column, (np.where(alone, NOBODY, r), s)
            which = SIDES.index(side)
            return flat(self.sides[which].take(numbers[which], [name]).column(0))
        (found,) = self._values((node,), r, s)
        found.valid[alone] = False
        return as_arrow(found, node)
