"""Cells that choose and add up: the best partners of each r, aggregates over all of them.

Nothing is handed out before a tuple is decided. Then its partners are searched once, and reduced by the code that joins
whole tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pyarrow as pa

from streamjoin.codegen.records import Array
from streamjoin.intake.columns import physical_columns
from streamjoin.kinds import BACKWARD, FORWARD
from streamjoin.results.best import due_by_time
from streamjoin.results.every_kind import Alone, Consume, KindJoin
from streamjoin.results.rows import take_rows
from streamjoin.spark.cell import Cell
from streamjoin.spark.cell_kernels import Arrived, Chunk, Engine, Note
from streamjoin.spark.chunk_files import ChunkCache
from streamjoin.spark.duty import kind_of
from streamjoin.spark.noting import DecidingCell, MarkingCell, Noted, NotingCell
from streamjoin.spark.spec import CONTENT
from streamjoin.spark.state import Entry, State, noted_at
from streamjoin.spark.wire import integers
from streamjoin.windows import FOREVER, SINCE_EVER
from streamjoin.windows.every import latest

T = TypeVar("T")

AT_ONCE = 1 << 14  # tuples that are decided together
FEWEST = 1 << 12  # rows of s whose versions are worth looking through


class WaitingCell(DecidingCell):
    """Finds an r's partners when all of them have come, and not before."""

    def _results(self, new: dict[str, list[Arrived]], made: dict[str, list[Chunk]]) -> Iterator[pa.Table]:
        return iter(())

    def _until(self, side: str, at: Array) -> Array:
        until, take = super()._until(side, at), self._engine.plan.kind.take
        return np.minimum(until, due_by_time(take, at, at)) if take.name == BACKWARD else until

    def _horizon(self, side: str) -> int:
        """An s is needed as long as an r that may meet it is not decided."""
        cleared = self.manifest.cleared
        backward = self._engine.plan.kind.take.name == BACKWARD
        undecided = cleared if backward else min(cleared, self._window.horizon(1, cleared, 0))
        return undecided if side == "r" else self._window.horizon(0, undecided, 0)

    def _decided(self, watermark: int) -> Iterator[pa.Table]:
        due = [take_rows(chunk.rows, rows) for _, chunk, rows in self._due("r", watermark)]
        for rows in [*(rows for _, rows in self._aside), *([pa.concat_tables(due)] if due else [])]:
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


class EarlyCell(NotingCell, WaitingCell):
    """Chooses by time, forward or nearest: notes when no s can follow that beats the best one so far.

    That is never below the time of the partner in question, nor of r. So what a new row says about a tuple lies at or
    above `cleared`, and what is below it has come out.
    """

    def _results(self, new: dict[str, list[Arrived]], made: dict[str, list[Chunk]]) -> Iterator[pa.Table]:
        for entry in self._entries("r"):
            if entry.soonest is None:
                self._learn(entry)
        yield from super()._results(new, made)

    def _learn(self, entry: Entry) -> None:
        """Notes for a chunk that an earlier version left: as if those of its tuples that wait had just arrived."""
        chunk = Cell._load(self, entry)
        noted = Noted(chunk, self._blank("r", chunk.rows), entry)
        arrived = self._engine.arrive("r", chunk.rows)
        for _ in self._engine.meet("r", arrived, self._others("r", arrived, []), self._number, self._note("r", noted)):
            """Nothing comes out of that."""
        waits = np.flatnonzero(noted.before >= self.manifest.cleared)
        self._remove(entry)
        if len(waits):
            arrived = self._engine.arrive("r", take_rows(chunk.rows, waits).combine_chunks())
            self._add("r", Noted(self._chunk("r", arrived), noted.notes[waits]))

    def _blank(self, side: str, rows: pa.Table) -> Array:
        return self._until(side, self._engine.times(side, rows))

    def _note(self, side: str, mine: Chunk) -> Note:
        take, times = self._engine.plan.kind.take, self._engine.times

        def note(chunk: Chunk, probing: Array, stored: Array) -> None:
            (r, rows_r), (s, rows_s) = ((mine, probing), (chunk, stored))[:: 1 if side == "r" else -1]
            assert isinstance(r, Noted)
            own, other = times("r", r.rows)[rows_r], times("s", s.rows)[rows_s]
            due = due_by_time(take, own, other, by_content=True)
            if take.name == FORWARD:
                rows_r, due = rows_r[other >= own], due[other >= own]
            np.minimum.at(r.notes, rows_r, due)

        return note

    def _read(self, entry: Entry) -> Array:
        data = pa.decompress(self._state.get(noted_at(entry.number)), 8 * entry.rows, "zstd")
        return np.frombuffer(data, np.int64).copy()

    def _write(self, entry: Entry, notes: Array) -> None:
        entry.soonest = _least(notes, self._since(entry))
        self._state.put(noted_at(entry.number), pa.compress(notes.tobytes(), "zstd", asbytes=True))

    def _due(self, side: str, watermark: int) -> Iterator[tuple[Entry, Chunk, Array]]:
        if watermark == SINCE_EVER or watermark < self.manifest.cleared:
            return
        for entry in self._entries(side):
            if entry.soonest is not None and entry.soonest < watermark:
                notes = self._notes(entry)
                entry.soonest = _least(notes, watermark)
                yield entry, self._load(entry), np.flatnonzero((notes >= self._since(entry)) & (notes < watermark))

    def _horizon(self, side: str) -> int:
        """Of s: forward needs no past rows; nearest needs those that the oldest waiting r may still take."""
        cleared = self.manifest.cleared
        if side == "r":
            return super()._horizon(side)
        if self._engine.plan.kind.take.name == FORWARD:
            return cleared
        oldest = min([cleared, *(entry.first for entry in self._entries("r"))])
        return max(super()._horizon(side), self._window.horizon(0, oldest, 0))

    def expire(self, watermark: int) -> None:
        for entry in self._entries("r"):
            if entry.soonest == FOREVER:  # all of them have come out
                self._remove(entry)
        super().expire(watermark)

    def _remove(self, entry: Entry) -> None:
        super()._remove(entry)
        if entry.soonest is not None:
            self._state.remove(noted_at(entry.number))

    def _merge(self, side: str, entries: list[Entry], table: pa.Table, kept: Array) -> None:
        if side == "r":
            waits = np.concatenate([self._notes(entry) for entry in entries])[kept] >= self.manifest.cleared
            table, kept = take_rows(table, np.flatnonzero(waits)).combine_chunks(), kept[waits]
        super()._merge(side, entries, table, kept)


def _least(notes: Array, since: int) -> int:
    """The smallest of them from a value on."""
    return int(np.min(notes, where=notes >= since, initial=FOREVER))


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
    duty, plan = engine.spec.duty, engine.plan
    if not duty.waits:
        return (MarkingCell if duty.deciding else Cell)(engine, number, state, cache)
    waiting = VersionCell if plan.window.carries else EarlyCell if plan.kind.take.hastened else WaitingCell
    return waiting(engine, number, state, cache)
