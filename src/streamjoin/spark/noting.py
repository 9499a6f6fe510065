"""Cells that decide about the tuples they own, and what they note about each of these: has it a partner, is it chosen.

A tuple is decided once: in the visit in which the watermark passes its end, which is noted for the whole cell
(`cleared` in the manifest). A tuple that could still change the decision is late from then on, and dropped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from streamjoin.codegen.records import Array
from streamjoin.results.rows import take_rows
from streamjoin.spark.cell import Cell
from streamjoin.spark.cell_kernels import NUMBER, Arrived, Chunk, Engine, Note
from streamjoin.spark.chunk_files import ChunkCache
from streamjoin.spark.state import Entry, State, noted_at
from streamjoin.windows import FOREVER, SINCE_EVER


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
        return self._window.bounds(NUMBER[side], at, 0)[1]

    def _since(self, entry: Entry) -> int:
        """Tuples of a chunk that were due below this have come out."""
        return self.manifest.cleared if entry.number < self._before else SINCE_EVER

    def _due(self, side: str, watermark: int) -> Iterator[tuple[Entry, Chunk, Array]]:
        """Chunks with tuples whose end this watermark is the first to pass, and which these are."""
        if watermark == SINCE_EVER or watermark < self.manifest.cleared:
            return
        for entry in self._entries(side):
            since = self._since(entry)
            first, last = self._until(side, np.array([entry.first, entry.last]))
            if entry.met == entry.rows or first >= watermark or last < since:
                continue
            chunk = self._load(entry)
            until = self._until(side, self._engine.times(side, chunk.rows))
            due = np.flatnonzero((until >= since) & (until < watermark))
            if len(due):
                yield entry, chunk, due


class Noted(Chunk):
    """A chunk of an owner's tuples with a note about each of them, and what the notes were before."""

    def __init__(self, chunk: Chunk, notes: Array, entry: Entry | None = None) -> None:
        super().__init__(chunk.rows, chunk.run)
        self.notes, self.before, self.entry = notes, notes.copy(), entry
        self.first = np.full(len(notes), FOREVER)  # the earliest time of a tuple's pairs, if the result has times

    @property
    def changed(self) -> bool:
        return not np.array_equal(self.notes, self.before)


class NotingCell(DecidingCell):
    """Notes what pairs mean for the tuples of its owners. The notes are in the state beside the chunks."""

    def __init__(self, engine: Engine, number: int, state: State, cache: ChunkCache) -> None:
        super().__init__(engine, number, state, cache)
        self._old: dict[int, Noted] = {}  # by the number of their entry

    def _owned(self, side: str) -> bool:
        return self._duty.owners[NUMBER[side]]

    @abstractmethod
    def _blank(self, side: str, rows: pa.Table) -> Array:
        """The notes about tuples without a partner so far."""

    @abstractmethod
    def _note(self, side: str, mine: Chunk) -> Note:
        """Takes down the pairs of new rows of a side."""

    @abstractmethod
    def _read(self, entry: Entry) -> Array:
        """The notes about the tuples of a chunk."""

    @abstractmethod
    def _write(self, entry: Entry, notes: Array) -> None:
        """Has the state keep them."""

    def _results(self, new: dict[str, list[Arrived]], made: dict[str, list[Chunk]]) -> Iterator[pa.Table]:
        for side in filter(self._owned, "rs"):
            made[side] = [Noted(chunk, self._blank(side, chunk.rows)) for chunk in made[side]]
        for side in "rs":
            for arrived, mine in zip(new[side], made[side], strict=True):
                others = self._others(side, arrived, made["s"])
                yield from self._engine.meet(side, arrived, others, self._number, self._note(side, mine))
        for chunk in self._old.values():
            if chunk.changed and chunk.entry is not None:
                self._write(chunk.entry, chunk.notes)

    def _load(self, entry: Entry) -> Chunk:
        if not self._owned(entry.side):
            return super()._load(entry)
        if entry.number not in self._old:
            self._old[entry.number] = Noted(super()._load(entry), self._read(entry), entry)
        return self._old[entry.number]

    def _notes(self, entry: Entry) -> Array:
        chunk = self._load(entry)
        assert isinstance(chunk, Noted)
        return chunk.notes

    def _add(self, side: str, chunk: Chunk) -> Entry:
        entry = super()._add(side, chunk)
        if isinstance(chunk, Noted):
            self._write(entry, chunk.notes)
        return entry

    def _remove(self, entry: Entry) -> None:
        super()._remove(entry)
        self._old.pop(entry.number, None)

    def _merge(self, side: str, entries: list[Entry], table: pa.Table, kept: Array) -> None:
        if not self._owned(side):
            super()._merge(side, entries, table, kept)
            return
        notes = np.concatenate([self._notes(entry) for entry in entries])[kept]
        for entry in entries:
            self._remove(entry)
        if table.num_rows:
            self._add(side, Noted(self._chunk(side, self._engine.arrive(side, table)), notes))


class MarkingCell(NotingCell):
    """Notes who has met a partner. Those who have not come out when their window has passed."""

    def _results(self, new: dict[str, list[Arrived]], made: dict[str, list[Chunk]]) -> Iterator[pa.Table]:
        yield from super()._results(new, made)
        if self._duty.first:
            yield from self._first([chunk for chunk in [*made["r"], *self._old.values()] if isinstance(chunk, Noted)])

    def _blank(self, side: str, rows: pa.Table) -> Array:
        return np.zeros(rows.num_rows, np.bool_)

    def _note(self, side: str, mine: Chunk) -> Note:
        timed = self._duty.first and self._engine.spec.result_time is not None

        def note(chunk: Chunk, probing: Array, stored: Array) -> None:
            for noted, rows in ((mine, probing), (chunk, stored)):
                if isinstance(noted, Noted):
                    noted.notes[rows] = True
            if timed:
                (r, rows_r), (s, rows_s) = ((mine, probing), (chunk, stored))[:: 1 if side == "r" else -1]
                assert isinstance(r, Noted)
                times = [self._engine.times(*of) for of in (("r", r.rows), ("s", s.rows))]
                np.minimum.at(r.first, rows_r, np.maximum(times[0][rows_r], times[1][rows_s]))

        return note

    def _first(self, noted: list[Noted]) -> Iterator[pa.Table]:
        """Tuples that have met their first partner."""
        for chunk in noted:
            rows = np.flatnonzero(chunk.notes & ~chunk.before)
            yield self._engine.alone("r", take_rows(chunk.rows, rows), chunk.first[rows])

    def _read(self, entry: Entry) -> Array:
        if entry.met in (0, entry.rows):
            return np.full(entry.rows, entry.met > 0)
        bits = np.frombuffer(self._state.get(noted_at(entry.number)), np.uint8)
        return np.unpackbits(bits, count=entry.rows).astype(np.bool_)

    def _write(self, entry: Entry, notes: Array) -> None:
        kept = 0 < entry.met < entry.rows
        entry.met = int(notes.sum())
        if 0 < entry.met < entry.rows:
            self._state.put(noted_at(entry.number), np.packbits(notes).tobytes())
        elif kept:
            self._state.remove(noted_at(entry.number))

    def _remove(self, entry: Entry) -> None:
        super()._remove(entry)
        if 0 < entry.met < entry.rows:
            self._state.remove(noted_at(entry.number))

    def _decided(self, watermark: int) -> Iterator[pa.Table]:
        for side, rows in self._aside:
            yield self._alone(side, rows)
        for side in "rs":
            if self._duty.keeps[NUMBER[side]]:
                for entry, chunk, due in self._due(side, watermark):
                    yield self._alone(side, take_rows(chunk.rows, due[~self._notes(entry)[due]]))

    def _alone(self, side: str, rows: pa.Table) -> pa.Table:
        at = self._engine.times(side, rows)
        return self._engine.alone(side, rows, np.maximum(at, self._until(side, at)))
