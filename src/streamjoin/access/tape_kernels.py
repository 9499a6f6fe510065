"""Where tuples lie on a tape, and writing them there, compiled."""

from __future__ import annotations

import numpy as np

from streamjoin.access.records import Batch, Chunk, Column, Stored
from streamjoin.codegen.intrinsics import call, copy_bytes, floats_at, keys_at, record_at, records_at, words_at
from streamjoin.codegen.jit import inner, njit, on_demand


@inner(forceinline=True)
def position(tape, number):
    """Where a tuple lies on a tape.

    Stripes are dealt to ways in turn, and each way's stripes are gathered into chunks, so that what a worker owns is
    contiguous however finely the stream is dealt. Four stripes per chunk, two ways, tuples by stripe:

        number      0 1 2 3 4 5 6 7 | 8 9 ...
        position    0 2 4 6 1 3 5 7 | 8 ...       [ chunk of way 0 ][ chunk of way 1 ] ...
    """
    if tape.ways == 1:
        return number % tape.room
    cycle = tape.ways * tape.chunk
    inside = number % cycle
    deal = inside // tape.stripe
    place = deal % tape.ways * tape.chunk + deal // tape.ways * tape.stripe + inside % tape.stripe
    return (number - inside + place) % tape.room


@njit(nogil=True, cache=True)
def positions(address, first, stop):
    """Where tuples first..stop-1 lie."""
    tape, places = record_at(address, Stored), np.empty(stop - first, np.int64)
    for number in range(first, stop):
        places[number - first] = position(tape, number)
    return places


@inner(forceinline=True)
def own_before(tape, inside):
    """How many tuples of a segment's way come before a place in a cycle."""
    deal = inside // tape.stripe
    whole = (deal + tape.ways - 1 - tape.way) // tape.ways * tape.stripe
    return whole + (inside % tape.stripe if deal % tape.ways == tape.way else 0)


@inner
def next_piece(tape, number, high):
    """The next contiguous part of a segment, from a number on and below another one, within one chunk.

    Returns the number behind it, and its first and last + 1 position; these are equal when there is no more.
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
def copy_boxes(to, to_stride, place, source, source_stride, begin, dims, count):
    """Copies a corner of tuples begin.. to positions place.. in every dimension."""
    for d in range(dims):
        copy_bytes(to + 4 * (d * to_stride + place), source + 4 * (d * source_stride + begin), 4 * count)


@njit(nogil=True, cache=True)
def write(tape_address, batch_address, begin, first, stop):
    """Puts tuples begin.. of a batch at the places of numbers first..stop-1. Notes the extent of every chunk.

    A tape without a source keeps only what is stored of tuples, not what they need to probe.
    """
    tape, batch = record_at(tape_address, Stored), record_at(batch_address, Batch)
    own = records_at(tape.columns, tape.column_count, Column)
    theirs = records_at(batch.columns, tape.column_count, Column)
    at, low_number = words_at(tape.at, tape.room), keys_at(tape.number, tape.room)
    width = floats_at(batch.width, 1, tape.dims)
    number = first
    while number < stop:
        end = min(stop, (number // tape.stripe + 1) * tape.stripe)
        place, start, count = position(tape, number), begin + number - first, end - number
        for c in range(tape.column_count):
            each = own[c].each
            copy_bytes(own[c].start + place * each, theirs[c].start + start * each, count * each)
        copy_boxes(tape.coord, tape.stride, place, batch.coord, batch.stride, start, tape.dims, count)
        copy_bytes(tape.at + 8 * place, batch.at + 8 * start, 8 * count)
        if tape.key:
            copy_bytes(tape.key + 4 * place, batch.key + 4 * start, 4 * count)
        if tape.source:
            probing = record_at(tape.source, Batch)
            copy_boxes(probing.lo, probing.stride, place, batch.lo, batch.stride, start, tape.dims, count)
            copy_boxes(probing.hi, probing.stride, place, batch.hi, batch.stride, start, tape.dims, count)
            copy_bytes(probing.since + 8 * place, batch.since + 8 * start, 8 * count)
            copy_bytes(probing.until + 8 * place, batch.until + 8 * start, 8 * count)
            numbers = words_at(probing.number, tape.room)
            for k in range(count):
                numbers[place + k] = number + k
        chunk = records_at(tape.chunks, tape.room // tape.chunk, Chunk)[place // tape.chunk]
        if place % tape.chunk == 0:
            chunk.first_at, chunk.last_at = at[place], at[place]
            for d in range(tape.dims):
                chunk.width[d] = 0
        for k in range(count):
            low_number[place + k] = np.uint32(number + k)
            chunk.first_at = min(chunk.first_at, at[place + k])
            chunk.last_at = max(chunk.last_at, at[place + k])
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
    """Writes what is to be inserted onto the tape of a segment that has it to itself, and inserts it.

    0 if room must be made first, or if it does not lie in one piece: nothing has been inserted then.
    """
    segment = record_at(address, Stored)
    first, count = segment.stop, segment.end - segment.begin
    place = position(segment, first)
    if first - segment.oldest + count > segment.room - segment.chunk or place + count > segment.room:
        return 0
    batch, segment.source = segment.source, 0  # the tape keeps nothing of what probing needs
    write(address, batch, segment.begin, first, first + count)
    if segment.insert:
        segment.first, segment.begin, segment.end = first, place, place + count
        if not call(segment.insert, address):
            return 0
    segment.stop = first + count
    return 1
