"""What becomes of an engine's pairs before they are handed out: which of them are results, and which rows come alone.

    engine ──▶ pairs, complete ──▶ stage ──▶ order ──▶ rows ──▶ poll

A tuple is decided once, and by one owner: when the input has passed the end of its window and all pairs of what had
come until then are there. Until then it is held back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from streamjoin.codegen.records import Array
from streamjoin.plan.plan import SIDES, Plan
from streamjoin.results.numbers import NOBODY, aside
from streamjoin.results.undecided import NOTHING, Undecided
from streamjoin.windows import FOREVER


@dataclass(frozen=True)
class Snapshot:
    """The input at a moment: how many tuples had come, how far time had, and what no later tuple reaches."""

    numbers: tuple[int, int]
    mark: int
    horizons: tuple[int, int]
    passed: tuple[int, int]  # by side: its tuples that wait for a place below this wait no longer
    ended: bool = False


class Results(NamedTuple):
    """Results as tuple numbers; their times, unless these are the later ones of their pairs."""

    r: Array
    s: Array
    times: Array | None = None


NONE = Results(NOTHING, NOTHING)


class Waiting:
    """The tuples of one side that wait for their partners: those that take part in the join, and those aside."""

    def __init__(self, plan: Plan, side: int, more: Mapping[str, tuple[Any, Any]]) -> None:
        """`more`: what else is known of those that take part."""
        self._window, self._side = plan.window, side
        self.members, self.others = Undecided(**more), Undecided()

    def arrived(self, at: Array, times: Array | None, member: bool) -> None:
        """The next tuples, at their places in the window."""
        (self.members if member else self.others).append(*self._ends(at, times))

    def _ends(self, at: Array, times: Array | None) -> tuple[Array, Array]:
        """What the input must have passed before tuples have met all their partners; the times of their results."""
        if self._window.by_rows:
            return at, at if times is None else times
        until = self._window.bounds(SIDES[self._side], at, 0)[1]
        return until, np.maximum(until, at)

    def decided(self, reached: Snapshot) -> Array:
        """Positions of the tuples that take part and wait no longer."""
        return self.members.settle(reached.passed[self._side], reached.numbers[self._side], reached.ended)

    def alone(self, reached: Snapshot) -> Iterator[tuple[Array, Array]]:
        """Of the tuples that wait no longer, those without a partner: their numbers as they stand in results, times."""
        at = self.decided(reached)
        at = at[~self.members["met"][at]]
        yield at + self.members.first, self.members["time"][at]
        at = self.others.settle(reached.passed[self._side], FOREVER, reached.ended)
        yield aside(at + self.others.first), self.others["time"][at]
        self.others.forget(FOREVER)

    @property
    def held(self) -> int:
        return self.members.held + self.others.held

    def earliest(self) -> int:
        """No result of a tuple that waits has a time below this."""
        return min(self.members.earliest(), self.others.earliest())


class Stage:
    """Every pair is a result, and so is every tuple of a preserved side without a partner."""

    more: ClassVar[Mapping[str, tuple[Any, Any]]] = {}  # what is known of a tuple that waits: type, first value

    def __init__(self, plan: Plan, ordered: bool) -> None:
        self._how, self._ordered = plan.kind.how, ordered
        self._by_rows = plan.window.by_rows
        self.preserves = plan.kind.how.keeps
        self._waiting = {side: Waiting(plan, side, self.more) for side in (0, 1) if self._waits(side)}
        self.unmatched = 0  # rows that came out alone

    def _waits(self, side: int) -> bool:
        """Do tuples of a side wait for partners?"""
        return self.preserves[side]

    def arrived(self, side: int, at: Array, times: Array | None, member: bool = True) -> None:
        """The next tuples of a side, at their places in the window; `member`: they take part in the join."""
        if side in self._waiting:
            self._waiting[side].arrived(at, times, member)

    def pairs(self, r: Array, s: Array) -> Results:
        """Pairs have been found: those that are results."""
        for side, waiting in self._waiting.items():
            waiting.members.meet(s if side else r)
        return Results(r, s) if self._how.pairs else NONE

    def settle(self, reached: Snapshot) -> Iterator[Results]:
        """All pairs of what had come by then have been found: the results that follow from it."""
        for side, waiting in self._waiting.items():
            for alone, times in waiting.alone(reached):
                self.unmatched += len(alone)
                nobody = np.full(len(alone), NOBODY)
                yield Results(nobody, alone, times) if side else Results(alone, nobody, times)

    def in_order(self, r: Array, s: Array) -> tuple[Array, Array]:
        """Results whose turn has come, in their order: those that are still to be handed out."""
        return r, s

    def earliest(self) -> int:
        """No result that is held back has a time below this, as far as the input's own progress does not tell."""
        if not self._by_rows:
            return FOREVER
        return min(waiting.earliest() for waiting in self._waiting.values())

    def forget(self, side: int, number: int) -> None:
        """No result with a tuple of a side below this number waits for its order."""
        if side in self._waiting:
            self._waiting[side].members.forget(number)

    @property
    def held(self) -> int:
        """Tuples whose result is not known yet."""
        return sum(waiting.held for waiting in self._waiting.values())


class Semi(Stage):
    """An r is a result when its first partner is found; in an order, when the turn of its earliest pair comes."""

    more: ClassVar = {"out": (np.bool_, False), "place": (np.int64, 0)}

    def _waits(self, side: int) -> bool:
        return side == 0

    def pairs(self, r: Array, s: Array) -> Results:
        super().pairs(r, s)
        return Results(r, s) if self._ordered else Results(*self.in_order(r, s))

    def in_order(self, r: Array, s: Array) -> tuple[Array, Array]:
        """Of each r the first pair, if none was handed out before."""
        members = self._waiting[0].members
        out, place = members["out"], members["place"]
        at = r - members.first
        at = at[~out[at]]
        where = np.arange(len(at))
        place[at[::-1]] = where[::-1]  # of several the first one is written last
        at = at[place[at] == where]
        out[at] = True
        return at + members.first, np.full(len(at), NOBODY)

    def settle(self, reached: Snapshot) -> Iterator[Results]:
        """An r without a partner is no result."""
        self._waiting[0].decided(reached)
        return iter(())

    def earliest(self) -> int:
        return FOREVER


def stage_of(plan: Plan, ordered: bool) -> Stage | None:
    """What decides about results; None where every pair is one, and nothing else."""
    kind = plan.kind
    if kind.how.pairs and not any(kind.how.keeps):
        return None
    return (Stage if any(kind.how.keeps) else Semi)(plan, ordered)
