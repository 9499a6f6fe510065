"""The best partners of each r on live streams: chosen among those that have arrived, final when no better one can."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from streamjoin.codegen.records import Array
from streamjoin.kinds import BACKWARD, FORWARD, Take
from streamjoin.plan.plan import Plan
from streamjoin.predicate.tree import Node
from streamjoin.results.best import certain_by_time, due_by_time, scores_of
from streamjoin.results.chosen_kernels import END, Candidate, Room, count, drain, insert, insert_by_time, lowest
from streamjoin.results.computed import Values
from streamjoin.results.order import Times
from streamjoin.results.reduce import LAST
from streamjoin.results.stage import NONE, Come, Results, Snapshot, Stage
from streamjoin.results.undecided import NOTHING, Undecided
from streamjoin.windows import SINCE_EVER
from streamjoin.windows.window import Window

SMALLEST = 1 << 10

Pair = tuple[Array, Array]
Known = tuple[tuple[Array, int], tuple[Array, int]]  # by side: times, and the number of the first tuple that has one
Evaluate = Callable[[tuple[Node, ...], Array, Array], list[Values]]  # the values of expressions for pairs of tuples


def known(times: tuple[Times, Times] | None) -> Known:
    """The times of both sides; none if there is no time column."""
    return ((NOTHING, 0), (NOTHING, 0)) if times is None else (times[0].known, times[1].known)


class Chains:
    """The k best candidates of each r, in a chain that begins at its head."""

    def __init__(self, k: int, forward: bool) -> None:
        self._kept = Candidate.array(SMALLEST)
        self._rooms = Room.array(1)
        self._rooms["free"], self._rooms["k"], self._rooms["forward"] = END, k, forward

    def offer(self, pairs: Pair, scores: Pair, times: Known, members: Undecided, heads: Array) -> None:
        """Offers pairs with scores and ranks. `heads`: of the chains, by position."""
        self._make_room(len(pairs[0]))
        insert(*pairs, *scores, *times, members.address, heads, self._kept, self._rooms[0])

    def offer_by_time(
        self, pairs: Pair, times: Known, members: Undecided, heads: Array, take: Take, hastens: bool
    ) -> None:
        """Offers pairs of which an r keeps one partner: the closest in time, in the right direction.

        `hastens`: an r with a partner waits only until s has passed the times that are closer.
        """
        self._make_room(len(pairs[0]))
        if hastens:
            members.expect(len(pairs[0]))
        how = take.name != FORWARD, take.name != BACKWARD, hastens
        insert_by_time(*pairs, *times, members.address, heads, self._kept, self._rooms[0], *how)

    def _make_room(self, count: int) -> None:
        used = int(self._rooms["used"][0])
        if used + count > len(self._kept):
            kept = Candidate.array(2 * (used + count))
            kept[:used] = self._kept[:used]
            self._kept = kept

    def drain(self, positions: Array, heads: Array) -> tuple[Array, Array, Array, Array]:
        """Removes the candidates of the r at these positions.

        Returns where each of them was, their numbers and times, the best ones first; and the positions without any.
        """
        of, s, at = np.empty((3, count(positions, heads, self._kept)), np.int64)
        empty = drain(positions, heads, self._kept, self._rooms[0], of, s, at)
        return of, s, at, positions[:empty]

    def lowest(self, heads: Array, number: int) -> int:
        """The smallest number of a candidate of these r, or `number` if that is smaller."""
        return int(lowest(heads, self._kept, number))


class Best(Stage):
    """An r comes out with its best partners when no better one can arrive."""

    def __init__(self, plan: Plan, ordered: bool, times: tuple[Times, Times], values: Evaluate) -> None:
        super().__init__(plan, ordered, {"head": (np.int64, END)})
        self._take, self._values = plan.kind.take, values
        self._hastens = plan.kind.take.hastened and not plan.window.by_rows
        self._times = times if plan.timed else None
        self._chains = Chains(self._take.k, self._take.name == FORWARD)

    def _waits(self, side: int) -> bool:
        return side == 0

    def _ends(self, side: int, come: Come) -> tuple[Array, Array]:
        """With take="backward", an r waits only until s has passed its time."""
        due, end = super()._ends(side, come)
        back = self._take.name == BACKWARD and not self._window.by_rows
        return (np.minimum(due, due_by_time(self._take, come.at, come.at)), come.at) if back else (due, end)

    def pairs(self, r: Array, s: Array) -> Results:
        members, times = self._waiting[0].members, known(self._times)
        heads = members["head"]
        if self._take.by is None:
            self._chains.offer_by_time((r, s), times, members, heads, self._take, self._hastens)
        else:
            (found,) = self._values((self._take.by,), r, s)
            scores = scores_of(found.values, found.valid, self._take.greatest, LAST)
            self._chains.offer((r, s), scores, times, members, heads)
        return NONE

    def decide(self, reached: Snapshot) -> Iterator[Results]:
        waiting = self._waiting[0]
        at, members = waiting.decided(reached), waiting.members
        taken, s, apart, alone = self._chains.drain(at, members["head"])
        yield Results(taken + members.first, s, self._result_times(taken, apart) if self._ordered else None)
        if self.preserves[0]:
            yield self._alone(0, alone + members.first, members["time"][alone])
            yield self._alone(0, *waiting.decided_aside(reached))

    def _result_times(self, taken: Array, apart: Array) -> Array:
        """When the choice of partners at these times is certain."""
        members = self._waiting[0].members
        end = members["time"][taken]
        if not self._hastens or self._times is None:
            return end
        return certain_by_time(self._take, self._times[0].of(taken + members.first), apart, end)

    def horizon(self, side: int, reached: Snapshot) -> int:
        return partners_from(self._window, reached) if side else super().horizon(side, reached)

    def oldest(self, side: int, number: int) -> int:
        if not side or not (self._window.by_rows or self._window.carries):
            return number
        return self._chains.lowest(self._waiting[0].members["head"], number)


def partners_from(window: Window, reached: Snapshot) -> int:
    """The smallest `at` of a partner of an r whose window is open, or of an r that is still to come."""
    horizon_r, horizon_s = reached.horizons
    if window.by_rows or window.carries:  # `at` does not determine it; `oldest` does
        return horizon_s
    if horizon_r == SINCE_EVER:
        return SINCE_EVER
    return min(horizon_s, int(window.bounds(0, np.array([horizon_r]), 0)[0][0]))
