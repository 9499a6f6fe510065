"""Two whole tables through a parallel join, as if their rows came one after the other."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from streamjoin.codegen.records import Array
from streamjoin.engine import Engine, Setup, open_engine
from streamjoin.interrupts import BrokenOffError
from streamjoin.plan.plan import SIDES
from streamjoin.predicate.tree import OTHER
from streamjoin.tables.whole import Sides, TableJoin

CHUNK = 1 << 14  # rows of one side between two of the other, where the window does not depend on it
BATCH = 1024

Piece = tuple[str, int, int]  # side, and which of its tuples in order of arrival


class StreamedJoin(TableJoin):
    """One join of two tables, to row numbers, by worker threads."""

    workers: tuple[dict[str, Any], ...] = ()

    def _pairs(self) -> Iterator[tuple[Array, Array]]:
        at, before = self._arrival()
        times = {side: self.intake.times(side, self.tables[side]) for side in SIDES}
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
