"""The join of two tables that are known as a whole, on all cores.

columns ─▶ intervals, hashes ─▶ a sample decides the shape ─▶ sort ─▶ candidates ─▶ exact test ─▶ rows
           └───────────────────────── each step in parts, one after the other ─────────────────────┘
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from streamjoin.access import ACCESSES
from streamjoin.codegen.pairs import ANYWHERE, COUNTS_OF_R, COUNTS_OF_S, EACH, PAIRS, SAME_WIDTH, TILES, PairProgram
from streamjoin.codegen.records import Array
from streamjoin.intake.prepare import compiling, times_of
from streamjoin.kinds import BACKWARD, FORWARD, Take
from streamjoin.plan.columns import result_schema
from streamjoin.plan.plan import Plan
from streamjoin.plan.shape import SCAN, Shape, Tables, shapes
from streamjoin.plan.statistics import Dimension, equal_share
from streamjoin.predicate.tree import SIDES
from streamjoin.results.every_kind import Alone, Parts
from streamjoin.results.numbers import none_matched, unmatched
from streamjoin.results.reduce import count_pairs, mark, take_by_time
from streamjoin.results.rows import side_by_side
from streamjoin.results.selected import Assembly, beside, needed
from streamjoin.tables.crew import Crew, PerThread
from streamjoin.tables.first import expect_kernels
from streamjoin.tables.gather import Piece, ResultRows, Tuples, in_order, rows_in_order
from streamjoin.tables.layout import Layout, lay_out
from streamjoin.tables.memory import room
from streamjoin.tables.prune import prune
from streamjoin.tables.search import Counter, Searcher, Test, Work, search
from streamjoin.tables.side import Side, prepare, taken
from streamjoin.tables.sort import order_of
from streamjoin.tables.take import put_values
from streamjoin.tables.tasks import tasks
from streamjoin.tables.window import Places, on_axis, places

T = TypeVar("T")
Pairs = tuple[Array, Array]  # of r and s
Both = tuple[pa.Table, pa.Table]  # r and s


@dataclass(frozen=True)
class Prepared:
    """Two tables before anything is sorted: the rows that may match, and what is known of them."""

    plan: Plan
    program: PairProgram
    window: Places
    r: Side
    s: Side
    known: Tables

    @property
    def windowed(self) -> bool:
        """Is there a pair that the window excludes?"""
        return len(self.known.dimensions) > len(self.program.dimensions)

    def shapes(self) -> list[Shape]:
        """The shapes in which these tables can be joined, the cheapest first."""
        found = shapes(self.known)
        return found if ACCESSES[self.plan.access].indexed else [shape for shape in found if shape.kind == SCAN]


def prepared(plan: Plan, tables: Both, workers: Crew) -> Prepared:
    """Intervals, key hashes and windows of all rows, and a sample of them."""
    program = plan.pair_program
    expect_kernels(program)
    window = places(plan.window, *(times_of(plan, side, table) for side, table in enumerate(tables)))

    def dimensions(r: Side, s: Side) -> tuple[Dimension, ...]:
        """In which tuples are intervals; the window is the last one, unless all pairs lie in it."""
        found = [Dimension(name, r.ends[d], s.ends[d]) for d, name in enumerate(program.names)]
        until = r.window[1] if len(r.window) > 1 else None
        same = r.window[0] is window.since and s.window[0] is window.at
        extremes = window.extremes if same else None
        time = on_axis(replace(window, since=r.window[0], until=until, at=s.window[0], extremes=extremes))
        return (*found, Dimension("time", *time)) if time is not None else tuple(found)

    both = [(program, "r", tables[0], window.of_r), (program, "s", tables[1], (window.at,))]
    r, s = workers.sides(prepare, both, [table.num_rows for _, _, table, _ in both])
    r, s, found = prune(r, s, dimensions, workers)
    equal = equal_share(r.key, s.key) if r.key is not None and s.key is not None else None
    return Prepared(plan, program, window, r, s, Tables((len(r), len(s)), equal, found))


class WholeJoin:
    """One join of two tables.

    `_search` serves callers that need less than rows: its callback gets the positions of some pairs in the order of
    both sides, in several threads at once, and may count or mark them; `layout.Sorted.numbers` has the rows of the
    tables at these positions. The arrays are overwritten afterwards.
    """

    def __init__(self, plan: Plan, tables: Both, workers: Crew) -> None:
        self.plan, self.tables, self.crew = plan, tables, workers
        self.compared: list[int] = []  # by task
        self.seconds: dict[str, float] = {}
        with self._timed("prepare"):
            known = prepared(plan, tables, workers)
        self.program, self._window, self._windowed = known.program, known.window, known.windowed
        with self._timed("sort"):
            self.shape, self._layout = self._lay_out(known)
        axis = self.shape.axis
        swept = known.known.dimensions[axis.dimension] if axis else None
        points = (True, True) if swept is None else (swept.is_point("r"), swept.is_point("s"))
        self._tasks, self._candidates = tasks(self.shape, self._layout, points, workers)

    @property
    def stats(self) -> dict[str, Any]:
        """Counters of the search."""
        return {
            "comparisons": sum(self.compared),
            "tasks": len(self.compared),
            "largest_task": max(self.compared, default=0),
            "shape": self.shape.kind,
            "steps": self.seconds,
        }

    @contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[step] = self.seconds.get(step, 0.0) + time.perf_counter() - start

    def _lay_out(self, known: Prepared) -> tuple[Shape, Layout]:
        """The cheapest shape that is possible, and both sides in its order."""
        for shape in known.shapes():
            layout = lay_out(shape, known.r, known.s, known.known.dimensions, self.crew)
            if layout is not None:
                return shape, layout
        raise AssertionError("a scan is always possible")

    def _test(self, form: int) -> Test:
        """The exact test of candidates in such a form, compiled."""
        window = ANYWHERE if not self._windowed else SAME_WIDTH if self._window.until is None else EACH
        with self._timed("compile"), compiling(self.program):
            test: Test = self.program.test(window, form).test.compiled
        return test

    def numbers(self) -> Pairs:
        """The row numbers of all pairs."""
        r, s = self._tuples(0)
        none = np.zeros(0, np.uint32)
        found = self._search(r, s, lambda r, s: (r.copy(), s.copy())) or [(none, none)]
        return r.numbers(np.concatenate([a for a, _ in found])), s.numbers(np.concatenate([b for _, b in found]))

    def by_time(self) -> Pairs:
        """The row numbers of all pairs, in the order of the later one of their times."""
        times_r, times_s = (times_of(self.plan, side, table) for side, table in enumerate(self.tables))
        r, s = self._tuples(0)

        def made(a: Array, b: Array) -> tuple[Array, Array, Array]:
            a, b = r.place(a).copy(), s.place(b).copy()
            return a, b, np.maximum(times_r[a], times_s[b])

        found = self._search(r, s, made) or [(np.zeros(0, np.uint32), np.zeros(0, np.uint32), np.zeros(0, np.int64))]
        rows_r, rows_s, times = (np.concatenate(parts) for parts in zip(*found, strict=True))
        order = order_of(times, self.crew)
        return taken(rows_r, order, self.crew), taken(rows_s, order, self.crew)

    def gathered(self, rows: Pairs) -> pa.Table:
        """The rows with these numbers side by side."""
        r, s = (rows_in_order(table, part, self.crew) for table, part in zip(self.tables, rows, strict=True))
        return side_by_side(r, s, result_schema(self.plan))

    def rows(self) -> pa.Table:
        """The rows of all pairs."""
        r, s = self._tuples(self._candidates)
        self._layout = self._layout.without_order()  # which these have, if they need it
        rows = ResultRows(r, s, result_schema(self.plan))
        return rows.table(self._search(r, s, rows.put))

    def parts(self, make: Callable[[], T]) -> PerThread[T]:
        return PerThread(make)

    def each(self, consume: Callable[[Array, Array], None]) -> None:
        """Hands over the row numbers of all pairs, part by part, in several threads."""
        r, s = self._tuples(0)
        self._search(r, s, lambda a, b: consume(r.numbers(a), s.numbers(b)))

    def count(self) -> Array:
        """By row of r: how many partners it has."""
        r, s = self._tuples(0)
        threads = self._by_r(lambda: np.zeros(len(self._layout.r.side), np.uint32))
        if self._layout.tree is None:
            forms = {task.of_r: COUNTS_OF_R if task.of_r else COUNTS_OF_S for task in self._tasks}
            tests = {of_r: self._test(form) for of_r, form in forms.items()}
            work = self._work(r, s, None)
            with self._timed("search"):
                self.compared = search(self._tasks, lambda: Counter(work, tests, threads.mine()), self.crew)
        else:  # whose candidates do not lie side by side
            self._search(r, s, lambda a, b: count_pairs(threads.mine(), a))
        first, *others = threads.all()
        for other in others:
            first += other
        return self._for_rows(r, first, 0)

    def choose(self, take: Take) -> Array:
        """By row of r: the partner that is taken by time, -1 if it has none."""
        r, s = self._tuples(0)
        if self._windowed and self._window.until is None:
            times_r, times_s = r.window[0], s.window[0]
        else:
            times_r, times_s = (
                taken(times_of(self.plan, k, self.tables[k]), tuples.rows, self.crew) for k, tuples in enumerate((r, s))
            )
        for times in (times_r, times_s):
            times.flags.writeable = False  # as those of Arrow: kernels are compiled for these
        numbers = np.zeros(0, np.uint32) if s.rows is None else s.rows
        ways = take.name != FORWARD, take.name != BACKWARD
        threads = self._by_r(lambda: (np.full(len(times_r), -1), room(len(times_r), np.uint64)))

        def consume(a: Array, b: Array) -> None:
            take_by_time(*threads.mine(), a, b, times_r, times_s, numbers, *ways)

        self._search(r, s, consume)
        best, *others = threads.all()

        def merge(begin: int, end: int) -> None:
            for other, _ in others:
                own = np.flatnonzero(other[begin:end] >= 0) + begin
                pairs = own.astype(np.uint32), other[own].astype(np.uint32)
                take_by_time(*best, *pairs, times_r, times_s, numbers, *ways)
            part = best[0][begin:end]
            if len(numbers):
                np.copyto(part, numbers[part], where=part >= 0)

        self.crew.each(merge, self.crew.cut(len(times_r)))
        return self._for_rows(r, best[0], -1)

    def _by_r(self, make: Callable[[], T]) -> Parts[T]:
        """What is kept by position of r: one for all threads if each r belongs to a single task."""
        owned = all(task.of_r and task.offsets for task in self._tasks)
        return Alone(make) if owned else PerThread(make)

    def _for_rows(self, r: Tuples, values: Array, missing: int) -> Array:
        """Values by position of r as values by row, with one for rows that have no position."""
        n, rows = self.tables[0].num_rows, r.rows
        if rows is None:
            return values
        found = room(n, values.dtype) if len(values) == n else np.full(n, missing, values.dtype)
        self.crew.each(
            lambda begin, end: put_values(found, rows[begin:end], values[begin:end]), self.crew.cut(len(values))
        )
        return found

    def outer(self, assembly: Assembly) -> pa.Table:
        """The rows of all pairs with the wanted columns, and those without a partner on the sides that are kept."""
        keeps, wanted = self.plan.kind.how.keeps, assembly.wanted
        payload = self.tables[0].select(needed(wanted, 0)), self.tables[1].select(needed(wanted, 1))
        r, s = self._tuples(self._candidates, payload)
        layout = self._layout.r, self._layout.s
        matched = [none_matched(len(side.side)) for side in layout]

        fields = [field.with_name(f"{k}.{field.name}") for k, table in enumerate(payload) for field in table.schema]
        rows = ResultRows(r, s, pa.schema(fields))

        def made(a: Array, b: Array) -> list[Piece]:
            for side, positions in enumerate((a, b)):
                if keeps[side]:
                    mark(matched[side], positions)
            return rows.put(a, b)

        whole, split = rows.table(self._search(r, s, made)), payload[0].num_columns
        parts = [
            pa.table(columns, names=table.column_names)
            for table, columns in zip(payload, (whole.columns[:split], whole.columns[split:]), strict=True)
        ]
        found = beside(wanted, parts[0], parts[1])
        alone = []
        for k, side in enumerate(layout):
            left = np.ones(self.tables[k].num_rows, np.bool_)
            left[side.numbers(np.flatnonzero(matched[k]))] = False
            alone.append(np.flatnonzero(left) if keeps[k] else np.zeros(0, np.int64))
        none = np.zeros(0, np.int64)
        return pa.concat_tables([found, assembly.table(unmatched((none, none), *alone))])

    def _tuples(self, expected: float, tables: Both | None = None) -> tuple[Tuples, Tuples]:
        """Both sides in order, given how many result rows are expected, of these tables."""
        tables = self.tables if tables is None else tables
        with self._timed("sort"):
            both = [
                (
                    sorted_side,
                    self.program.stored[side],
                    table,
                    (self.plan.times[side] or "") if self._windowed else None,
                    expected,
                )
                for side, table, sorted_side in zip(SIDES, tables, (self._layout.r, self._layout.s), strict=True)
            ]
            r, s = self.crew.sides(in_order, both, [len(sorted_side.side) for sorted_side, *_ in both])
        return r, s

    def _search(self, r: Tuples, s: Tuples, made: Callable[[Array, Array], T]) -> list[T]:
        """Applies a function to the positions of all pairs; returns its results in the order of the tasks."""
        parts: list[list[T]] = [[] for _ in self._tasks]
        work = self._work(r, s, self._test(TILES if self.shape.kind == SCAN else PAIRS))

        def found(task: int, a: Array, b: Array) -> None:
            parts[task].append(made(a, b))

        with self._timed("search"):
            self.compared = search(self._tasks, lambda: Searcher(work, found), self.crew)
        return [part for task in parts for part in task]

    def _work(self, r: Tuples, s: Tuples, test: Test) -> Work:
        return Work(self.program, test, self._layout, (r, s), self._window.lower, self._window.width)
