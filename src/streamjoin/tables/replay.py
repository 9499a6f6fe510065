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


class Replayed:
    """One join of two tables by worker threads or a device: its pairs, as row numbers."""

    closed = False

    def __init__(self, plan: Plan, tables: tuple[pa.Table, pa.Table], stats: dict[str, Any]) -> None:
        self.plan, self._tables, self._stats = plan, tables, stats
        self._intake = Intake(plan, plan.program())
        self._found = Found()
        self._pushed = [0, 0]
        self._engine: Engine

    def numbers(self) -> tuple[Array, Array]:
        """All pairs."""
        found = [(np.zeros(0, np.int64), np.zeros(0, np.int64)), *self._pairs()]
        return np.concatenate([r for r, _ in found]), np.concatenate([s for _, s in found])

    def parts(self, make: Callable[[], T]) -> Alone[T]:
        return Alone(make)

    def each(self, consume: Callable[[Array, Array], None]) -> None:
        """Hands over all pairs, part by part."""
        for r, s in self._pairs():
            consume(r, s)

    @property
    def failure(self) -> BaseException | None:
        return self._engine.failure

    def stats(self) -> dict[str, Any]:
        """The engine's figures so far."""
        return self._engine.counted(self._pushed, self._found.count)

    def _pairs(self) -> Iterator[tuple[Array, Array]]:
        times = [self._intake.times(side, table) for side, table in enumerate(self._tables)]
        at, before = self._arrival(times)
        tuples, rows = [], []
        for side, table in enumerate(self._tables):
            prepared, kept = self._intake.prepare(side, table, at[side], before[side], 0)
            chosen = np.arange(len(at[side])) if kept is None else np.flatnonzero(kept)
            order = np.argsort(times[side][chosen], kind="stable")
            tuples.append(prepared.take(order))
            rows.append(chosen[order])
        times = [times[side][rows[side]] for side in (0, 1)]
        before = [before[side][rows[side]] for side in (0, 1)]
        plan = self.plan
        setup = Setup(plan.algorithm, plan.workers, plan.layout, BATCH)
        self._engine = engine = open_engine(plan, self._intake, setup, self._found)
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
        self._stats.update(comparisons=engine.comparisons(), per_worker=engine.workers())
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
