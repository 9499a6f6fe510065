"""One cell of a streaming join: the windows of both sides as chunks, and what a micro-batch does to them.

    new r  x  (old s and new s)
    new s  x   old r                then the new rows become chunks, small chunks are merged, old ones expire

Every pair that meets in this cell is found once: by the later one of the two micro-batches, or by r within one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamjoin.access.frozen import span
from streamjoin.codegen.records import Array
from streamjoin.predicate.tree import OTHER
from streamjoin.results.rows import take_rows
from streamjoin.spark.cell_kernels import NUMBER, Arrived, Chunk, Engine
from streamjoin.spark.chunk_files import ChunkCache
from streamjoin.spark.spec import FIRST, JoinSpec
from streamjoin.spark.state import Entry, Manifest, State
from streamjoin.spark.wire import HEAVIEST, integers, pack, unpack
from streamjoin.windows import SINCE_EVER

LARGEST = 1 << 16  # rows of a chunk; a chunk of half as many is no longer merged
FEWEST = 4  # this many neighbours, none longer than the others together, become one


@dataclass
class Tally:
    """Counters of one visit of a cell."""

    results: int = 0
    comparisons: int = 0
    late: int = 0
    chunks: int = 0
    arrived: int = 0
    window_r: int = 0
    window_s: int = 0
    state_bytes: int = 0

    @property
    def state_rows(self) -> int:
        return self.window_r + self.window_s


class Cell:
    """A visit of one cell in one micro-batch."""

    def __init__(self, engine: Engine, number: int, state: State, cache: ChunkCache) -> None:
        self._engine, self._number, self._state, self._cache = engine, number, state, cache
        self._window = engine.plan.window
        self._family = f"{engine.spec.identity}-{number}-"  # how its files begin: cells drop theirs independently
        self.tally = Tally()
        data, signature = state.manifest(), engine.spec.signature
        self.manifest = Manifest.read(data, signature) if data is not None else self._fresh(engine.spec)
        self._before = self.manifest.next  # chunks below this number were there before the visit
        engine.intake.origins = tuple(self.manifest.origins)

    def _fresh(self, spec: JoinSpec) -> Manifest:
        dims = len(self._engine.no_origins)
        return Manifest(
            spec.signature, origins=list(self._engine.no_origins), widths={side: [None] * dims for side in "rs"}
        )

    def arrive(self, tables: dict[str, list[pa.Table]]) -> Iterator[pa.Table]:
        """Joins the new rows of a micro-batch and yields the result rows. The caller must exhaust the iterator."""
        manifest, engine = self.manifest, self._engine
        compared = engine.comparisons
        new: dict[str, list[Arrived]] = {"r": [], "s": []}
        for side in "rs":
            if tables.get(side):
                new[side] = self._prepare(side, pa.concat_tables(tables[side]).combine_chunks())
        manifest.origins = list(engine.intake.origins)
        for side in "rs":
            for arrived in new[side]:
                manifest.widths[side] = [None if np.isnan(x) else float(x) for x in engine.widths(arrived.tuples)]
        made = {side: [self._chunk(side, arrived) for arrived in new[side]] for side in "rs"}
        for table in self._results(new, made):
            self.tally.results += table.num_rows
            yield table
        for side in "rs":
            for chunk in made[side]:
                self._add(side, chunk)
        self.tally.comparisons += engine.comparisons - compared

    def _results(self, new: dict[str, list[Arrived]], made: dict[str, list[Chunk]]) -> Iterator[pa.Table]:
        """The results of new rows; `made` has the chunk of each part of them."""
        for side in "rs":
            for arrived in new[side]:
                yield from self._engine.meet(side, arrived, self._others(side, arrived, made["s"]), self._number)

    def _others(self, side: str, arrived: Arrived, fresh: list[Chunk]) -> Iterator[Chunk]:
        """The chunks that new rows of a side may meet: of new s, if they are r, and those that were there before."""
        for chunk in fresh:
            if side == "r" and _reaches(arrived, *span(chunk.run)):
                yield chunk
        for old in self._entries(OTHER[side]):
            if _reaches(arrived, old.first, old.last):
                yield self._load(old)

    def _entries(self, side: str) -> list[Entry]:
        return [entry for entry in self.manifest.entries if entry.side == side]

    def decide(self, watermark: int) -> Iterator[pa.Table]:
        """The results that the advance of the watermark decides; called after `arrive` and before `expire`."""
        return iter(())

    def _horizon(self, side: str) -> int:
        """Tuples of a side below this time are no longer needed."""
        return self._window.horizon(1 - NUMBER[side], self.manifest.cleared, 0)

    def expire(self, watermark: int) -> None:
        """Merges small chunks, then drops those that no tuple at or after the watermark can reach."""
        manifest = self.manifest
        if watermark > manifest.cleared:
            manifest.cleared = watermark
        for side in "rs":
            horizon = self._horizon(side)
            for entry in self._entries(side):
                if entry.last < horizon:
                    self._remove(entry)
            self._compact(side, horizon)

    def save(self) -> None:
        """Writes the manifest at the end of the visit."""
        entries = self.manifest.entries
        self.tally.chunks = len(entries)
        self.tally.window_r, self.tally.window_s = (sum(entry.rows for entry in self._entries(side)) for side in "rs")
        self.tally.state_bytes = sum(entry.size for entry in entries)
        self._state.save(self.manifest.write())
        self._cache.keep_only(self._family, {self._file(entry) for entry in entries})

    def _prepare(self, side: str, table: pa.Table) -> list[Arrived]:
        """The rows that are not late, in pieces that become chunks."""
        engine = self._engine
        at = engine.times(side, table)
        self.tally.arrived += len(at)
        late = at < self.manifest.cleared
        if late.any():
            first = integers(table, FIRST) if FIRST in table.column_names else None
            leads = engine.spec.router.leads(side, self._number, first, len(at))
            self.tally.late += int((late & leads).sum())
            table, at = take_rows(table, np.flatnonzero(~late)), at[~late]
        arrived = []
        for piece in self._pieces(table, at):
            part = engine.arrive(side, piece)
            self._apart(side, piece, part)
            arrived.append(part)
        return [part for part in arrived if len(part.tuples)]

    def _pieces(self, table: pa.Table, at: Array) -> Iterator[pa.Table]:
        """Rows at these times, in pieces that become chunks."""
        pieces = max(-(-len(at) // LARGEST), min(-(-table.nbytes // HEAVIEST), len(at)))
        length = -(-len(at) // pieces) if pieces else 0
        if pieces > 1:  # by time, so that each piece expires as a whole
            table = take_rows(table, np.argsort(at, kind="stable"))
        return (table.slice(k * length, length) for k in range(pieces))

    def _apart(self, side: str, rows: pa.Table, arrived: Arrived) -> None:
        """Rows have been prepared, and some of them may have been left out, since they match nothing."""

    def _chunk(self, side: str, arrived: Arrived) -> Chunk:
        return self._engine.chunk(side, arrived, self._probe_width(OTHER[side]))

    def _probe_width(self, side: str) -> Array:
        return np.array([np.nan if x is None else x for x in self.manifest.widths[side]])

    def _load(self, entry: Entry) -> Chunk:
        def make() -> Chunk:
            return self._chunk(entry.side, self._engine.arrive(entry.side, unpack(self._state.get(entry.number))))

        return self._cache.get(self._file(entry), make)

    def _file(self, entry: Entry) -> str:
        return self._family + entry.name

    def _add(self, side: str, chunk: Chunk) -> Entry:
        data = pack(chunk.rows, compress=True)
        # The run in the file also depends on what the side stores, and on the axes.
        digest = hashlib.blake2b(f"{side} {self.manifest.origins} ".encode(), digest_size=16)
        digest.update(data)
        first, last = span(chunk.run)
        rows = chunk.rows
        entry = Entry(side, self.manifest.next, rows.num_rows, first, last, len(data), rows.nbytes, digest.hexdigest())
        self.manifest.next += 1
        self._state.put(entry.number, data)
        self.manifest.entries.append(entry)
        self._cache.put(self._file(entry), chunk)
        return entry

    def _remove(self, entry: Entry) -> None:
        self.manifest.entries.remove(entry)
        self._state.remove(entry.number)
        if all(other.name != entry.name for other in self.manifest.entries):
            self._cache.drop(self._file(entry))

    def _compact(self, side: str, horizon: int) -> None:
        """Merges the newest chunks, if it pays, and leaves out expired rows."""
        newest = mergeable(self._entries(side))
        if not newest:
            return
        table = pa.concat_tables([self._load(entry).rows for entry in newest])
        at = self._engine.times(side, table)
        kept = np.flatnonzero(at >= horizon)
        if len(kept) < len(at):
            table = take_rows(table, kept)
        self._merge(side, newest, table.combine_chunks(), kept)

    def _merge(self, side: str, entries: list[Entry], table: pa.Table, kept: Array) -> None:
        """Replaces several chunks by one that holds all rows that are kept."""
        for entry in entries:
            self._remove(entry)
        if table.num_rows:
            self._add(side, self._chunk(side, self._engine.arrive(side, table)))


def mergeable(entries: list[Entry]) -> list[Entry]:
    """The longest row of newest chunks of which none is longer than the others together; none if they are too few.

    A row is merged about once for every factor of four that its chunk grows by.
    """
    best: list[Entry] = []
    total = longest = weight = 0
    for k in range(len(entries) - 1, -1, -1):
        rows = entries[k].rows
        total, longest, weight = total + rows, max(longest, rows), weight + entries[k].weight
        if rows >= LARGEST // 2 or total > LARGEST or weight > HEAVIEST:
            break
        if len(entries) - k >= FEWEST and 2 * longest <= total:
            best = entries[k:]
    return best


def _reaches(arrived: Arrived, first: int, last: int) -> bool:
    """Can any of these tuples meet one of the other side between these times?"""
    return bool(arrived.tuples.since.min() <= last and arrived.tuples.until.max() >= first)


def tick_of(spec: JoinSpec, milliseconds: int) -> int:
    """Spark's watermark in ticks of the time columns; zero means that there is none yet."""
    return milliseconds * (1_000_000 if spec.plan.unit == "ns" else 1_000) if milliseconds > 0 else SINCE_EVER
