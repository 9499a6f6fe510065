"""The kernels of one join inside a Python worker: routing of batches, ordered runs, pairs, result rows."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamjoin.access.frozen import Arrays
from streamjoin.access.tuples import Tuples
from streamjoin.codegen.intrinsics import FARTHEST
from streamjoin.codegen.records import Array
from streamjoin.intake.prepare import Intake
from streamjoin.plan.columns import columns
from streamjoin.predicate.tree import OTHER
from streamjoin.results.every_kind import Outcome
from streamjoin.results.rows import take_rows
from streamjoin.results.selected import Assembly, beside, needed
from streamjoin.spark.spec import AT, BEFORE, CONTENT, FIRST, JoinSpec
from streamjoin.spark.wire import HEAVIEST, conformed, integers, row_bytes, with_integers

PIECE = 1 << 16  # result rows that are assembled at a time
NUMBER = {"r": 0, "s": 1}  # sides are letters in Spark's state and on its way, numbers in the other folders

Pairs = tuple[Array, Array]  # row numbers of arrivals, and of a chunk
Matches = tuple[Array, pa.Table, Array]  # row numbers of arrivals, a chunk's rows, row numbers in it
Note = Callable[["Chunk", Array, Array], None]

_engines: dict[str, Engine] = {}


def engine_of(spec: JoinSpec) -> Engine:
    """This process's engine for a join: kernels are compiled once per host and loaded once per process.

    Spark collects garbage after every task; it need not look at kernels and modules each time, which took 0.1 s.
    """
    if spec.identity not in _engines:
        _engines[spec.identity] = Engine(spec)
        gc.collect()
        gc.freeze()
    return _engines[spec.identity]


@dataclass(frozen=True)
class Arrived:
    """Rows of one side of a cell, prepared to probe; `kept` are their positions among those given, None for all."""

    rows: pa.Table
    tuples: Tuples
    kept: Array | None = None


class Chunk:
    """Rows of one side and the run over them; its tuples are numbered as the rows are."""

    def __init__(self, rows: pa.Table, run: Arrays) -> None:
        self.rows = rows
        self.run = run


class Engine:
    """The compiled functions of one join. It holds no tuples: cells pass theirs."""

    def __init__(self, spec: JoinSpec) -> None:
        self.spec = spec
        self.plan = spec.plan
        self.program = spec.plan.program()
        self.intake = Intake(spec.plan, self.program, with_at=True)
        self.no_origins = self.intake.origins
        self._routing = Intake(spec.plan, self.program)
        self._routing.origins = (None, *(0.0 for _ in self.program.dimensions))  # the same for all batches and hosts
        self._frozen = {side: self.intake.freezer(number) for side, number in NUMBER.items()}
        self._searches = {side: self.intake.search(number) for side, number in NUMBER.items()}
        self.wanted = columns(spec.plan)
        self._needed = {side: needed(self.wanted, number) for side, number in NUMBER.items()}

    @property
    def comparisons(self) -> int:
        """Candidates tested so far."""
        return sum(search.comparisons for search in self._searches.values())

    def times(self, side: str, table: pa.Table) -> Array:
        """The time column in ticks."""
        return self.intake.times(NUMBER[side], table)

    def route(self, side: str, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """The parts of a batch by cell. Rows that cannot match anything are left behind, unless they are preserved."""
        table = conformed(table, self.plan.schemas[side])
        at = self.times(side, table)
        tuples, kept = self._routing.prepare(NUMBER[side], table, at, 0, 0)
        content = integers(table, CONTENT)
        payload = table if self.spec.ranked and side == "s" else table.drop_columns([CONTENT])
        rows = np.arange(table.num_rows) if kept is None else np.flatnonzero(kept)
        if kept is not None and self.spec.duty.keeps[NUMBER[side]]:
            yield from self._alone(payload, content, np.flatnonzero(~kept))
        if not len(rows):
            return
        routed = self.spec.router.route(side, tuples.key, tuples.lo, tuples.hi, content[rows])
        order = np.argsort(routed.cell.astype(np.min_scalar_type(self.spec.router.cells)), kind="stable")
        cells, starts = np.unique(routed.cell[order], return_index=True)
        ends = np.append(starts[1:], len(order))
        for cell, start, end in zip(cells.tolist(), starts.tolist(), ends.tolist(), strict=True):
            mine = order[start:end]
            part = take_rows(payload, rows[routed.row[mine]])
            yield cell, part if routed.first is None else with_integers(part, FIRST, routed.first[mine])

    def _alone(self, payload: pa.Table, content: Array, rows: Array) -> Iterator[tuple[int, pa.Table]]:
        """Rows that will have no partner, assigned to cells by their content."""
        cell = content[rows].view(np.uint64) % np.uint64(self.spec.router.cells)
        for number in np.unique(cell).tolist():
            yield int(number), take_rows(payload, rows[cell == number])

    def arrive(self, side: str, table: pa.Table) -> Arrived:
        """Rows of one side of a cell as boxes, by the axes of that cell."""
        at = integers(table, AT) if AT in table.column_names else self.times(side, table)
        before = integers(table, BEFORE) if BEFORE in table.column_names else 0
        tuples, kept = self.intake.prepare(NUMBER[side], table, at, before, 0)
        if kept is None:
            return Arrived(table, tuples)
        rows = np.flatnonzero(kept)
        return Arrived(take_rows(table, rows), tuples, rows)

    def chunk(self, side: str, arrived: Arrived, widths: Array) -> Chunk:
        """The rows with a run over them, made for probes of this width."""
        return Chunk(arrived.rows, self._frozen[side].freeze(arrived.tuples, widths))

    def widths(self, tuples: Tuples) -> Array:
        """The average widths of these boxes; nan where they are unknown."""
        out = np.full(len(tuples.lo), np.nan)
        for d, (low, high) in enumerate(zip(tuples.lo, tuples.hi, strict=True)):
            finite = (np.abs(low) < FARTHEST) & (np.abs(high) < FARTHEST)
            if finite.any():
                out[d] = np.mean(high[finite].astype(np.float64) - low[finite])
        return out

    def probe(self, side: str, arrived: Arrived, chunk: Chunk, cell: int) -> Iterator[Pairs]:
        """Pairs of arrivals of one side with a chunk of the other, as far as they count in this cell."""
        segment = self._frozen[OTHER[side]].open(chunk.run)
        for probing, stored in self._searches[side].probe(segment, arrived.tuples):
            if self.spec.router.shared:
                first = integers(arrived.rows, FIRST)[probing], integers(chunk.rows, FIRST)[stored]
                mine = self.spec.router.counts(cell, *first)
                probing, stored = probing[mine], stored[mine]
            yield probing, stored

    def meet(
        self, side: str, arrived: Arrived, chunks: Iterable[Chunk], cell: int, note: Note | None = None
    ) -> Iterator[pa.Table]:
        """Result rows of arrivals of one side with chunks of the other; `note` is told of all pairs."""
        waiting: list[Matches] = []
        own = row_bytes(arrived.rows)
        for chunk in chunks:
            most = min(PIECE, 1 + int(HEAVIEST / (1 + own + row_bytes(chunk.rows))))
            for probing, stored in self.probe(side, arrived, chunk, cell):
                if note is not None:
                    note(chunk, probing, stored)
                if not self.spec.duty.pairs:
                    continue
                for start in range(0, len(probing), most):
                    piece = slice(start, start + most)
                    waiting.append((probing[piece], chunk.rows, stored[piece]))
                    if sum(len(numbers) for numbers, _, _ in waiting) >= most:
                        yield self._rows(side, arrived.rows, waiting)
                        waiting = []
        if waiting:
            yield self._rows(side, arrived.rows, waiting)

    def _rows(self, side: str, arrived: pa.Table, found: list[Matches]) -> pa.Table:
        """Result rows from row numbers of arrivals of one side, and of several tables of the other."""
        own, others = (self._kept_of(which) for which in (side, OTHER[side]))
        taken = {
            side: take_rows(arrived.select(own), np.concatenate([probing for probing, _, _ in found])),
            OTHER[side]: pa.concat_tables([take_rows(rows.select(others), stored) for _, rows, stored in found]),
        }
        out = beside(self.wanted, taken["r"], taken["s"])
        if not self.spec.result_time:
            return out
        r, s = (taken[which].column(self.plan.times[which]).cast(self.spec.result_type) for which in "rs")
        return out.append_column(self.spec.result_time, pc.if_else(pc.greater_equal(r, s), r, s))

    def _kept_of(self, side: str) -> list[str]:
        """The columns of a side that results are made of, and one more: a table without columns has no rows."""
        one = self.plan.times[side] or self.plan.schemas[side].names[0]
        return list(dict.fromkeys([*self._needed[side], one]))

    def result(self, tables: tuple[pa.Table, pa.Table], found: Outcome) -> pa.Table:
        """Result rows from row numbers of two tables, of rows that may lack a partner."""
        out = Assembly(tables, tables, self.wanted).table(found.rows, found.aggregated)
        return out if found.times is None else self._with_times(out, found.times)

    def alone(self, side: str, rows: pa.Table, times: Array) -> pa.Table:
        """Rows of one side without a partner, given the times of these results."""
        number, nobody = np.arange(rows.num_rows), np.full(rows.num_rows, -1)
        tables = (rows, self._nothing("s")) if side == "r" else (self._nothing("r"), rows)
        both = (number, nobody) if side == "r" else (nobody, number)
        return self.result(tables, Outcome(both, {}, times if self.spec.result_time else None))

    def _nothing(self, side: str) -> pa.Table:
        return self.plan.schemas[side].empty_table()

    def _with_times(self, out: pa.Table, times: Array) -> pa.Table:
        if not self.spec.result_time:
            return out
        kind = self.spec.result_type
        ticks = pa.array(times, pa.int64()).cast(pa.timestamp(str(self.plan.unit), getattr(kind, "tz", None)))
        return out.append_column(self.spec.result_time, ticks if ticks.type == kind else ticks.cast(kind, safe=False))
