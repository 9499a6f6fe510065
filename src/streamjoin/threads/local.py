"""The local joins of one worker: jobs and functions by which it compares arrivals of either side, per access path."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from streamjoin.access import job as words
from streamjoin.access import pieces
from streamjoin.access.band import on_band
from streamjoin.access.band.index import BandStore
from streamjoin.access.layout import FIELDS, TROUBLE_FIELDS, Source
from streamjoin.access.scan_store import scan_module
from streamjoin.access.tape import Tape
from streamjoin.access.tuples import Tuples
from streamjoin.algorithms.protocol import Node
from streamjoin.codegen.program import Program
from streamjoin.codegen.records import Array, address
from streamjoin.plan.plan import SIDES
from streamjoin.threads.worker import Kernels, Segment

RANGES = 1 << 14
FEWEST_HEADS = 1024
NONE = np.uint32(0xFFFFFFFF)


class Functions:
    """Addresses of the compiled functions of a join, the same for all its workers."""

    def __init__(self, program: Program, access: str, dims: int) -> None:
        wide = access != "hash" and not dims
        self._modules = [program.exact_call(side, wide) for side in SIDES]  # keeps the machine code
        scan = scan_module(dims) if dims else None
        on_tape = scan.on_tape.address if scan else pieces.whole.address
        self.table = Kernels.array(2)
        self.table["compare_tape"] = self.table["compare_window"] = on_tape
        self.table["refine"] = [module.on_job.address for module in self._modules]
        if access == "sorted":
            self.table["compare_window"] = pieces.blocks.address
        elif access == "hash":
            self.table["compare_window"] = pieces.chains.address
            self.table["enter"] = pieces.enter.address
        elif access == "band":
            self.table["compare_window"] = on_band.find_in_band.address
            self.table["enter"] = on_band.enter_band.address
            self.table["forget"] = on_band.forget_band.address


class Local:
    """What one worker compares with: its part of both windows, on the tapes."""

    on_tape = True

    def __init__(self, node: Node, tapes: tuple[Tape, Tape], functions: Functions) -> None:
        self.node = node
        self.functions = functions.table
        self.jobs = np.zeros((4, words.JOB_WORDS), np.int64)
        self.window = Segment.array(2)
        self._ranges = [np.zeros(RANGES, np.int64) for _ in range(3)]
        self._inside = np.zeros(RANGES, np.bool_)
        self.path, self.test = np.zeros(FIELDS, np.int64), np.zeros(FIELDS, np.int64)
        self.trouble = np.zeros(TROUBLE_FIELDS, np.int64)
        self._kept: list[Array] = []
        self.attach(tapes)

    @property
    def addresses(self) -> Array:
        return np.array([address(row) for row in self.jobs], np.int64)

    def attach(self, tapes: tuple[Tape, Tape]) -> None:
        """Writes the addresses of all arrays into the jobs: at first, and when the tapes have grown."""
        self._tapes = tapes
        self._kept = [np.array([address(c) for c in tape.columns] or [0], np.int64) for tape in tapes]
        for row, job in enumerate(self.jobs):
            side, tape_only = row // 2, row % 2
            probing, stored = tapes[side], tapes[1 - side]
            job[words.DIMS] = probing.shape.dims
            job[words.PROBE_ROOM] = probing.room
            for word, array in (
                (words.PROBE_LO, probing.places.lo),
                (words.PROBE_HI, probing.places.hi),
                (words.PROBE_KEY, probing.places.key),
                (words.PROBE_SINCE, probing.places.since),
                (words.PROBE_UNTIL, probing.places.until),
                (words.PROBE_NUMBER, probing.places.number),
                (words.PROBE_COLUMNS, self._kept[side]),
                (words.STORED_COLUMNS, self._kept[1 - side]),
                (words.STORED_COORD, stored.places.coord),
                (words.STORED_KEY, stored.places.key),
                (words.STORED_AT, stored.places.at),
                (words.STORED_NUMBER, stored.places.low_number),
                (words.STORED_WIDTH, stored.places.width),
                (words.STORED_BLOCK, stored.block),
                (words.RANGE_PROBE, self._ranges[0]),
                (words.RANGE_START, self._ranges[1]),
                (words.RANGE_STOP, self._ranges[2]),
                (words.RANGE_INSIDE, self._inside),
                (words.PATH, self.path),
                (words.TEST, self.test),
                (words.TROUBLE, self.trouble),
            ):
                job[word] = address(array)
            job[words.STORED_ROOM] = stored.room
            job[words.RANGE_ROOM] = RANGES
            job[words.STRETCH], job[words.CHUNK] = stored.stretch, stored.chunk
            job[words.TURNS], job[words.PROBE_TURNS] = stored.turns, probing.turns
            job[words.TURN] = -1 if tape_only else self.node.way[1 - side]

    def make_room(self, side: int, count: int) -> None:
        """Called when an insertion of so many tuples found no room."""
        raise AssertionError("a window on the tape needs no room of its own")

    def held(self, row: int) -> tuple[Array, ...]:
        """The columns of what job `row` compares with."""
        return tuple(self._tapes[1 - row // 2].columns)

    def nbytes(self, side: int) -> int:
        """Bytes of this worker's own for tuples of a side."""
        return 0


class HashLocal(Local):
    """Chains of equal keys over the tape, each worker its own."""

    def __init__(self, node: Node, tapes: tuple[Tape, Tape], functions: Functions) -> None:
        self._heads = [np.zeros(FEWEST_HEADS, np.uint32) for _ in SIDES]
        self._links = [np.zeros(1, np.uint32) for _ in SIDES]
        super().__init__(node, tapes, functions)

    def attach(self, tapes: tuple[Tape, Tape]) -> None:
        super().attach(tapes)
        self._links = [np.zeros(tape.room, np.uint32) for tape in tapes]
        for side in (0, 1):
            self.make_room(side, 0)

    def make_room(self, side: int, count: int) -> None:
        """Builds the chains anew, with heads for twice as many tuples."""
        oldest, newest = int(self.window[side].oldest), int(self.window[side].newest)
        live = (newest - oldest + count) // int(self.node.ways[side]) + 1
        heads = max(FEWEST_HEADS, 1 << live.bit_length())
        self._heads[side] = np.full(heads, NONE, np.uint32)
        job = self.jobs[2 * (1 - side)]
        job[words.HEADS], job[words.HEAD_COUNT] = address(self._heads[side]), heads
        job[words.LINKS] = address(self._links[side])
        stretch, turn, turns = int(self.node.stripe), int(self.node.way[side]), int(self.node.ways[side])
        for begin in range(oldest // stretch * stretch, newest, stretch):
            if begin // stretch % turns == turn:
                pieces.link(job, max(begin, oldest), min(begin + stretch, newest))

    def nbytes(self, side: int) -> int:
        return self._heads[side].nbytes + self._links[side].nbytes


class BandLocal(Local):
    """Windows of this worker's own, ordered by cell; the tape feeds them."""

    on_tape = False

    def __init__(self, node: Node, tapes: tuple[Tape, Tape], functions: Functions) -> None:
        self._stores = [BandStore(tape.shape, ModuleType("unused"), _never) for tape in tapes]
        self._order = np.zeros(tapes[0].batch, np.uint32)
        self._records: list[list[Array]] = [[], []]
        super().__init__(node, tapes, functions)

    def attach(self, tapes: tuple[Tape, Tape]) -> None:
        super().attach(tapes)
        for side in (0, 1):
            self._enter(side)

    def expect(self, side: int, probes: Tuples) -> None:
        """Shows what will probe the window of a side, so that its first cells are cut to it."""
        self._stores[side].expect(probes)

    def make_room(self, side: int, count: int) -> None:
        self._stores[side].make_room(count)
        self._enter(side)

    def _enter(self, side: int) -> None:
        """Writes the addresses of a window's arrays into the job that compares with it."""
        store, tape, job = self._stores[side], self._tapes[side], self.jobs[2 * (1 - side)]
        stored = store.stored
        source = Source(
            tape.places.columns,
            tape.places.coord,
            tape.places.key,
            tape.places.at,
            tape.places.number,
            np.zeros(tape.shape.dims, np.float32),
        )
        arrays = [*store.band, *source, tape.places.width, self._order]
        record = np.array([[address(a), a.shape[0], a.shape[-1]] for a in arrays], np.int64)
        kept = np.array([address(column) for column in stored.columns] or [0], np.int64)
        self._records[side] = [record, kept, *arrays]
        job[words.BAND] = address(record)
        job[words.STORED_ROOM] = len(stored.at)
        for word, array in (
            (words.STORED_COLUMNS, kept),
            (words.STORED_COORD, stored.coord),
            (words.STORED_KEY, stored.key),
            (words.STORED_AT, stored.at),
            (words.STORED_NUMBER, stored.number),
        ):
            job[word] = address(array)

    def held(self, row: int) -> tuple[Array, ...]:
        return super().held(row) if row % 2 else self._stores[1 - row // 2].stored.columns

    def nbytes(self, side: int) -> int:
        return self._stores[side].nbytes


def _never(*_: Any) -> Exception:
    raise AssertionError("workers tell of trouble themselves")


LOCALS: dict[str, type[Local]] = {"scan": Local, "sorted": Local, "hash": HashLocal, "band": BandLocal}
