"""The best partners of each r on live streams: chosen among those that have arrived, final when no better one can."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from streamjoin.codegen.records import Array
from streamjoin.kinds import BACKWARD, FORWARD, Take
from streamjoin.plan.plan import Plan
from streamjoin.predicate.tree import Node
from streamjoin.results.best import certain_by_time, due_by_time, scores_by_time, scores_of
from streamjoin.results.chosen_kernels import END, Candidate, Room, count, drain, insert, insert_by_time, lowest
from streamjoin.results.computed import Values
from streamjoin.results.order import Times
from streamjoin.results.reduce import LAST, OUT
from streamjoin.results.stage import NONE, Come, Results, Snapshot, Stage
from streamjoin.windows import SINCE_EVER
from streamjoin.windows.window import Window

SMALLEST = 1 << 10

Pair = tuple[Array, Array]
Waiters = tuple[int, Array, Array, Array]  # the first number; by position: is it open, its time, its head
Evaluate = Callable[[tuple[Node, ...], Array, Array], list[Values]]  # the values of expressions for pairs of tuples


class Chains:
    """The k best candidates of each r, in a chain that begins at its head."""

    def __init__(self, k: int, forward: bool) -> None:
        self._kept = Candidate.array(SMALLEST)
        self._rooms = Room.array(1)
        self._rooms["free"], self._rooms["k"], self._rooms["forward"] = END, k, forward

    def offer(self, at: Array, heads: Array, times: Pair, s: Array, scores: Pair) -> None:
        """Offers partners s to r at positions of `heads`: the times of both, the scores and ranks of each pair."""
        offered = Candidate.array(len(s))
        offered["s"], offered["at"], (offered["score"], offered["rank"]) = s, times[1], scores
        self._make_room(len(offered))
        insert(offered, times[0], at, heads, self._kept, self._rooms[0])

    def offer_by_time(self, pairs: Pair, times_s: tuple[Array, int], waiting: Waiters, take: Take) -> Array:
        """Offers pairs of which an r keeps one partner: the closest in time, in the right direction.

        Returns the positions of the r that have a better partner now.
        """
        self._make_room(len(pairs[0]))
        improved = np.empty(len(pairs[0]), np.int64)
        both = take.name != FORWARD, take.name != BACKWARD
        count = insert_by_time(*pairs, *times_s, waiting, self._kept, self._rooms[0], *both, improved)
        return improved[:count]

    def _make_room(self, count: int) -> None:
        used = int(self._rooms["used"][0])
        if used + count > len(self._kept):
            kept = Candidate.array(2 * (used + count))
            kept[:used] = self._kept[:used]
            self._kept = kept

    def first(self, heads: Array) -> Array:
        """The times of the best candidates of r that have one."""
        return np.asarray(self._kept["at"][heads])

    def drain(self, heads: Array) -> tuple[Array, Array, Array]:
        """Removes the candidates of these r: the r of each, their numbers and times, the best ones first."""
        of, s, at = np.empty((3, count(heads, self._kept)), np.int64)
        drain(heads, self._kept, self._rooms[0], of, s, at)
        return of, s, at

    def lowest(self, heads: Array, number: int) -> int:
        """The smallest number of a candidate of these r, or `number` if that is smaller."""
        return int(lowest(heads, self._kept, number))


class Best(Stage):
    """An r comes out with its best partners when no better one can arrive."""

    def __init__(self, plan: Plan, ordered: bool, times: tuple[Times, Times], values: Evaluate) -> None:
        super().__init__(plan, ordered, {"head": (np.int64, END), "own": (np.int64, 0)})
        self._take, self._values = plan.kind.take, values
        self._times = times if plan.timed else None
        self._chains = Chains(self._take.k, self._take.name == FORWARD)

    def _waits(self, side: int) -> bool:
        return side == 0

    def arrived(self, side: int, come: Come, member: bool = True) -> None:
        if side == 0 and member:
            own = np.zeros(len(come.at), np.int64) if come.times is None else come.times
            self._waiting[0].members.append(*self._ends(0, come), own=own)
        else:
            super().arrived(side, come, member)

    def _ends(self, side: int, come: Come) -> tuple[Array, Array]:
        """With take="backward", an r waits only until s has passed its time."""
        due, end = super()._ends(side, come)
        back = self._take.name == BACKWARD and not self._window.by_rows
        return (np.minimum(due, due_by_time(self._take, come.at, come.at)), come.at) if back else (due, end)

    def pairs(self, r: Array, s: Array) -> Results:
        members = self._waiting[0].members
        if self._take.by is None and self._times is not None:
            waiters = members.first, members["open"], members["own"], members["head"]
            self._hasten(self._chains.offer_by_time((r, s), self._times[1].known, waiters, self._take))
            return NONE
        at = r - members.first
        waiting = members["open"][np.maximum(at, 0)] & (at >= 0)
        if not waiting.all():  # an r that is decided may still get partners that are no better
            at, r, s = at[waiting], r[waiting], s[waiting]
        own = members["own"][at]
        apart = own if self._times is None else self._times[1].of(s)
        scores = self._scores(r, s, own, apart)
        self._chains.offer(at, members["head"], (own, apart), s, scores)
        self._hasten(at[scores[1] != OUT])
        return NONE

    def _scores(self, r: Array, s: Array, own: Array, apart: Array) -> tuple[Array, Array]:
        if self._take.by is None:
            each = np.arange(len(r))
            return scores_by_time(self._take, each, each, (own, apart))
        (found,) = self._values((self._take.by,), r, s)
        return scores_of(found.values, found.valid, self._take.greatest, LAST)

    def _hasten(self, at: Array) -> None:
        """With "forward" and "nearest", an r with a partner waits until s has passed the times that are closer."""
        if not self._take.hastened or self._window.by_rows or not len(at):
            return
        members = self._waiting[0].members
        own, best = members["own"][at], self._chains.first(members["head"][at])
        members.hasten(at, np.minimum(members["due"][at], due_by_time(self._take, own, best)))

    def decide(self, reached: Snapshot) -> Iterator[Results]:
        waiting = self._waiting[0]
        at, members = waiting.decided(reached), waiting.members
        heads = members["head"][at]
        of, s, apart = self._chains.drain(heads)
        taken = at[of]
        members["head"][at] = END
        yield Results(taken + members.first, s, self._result_times(taken, apart))
        if self.preserves[0]:
            at = at[heads == END]
            yield self._alone(0, at + members.first, members["time"][at])
            yield self._alone(0, *waiting.decided_aside(reached))

    def _result_times(self, taken: Array, apart: Array) -> Array:
        """When the choice of partners at these times is certain."""
        members = self._waiting[0].members
        end = members["time"][taken]
        if self._window.by_rows or not self._take.hastened:
            return end
        return certain_by_time(self._take, members["own"][taken], apart, end)

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
