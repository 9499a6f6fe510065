"""What happens to arrivals before they meet anybody: boxes and keys, their bounds in time, their place on a tape.

Small batches come by the thousand in a second, and what is twenty calls of NumPy's is slow when nothing of it is in the
cache. So a batch is described by a record, mostly of addresses, and one call does it all. Arrow's C data interface says
where the columns of a record batch lie.
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
    """Which column of an exported batch is read, and for what."""

    child: Word
    each: Word  # bytes of a value
    slot: Word  # of the predicate's columns, or TIME


class Arrivals(Record):
    """A batch on its way in: what a predicate's `prepare` reads and writes,"""

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
    columns: Address  # int64: where the predicate's columns begin


class Plain(Arrivals):
    """and what else becomes of one that is taken as it lies in Arrow's memory."""

    prepare: Address  # the predicate's function
    exported: Address  # ArrowArray: the batch
    fields: Address  # Field
    field_count: Word
    room: Word  # rows that the arrays here have room for
    lower: Word  # the window
    upper: Word
    mark: Address  # Mark: how far the stream has come
    stored: Address  # int64: which of the columns the exact test reads
    stored_count: Word
    first: Word  # the first tuple's number
    newest: Word  # the latest time of the batch
    batch: Batch
    tape: Address  # Stored: where it is written to, with workers
    keeper: Address  # Keeper: who keeps the rows for results; 0 if somebody else does
    nulls: Word  # have these rows nulls where the predicate does not look?


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
    """Finds the columns in an exported batch, whose owner holds the memory. False if they have nulls."""
    array, columns = record_at(plain.exported, ArrowArray), words_at(plain.columns, 1 << 60)
    children, fields = words_at(array.children, array.n_children), records_at(plain.fields, plain.field_count, Field)
    nulls = False
    for k in range(plain.field_count):
        child = record_at(children[fields[k].child], ArrowArray)
        nulls |= has_null(child, child.offset + array.offset, array.length)
        place = first_of(array, child, fields[k].each)
        if fields[k].slot == TIME:
            plain.batch.at = place
        else:
            columns[fields[k].slot] = place
    plain.rows = array.length
    return not nulls


@inner
def prepare(plain, address):
    """Boxes, keys, bounds and numbers. False if some row is late or does not count: then nothing has been done."""
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
    """An exported batch of at least one row, ready to be stored and to probe. False if it is not plain."""
    return locate(plain) and prepare(plain, address)


@inner
def hand_on(plain, taken):
    """Has the rows of a batch that was taken kept, and lets go of it."""
    if taken and plain.keeper:
        keeper = record_at(plain.keeper, Keeper)
        keeper.exported, keeper.first = plain.exported, plain.first
        plain.nulls = call(keeper.keep, plain.keeper)
    let_go(plain.exported)
    return taken


@on_demand
def write_down(address):
    """Puts an exported batch beyond the head of its tape. 0 if it is not plain: nothing has been done."""
    plain = record_at(address, Plain)
    if not hand_on(plain, take(plain, address)):
        return 0
    write(plain.tape, address_of(plain, "batch"), 0, plain.first, plain.first + plain.rows)
    return 1
