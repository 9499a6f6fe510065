"""Two whole tables through a parallel join, as if their rows came one after the other."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.codegen.records import Array
from streamjoin.engine import Engine, Setup, open_engine
from streamjoin.intake.prepare import Intake, times_of
from streamjoin.interrupts import BrokenOffError
from streamjoin.plan.plan import SIDES, Plan
from streamjoin.predicate.tree import OTHER

CHUNK = 1 << 14  # rows of one side between two of the other, where the window does not depend on it
BATCH = 1024

Sides = dict[str, Array]
Piece = tuple[str, int, int]  # side, and which of its tuples in order of arrival


def replay(plan: Plan, tables: dict[str, pa.Table], stats: dict[str, Any]) -> tuple[Array, Array]:
    """Row numbers of the matching pairs, of r and of s, found by the engine of the plan's algorithm."""
    program = plan.program()
    join = StreamedJoin(plan, Intake(plan, program), tables)
    found = list(join.pairs())
    stats.update(comparisons=join.comparisons, per_worker=list(join.workers))
    if not found:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate([r for r, _ in found]), np.concatenate([s for _, s in found])


class StreamedJoin:
    """One join of two tables, to row numbers, by worker threads or a device."""

    workers: tuple[dict[str, Any], ...] = ()
    comparisons = 0

    def __init__(self, plan: Plan, intake: Intake, tables: dict[str, pa.Table]) -> None:
        self.plan, self.intake, self.tables = plan, intake, tables

    def pairs(self) -> Iterator[tuple[Array, Array]]:
        times = {side: times_of(self.plan, side, self.tables[side]) for side in SIDES}
        at, before = self._arrival(times)
        tuples, rows = {}, {}
        for side in SIDES:
            prepared, kept = self.intake.prepare(side, self.tables[side], at[side], before[side], 0)
            chosen = np.arange(len(at[side])) if kept is None else np.flatnonzero(kept)
            order = np.argsort(times[side][chosen], kind="stable")
            tuples[side], rows[side] = prepared.take(order), chosen[order]
            times[side], before[side] = times[side][rows[side]], before[side][rows[side]]
        found: list[tuple[Array, Array]] = []
        plan = self.plan
        setup = Setup(plan.algorithm, plan.workers, plan.layout, BATCH)

        def pairs(r: Array, s: Array) -> None:
            found.append((r.copy(), s.copy()))

        engine = open_engine(plan, self.intake, setup, pairs, lambda marks: None)
        weakref.finalize(self, engine.fail, BrokenOffError("the join was interrupted"))
        try:
            engine.start()
            by_arrival = plan.window.by_arrival
            for side, begin, end in _in_turns(times, before) if by_arrival else _by_time(times):
                if by_arrival:
                    self._expire(engine, side, int(tuples[side].at[begin]), int(before[side][begin]))
                engine.arrive(SIDES.index(side), tuples[side].part(begin, end))
                if not by_arrival:
                    self._expire(engine, side, int(tuples[side].at[end - 1]), 0)
            engine.finish()
        except BaseException as error:
            engine.fail(error)
            engine.finish()
            raise
        engine.check()
        self.workers = tuple(engine.workers())
        self.comparisons = engine.comparisons()
        for r, s in found:
            yield rows["r"][r], rows["s"][s]

    def _expire(self, engine: Engine, side: str, place: int, opposite: int) -> None:
        """A side has come to a place, when so many rows of the other had come."""
        horizon = self.plan.window.horizon(side, place, opposite)
        engine.expire(SIDES.index(OTHER[side]), horizon, place)

    def _arrival(self, times: Sides) -> tuple[Sides, Sides]:
        """By side: each row's place, and how many rows of the other side arrived before it."""
        zero = {side: np.zeros(len(times[side]), np.int64) for side in SIDES}
        if not self.plan.window.by_rows:
            return times, zero
        at, before = {}, {}
        for side in SIDES:
            position = np.empty(len(times[side]), np.int64)
            position[np.argsort(times[side], kind="stable")] = np.arange(len(position))
            at[side] = position
            other = np.sort(times[OTHER[side]])
            # at equal times r arrives first
            before[side] = np.searchsorted(other, times[side], side="left" if side == "r" else "right").astype(np.int64)
        return at, before


def _in_turns(times: Sides, before: Sides) -> Iterator[Piece]:
    """All tuples in order of arrival; neighbours of one side that see the same of the other come together."""
    time = np.concatenate([times["r"], times["s"]])
    side = np.repeat([0, 1], [len(times["r"]), len(times["s"])])
    seen = np.concatenate([before["r"], before["s"]])
    order = np.lexsort((side, time))
    side, seen = side[order], seen[order]
    cuts = np.flatnonzero((np.diff(side, prepend=-1) != 0) | (np.diff(seen, prepend=-1) != 0))
    done = [0, 0]
    for begin, end in zip(cuts, [*cuts[1:], len(order)], strict=False):  # there is no cut where there is no tuple
        k, count = int(side[begin]), int(end - begin)
        yield SIDES[k], done[k], done[k] + count
        done[k] += count


def _by_time(times: Sides) -> Iterator[Piece]:
    """Both sides in step, a chunk at a time: the result does not depend on who comes first."""
    done = dict.fromkeys(SIDES, 0)
    while any(done[side] < len(times[side]) for side in SIDES):
        ends = [times[s][min(done[s] + CHUNK, len(times[s])) - 1] for s in SIDES if done[s] < len(times[s])]
        for side in SIDES:
            end = min(int(np.searchsorted(times[side], min(ends), side="right")), done[side] + CHUNK)
            if end > done[side]:
                yield side, done[side], end
                done[side] = end
