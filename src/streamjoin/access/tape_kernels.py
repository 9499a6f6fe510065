"""The positions of tuples on a tape, and writing them there, compiled."""

from __future__ import annotations

import numpy as np

from streamjoin.access.records import Batch, Chunk, Column, Stored
from streamjoin.codegen.intrinsics import call, copy_bytes, floats_at, keys_at, record_at, records_at, words_at
from streamjoin.codegen.jit import inner, njit, on_demand


@inner(forceinline=True)
def position(tape, number):
    """The position of a tuple on a tape.

    Stripes are dealt to ways in turn. Each way's stripes are gathered into chunks, so the tuples of a worker are
    contiguous, however finely the stream is dealt. Four stripes per chunk, two ways, tuples by stripe:

        number      0 1 2 3 4 5 6 7 | 8 9 ...
        position    0 2 4 6 1 3 5 7 | 8 ...       [ chunk of way 0 ][ chunk of way 1 ] ...
    """
    if tape.ways == 1:
        return number % tape.room
    cycle = tape.ways * tape.chunk
    inside = number % cycle
    deal = inside // tape.stripe
    offset = deal % tape.ways * tape.chunk + deal // tape.ways * tape.stripe + inside % tape.stripe
    return (number - inside + offset) % tape.room


@njit(nogil=True, cache=True)
def positions(address, first, stop):
    """The positions of tuples first..stop-1."""
    tape, found = record_at(address, Stored), np.empty(stop - first, np.int64)
    for number in range(first, stop):
        found[number - first] = position(tape, number)
    return found


@inner(forceinline=True)
def own_before(tape, inside):
    """How many tuples of a segment's way come before an offset in a cycle."""
    deal = inside // tape.stripe
    whole = (deal + tape.ways - 1 - tape.way) // tape.ways * tape.stripe
    return whole + (inside % tape.stripe if deal % tape.ways == tape.way else 0)


@inner
def next_piece(tape, number, high):
    """The next contiguous part of a segment, of tuples number..high-1, within one chunk.

    Returns the number behind it, and its first and last + 1 position, which are equal when there is no more.
    """
    while number < high:
        if tape.ways == 1 or tape.way < 0:
            unit = tape.chunk if tape.ways == 1 else tape.stripe
            stop = min(high, (number // unit + 1) * unit)
            begin = position(tape, number)
            return stop, begin, begin + stop - number
        cycle = tape.ways * tape.chunk
        base = number // cycle * cycle
        first, last = own_before(tape, number - base), own_before(tape, min(high - base, cycle))
        number = base + cycle
        if first < last:
            begin = (base + tape.way * tape.chunk) % tape.room
            return number, begin + first, begin + last
    return high, np.int64(0), np.int64(0)


@inner
def copy_boxes(to, to_stride, target, source, source_stride, begin, dims, count):
    """Copies a corner of tuples begin.. to positions target.. in every dimension."""
    for d in range(dims):
        copy_bytes(to + 4 * (d * to_stride + target), source + 4 * (d * source_stride + begin), 4 * count)


@njit(nogil=True, cache=True)
def write(tape_address, batch_address, begin, first, stop):
    """Writes tuples begin.. of a batch to the positions of numbers first..stop-1. Notes the extent of every chunk.

    A tape without a source keeps only the stored columns of tuples, not what they need to probe.
    """
    tape, batch = record_at(tape_address, Stored), record_at(batch_address, Batch)
    own = records_at(tape.columns, tape.column_count, Column)
    theirs = records_at(batch.columns, tape.column_count, Column)
    at, low_number = words_at(tape.at, tape.room), keys_at(tape.number, tape.room)
    width = floats_at(batch.width, 1, tape.dims)
    number = first
    while number < stop:
        end = min(stop, (number // tape.stripe + 1) * tape.stripe)
        target, start, count = position(tape, number), begin + number - first, end - number
        for c in range(tape.column_count):
            each = own[c].each
            copy_bytes(own[c].start + target * each, theirs[c].start + start * each, count * each)
        copy_boxes(tape.coord, tape.stride, target, batch.coord, batch.stride, start, tape.dims, count)
        copy_bytes(tape.at + 8 * target, batch.at + 8 * start, 8 * count)
        if tape.key:
            copy_bytes(tape.key + 4 * target, batch.key + 4 * start, 4 * count)
        if tape.source:
            probing = record_at(tape.source, Batch)
            copy_boxes(probing.lo, probing.stride, target, batch.lo, batch.stride, start, tape.dims, count)
            copy_boxes(probing.hi, probing.stride, target, batch.hi, batch.stride, start, tape.dims, count)
            copy_bytes(probing.since + 8 * target, batch.since + 8 * start, 8 * count)
            copy_bytes(probing.until + 8 * target, batch.until + 8 * start, 8 * count)
            numbers = words_at(probing.number, tape.room)
            for k in range(count):
                numbers[target + k] = number + k
        chunk = records_at(tape.chunks, tape.room // tape.chunk, Chunk)[target // tape.chunk]
        if target % tape.chunk == 0:
            chunk.first_at, chunk.last_at = at[target], at[target]
            for d in range(tape.dims):
                chunk.width[d] = 0
        for k in range(count):
            low_number[target + k] = np.uint32(number + k)
            chunk.first_at = min(chunk.first_at, at[target + k])
            chunk.last_at = max(chunk.last_at, at[target + k])
        for d in range(tape.dims):
            chunk.width[d] = max(chunk.width[d], width[0, d])
        number = end


@on_demand
def forget(address):
    """Drops the oldest tuples of a segment on a tape, up to the first that is not below the horizon."""
    segment = record_at(address, Stored)
    at, number = words_at(segment.at, segment.room), segment.oldest
    while number < segment.stop and at[position(segment, number)] < segment.horizon:
        number += 1
    segment.oldest = number
    return 1


@on_demand
def take_in(address):
    """Writes arrivals onto the tape of a segment that does not share it, and inserts them.

    0, without an effect, if room must be made first, or if they would not be contiguous on the tape.
    """
    segment = record_at(address, Stored)
    first, count = segment.stop, segment.end - segment.begin
    target = position(segment, first)
    if first - segment.oldest + count > segment.room - segment.chunk or target + count > segment.room:
        return 0
    batch, segment.source = segment.source, 0  # this tape does not keep what probing needs
    write(address, batch, segment.begin, first, first + count)
    if segment.insert:
        segment.first, segment.begin, segment.end = first, target, target + count
        if not call(segment.insert, address):
            return 0
    segment.stop = first + count
    return 1
