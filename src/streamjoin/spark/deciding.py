"""Cells that decide about the tuples they own: which have no partner, which partner is the best, what they add up to.

A tuple is decided once: in the visit in which the watermark passes its end, which is noted for the whole cell
(`cleared` in the manifest). A tuple that could still change the decision is late from then on, and dropped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pyarrow as pa

from streamjoin.codegen.records import Array
from streamjoin.intake.columns import physical_columns
from streamjoin.kinds import BACKWARD
from streamjoin.results.every_kind import Alone, Consume, KindJoin
from streamjoin.results.rows import take_rows
from streamjoin.spark.cell import Cell
from streamjoin.spark.cell_kernels import NUMBER, Arrived, Chunk, Engine, Note
from streamjoin.spark.chunk_files import ChunkCache
from streamjoin.spark.duty import kind_of
from streamjoin.spark.spec import CONTENT
from streamjoin.spark.state import Entry, State, met_at
from streamjoin.spark.wire import integers
from streamjoin.windows import FOREVER, SINCE_EVER
from streamjoin.windows.every import latest

T = TypeVar("T")

AT_ONCE = 1 << 14  # tuples that are decided together
FEWEST = 1 << 12  # rows of s whose versions are worth looking through


class DecidingCell(Cell, ABC):
    """A cell with tuples that come out when they are decided."""

    def __init__(self, engine: Engine, number: int, state: State, cache: ChunkCache) -> None:
        super().__init__(engine, number, state, cache)
        self._duty = engine.spec.duty
        self._aside: list[tuple[str, pa.Table]] = []  # new rows that match nothing by themselves, and are preserved

    def _apart(self, side: str, rows: pa.Table, arrived: Arrived) -> None:
        if arrived.kept is not None and self._duty.keeps[NUMBER[side]]:
            out = np.ones(rows.num_rows, np.bool_)
            out[arrived.kept] = False
            self._aside.append((side, take_rows(rows, np.flatnonzero(out))))

    def decide(self, watermark: int) -> Iterator[pa.Table]:
        for table in self._decided(watermark):
            if table.num_rows:
                self.tally.results += table.num_rows
                yield table

    @abstractmethod
    def _decided(self, watermark: int) -> Iterator[pa.Table]:
        """The rows that this watermark decides."""

    def _until(self, side: str, at: Array) -> Array:
        """What the watermark must have passed before tuples at these times are decided."""
        return self._window.bounds(side, at, 0)[1]

    def _due(self, side: str, watermark: int) -> Iterator[tuple[Entry, Chunk, Array]]:
        """Chunks with tuples whose end this watermark is the first to pass, and which these are."""
        cleared = self.manifest.cleared
        if watermark == SINCE_EVER or watermark < cleared:
            return
        for entry in self._entries(side):
            since = cleared if entry.number < self._before else SINCE_EVER
            first, last = self._until(side, np.array([entry.first, entry.last]))
            if entry.met == entry.rows or first >= watermark or last < since:
                continue
            chunk = self._load(entry)
            until = self._until(side, self._engine.times(side, chunk.rows))
            due = np.flatnonzero((until >= since) & (until < watermark))
            if len(due):
                yield entry, chunk, due


class Noted(Chunk):
    """A chunk of an owner's tuples: which of them have a partner, and which had one before."""

    def __init__(self, chunk: Chunk, met: Array, entry: Entry | None = None) -> None:
        super().__init__(chunk.rows, chunk.run)
        self.met, self.before, self.entry = met, met.copy(), entry
        self.first = np.full(len(met), FOREVER)  # the earliest time of a tuple's pairs, if somebody asks for it

    @property
    def changed(self) -> bool:
        return not np.array_equal(self.met, self.before)


class MarkingCell(DecidingCell):
    """Notes who has met a partner. Those who have not come out when their window has passed."""

    def __init__(self, engine: Engine, number: int, state: State, cache: ChunkCache) -> None:
        super().__init__(engine, number, state, cache)
        self._old: dict[int, Noted] = {}  # by the number of their entry

    def _results(self, new: dict[str, list[Arrived]], made: dict[str, list[Chunk]]) -> Iterator[pa.Table]:
        for side in "rs":
            if self._duty.owners[NUMBER[side]]:
                made[side] = [Noted(chunk, np.zeros(chunk.rows.num_rows, np.bool_)) for chunk in made[side]]
        for side in "rs":
            for arrived, mine in zip(new[side], made[side], strict=True):
                others = self._others(side, arrived, made["s"])
                yield from self._engine.meet(side, arrived, others, self._number, self._note(side, mine))
        noted = [chunk for chunk in [*made["r"], *made["s"], *self._old.values()] if isinstance(chunk, Noted)]
        if self._duty.first:
            yield from self._first(noted)
        for chunk in self._old.values():
            if chunk.changed and chunk.entry is not None:
                self._write(chunk.entry, chunk.met)

    def _note(self, side: str, mine: Chunk) -> Note:
        """Takes down the pairs of new rows of a side."""
        timed = self._duty.first and self._engine.spec.result_time is not None

        def note(chunk: Chunk, probing: Array, stored: Array) -> None:
            for noted, rows in ((mine, probing), (chunk, stored)):
                if isinstance(noted, Noted):
                    noted.met[rows] = True
            if timed:
                (r, rows_r), (s, rows_s) = ((mine, probing), (chunk, stored))[:: 1 if side == "r" else -1]
                assert isinstance(r, Noted)
                times = [self._engine.times(*of) for of in (("r", r.rows), ("s", s.rows))]
                np.minimum.at(r.first, rows_r, np.maximum(times[0][rows_r], times[1][rows_s]))

        return note

    def _first(self, noted: list[Noted]) -> Iterator[pa.Table]:
        """Tuples that have met their first partner."""
        for chunk in noted:
            rows = np.flatnonzero(chunk.met & ~chunk.before)
            yield self._engine.alone("r", take_rows(chunk.rows, rows), chunk.first[rows])

    def _load(self, entry: Entry) -> Chunk:
        if not self._duty.owners[NUMBER[entry.side]]:
            return super()._load(entry)
        if entry.number not in self._old:
            self._old[entry.number] = Noted(super()._load(entry), self._read(entry), entry)
        return self._old[entry.number]

    def _read(self, entry: Entry) -> Array:
        """Which tuples of a chunk have a partner."""
        if entry.met in (0, entry.rows):
            return np.full(entry.rows, entry.met > 0)
        bits = np.frombuffer(self._state.get(met_at(entry.number)), np.uint8)
        return np.unpackbits(bits, count=entry.rows).astype(np.bool_)

    def _write(self, entry: Entry, met: Array) -> None:
        kept = 0 < entry.met < entry.rows
        entry.met = int(met.sum())
        if 0 < entry.met < entry.rows:
            self._state.put(met_at(entry.number), np.packbits(met).tobytes())
        elif kept:
            self._state.remove(met_at(entry.number))

    def _add(self, side: str, chunk: Chunk) -> Entry:
        entry = super()._add(side, chunk)
        if isinstance(chunk, Noted):
            self._write(entry, chunk.met)
        return entry

    def _remove(self, entry: Entry) -> None:
        super()._remove(entry)
        self._old.pop(entry.number, None)
        if 0 < entry.met < entry.rows:
            self._state.remove(met_at(entry.number))

    def _merge(self, side: str, entries: list[Entry], table: pa.Table, kept: Array) -> None:
        if not self._duty.owners[NUMBER[side]]:
            super()._merge(side, entries, table, kept)
            return
        met = np.concatenate([self._read(entry) for entry in entries])[kept]
        for entry in entries:
            self._remove(entry)
        if table.num_rows:
            self._add(side, Noted(self._chunk(side, self._engine.arrive(side, table)), met))

    def _decided(self, watermark: int) -> Iterator[pa.Table]:
        for side, rows in self._aside:
            yield self._alone(side, rows)
        for side in "rs":
            if self._duty.keeps[NUMBER[side]]:
                for entry, chunk, due in self._due(side, watermark):
                    yield self._alone(side, take_rows(chunk.rows, due[~self._read(entry)[due]]))

    def _alone(self, side: str, rows: pa.Table) -> pa.Table:
        at = self._engine.times(side, rows)
        return self._engine.alone(side, rows, np.maximum(at, self._until(side, at)))


class WaitingCell(DecidingCell):
    """Finds an r's partners when all of them have come, and not before."""

    def _results(self, new: dict[str, list[Arrived]], made: dict[str, list[Chunk]]) -> Iterator[pa.Table]:
        return iter(())

    def _until(self, side: str, at: Array) -> Array:
        until = super()._until(side, at)
        return np.minimum(until, at) if self._engine.plan.kind.take.name == BACKWARD else until

    def _horizon(self, side: str) -> int:
        """An s is needed as long as an r that may meet it is not decided."""
        cleared = self.manifest.cleared
        backward = self._engine.plan.kind.take.name == BACKWARD
        undecided = cleared if backward else min(cleared, self._window.horizon("s", cleared, 0))
        return undecided if side == "r" else self._window.horizon("r", undecided, 0)

    def _decided(self, watermark: int) -> Iterator[pa.Table]:
        found = [rows for _, rows in self._aside]
        found += [take_rows(chunk.rows, due) for _, chunk, due in self._due("r", watermark)]
        for rows in found:
            for start in range(0, rows.num_rows, AT_ONCE):
                yield self._outcome(rows.slice(start, AT_ONCE).combine_chunks())

    def _outcome(self, r: pa.Table) -> pa.Table:
        """The result rows of some r, all of whose partners are in the state."""
        engine, arrived = self._engine, self._engine.arrive("r", r)
        compared, parts, pairs, done = engine.comparisons, [], [], 0
        for entry in self._entries("s") if len(arrived.tuples) else []:
            if arrived.tuples.since.min() > entry.last or arrived.tuples.until.max() < entry.first:
                continue
            chunk = self._load(entry)
            for probing, stored in engine.probe("r", arrived, chunk, self._number):
                used, places = np.unique(stored, return_inverse=True)
                parts.append(take_rows(chunk.rows, used))
                pairs.append((probing if arrived.kept is None else arrived.kept[probing], done + places))
                done += len(used)
        self.tally.comparisons += engine.comparisons - compared
        return outcome(engine, r, parts, pairs)


class VersionCell(WaitingCell):
    """Without a window: of each key the latest version of s is kept, and those that an r may still ask for."""

    def _horizon(self, side: str) -> int:
        return self.manifest.cleared if side == "r" else SINCE_EVER

    def expire(self, watermark: int) -> None:
        super().expire(watermark)
        entries = self._entries("s")
        if sum(entry.rows for entry in entries) >= max(FEWEST, 2 * self.manifest.versions):
            self._renew(entries)

    def _renew(self, entries: list[Entry]) -> None:
        """Drops the versions that no r can ask for any more. Of several at one time the content decides."""
        engine = self._engine
        table = pa.concat_tables([self._load(entry).rows for entry in entries])
        keys = physical_columns(table, engine.program.stored["s"], "s")
        at = engine.times("s", table)
        needed = np.flatnonzero(latest(keys, at, integers(table, CONTENT), self.manifest.cleared))
        for entry in entries:
            self._remove(entry)
        self.manifest.versions = len(needed)
        for piece in self._pieces(take_rows(table, needed).combine_chunks(), at[needed]):
            self._add("s", self._chunk("s", engine.arrive("s", piece)))


class Found:
    """Pairs that are known, as a source of every kind of join."""

    def __init__(self, pairs: list[tuple[Array, Array]]) -> None:
        self._pairs = pairs

    def parts(self, make: Callable[[], T]) -> Alone[T]:
        return Alone(make)

    def each(self, consume: Consume) -> None:
        for r, s in self._pairs:
            consume(np.ascontiguousarray(r, np.int64), np.ascontiguousarray(s, np.int64))


def outcome(engine: Engine, r: pa.Table, parts: list[pa.Table], pairs: list[tuple[Array, Array]]) -> pa.Table:
    """Result rows of some r, given all their partners, in parts, and the pairs' row numbers in r and in all parts."""
    spec, plan = engine.spec, engine.plan
    s = pa.concat_tables(parts).combine_chunks() if parts else plan.schemas["s"].empty_table()
    if CONTENT in s.column_names:
        # Nothing arrives in an order here: what comes last is decided by the content.
        order = np.argsort(integers(s, CONTENT), kind="stable")
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        s, pairs = take_rows(s, order), [(one, rank[other]) for one, other in pairs]
    asked = replace(plan, kind=kind_of(plan.kind, spec.duty))
    found = KindJoin(asked, (r, s), Found(pairs), ordered=spec.result_time is not None).run()
    if not spec.duty.pairs and not spec.duty.waits and not spec.duty.owners[0]:  # what is left of s alone
        mine = found.rows[0] < 0
        found = replace(found, rows=(found.rows[0][mine], found.rows[1][mine]))
        if found.times is not None:
            found = replace(found, times=found.times[mine])
    return engine.result((r, s), found)


def cell_of(engine: Engine, number: int, state: State, cache: ChunkCache) -> Cell:
    """A visit of a cell, of the sort that the join needs."""
    duty = engine.spec.duty
    if duty.waits:
        return (VersionCell if engine.plan.window.carries else WaitingCell)(engine, number, state, cache)
    return (MarkingCell if duty.deciding else Cell)(engine, number, state, cache)
