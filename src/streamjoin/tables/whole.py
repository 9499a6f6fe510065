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
from streamjoin.algorithms import ALGORITHMS, INLINE
from streamjoin.codegen.pairs import ANYWHERE, EACH, SAME_WIDTH, PairProgram
from streamjoin.codegen.records import Array
from streamjoin.errors import DataError, SchemaError
from streamjoin.intake.frames import is_foreign_frame, to_arrow
from streamjoin.intake.prepare import compiling, times_of
from streamjoin.options import TABLES, Options
from streamjoin.plan.plan import Plan, make_plan
from streamjoin.plan.shape import SCAN, Shape, Tables, shapes
from streamjoin.plan.statistics import Dimension, equal_share
from streamjoin.results.kinds import none_matched, unmatched
from streamjoin.results.reduce import count_pairs, mark
from streamjoin.results.rows import gather, side_by_side
from streamjoin.results.schema import columns, result_schema
from streamjoin.results.selected import Assembly, beside, needed
from streamjoin.tables.asof import AS_OF, AsOf, possible
from streamjoin.tables.crew import Crew, PerThread, crew
from streamjoin.tables.gather import Piece, ResultRows, Tuples, in_order, rows_in_order
from streamjoin.tables.layout import Layout, lay_out
from streamjoin.tables.prune import prune
from streamjoin.tables.search import Test, Work, search, tasks
from streamjoin.tables.side import Side, prepare, taken
from streamjoin.tables.sort import order_of
from streamjoin.tables.validity import with_lifetimes
from streamjoin.tables.window import Places, on_axis, places

SMALL = 1 << 15  # rows of both sides that one thread joins before others have begun
MOST = 1 << 32  # rows of a table

T = TypeVar("T")
Pairs = tuple[Array, Array]  # of r and s


def join_tables(left: Any, right: Any, options: Options) -> Any:
    """See `streamjoin.join`."""
    if is_foreign_frame(left) != is_foreign_frame(right) or (is_foreign_frame(left) and type(left) is not type(right)):
        raise SchemaError(
            f"left is a {type(left).__module__}.{type(left).__name__}, right a {type(right).__module__}."
            f"{type(right).__name__}; convert one of them so that both are of the same kind"
        )
    tables = {"r": to_arrow(left, "the left table (r)"), "s": to_arrow(right, "the right table (s)")}
    plan = make_plan(tables["r"].schema, tables["s"].schema, options.for_engine(TABLES), static=True)
    if options.ordered and plan.unit is None:
        raise SchemaError(f"ordered=True {_timeless(plan)}")
    stats: dict[str, Any] = {} if options.stats is None else options.stats
    stats.update(algorithm=plan.algorithm, access=plan.access, workers=plan.workers)
    foreign = is_foreign_frame(left)
    if plan.lifetimes is not None:
        tables = with_lifetimes(plan.lifetimes, tables)
    if not plan.kind.plain or plan.lifetimes is not None:
        return _join_kind(plan, (left, right), tables, stats, options.ordered)
    if ALGORITHMS[plan.algorithm].engine != INLINE:
        from streamjoin.tables.replay import replay

        rows = replay(plan, tables, stats)
        if options.ordered:
            times = [times_of(plan, side, tables[side])[part] for side, part in zip("rs", rows, strict=True)]
            order = np.argsort(np.maximum(*times), kind="stable")
            rows = rows[0][order], rows[1][order]
    else:
        found = _join(plan, tables, stats, options.ordered, numbers=foreign)
        if isinstance(found, pa.Table):
            return found
        rows = found
    return gather((left, right), (tables["r"], tables["s"]), rows, result_schema(plan))


def _timeless(plan: Plan) -> str:
    """Why results have no times."""
    if plan.lifetimes is not None:
        return "does not go with valid(): a tuple that is valid for a while has no time"
    return 'needs time columns; give time="ts"'


def _join_kind(
    plan: Plan, frames: tuple[Any, Any], tables: dict[str, pa.Table], stats: dict[str, Any], ordered: bool
) -> Any:
    """The result of a join that hands out something else than all pairs with all columns."""
    from streamjoin.results.every_kind import KindJoin

    if plan.kind.take.timely and plan.unit is None:
        raise SchemaError(f'take="{plan.kind.take}" {_timeless(plan)}')
    both = tables["r"], tables["s"]
    assembly = Assembly(frames, both, columns(plan))
    if ALGORITHMS[plan.algorithm].engine != INLINE:
        from streamjoin.tables.replay import Replayed

        found = KindJoin(plan, both, Replayed(plan, tables, stats), ordered).run()
        return assembly.result(found.rows, found.aggregated)
    kind = plan.kind
    if possible(plan):
        found = KindJoin(plan, both, None, ordered).chosen(AsOf(plan, both).partners()[:, None])
        stats.update(comparisons=0, shape=AS_OF)
        return assembly.result(found.rows, found.aggregated)
    with _whole(plan, tables, stats) as join:
        if (
            kind.how.pairs
            and kind.take.every
            and not kind.aggregate
            and not ordered
            and not is_foreign_frame(frames[0])
        ):
            return join.outer(assembly)
        found = KindJoin(plan, both, join, ordered, join.count).run()
    return assembly.result(found.rows, found.aggregated)


def _join(
    plan: Plan, tables: dict[str, pa.Table], stats: dict[str, Any], ordered: bool, numbers: bool
) -> pa.Table | Pairs:
    """The result, by time if it is to be `ordered`, or the row numbers of its pairs."""
    with _whole(plan, tables, stats) as join:
        if not ordered:
            return join.numbers() if numbers else join.rows()
        rows = join.by_time()
        return rows if numbers else join.gathered(rows)


@contextmanager
def _whole(plan: Plan, tables: dict[str, pa.Table], stats: dict[str, Any]) -> Iterator[WholeJoin]:
    """The join on as many cores as pay; what it did goes to `stats`."""
    for side, table in tables.items():
        if table.num_rows >= MOST:
            raise DataError(f"{side} has {table.num_rows:,} rows, more than 32 bits count; join it in parts")
    small = sum(table.num_rows for table in tables.values()) <= SMALL
    with crew(1 if small else plan.workers) as workers:
        join = WholeJoin(plan, tables, workers)
        yield join
    stats.update(comparisons=join.comparisons, shape=join.shape.kind, steps=join.seconds)


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
        """How these tables may be joined, the cheapest way first."""
        found = shapes(self.known)
        return found if ACCESSES[self.plan.access].indexed else [shape for shape in found if shape.kind == SCAN]


def prepared(plan: Plan, tables: dict[str, pa.Table], workers: Crew) -> Prepared:
    """Intervals, key hashes and windows of all rows, and a sample of them."""
    program = PairProgram(plan.analysis)
    times = {side: times_of(plan, side, tables[side]) for side in "rs"}
    window = places(plan.window, times["r"], times["s"])

    def dimensions(r: Side, s: Side) -> tuple[Dimension, ...]:
        """In which tuples are intervals; the window is the last one, unless all pairs lie in it."""
        found = [Dimension(str(dimension), r.ends[d], s.ends[d]) for d, dimension in enumerate(program.dimensions)]
        until = r.window[1] if len(r.window) > 1 else None
        time = on_axis(replace(window, since=r.window[0], until=until, at=s.window[0]))
        return (*found, Dimension("time", *time)) if time is not None else tuple(found)

    r = prepare(program, "r", tables["r"], window.of_r, workers)
    s = prepare(program, "s", tables["s"], (window.at,), workers)
    r, s, found = prune(r, s, dimensions, workers)
    equal = equal_share(r.key, s.key) if r.key is not None and s.key is not None else None
    return Prepared(plan, program, window, r, s, Tables((len(r), len(s)), equal, found))


class WholeJoin:
    """One join of two tables.

    `_search` is the seam for whoever needs less than rows: its callback gets the positions of some pairs in the order
    of both sides, in several threads at once, and may count them or mark them; `layout.Sorted.numbers` has the rows of
    the tables at these positions. The arrays are overwritten afterwards.
    """

    def __init__(self, plan: Plan, tables: dict[str, pa.Table], workers: Crew) -> None:
        self.plan, self.tables, self.crew = plan, tables, workers
        self.comparisons = 0
        self.seconds: dict[str, float] = {}
        with self._timed("prepare"):
            known = prepared(plan, tables, workers)
        self.program, self._window, self._windowed = known.program, known.window, known.windowed
        with self._timed("sort"):
            self.shape, self._layout = self._lay_out(known)
        kind = ANYWHERE if not self._windowed else SAME_WIDTH if self._window.until is None else EACH
        with self._timed("compile"), compiling(self.program):
            self._test: Test = self.program.test(kind, tiles=self.shape.kind == SCAN).test
            self._test.compile("int64(int64)")
        axis = self.shape.axis
        swept = known.known.dimensions[axis.dimension] if axis else None
        points = (True, True) if swept is None else (swept.is_point("r"), swept.is_point("s"))
        self._tasks = tasks(self.shape, self._layout, points, workers)

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

    def numbers(self) -> Pairs:
        """The row numbers of all pairs."""
        r, s = self._tuples(0)
        none = np.zeros(0, np.uint32)
        found = self._search(r, s, lambda r, s: (r.copy(), s.copy())) or [(none, none)]
        return r.numbers(np.concatenate([a for a, _ in found])), s.numbers(np.concatenate([b for _, b in found]))

    def by_time(self) -> Pairs:
        """The row numbers of all pairs, in the order of the later one of their times."""
        times_r, times_s = (times_of(self.plan, side, self.tables[side]) for side in "rs")
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
        r, s = (rows_in_order(self.tables[side], part, self.crew) for side, part in zip("rs", rows, strict=True))
        return side_by_side(r, s, result_schema(self.plan))

    def rows(self) -> pa.Table:
        """The rows of all pairs."""
        r, s = self._tuples(self.shape.candidates)
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
        threads = self.parts(lambda: np.zeros(len(self._layout.r.side), np.uint32))
        self._search(r, s, lambda a, b: count_pairs(threads.mine(), a))
        counts = np.zeros(self.tables["r"].num_rows, np.int64)
        every = np.arange(len(self._layout.r.side), dtype=np.uint32)
        counts[r.numbers(every)] = np.sum(threads.all(), axis=0, dtype=np.int64)
        return counts

    def outer(self, assembly: Assembly) -> pa.Table:
        """The rows of all pairs with the wanted columns, and those without a partner on the sides that are kept."""
        keeps, wanted = self.plan.kind.how.keeps, assembly.wanted
        payload = {side: self.tables[side].select(needed(wanted, k)) for k, side in enumerate("rs")}
        r, s = self._tuples(self.shape.candidates, payload)
        layout = self._layout.r, self._layout.s
        matched = [none_matched(len(side.side)) for side in layout]

        fields = [field.with_name(f"{side}.{field.name}") for side, table in payload.items() for field in table.schema]
        rows = ResultRows(r, s, pa.schema(fields))

        def made(a: Array, b: Array) -> Piece:
            for side, positions in enumerate((a, b)):
                if keeps[side]:
                    mark(matched[side], positions)
            return rows.put(a, b)

        whole, split = rows.table(self._search(r, s, made)), payload["r"].num_columns
        parts = [
            pa.table(columns, names=payload[side].column_names)
            for side, columns in (("r", whole.columns[:split]), ("s", whole.columns[split:]))
        ]
        found = beside(wanted, parts[0], parts[1])
        alone = []
        for k, side in enumerate(layout):
            left = np.ones(self.tables["rs"[k]].num_rows, np.bool_)
            left[side.numbers(np.flatnonzero(matched[k]))] = False
            alone.append(np.flatnonzero(left) if keeps[k] else np.zeros(0, np.int64))
        none = np.zeros(0, np.int64)
        return pa.concat_tables([found, assembly.table(unmatched((none, none), *alone))])

    def _tuples(self, expected: float, tables: dict[str, pa.Table] | None = None) -> tuple[Tuples, Tuples]:
        """Both sides in order, given how many result rows are expected, of these tables."""
        tables = self.tables if tables is None else tables
        with self._timed("sort"):
            r, s = (
                in_order(
                    sorted_side,
                    self.program.stored[side],
                    tables[side],
                    (self.plan.times[side] or "") if self._windowed else None,
                    expected,
                    self.crew,
                )
                for side, sorted_side in (("r", self._layout.r), ("s", self._layout.s))
            )
        return r, s

    def _search(self, r: Tuples, s: Tuples, made: Callable[[Array, Array], T]) -> list[T]:
        """What is made of all pairs, given their positions, in the order of the tasks."""
        parts: list[list[T]] = [[] for _ in self._tasks]
        work = Work(self.program, self._test, self._layout, (r, s), self._window.lower, self._window.width)
        with self._timed("search"):
            self.comparisons = search(work, self._tasks, lambda task, a, b: parts[task].append(made(a, b)), self.crew)
        return [part for task in parts for part in task]
