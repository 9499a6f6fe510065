"""The values of expressions for pairs of tuples with plain rows: two compiled calls, whatever the number of pairs.

numbers of pairs ──▶ gather: the columns that are read ──▶ compute: values, validities
"""

from __future__ import annotations

import numpy as np

from streamjoin.codegen.compute import FAULT, FAULT_WORDS, OUT, ROWS
from streamjoin.codegen.records import Array, address, words
from streamjoin.intake.columns import lies_as
from streamjoin.predicate.tree import Node
from streamjoin.results.computed import Values, computation
from streamjoin.results.plain import PlainRows
from streamjoin.results.plain_kernels import Gather, Source, gather
from streamjoin.results.rows import Rows

PerSide = tuple[Rows | PlainRows, Rows | PlainRows]
SMALLEST = 1 << 10  # pairs
COUNT, DONE, NUMBERS = (Gather.word(name) for name in ("count", "done", "numbers"))


def serves(nodes: tuple[Node, ...], rows: PerSide) -> bool:
    """Do rows have the columns that expressions read, as the expressions read them?"""
    wanted = computation(nodes, aligned=True).sides()
    return all(
        isinstance(own, PlainRows) and lies_as(own.schema.field(part.column).type, part.type)
        for own, parts in zip(rows, wanted, strict=True)
        for part in parts
    )


class PlainValues:
    """Expressions over pairs. The next call overwrites the values."""

    def __init__(self, nodes: tuple[Node, ...], rows: PerSide) -> None:
        """Only if it `serves`."""
        made = computation(nodes, aligned=True)
        self._made = made
        self._parts = [(side, part) for side, parts in enumerate(made.sides()) for part in parts]
        self._rows = {side: own for side, own in enumerate(rows) if isinstance(own, PlainRows) and made.sides()[side]}
        used = [(k, side, part) for k, (side, part) in enumerate(self._parts) if part.role == "value"]
        self._used = [k for k, _, _ in used]
        self._sources = Source.array(len(used))
        for source, (_, side, part) in zip(self._sources, used, strict=True):
            own = self._rows[side]
            cell = own.cells[own.schema.get_field_index(part.column)]
            source["side"], source["each"], source["offset"] = side, cell["each"], cell["offset"]
        self._asked = Gather.array(1)
        asked = self._asked[0]
        for side, own in self._rows.items():
            asked.kept[side] = own.address
        asked.sources, asked.source_count = address(self._sources), len(used)
        self._words, self._address = words(self._asked), address(self._asked)
        self._fault = np.zeros(FAULT_WORDS, np.int64)
        self._frame = np.zeros(OUT + 2 * len(nodes) + len(self._parts), np.int64)
        self._frame[FAULT] = address(self._fault)
        self._gather, self._compute = gather.compiled, made.compute
        self._make_room(SMALLEST)

    def of(self, r: Array, s: Array) -> list[Values] | None:
        """The values for pairs; None if there are nulls in the rows, or an integer overflows."""
        count, known = len(r), self._words
        if any(rows.has_nulls for rows in self._rows.values()):
            return None
        if count > self._room:
            self._make_room(2 * count)
        r, s = np.ascontiguousarray(r, np.int64), np.ascontiguousarray(s, np.int64)
        known[DONE], known[COUNT], known[NUMBERS], known[NUMBERS + 1] = 0, count, address(r), address(s)
        self._gather(self._address)
        self._frame[ROWS], self._fault[0] = count, 0
        self._compute(self._frame_address)
        return None if self._fault[0] else [Values(one.values[:count], one.valid[:count]) for one in self._found]

    def _make_room(self, room: int) -> None:
        everywhere = np.ones(room, np.bool_)
        columns = [np.zeros(room, part.dtype) if part.role == "value" else everywhere for _, part in self._parts]
        self._found = [Values(np.zeros(room, dtype), np.zeros(room, np.bool_)) for dtype in self._made.dtypes]
        self._sources["start"] = [address(columns[k]) for k in self._used]
        outs = [address(one.values) for one in self._found] + [address(one.valid) for one in self._found]
        self._frame[OUT:] = outs + [address(column) for column in columns]
        self._frame_address, self._columns, self._room = address(self._frame), columns, room
