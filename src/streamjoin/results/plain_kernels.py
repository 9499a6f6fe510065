"""The kernels of rows of plain values: copy them in, look them up, gather them."""

from __future__ import annotations

import numpy as np

from streamjoin.codegen.intrinsics import carray, pointer, record_at, records_at, words_at
from streamjoin.codegen.jit import inner, on_demand
from streamjoin.codegen.records import Address, PerSide, Record, Word
from streamjoin.intake.exported import ArrowArray, Keeper, first_of, has_null

SHIFT = 12
BLOCK = 1 << SHIFT  # rows
TILE = 256  # results whose rows are looked up at a time


class Cell(Record):
    """A column in the rows of a side."""

    child: Word  # its index in a batch
    each: Word  # bytes of a value
    offset: Word  # in a row, in bytes


class Kept(Keeper):
    """The rows of a side."""

    cells: Address  # Cell
    cell_count: Word
    row: Word  # bytes from one row to the next
    blocks: Address  # int64: addresses of blocks, a ring: dropping a block moves no other
    mask: Word  # its length, a power of two, less one


class Source(Record):
    """A column of the results."""

    side: Word
    each: Word
    offset: Word  # in a row of that side
    start: Address  # where the column's values go


class Gather(Record):
    """Results to be gathered."""

    kept: PerSide  # addresses of Kept
    numbers: PerSide  # int64: tuple numbers
    count: Word
    done: Word  # results in the block so far
    sources: Address  # Source
    source_count: Word


@inner
def spread_column(each, to, row, source, count):
    """Copies contiguous values to the same offset in consecutive rows."""
    if each == 16:
        pairs, values = carray(pointer(to), (1 << 60,), np.uint64), carray(pointer(source), (1 << 60,), np.uint64)
        for k in range(count):
            pairs[k * (row // 8)], pairs[k * (row // 8) + 1] = values[2 * k], values[2 * k + 1]
    elif each == 8:
        rows, values = carray(pointer(to), (1 << 60,), np.uint64), carray(pointer(source), (1 << 60,), np.uint64)
        for k in range(count):
            rows[k * (row // 8)] = values[k]
    elif each == 4:
        halves, small = carray(pointer(to), (1 << 60,), np.uint32), carray(pointer(source), (1 << 60,), np.uint32)
        for k in range(count):
            halves[k * (row // 4)] = small[k]
    else:
        bytes_, single = carray(pointer(to), (1 << 60,), np.uint8), carray(pointer(source), (1 << 60,), np.uint8)
        for k in range(count):
            for b in range(each):
                bytes_[k * row + b] = single[k * each + b]


@on_demand
def keep(address):
    """Copies an exported batch. There must be room. 1 if some of its values are null."""
    kept = record_at(address, Kept)
    array, cells = record_at(kept.exported, ArrowArray), records_at(kept.cells, kept.cell_count, Cell)
    children, blocks, nulls = words_at(array.children, array.n_children), words_at(kept.blocks, 1 << 60), False
    for c in range(kept.cell_count):
        child, each = record_at(children[cells[c].child], ArrowArray), cells[c].each
        nulls |= has_null(child, child.offset + array.offset, array.length)
        source, done = first_of(array, child, each), 0
        while done < array.length:
            number = kept.first + done
            inside = number & (BLOCK - 1)
            count = min(array.length - done, BLOCK - inside)
            to = blocks[(number >> SHIFT) & kept.mask] + inside * kept.row + cells[c].offset
            spread_column(each, to, kept.row, source + done * each, count)
            done += count
    return np.int64(nulls)


@inner
def look_up(kept, numbers, first, count, rows):
    """Writes the addresses of rows. False if one of the numbers is NOBODY."""
    blocks, row, mask = words_at(kept.blocks, 1 << 60), kept.row, kept.mask
    for k in range(count):
        number = numbers[first + k]
        if number < 0:
            return False
        rows[k] = blocks[(number >> SHIFT) & mask] + (number & (BLOCK - 1)) * row
    return True


@inner
def collect(source, rows, count, done):
    """Copies the values of one column from rows into a contiguous array."""
    each, offset = source.each, source.offset
    if each == 16:
        pairs = carray(pointer(source.start), (1 << 60,), np.uint64)
        for k in range(count):
            value = carray(pointer(rows[k] + offset), (2,), np.uint64)
            pairs[2 * (done + k)], pairs[2 * (done + k) + 1] = value[0], value[1]
    elif each == 8:
        out = carray(pointer(source.start), (1 << 60,), np.uint64)
        for k in range(count):
            out[done + k] = carray(pointer(rows[k] + offset), (1,), np.uint64)[0]
    elif each == 4:
        small = carray(pointer(source.start), (1 << 60,), np.uint32)
        for k in range(count):
            small[done + k] = carray(pointer(rows[k] + offset), (1,), np.uint32)[0]
    else:
        single = carray(pointer(source.start), (1 << 60,), np.uint8)
        for k in range(count):
            for b in range(each):
                single[(done + k) * each + b] = carray(pointer(rows[k] + offset), (each,), np.uint8)[b]


@on_demand
def gather(address):
    """Gathers results. 0 if one of them has no tuple on a side."""
    asked = record_at(address, Gather)
    sources, rows = records_at(asked.sources, asked.source_count, Source), np.empty((2, TILE), np.int64)
    for first in range(0, asked.count, TILE):
        count = min(TILE, asked.count - first)
        for side in range(2):
            if asked.kept[side]:
                kept, numbers = record_at(asked.kept[side], Kept), words_at(asked.numbers[side], asked.count)
                if not look_up(kept, numbers, first, count, rows[side]):
                    return 0
        for c in range(asked.source_count):
            collect(sources[c], rows[sources[c].side], count, asked.done + first)
    asked.done += asked.count
    return 1
