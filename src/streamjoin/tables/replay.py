"""Replays two whole tables through a parallel join, as if their rows arrived one after the other."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from streamjoin.codegen.records import Array
from streamjoin.engine import Engine, PerSide, Setup, open_engine
from streamjoin.intake.prepare import Intake
from streamjoin.interrupts import BrokenOffError
from streamjoin.metrics import observed
from streamjoin.plan.plan import Plan
from streamjoin.results.every_kind import Alone
from streamjoin.windows import SINCE_EVER

CHUNK = 1 << 14  # rows of one side between two of the other, where the window does not depend on it
BATCH = 1024

T = TypeVar("T")
Sides = list[Array]  # of r and of s
Piece = tuple[int, int, int]  # side, and which of its tuples in order of arrival


def replay(plan: Plan, tables: dict[str, pa.Table], stats: dict[str, Any]) -> tuple[Array, Array]:
    """Row numbers of the matching pairs, of r and of s, found by the engine of the plan's algorithm."""
    program = plan.program()
    join = StreamedJoin(plan, Intake(plan, program), (tables["r"], tables["s"]))
    found = list(join.pairs())
    stats.update(comparisons=join.comparisons, per_worker=list(join.workers))
    if not found:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate([r for r, _ in found]), np.concatenate([s for _, s in found])


class Replayed:
    """The pairs of a replay, part by part."""

    def __init__(self, plan: Plan, tables: dict[str, pa.Table], stats: dict[str, Any]) -> None:
        self._join = StreamedJoin(plan, Intake(plan, plan.program()), (tables["r"], tables["s"]))
        self._stats = stats

    def parts(self, make: Callable[[], T]) -> Alone[T]:
        return Alone(make)

    def each(self, consume: Callable[[Array, Array], None]) -> None:
        for r, s in self._join.pairs():
            consume(r, s)
        self._stats.update(comparisons=self._join.comparisons, per_worker=list(self._join.workers))


class StreamedJoin:
    """One join of two tables, to row numbers, by worker threads or a device."""

    workers: tuple[dict[str, Any], ...] = ()
    comparisons = 0
    closed = False

    def __init__(self, plan: Plan, intake: Intake, tables: tuple[pa.Table, pa.Table]) -> None:
        self.plan, self.intake, self.tables = plan, intake, tables
        self._found = Found()
        self._pushed = [0, 0]
        self._engine: Engine

    @property
    def failure(self) -> BaseException | None:
        return self._engine.failure

    def stats(self) -> dict[str, Any]:
        """The engine's figures so far."""
        return self._engine.counted(self._pushed, self._found.count)

    def pairs(self) -> Iterator[tuple[Array, Array]]:
        times = [self.intake.times(side, table) for side, table in enumerate(self.tables)]
        at, before = self._arrival(times)
        tuples, rows = [], []
        for side, table in enumerate(self.tables):
            prepared, kept = self.intake.prepare(side, table, at[side], before[side], 0)
            chosen = np.arange(len(at[side])) if kept is None else np.flatnonzero(kept)
            order = np.argsort(times[side][chosen], kind="stable")
            tuples.append(prepared.take(order))
            rows.append(chosen[order])
        times = [times[side][rows[side]] for side in (0, 1)]
        before = [before[side][rows[side]] for side in (0, 1)]
        plan = self.plan
        setup = Setup(plan.algorithm, plan.workers, plan.layout, BATCH)
        self._engine = engine = open_engine(plan, self.intake, setup, self._found)
        weakref.finalize(self, engine.fail, BrokenOffError("the join was interrupted"))
        try:
            engine.start()
            observed(self)
            by_arrival = plan.window.by_arrival
            for side, begin, end in _in_turns(times, before) if by_arrival else _by_time(times):
                if by_arrival:
                    self._expire(engine, side, int(tuples[side].at[begin]), int(before[side][begin]))
                engine.arrive(side, tuples[side].part(begin, end))
                self._pushed[side] = end
                if not by_arrival:
                    self._expire(engine, side, int(tuples[side].at[end - 1]), 0)
            engine.finish()
        except BaseException as error:
            engine.fail(error)
            engine.finish()
            raise
        finally:
            self.closed = True
        engine.check()
        self.workers = tuple(engine.workers())
        self.comparisons = engine.comparisons()
        for r, s in self._found.found:
            yield rows[0][r], rows[1][s]

    def _expire(self, engine: Engine, side: int, at: int, opposite: int) -> None:
        """A side has reached an `at`; this many rows of the other side had arrived by then."""
        horizon = self.plan.window.horizon(side, at, opposite)
        if side == 0:
            engine.expire((SINCE_EVER, horizon), (at, opposite))
        else:
            engine.expire((horizon, SINCE_EVER), (opposite, at))

    def _arrival(self, times: Sides) -> tuple[Sides, Sides]:
        """By side: each row's `at`, and how many rows of the other side arrived before it."""
        if not self.plan.window.by_rows:
            return times, [np.zeros(len(mine), np.int64) for mine in times]
        r, s = times
        at = [np.argsort(np.argsort(mine, kind="stable"), kind="stable") for mine in times]
        # at equal times r arrives first
        return at, [np.searchsorted(np.sort(s), r, side="left"), np.searchsorted(np.sort(r), s, side="right")]


class Found:
    """Keeps the pairs."""

    def __init__(self) -> None:
        self.found: list[tuple[Array, Array]] = []
        self.count = 0

    def pairs(self, r: Array, s: Array) -> None:
        self.found.append((r.copy(), s.copy()))
        self.count += len(r)

    def complete(self, below: PerSide) -> None:
        """The last pairs are there when the engine has finished."""


def _in_turns(times: Sides, before: Sides) -> Iterator[Piece]:
    """All tuples in order of arrival; neighbours of one side that see the same of the other come together."""
    time, seen = np.concatenate(times), np.concatenate(before)
    side = np.repeat([0, 1], [len(times[0]), len(times[1])])
    order = np.lexsort((side, time))
    side, seen = side[order], seen[order]
    cuts = np.flatnonzero((np.diff(side, prepend=-1) != 0) | (np.diff(seen, prepend=-1) != 0))
    done = [0, 0]
    for begin, end in zip(cuts, [*cuts[1:], len(order)], strict=False):  # there is no cut where there is no tuple
        k, count = int(side[begin]), int(end - begin)
        yield k, done[k], done[k] + count
        done[k] += count


def _by_time(times: Sides) -> Iterator[Piece]:
    """Both sides in step, a chunk at a time: the result does not depend on who comes first."""
    done = [0, 0]
    while any(done[side] < len(times[side]) for side in (0, 1)):
        ends = [times[k][min(done[k] + CHUNK, len(times[k])) - 1] for k in (0, 1) if done[k] < len(times[k])]
        for side in (0, 1):
            end = min(int(np.searchsorted(times[side], min(ends), side="right")), done[side] + CHUNK)
            if end > done[side]:
                yield side, done[side], end
                done[side] = end
