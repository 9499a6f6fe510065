"""One call that joins two tables: it chooses the method and the workers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.algorithms import ALGORITHMS, INLINE
from streamjoin.errors import DataError, SchemaError
from streamjoin.intake.frames import is_foreign_frame, to_arrow
from streamjoin.intake.lifetimes import with_lifetimes
from streamjoin.intake.prepare import times_of
from streamjoin.options import Options
from streamjoin.plan.columns import columns, result_schema
from streamjoin.plan.plan import Plan
from streamjoin.predicate.tree import SIDES
from streamjoin.results.every_kind import KindJoin
from streamjoin.results.rows import gather
from streamjoin.results.selected import Assembly
from streamjoin.tables.asof import AS_OF, AsOf, possible
from streamjoin.tables.crew import Crew, crew
from streamjoin.tables.gather import take_in_parts
from streamjoin.tables.plans import plan_of
from streamjoin.tables.running import RUNNING, RunningCount, countable
from streamjoin.tables.whole import Both, Pairs, WholeJoin

SMALL = 1 << 15  # rows of both sides that one thread joins before others have begun
MOST = 1 << 32  # rows of a table


def join_tables(left: Any, right: Any, options: Options) -> Any:
    """See `streamjoin.join`."""
    if is_foreign_frame(left) != is_foreign_frame(right) or (is_foreign_frame(left) and type(left) is not type(right)):
        raise SchemaError(
            f"left is a {type(left).__module__}.{type(left).__name__}, right a {type(right).__module__}."
            f"{type(right).__name__}; convert one of them so that both are of the same kind"
        )
    tables = to_arrow(left, "the left table (r)"), to_arrow(right, "the right table (s)")
    plan = plan_of(tables[0].schema, tables[1].schema, options)
    if options.ordered and plan.unit is None:
        raise SchemaError(f"ordered=True needs times, but {plan.timeless}")
    stats: dict[str, Any] = {} if options.stats is None else options.stats
    stats.update(algorithm=plan.algorithm, access=plan.access, workers=plan.workers)
    foreign = is_foreign_frame(left)
    if plan.lifetimes is not None:
        tables = with_lifetimes(plan.lifetimes, *tables)
    if not plan.kind.plain or plan.lifetimes is not None:
        return _join_kind(plan, (left, right), tables, stats, options.ordered)
    if ALGORITHMS[plan.algorithm].engine != INLINE:
        from streamjoin.tables.replay import Replayed

        rows = Replayed(plan, tables, stats).numbers()
        if options.ordered:
            times = [times_of(plan, side, table)[rows[side]] for side, table in enumerate(tables)]
            order = np.argsort(np.maximum(*times), kind="stable")
            rows = rows[0][order], rows[1][order]
    else:
        found = _join(plan, tables, stats, options.ordered, numbers=foreign)
        if isinstance(found, pa.Table):
            return found
        rows = found
    return gather((left, right), tables, rows, result_schema(plan))


def _join_kind(plan: Plan, frames: tuple[Any, Any], tables: Both, stats: dict[str, Any], ordered: bool) -> Any:
    """The result of a join that returns anything but all pairs with all columns."""
    if plan.kind.take.timely and plan.unit is None:
        raise SchemaError(f'take="{plan.kind.take}" goes by time, but {plan.timeless}')
    with _workers(plan, tables) as workers:
        assembly = Assembly(frames, tables, columns(plan), partial(take_in_parts, crew=workers))
        if ALGORITHMS[plan.algorithm].engine != INLINE:
            from streamjoin.tables.replay import Replayed

            found = KindJoin(plan, tables, Replayed(plan, tables, stats), ordered).run()
        elif possible(plan):
            found = KindJoin(plan, tables, None, ordered).chosen(AsOf(plan, tables, workers).partners()[:, None])
            stats.update(comparisons=0, shape=AS_OF)
        elif countable(plan, tables, ordered, workers):
            found = KindJoin(plan, tables, None, ordered, RunningCount(plan, tables, workers).counts).run()
            stats.update(comparisons=0, shape=RUNNING)
        else:
            join, kind = WholeJoin(plan, tables, workers), plan.kind
            whole = kind.how.pairs and kind.take.every and not kind.aggregate
            if whole and not ordered and not is_foreign_frame(frames[0]):
                outer = join.outer(assembly)
                stats.update(join.stats)
                return outer
            found = KindJoin(plan, tables, join, ordered, join.count, join.choose).run()
            stats.update(join.stats)
        return assembly.result(found.rows, found.aggregated)


def _join(plan: Plan, tables: Both, stats: dict[str, Any], ordered: bool, numbers: bool) -> pa.Table | Pairs:
    """The result, by time if it is to be `ordered`, or the row numbers of its pairs."""
    with _workers(plan, tables) as workers:
        join = WholeJoin(plan, tables, workers)
        found: pa.Table | Pairs
        if ordered:
            rows = join.by_time()
            found = rows if numbers else join.gathered(rows)
        else:
            found = join.numbers() if numbers else join.rows()
    stats.update(join.stats)
    return found


@contextmanager
def _workers(plan: Plan, tables: Both) -> Iterator[Crew]:
    """The number of workers that pays."""
    for side, table in zip(SIDES, tables, strict=True):
        if table.num_rows >= MOST:
            raise DataError(f"{side} has {table.num_rows:,} rows, more than 32 bits count; join it in parts")
    small = sum(table.num_rows for table in tables) <= SMALL
    with crew(1 if small else plan.workers) as workers:
        yield workers
