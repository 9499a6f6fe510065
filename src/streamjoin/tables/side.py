"""One table of a join, prepared: the rows that may match, their intervals, key hashes and times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from streamjoin.codegen.pairs import ENDS, FAULT, FAULT_WORDS, FIRST, HIGH, KEPT, KEY, LOW, ROWS, PairProgram, is_point
from streamjoin.codegen.records import Array, address
from streamjoin.intake.columns import physical_columns
from streamjoin.intake.prepare import overflow
from streamjoin.plan.statistics import Ends, Values
from streamjoin.tables.crew import Crew
from streamjoin.tables.memory import room
from streamjoin.tables.take import Move, take_values


@dataclass(frozen=True)
class Side:
    """The tuples of one side, in some order."""

    rows: Array | None  # row numbers; None: all, as they are
    columns: tuple[Array, ...]  # what the exact test reads
    ends: tuple[Ends, ...]  # of the predicate's dimensions: where intervals begin and end
    key: Array | None  # hashes
    window: tuple[Array, ...]  # of r since when, and until when, it meets others; of s where it is
    length: int

    def __len__(self) -> int:
        return self.length


def prepare(program: PairProgram, side: str, table: pa.Table, window: tuple[Array, ...], crew: Crew) -> Side:
    """A table's tuples in the order of its rows, without those that cannot match any row."""
    entry = physical_columns(table, program.entry[side], side)
    n, ends = table.num_rows, program.ends[side]
    rows, key = room(n, np.uint32), room(n if program.keyed else 0, np.uint32)
    computed = [room(n) for _ in ends]
    bounds = program.bounds(side).bounds.compiled

    def compute(begin: int, end: int) -> int:
        fault = np.zeros(FAULT_WORDS, np.int64)
        frame = np.zeros(ENDS + len(ends) + len(entry), np.int64)
        frame[ROWS], frame[FIRST], frame[FAULT] = end - begin, begin, address(fault)
        frame[KEPT], frame[KEY] = address(rows) + begin * 4, address(key) + begin * 4
        frame[ENDS:] = [address(array) + begin * array.itemsize for array in (*computed, *entry)]
        count = int(bounds(address(frame)))
        if fault[0]:
            row = begin + int(fault[1])
            values = tuple(column[row] for column in entry)
            raise overflow(program, int(fault[0]), {side: (program.entry[side], values)})
        return count

    parts = crew.cut(n)
    counts = crew.each(compute, parts)
    found = dict(zip(ends, computed, strict=True))
    intervals = []
    for d, dimension in enumerate(program.dimensions):
        low, high = (None if array is None else Values(array) for array in (found.get((d, LOW)), found.get((d, HIGH))))
        intervals.append((low, low if is_point(dimension, side) else high))
    columns = tuple(entry[program.entry[side].index(part)] for part in program.stored[side])
    whole = Side(None, columns, tuple(intervals), key if program.keyed else None, window, n)
    if sum(counts) == n:
        return whole
    kept = [slice(begin, begin + count) for (begin, _), count in zip(parts, counts, strict=True)]
    return _filtered(whole, rows, kept)


def _filtered(side: Side, rows: Array, kept: list[slice]) -> Side:
    """Only the rows that were kept: what was computed of them lies at the beginning of each part."""

    def packed(array: Array) -> Array:
        return np.concatenate([array[part] for part in kept])

    rows = packed(rows)
    return _part(side, rows, lambda array: array[rows], packed)


def only(side: Side, positions: Array) -> Side:
    """Only the tuples at these positions."""

    def some(array: Array) -> Array:
        return np.take(array, positions)

    return _part(side, positions if side.rows is None else some(side.rows), some, some)


def _part(side: Side, rows: Array, some: Callable[[Array], Array], computed: Callable[[Array], Array]) -> Side:
    """Only the tuples of these rows: `some` selects from what came with them, `computed` from their ends and keys."""
    ends = []
    for low, high in side.ends:
        first = None if low is None else Values(computed(low.array), low.bias)
        last = first if high is low else None if high is None else Values(computed(high.array), high.bias)
        ends.append((first, last))
    return replace(
        side,
        rows=rows,
        columns=tuple(some(column) for column in side.columns),
        ends=tuple(ends),
        key=None if side.key is None else computed(side.key),
        window=tuple(some(array) for array in side.window),
        length=len(rows),
    )


def taken(array: Array, order: Array | None, crew: Crew, out: Array | None = None) -> Array:
    """The array's values in an order, or unchanged if it is None; in `out`, if given."""
    if order is None:
        if out is None:
            return array
        out[:] = array
        return out
    into = room(len(order), array.dtype) if out is None else out
    moves = Move.array(1)
    moves[0] = array.itemsize, address(array), address(into)
    crew.each(lambda begin, end: take_values(moves, order[begin:end], begin), crew.cut(len(order)))
    return into
