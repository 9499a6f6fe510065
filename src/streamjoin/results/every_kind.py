"""Every kind of join of whole tables: from pairs of row numbers, reduced part by part and never kept, to rows.

A `Source` yields the pairs: the search of whole tables, in several threads, a replay, or a cell on Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from streamjoin.codegen.records import Array
from streamjoin.intake.columns import row_numbers
from streamjoin.intake.prepare import times_of
from streamjoin.kinds import FORWARD, Take
from streamjoin.plan.plan import Plan
from streamjoin.predicate.tree import SIDES, columns
from streamjoin.predicate.types import INT64
from streamjoin.results.aggregate import Accumulator, Choice, accumulator
from streamjoin.results.best import Best, certain_by_time, scores_by_time, scores_of
from streamjoin.results.computed import Computed, as_arrow, to_array
from streamjoin.results.numbers import none_matched, unmatched
from streamjoin.results.reduce import LAST, count_pairs, mark
from streamjoin.results.rows import take_rows
from streamjoin.results.selected import Rows

T = TypeVar("T")
Consume = Callable[[Array, Array], None]  # row numbers of pairs; the arrays are overwritten afterwards


class Parts(Protocol[T]):
    """One object for every thread that asks, and all of them in the end."""

    def mine(self) -> T: ...

    def all(self) -> list[T]: ...


class Source(Protocol):
    """Where pairs come from."""

    def parts(self, make: Callable[[], T]) -> Parts[T]:
        """The objects into which threads reduce pairs, one for each thread."""

    def each(self, consume: Consume) -> None:
        """Passes all pairs to `consume`, part by part, in one thread or in several."""


class Alone(Generic[T]):
    """One object, for a source with one thread."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._made = make()

    def mine(self) -> T:
        return self._made

    def all(self) -> list[T]:
        return [self._made]


class NoPairs:
    """A source without pairs, for a join whose partners are already known."""

    def parts(self, make: Callable[[], T]) -> Alone[T]:
        return Alone(make)

    def each(self, consume: Consume) -> None:
        """There are no pairs."""


@dataclass(frozen=True)
class Outcome:
    """The rows of a result, the columns that were aggregated, and the times of its rows if they are needed."""

    rows: Rows
    aggregated: dict[str, pa.Array]
    times: Array | None = None


class KindJoin:
    """One join of two tables, of any kind."""

    def __init__(
        self,
        plan: Plan,
        tables: tuple[pa.Table, pa.Table],
        source: Source | None,
        ordered: bool,
        count: Callable[[], Array] | None = None,
        choose: Callable[[Take], Array] | None = None,
    ) -> None:
        """`source`: None if the chosen partners are already known.

        `count`, `choose`: faster ways to count partners, and to choose one by time, by row of r.
        """
        self._count = count or self._count_pairs
        self._choose_by_time = choose or self._choose_timely
        self.plan, self.kind, self._tables, self._ordered = plan, plan.kind, tables, ordered
        self._source: Source = NoPairs() if source is None else source
        self._sizes = tables[0].num_rows, tables[1].num_rows

    def run(self) -> Outcome:
        """The result, in the order of its times if that was asked for."""
        kind = self.kind
        if kind.aggregate:
            found = self._aggregate()
        elif not kind.how.pairs:
            found = self._alone()
        else:
            found = self._pairs() if kind.take.every else self._taken(self._choose())
        return self._sorted(found)

    def chosen(self, partners: Array) -> Outcome:
        """The same, given the partners that are taken: by row of r, -1 where there are fewer."""
        return self._sorted(self._taken(partners))

    def _sorted(self, found: Outcome) -> Outcome:
        if found.times is None:
            return found
        order = np.argsort(found.times, kind="stable")
        rows = found.rows[0][order], found.rows[1][order]
        aggregated = {name: array.take(row_numbers(order)) for name, array in found.aggregated.items()}
        return Outcome(rows, aggregated, found.times[order])

    @property
    def times(self) -> Rows:
        """The times of both sides; where there are none, all are equal."""
        if not self.plan.timed:
            return np.zeros(self._sizes[0], np.int64), np.zeros(self._sizes[1], np.int64)
        r, s = (times_of(self.plan, side, table) for side, table in enumerate(self._tables))
        return r, s

    def _pairs(self) -> Outcome:
        """All pairs, and the rows without a partner."""
        parts = self._source.parts(_no_rows)
        self._source.each(lambda r, s: parts.mine().append((np.array(r, np.int64), np.array(s, np.int64))))
        found = [part for thread in parts.all() for part in thread]
        none = np.zeros(0, np.int64)
        r, s = (np.concatenate([part[side] for part in found] or [none]) for side in (0, 1))
        alone = []
        for side, numbers in enumerate((r, s)):
            matched = none_matched(self._sizes[side])
            mark(matched, numbers)
            alone.append(np.flatnonzero(matched == 0) if self.kind.how.keeps[side] else none)
        rows = unmatched((r, s), alone[0], alone[1])
        if not self._ordered:
            return Outcome(rows, {})
        times = self.times
        ends = [self._ends(side, times[side][alone[side]]) for side in (0, 1)]
        return Outcome(rows, {}, np.concatenate([np.maximum(times[0][r], times[1][s]), *ends]))

    def _ends(self, side: int, at: Array) -> Array:
        """The times at which it is certain that a tuple has no partner."""
        window = self.plan.window
        return window.ends(at, window.due(side, at))

    def _count_pairs(self) -> Array:
        """By row of r: how many partners it has."""
        counts = self._source.parts(lambda: np.zeros(self._sizes[0], np.int64))
        self._source.each(lambda r, s: count_pairs(counts.mine(), r))
        return np.asarray(np.sum(counts.all(), axis=0))

    def _alone(self) -> Outcome:
        """semi and anti: rows of r."""
        if self.kind.counts_partners(self._ordered):
            counts = self._count()
            rows = np.flatnonzero(counts == 0 if self.kind.how.keeps[0] else counts > 0)
            times = self._ends(0, self.times[0][rows]) if self._ordered else None
            return Outcome((rows, nobody(len(rows))), {}, times)
        times_r, times_s = self.times
        first = self._best(Best(self._sizes[0], 1, (times_r, times_s)), lambda r, s: earliest(times_s[s]))
        rows, partners = first.pairs()
        return Outcome((rows, nobody(len(rows))), {}, np.maximum(times_r[rows], times_s[partners]))

    def _best(self, empty: Best, scored: Callable[[Array, Array], Rows]) -> Best:
        """The best partners by their scores."""
        threads = self._source.parts(empty.fresh)
        self._source.each(lambda r, s: threads.mine().add(r, s, *scored(r, s)))
        best, *others = threads.all()
        for other in others:
            best.merge(other)
        return best

    def _choose(self) -> Array:
        """The best partners of every r."""
        take, times = self.kind.take, self.times
        if take.by is None:
            return self._choose_by_time(take)[:, None]
        empty = Best(self._sizes[0], take.k, times)
        computed = Computed((take.by,), *self._tables)

        def scored(r: Array, s: Array) -> Rows:
            found = computed.of(r, s)[0]
            return scores_of(found.values, found.valid, take.greatest, LAST)

        return self._best(empty, scored).partners

    def _choose_timely(self, take: Take) -> Array:
        times = self.times
        empty = Best(self._sizes[0], 1, times, take.name == FORWARD)
        return self._best(empty, lambda r, s: scores_by_time(take, r, s, times)).partners[:, 0]

    def _taken(self, partners: Array) -> Outcome:
        """The rows of a choice; an r without a partner has a row if r is preserved."""
        k = partners.shape[1]
        keep = partners.ravel() >= 0
        if self.kind.how.keeps[0]:
            keep[::k] = True
        place = np.flatnonzero(keep)
        rows = place if k == 1 else place // k, partners.ravel()[place]
        return Outcome(rows, {}, self._times_taken(rows, self.times) if self._ordered else None)

    def _times_taken(self, rows: Rows, times: Rows) -> Array:
        """The times at which a choice is certain."""
        take, own = self.kind.take, times[0][rows[0]]
        ends = self._ends(0, own)
        if take.by is not None or self.plan.window.by_rows:
            return ends
        if not take.hastened:
            return own
        partner = times[1][np.maximum(rows[1], 0)] if len(times[1]) else own
        return np.where(rows[1] < 0, ends, certain_by_time(take, own, partner, ends))

    def _aggregate(self) -> Outcome:
        """One row per r, with aggregates of its partners."""
        n, times, wanted = self._sizes[0], self.times, self.kind.aggregate
        if self.kind.counts_partners(self._ordered):
            return self._counted(self._count(), times)
        nodes = tuple(dict.fromkeys(a.args[-1] for a in wanted if a.args))
        computed = Computed(nodes, *self._tables)
        threads = self._source.parts(lambda: (np.zeros(n, np.int64), [accumulator(a, n, times) for a in wanted]))

        def add(r: Array, s: Array) -> None:
            counts, totals = threads.mine()
            count_pairs(counts, r)
            found = dict(zip(nodes, computed.of(r, s) if nodes else [], strict=True))
            for total in totals:
                total.add((r, s), None if total.argument is None else found[total.argument])

        self._source.each(add)
        (counts, totals), *others = threads.all()
        for more, other in others:
            counts += more
            for mine, theirs in zip(totals, other, strict=True):
                mine.merge(theirs)
        rows = np.arange(n) if self.kind.how.keeps[0] else np.flatnonzero(counts)
        aggregated = {total.aggregate.name: self._result(total, rows) for total in totals}
        ends = self._ends(0, times[0][rows]) if self._ordered else None
        return Outcome((rows, nobody(len(rows))), aggregated, ends)

    def _counted(self, counts: Array, times: Rows) -> Outcome:
        """Nothing but counts of partners."""
        matched = counts > 0
        every = self.kind.how.keeps[0] or bool(matched.all())
        rows = np.arange(len(counts)) if every else np.flatnonzero(matched)
        found = to_array(counts if every else counts[rows], None, INT64)
        ends = self._ends(0, times[0][rows]) if self._ordered else None
        return Outcome((rows, nobody(len(rows))), {a.name: found for a in self.kind.aggregate}, ends)

    def _result(self, total: Accumulator, rows: Array) -> pa.Array:
        if not isinstance(total, Choice):
            return total.result(rows)
        node, partners = total.aggregate.args[0], total.best.partners[rows, 0]
        both = np.where(partners < 0, -1, rows), partners
        if node.op == "column":
            side = SIDES.index(node.column[0])
            table = self._tables[side].select([node.column[1]])
            return take_rows(table, both[side], missing=True).column(0).combine_chunks()
        r, s = (
            take_rows(
                table.select([name for owner, name in sorted(columns(node)) if owner == side]), part, missing=True
            )
            for side, table, part in zip(SIDES, self._tables, both, strict=True)
        )
        found = Computed((node,), r, s, aligned=True).rows(len(rows))[0]
        found.valid[partners < 0] = False
        return as_arrow(found, node)


def nobody(n: int) -> Array:
    """So many rows without a partner, in the memory of one."""
    return np.broadcast_to(np.int64(-1), n)


def _no_rows() -> list[Rows]:
    return []


def earliest(times: Array) -> Rows:
    """Scores and ranks of pairs, by which the earliest partner is the best one."""
    return scores_of(times, np.ones(len(times), np.bool_), False, LAST)
