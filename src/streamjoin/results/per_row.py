"""Aggregates of the partners of each r on live streams: updated pair by pair, final when its window has closed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from streamjoin.codegen.records import Array
from streamjoin.kinds import MAX_BY, Aggregate
from streamjoin.plan.plan import Plan
from streamjoin.results.aggregate import Accumulator, accumulator
from streamjoin.results.best import scores_of
from streamjoin.results.chosen import Chains, known, partners_from
from streamjoin.results.chosen_kernels import END
from streamjoin.results.numbers import NOBODY
from streamjoin.results.order import Times
from streamjoin.results.payload import Assembler
from streamjoin.results.reduce import OUT
from streamjoin.results.stage import NONE, Results, Snapshot, Stage
from streamjoin.results.undecided import Undecided

NO_TIMES = np.zeros(0, np.int64), np.zeros(0, np.int64)


class Total:
    """One aggregate with an accumulator. Its state of each r is kept with the other columns of that tuple."""

    def __init__(self, aggregate: Aggregate) -> None:
        self._sums, self._none = accumulator(aggregate, 0, NO_TIMES), accumulator(aggregate, 1, NO_TIMES)
        self.argument = self._sums.argument
        self._names = {name: f"{aggregate.name}.{name}" for name, value in vars(self._sums).items() if _array(value)}
        self.more = {column: (getattr(self._sums, name).dtype, 0) for name, column in self._names.items()}

    def at(self, members: Undecided) -> Accumulator:
        """The accumulator over the state of these tuples."""
        for name, column in self._names.items():
            setattr(self._sums, name, members[column])
        self._sums.first = members.first
        return self._sums

    def result(self, members: Undecided, r: Array) -> pa.Array:
        """The aggregate of results, also of tuples aside, which have no partners."""
        mine = r >= 0
        found = self.at(members).result(r[mine] - members.first)
        if mine.all():
            return found
        others = self._none.result(np.zeros(len(r) - len(found), np.int64))
        order = np.empty(len(r), np.int64)
        order[mine], order[~mine] = np.arange(len(found)), np.arange(len(found), len(r))
        return pa.concat_arrays([found, others]).take(pa.array(order))


def _array(value: object) -> bool:
    return isinstance(value, np.ndarray)


class PerRow(Stage):
    """One row for each r, or for each r with a partner."""

    def __init__(self, plan: Plan, ordered: bool, times: tuple[Times, Times], assembler: Assembler) -> None:
        self._aggregates = plan.kind.aggregate
        self._totals = {one.name: Total(one) for one in self._aggregates if len(one.args) < 2}
        self._choices = {one.name: Chains(1, forward=False) for one in self._aggregates if len(one.args) == 2}
        self._nodes = tuple(dict.fromkeys(one.args[-1] for one in self._aggregates if one.args))
        self._times, self._assembler = times if plan.timed else None, assembler
        more = {name: known for total in self._totals.values() for name, known in total.more.items()}
        super().__init__(plan, ordered, more | {_head(name): (np.int64, END) for name in self._choices})

    def _waits(self, side: int) -> bool:
        return side == 0

    def pairs(self, r: Array, s: Array) -> Results:
        members = self._waiting[0].members
        members.meet(r)
        at = r - members.first
        values = self._assembler.values(self._nodes, r, s) if self._nodes else []
        found = dict(zip(self._nodes, values, strict=True))
        for total in self._totals.values():
            total.at(members).add((at, s), found[total.argument] if total.argument is not None else None)
        for one in self._aggregates:
            if one.name in self._choices:
                by = found[one.args[1]]
                scores = scores_of(by.values, by.valid, one.function == MAX_BY, OUT)
                self._choices[one.name].offer((r, s), scores, known(self._times), members, members[_head(one.name)])
        return NONE

    def decide(self, reached: Snapshot) -> Iterator[Results]:
        waiting = self._waiting[0]
        at, members = waiting.decided(reached), waiting.members
        met = members["met"][at]
        if not self.preserves[0]:
            at = at[met]
        else:
            self.unmatched += int(np.count_nonzero(~met))
            yield self._alone(0, *waiting.decided_aside(reached))
        yield Results(at + members.first, np.full(len(at), NOBODY), members["time"][at])

    def columns(self, r: Array) -> dict[str, pa.Array]:
        members = self._waiting[0].members
        found = {}
        for one in self._aggregates:
            if one.name in self._totals:
                found[one.name] = self._totals[one.name].result(members, r)
            else:
                found[one.name] = self._assembler.column(one.args[0], r, self._chosen(one.name, r))
        return found

    def _chosen(self, name: str, r: Array) -> Array:
        """The partners that min_by or max_by has found for results. They are removed."""
        members = self._waiting[0].members
        mine, s = np.flatnonzero(r >= 0), np.full(len(r), NOBODY)
        heads, at = members[_head(name)], r[mine] - members.first
        with_one = mine[heads[at] != END]
        s[with_one] = self._choices[name].drain(at, heads)[1]
        return s

    def horizon(self, side: int, reached: Snapshot) -> int:
        return partners_from(self._window, reached) if side and self._choices else super().horizon(side, reached)

    def oldest(self, side: int, number: int) -> int:
        """An r that is held back only for the order has partners below the horizon."""
        if not self._ordered and not self._window.by_rows:
            return number
        members = self._waiting[0].members
        lowest = [chains.lowest(members[_head(name)], number) for name, chains in self._choices.items()]
        return min([number, *lowest]) if side else number


def _head(name: str) -> str:
    """The column of heads of the chains of an aggregate."""
    return f"{name}.head"
