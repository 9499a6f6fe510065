"""One cell of a join of two tables: all of both sides at once, any window."""

from __future__ import annotations

import pyarrow as pa

from streamjoin.predicate.tree import OTHER
from streamjoin.spark.cell_kernels import Arrived, Engine
from streamjoin.spark.wire import unpack

LONGEST = 1 << 20  # rows of a run; longer sides become several


def meet_tables(engine: Engine, cell: int, left: pa.Table, right: pa.Table) -> pa.Table:
    """The result rows of a cell, given each side's rows as bytes.

    The smaller side becomes runs and the larger one probes them; where the order of arrival matters, both do both.
    """
    engine.intake.origins = engine.no_origins
    sides = {"r": _arrive(engine, "r", left), "s": _arrive(engine, "s", right)}
    larger = "r" if _length(sides["r"]) >= _length(sides["s"]) else "s"
    found: list[pa.Table] = []
    for probing in "rs" if engine.plan.window.by_arrival else larger:
        stored = OTHER[probing]
        if not sides[probing]:
            continue
        reach = engine.reach(sides[probing][0].tuples)
        chunks = [engine.chunk(stored, part, reach) for part in sides[stored]]
        for arrived in sides[probing]:
            found += engine.meet(probing, arrived, chunks, cell)
    return pa.concat_tables(found) if found else engine.spec.result_schema().empty_table()


def _arrive(engine: Engine, side: str, packed: pa.Table) -> list[Arrived]:
    if "rows" not in packed.column_names:  # Spark's way to say that a side has no rows here
        return []
    parts = [unpack(data.as_buffer()) for data in packed.column("rows") if data.is_valid]
    if not parts:
        return []
    table = pa.concat_tables(parts).combine_chunks()
    pieces = [table.slice(start, LONGEST) for start in range(0, table.num_rows, LONGEST)]
    arrived = [engine.arrive(side, piece) for piece in pieces if piece.num_rows]
    return [part for part in arrived if len(part.tuples)]


def _length(parts: list[Arrived]) -> int:
    return sum(len(part.tuples) for part in parts)
