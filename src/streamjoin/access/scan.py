"""Scan: every stored tuple is compared, by its box if the predicate has dimensions."""

from __future__ import annotations

from types import ModuleType

from streamjoin.access import scan_boxes
from streamjoin.access.records import Batch, Chunk, Probing, Range, Stored
from streamjoin.access.tape import OnTape, Tape
from streamjoin.access.tape_kernels import next_piece
from streamjoin.access.tuples import Shape
from streamjoin.codegen.cache import load_module
from streamjoin.codegen.intrinsics import record_at, records_at, words_at
from streamjoin.codegen.jit import OnDemand, on_demand
from streamjoin.codegen.program import kernel_text

BLOCK = 2048  # stays in the first-level cache while all probes pass over it


@on_demand
def find_all(address):
    """Every tuple in an arrival's window is a candidate: the predicate has no dimensions."""
    search = record_at(address, Probing)
    batch, stored = record_at(search.batch, Batch), record_at(search.stored, Stored)
    since, until = words_at(batch.since, search.end), words_at(batch.until, search.end)
    ranges = records_at(search.ranges, search.range_room, Range)
    chunks = records_at(stored.chunks, stored.room // stored.chunk, Chunk)
    count, n, number = 0, search.end - search.first, max(search.low, search.run)
    after, begin, end = next_piece(stored, number, search.high)
    while begin < end:
        chunk = chunks[begin // stored.chunk]
        for step in range(search.step, (end - begin + BLOCK - 1) // BLOCK * n):
            if count == search.range_room:
                search.run, search.step, search.count = number, step, count
                return 0
            i, start = search.first + step % n, begin + step // n * BLOCK
            if since[i] <= chunk.last_at and until[i] >= chunk.first_at:
                found, stop = ranges[count], min(start + BLOCK, end)
                found.probe, found.start, found.stop, found.inside = i, start, stop, 0
                search.compared += stop - start
                count += 1
        search.step = 0
        number = after
        after, begin, end = next_piece(stored, number, search.high)
    search.run, search.count = number, count
    return 1


def boxes(dims: int) -> ModuleType:
    """The scan over boxes of this many dimensions. Vectors need the number at compile time."""
    return load_module(f"DIMS = {dims}\n{kernel_text(scan_boxes.__name__)}")


def scan_of(dims: int) -> OnDemand:
    """The function that scans a tape."""
    found: OnDemand = boxes(dims).find if dims else find_all
    return found


class Scan(OnTape):
    """Tuples in order of arrival, nothing else."""

    def __init__(self, shape: Shape, tape: Tape | None = None, way: int = -1) -> None:
        self.find = scan_of(shape.dims)
        super().__init__(shape, tape, way)


SEGMENT = Scan
