"""Decides about results: which pairs are results, and which rows come out without a partner.

    engine ──▶ pairs, complete ──▶ stage ──▶ order ──▶ rows ──▶ poll

A tuple is decided once: when the input has passed the end of its window, and all pairs of the tuples that had arrived
by then are known. Until then it is held back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from streamjoin.codegen.records import Array
from streamjoin.plan.plan import Plan
from streamjoin.results.numbers import NOBODY, aside
from streamjoin.results.reduce import first_of_each
from streamjoin.results.undecided import NOTHING, Undecided
from streamjoin.windows import FOREVER


@dataclass(frozen=True)
class Snapshot:
    """The progress of the input at a moment: the numbers of tuples, the mark of time, the horizons."""

    numbers: tuple[int, int]
    mark: int
    horizons: tuple[int, int]
    passed: tuple[int, int]  # by side: its tuples that are due below this wait no longer
    ended: bool = False


class Come(NamedTuple):
    """Tuples that have arrived: their `at`, their times if they have any, and when each is due, if each has its own
    window."""

    at: Array
    times: Array | None
    due: Array | None = None


class Results(NamedTuple):
    """Results as tuple numbers, and their times if these are not the later times of their pairs.

    Those of `decide` are either pairs, or all of them have nobody on the same side.
    """

    r: Array
    s: Array
    times: Array | None = None


NONE = Results(NOTHING, NOTHING)


class Waiting:
    """The waiting tuples of one side: those that take part in the join, and tuples aside."""

    def __init__(self, side: int, more: Mapping[str, tuple[Any, Any]]) -> None:
        """`more`: further columns of those that take part, by name: type and first value."""
        self._side = side
        self.members, self.others = Undecided(**more), Undecided()

    def decided(self, reached: Snapshot) -> Array:
        """Positions of the tuples that take part and wait no longer."""
        return self.members.decide(reached.passed[self._side], reached.numbers[self._side], reached.ended)

    def decided_aside(self, reached: Snapshot) -> tuple[Array, Array]:
        """The tuples aside that wait no longer: their numbers in results, their times."""
        if not reached.ended and not self.others.due(reached.passed[self._side]):
            return NOTHING, NOTHING
        at = self.others.decide(reached.passed[self._side], FOREVER, reached.ended)
        found = aside(at + self.others.first), self.others["time"][at]
        self.others.forget(FOREVER)
        return found

    def due(self, passed: int) -> bool:
        """Does one of them perhaps wait no longer?"""
        return self.members.due(passed) or self.others.due(passed)

    @property
    def held(self) -> int:
        return self.members.held + self.others.held

    def earliest(self) -> int:
        """No result of a tuple that waits has a time below this."""
        return min(self.members.earliest(), self.others.earliest())


class Stage:
    """Every pair is a result, and so is every tuple of a preserved side without a partner."""

    def __init__(self, plan: Plan, ordered: bool, more: Mapping[str, tuple[Any, Any]] | None = None) -> None:
        """`more`: further columns of waiting tuples, by name: type and first value."""
        self._how, self._window, self._ordered = plan.kind.how, plan.window, ordered
        self.preserves = plan.kind.how.keeps
        self._waiting = {side: Waiting(side, more or {}) for side in (0, 1) if self._waits(side)}
        self._nobody = NOTHING
        self.unmatched = 0  # rows that came out without a partner

    def _waits(self, side: int) -> bool:
        """Do tuples of a side wait for partners?"""
        return self.preserves[side]

    def arrived(self, side: int, come: Come, member: bool = True) -> None:
        """The next tuples of a side; `member`: they take part in the join."""
        if side in self._waiting:
            waiting = self._waiting[side]
            (waiting.members if member else waiting.others).append(*self._ends(side, come))

    def _ends(self, side: int, come: Come) -> tuple[Array, Array]:
        """When tuples are due: the input has then passed all their partners; and the times of their results."""
        due = self._window.due(side, come.at) if come.due is None else come.due
        return due, self._window.ends(come.at if come.times is None else come.times, due)

    def pairs(self, r: Array, s: Array) -> Results:
        """Takes pairs; returns those that are results."""
        for side, waiting in self._waiting.items():
            waiting.members.meet(s if side else r)
        return Results(r, s) if self._how.pairs else NONE

    def due(self, passed: tuple[int, int]) -> bool:
        """Would it decide anything, if the input has passed so much and all pairs are known?"""
        return any(waiting.due(passed[side]) for side, waiting in self._waiting.items())

    def decide(self, reached: Snapshot) -> Iterator[Results]:
        """The results that follow once all pairs of the tuples of this snapshot are known."""
        for side, waiting in self._waiting.items():
            at, members = waiting.decided(reached), waiting.members
            at = at[~members["met"][at]]
            yield self._alone(side, at + members.first, members["time"][at])
            yield self._alone(side, *waiting.decided_aside(reached))

    def _alone(self, side: int, numbers: Array, times: Array) -> Results:
        """Results of tuples of a side without a partner."""
        self.unmatched += len(numbers)
        nobody = self._nobodies(len(numbers))
        return Results(nobody, numbers, times) if side else Results(numbers, nobody, times)

    def _nobodies(self, count: int) -> Array:
        """So many missing partners. Nobody changes them."""
        if count > len(self._nobody):
            self._nobody = np.full(2 * count, NOBODY)
        return self._nobody[:count]

    def columns(self, r: Array) -> dict[str, pa.Array] | None:
        """Further columns of the results of tuples r, by name, when they leave."""
        return None

    def in_order(self, r: Array, s: Array) -> tuple[Array, Array]:
        """Of results that leave in order, those that are still to be handed out."""
        return r, s

    def earliest(self) -> int:
        """No result that is held back has a time below this. FOREVER if the input's progress already ensures that."""
        if not self._window.by_rows:
            return FOREVER
        return min(waiting.earliest() for waiting in self._waiting.values())

    def forget(self, side: int, number: int) -> None:
        """No result with a tuple of a side below this number waits for its order."""
        if side in self._waiting:
            self._waiting[side].members.forget(number)

    def horizon(self, side: int, reached: Snapshot) -> int:
        """Tuples of a side below this `at` meet no further arrival, and are no partners of an r that is held back."""
        return reached.horizons[side]

    def oldest(self, side: int, number: int) -> int:
        """The smallest number of a side's tuple in a result that is held back, if there is one, or `number`."""
        return number

    @property
    def held(self) -> int:
        """The number of undecided tuples."""
        return sum(waiting.held for waiting in self._waiting.values())


class Semi(Stage):
    """An r is a result when its first partner is found; with ordered results, when its earliest pair leaves."""

    def __init__(self, plan: Plan, ordered: bool) -> None:
        super().__init__(plan, ordered, {"out": (np.bool_, False)})

    def _waits(self, side: int) -> bool:
        return side == 0

    def pairs(self, r: Array, s: Array) -> Results:
        super().pairs(r, s)
        return Results(r, s) if self._ordered else Results(*self.in_order(r, s))

    def in_order(self, r: Array, s: Array) -> tuple[Array, Array]:
        """The first pair of each r, if none was handed out before."""
        members = self._waiting[0].members
        found = np.empty(len(r), np.int64)
        found = found[: first_of_each(r, members.first, members["out"], found)]
        return found, self._nobodies(len(found))

    def decide(self, reached: Snapshot) -> Iterator[Results]:
        """An r without a partner is not a result."""
        self._waiting[0].decided(reached)
        return iter(())

    def earliest(self) -> int:
        return FOREVER
