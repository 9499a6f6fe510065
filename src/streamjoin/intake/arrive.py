"""The compiled preparation of small batches: boxes and keys, bounds in time, the copy to a tape.

Small batches may come at thousands per second. Twenty calls of NumPy's are slow when their code is not in the cache. So
a record, mostly of addresses, describes a batch, and one call does everything. Arrow's C data interface gives the
addresses of the columns of a record batch.
"""

from __future__ import annotations

import numpy as np

from streamjoin.access.records import FAULT_WORDS, Batch, Column
from streamjoin.access.tape_kernels import write
from streamjoin.codegen.intrinsics import address_of, call, carray, pointer, record_at, records_at, words_at
from streamjoin.codegen.jit import inner, on_demand
from streamjoin.codegen.records import Address, Record, Word
from streamjoin.intake.exported import ArrowArray, Keeper, first_of, has_null, let_go
from streamjoin.windows.kernels import find_late, shift
from streamjoin.windows.watermark import Mark

TIME = -1  # the slot of a time column


class Field(Record):
    """A column of an exported batch, and its use."""

    child: Word
    each: Word  # bytes of a value
    slot: Word  # among the predicate's columns, or TIME


class Arrivals(Record):
    """A batch on its way in, as a predicate's `prepare` reads and writes it."""

    rows: Word
    dims: Word
    stride: Word  # values from one dimension of a box to the next
    origin: Address  # float64 (dims)
    keep: Address  # bool: which rows can match at all
    lo: Address  # and the rest as in Batch
    hi: Address
    coord: Address
    width: Address
    key: Address
    fault: Address  # int64 (FAULT_WORDS)
    columns: Address  # int64: the addresses of the predicate's columns


class Plain(Arrivals):
    """A batch that is read directly from Arrow's memory."""

    prepare: Address  # the predicate's function
    exported: Address  # ArrowArray: the batch
    fields: Address  # Field
    field_count: Word
    room: Word  # rows that the arrays here have room for
    lower: Word  # the window
    upper: Word
    mark: Address  # Mark: the progress of the stream
    stored: Address  # int64: which of the columns the exact test reads
    stored_count: Word
    first: Word  # the first tuple's number
    newest: Word  # the latest time of the batch
    batch: Batch
    tape: Address  # Stored: the tape to which it is written, with workers
    keeper: Address  # Keeper: what keeps the rows for results; 0 if compiled code does not
    nulls: Word  # do the kept rows have nulls in columns that the predicate does not read?


@inner(forceinline=True)
def boxes_at(address, arrivals):
    return carray(pointer(address), (arrivals.dims, arrivals.stride), np.float32)


@inner(forceinline=True)
def floats_at(address, count):
    return carray(pointer(address), (count,), np.float32)


@inner(forceinline=True)
def flags_at(address, count):
    return carray(pointer(address), (count,), np.bool_)


@inner(forceinline=True)
def keys_at(address, count):
    return carray(pointer(address), (count,), np.uint32)


@inner
def locate(plain):
    """Reads the columns' addresses from an exported batch, whose owner holds the memory. False if they have nulls."""
    array, columns = record_at(plain.exported, ArrowArray), words_at(plain.columns, 1 << 60)
    children, fields = words_at(array.children, array.n_children), records_at(plain.fields, plain.field_count, Field)
    nulls = False
    for k in range(plain.field_count):
        child = record_at(children[fields[k].child], ArrowArray)
        nulls |= has_null(child, child.offset + array.offset, array.length)
        start = first_of(array, child, fields[k].each)
        if fields[k].slot == TIME:
            plain.batch.at = start
        else:
            columns[fields[k].slot] = start
    plain.rows = array.length
    return not nulls


@inner
def prepare(plain, address):
    """Boxes, keys, bounds and numbers. False, without an effect, if a row is late or can match nothing."""
    n, batch, mark = plain.rows, plain.batch, record_at(plain.mark, Mark)
    at, keep = words_at(batch.at, n), flags_at(plain.keep, n)  # written by `prepare`, and free until then
    if find_late(at, mark.newest, mark.max_delay, mark.promised, keep):
        return False
    fault = words_at(plain.fault, FAULT_WORDS)
    fault[0] = 0
    if call(plain.prepare, address) < n or fault[0]:
        return False
    shift(at, plain.lower, plain.upper, words_at(batch.since, n), words_at(batch.until, n))
    columns, stored = words_at(plain.columns, 1 << 60), words_at(plain.stored, plain.stored_count)
    own = records_at(batch.columns, plain.stored_count, Column)
    for k in range(plain.stored_count):
        own[k].start = columns[stored[k]]
    number, newest = words_at(batch.number, n), at[0]
    for k in range(n):
        number[k], newest = plain.first + k, max(newest, at[k])
    plain.newest = newest
    return True


@inner
def take(plain, address):
    """Prepares an exported batch of at least one row for storing and probing. False if it needs the general path."""
    return locate(plain) and prepare(plain, address)


@inner
def hand_on(plain, taken):
    """Copies the rows of a batch that was taken for results, and releases the batch."""
    if taken and plain.keeper:
        keeper = record_at(plain.keeper, Keeper)
        keeper.exported, keeper.first = plain.exported, plain.first
        plain.nulls = call(keeper.keep, plain.keeper)
    let_go(plain.exported)
    return taken


@on_demand
def write_down(address):
    """Writes an exported batch behind the head of its tape. 0, without an effect, if it needs the general path."""
    plain = record_at(address, Plain)
    if not hand_on(plain, take(plain, address)):
        return 0
    write(plain.tape, address_of(plain, "batch"), 0, plain.first, plain.first + plain.rows)
    return 1
