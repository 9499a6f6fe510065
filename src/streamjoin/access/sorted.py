"""Sorted blocks: arrivals are merged with every batch of the tape, both in the order of their first coordinate."""

from __future__ import annotations

from streamjoin.access.records import Batch, Chunk, Probing, Range, Stored
from streamjoin.access.tape import OnTape
from streamjoin.codegen.intrinsics import down32, floats_at, record_at, records_at, words_at
from streamjoin.codegen.jit import on_demand


@on_demand
def merge_blocks(address):
    """Merge join on basic blocks, as the report on handshake join calls it.

    The tuples of a block that an arrival [lo, hi] meets are contiguous. Their begin advances from one arrival to the
    next. Numbers and positions advance in parallel.
    """
    search = record_at(address, Probing)
    batch, stored = record_at(search.batch, Batch), record_at(search.stored, Stored)
    lo, hi = floats_at(batch.lo, 1, batch.stride), floats_at(batch.hi, 1, batch.stride)
    coord, block = floats_at(stored.coord, 1, stored.stride), words_at(stored.blocks, stored.room)
    ranges = records_at(search.ranges, search.range_room, Range)
    chunks = records_at(stored.chunks, stored.room // stored.chunk, Chunk)
    count, number = 0, max(search.low, search.run)
    while number < search.high:
        begin = number % stored.room
        width, stop = chunks[begin // stored.chunk].width[0], begin + block[begin] - number
        if count + search.end - search.first > search.range_room:
            search.run, search.count = number, count
            return 0
        start = begin
        for i in range(search.first, search.end):
            low, high = down32(lo[0, i], width), hi[0, i]
            while start < stop and coord[0, start] < low:
                start += 1
            while start > begin and coord[0, start - 1] >= low:
                start -= 1
            past = start
            while past < stop and coord[0, past] <= high:
                past += 1
            if past > start:
                found = ranges[count]
                found.probe, found.start, found.stop, found.inside = i, start, past, 0
                search.compared += past - start
                count += 1
        number += stop - begin
    search.run, search.count = search.high, count
    return 1


class Sorted(OnTape):
    """Batches that are sorted when they are written onto the tape."""

    find = merge_blocks


SEGMENT = Sorted
