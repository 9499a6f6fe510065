"""One cell of a join of two tables: all of both sides at once, any window."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamjoin.codegen.records import Array
from streamjoin.predicate.tree import OTHER
from streamjoin.spark.cell_kernels import Arrived, Engine
from streamjoin.spark.deciding import outcome
from streamjoin.spark.wire import unpack

LONGEST = 1 << 20  # rows of a run; longer sides become several


def meet_tables(engine: Engine, cell: int, left: pa.Table, right: pa.Table) -> pa.Table:
    """The result rows of a cell, given each side's rows as bytes.

    The smaller side becomes runs and the larger one probes them; where the order of arrival matters, both do both.
    """
    engine.intake.origins = engine.no_origins
    if not engine.plan.kind.plain:
        return _meet_kinds(engine, cell, left, right)
    sides = {"r": _arrive(engine, "r", left), "s": _arrive(engine, "s", right)}
    larger = "r" if _length(sides["r"]) >= _length(sides["s"]) else "s"
    found: list[pa.Table] = []
    for probing in "rs" if engine.plan.window.by_arrival else larger:
        stored = OTHER[probing]
        if not sides[probing]:
            continue
        widths = engine.widths(sides[probing][0].tuples)
        chunks = [engine.chunk(stored, part, widths) for part in sides[stored]]
        for arrived in sides[probing]:
            found += engine.meet(probing, arrived, chunks, cell)
    return pa.concat_tables(found) if found else engine.spec.result_schema().empty_table()


def _meet_kinds(engine: Engine, cell: int, left: pa.Table, right: pa.Table) -> pa.Table:
    """The result rows of a cell for any kind of join: all pairs as row numbers, then the reduction to this kind."""
    tables = {
        side: found if (found := _rows(packed)) is not None else engine.plan.schemas[side].empty_table()
        for side, packed in (("r", left), ("s", right))
    }
    numbers: dict[str, list[tuple[Arrived, Array]]] = {side: _numbered(engine, side, tables[side]) for side in "rs"}
    larger = "r" if tables["r"].num_rows >= tables["s"].num_rows else "s"
    pairs: list[tuple[Array, Array]] = []
    for probing in "rs" if engine.plan.window.by_arrival else larger:
        if not numbers[probing]:
            continue
        widths = engine.widths(numbers[probing][0][0].tuples)
        chunks = [(engine.chunk(OTHER[probing], part, widths), at) for part, at in numbers[OTHER[probing]]]
        for arrived, own in numbers[probing]:
            for chunk, others in chunks:
                for found, stored in engine.probe(probing, arrived, chunk, cell):
                    both = own[found], others[stored]
                    pairs.append(both if probing == "r" else both[::-1])
    return outcome(engine, tables["r"], [tables["s"]], pairs)


def _numbered(engine: Engine, side: str, table: pa.Table) -> list[tuple[Arrived, Array]]:
    """The rows of a side that may match, in parts, and their numbers."""
    found = []
    for start in range(0, table.num_rows, LONGEST):
        part = engine.arrive(side, table.slice(start, LONGEST))
        if len(part.tuples):
            found.append((part, start + (np.arange(len(part.tuples)) if part.kept is None else part.kept)))
    return found


def _arrive(engine: Engine, side: str, packed: pa.Table) -> list[Arrived]:
    table = _rows(packed)
    return [] if table is None else [part for part, _ in _numbered(engine, side, table)]


def _rows(packed: pa.Table) -> pa.Table | None:
    """The rows of a side in this cell, if there are any."""
    if "rows" not in packed.column_names:  # Spark's way to say that a side has no rows here
        return None
    parts = [unpack(data.as_buffer()) for data in packed.column("rows") if data.is_valid]
    return pa.concat_tables(parts).combine_chunks() if parts else None


def _length(parts: list[Arrived]) -> int:
    return sum(len(part.tuples) for part in parts)
