"""Arrow's C data interface: the addresses of a record batch's columns, for compiled code."""

from __future__ import annotations

import numpy as np

from streamjoin.codegen.intrinsics import call, carray, pointer, record_at, words_at
from streamjoin.codegen.jit import inner, on_demand
from streamjoin.codegen.records import Address, Record, Word


class ArrowArray(Record):
    """An array; a record batch is one whose children are its columns."""

    length: Word
    null_count: Word  # -1: not counted yet
    offset: Word
    n_buffers: Word
    n_children: Word
    buffers: Address
    children: Address
    dictionary: Address
    release: Address  # function; 0 after it was called
    private_data: Address


class Keeper(Record):
    """A function that copies the rows of an exported batch, and its arguments."""

    keep: Address  # function: of this; 1 if some values are null
    exported: Address  # ArrowArray
    first: Word  # the number of its first row


@inner
def has_null(array, start, count):
    """Is one of `count` values from `start` on null?"""
    bits = words_at(array.buffers, 1)[0]
    if array.null_count == 0 or bits == 0:
        return False
    valid = carray(pointer(bits), (1 << 60,), np.uint8)
    nulls = 0
    for k in range(start, start + count):
        nulls += 1 - ((valid[k >> 3] >> np.uint8(k & 7)) & np.uint8(1))
    return nulls > 0


@inner(forceinline=True)
def first_of(batch, child, each):
    """The address of the first value of a column."""
    return words_at(child.buffers, 2)[1] + (child.offset + batch.offset) * each


@inner
def let_go(address):
    """Releases an exported batch after compiled code has read its addresses. The exporter holds the memory."""
    batch = record_at(address, ArrowArray)
    if batch.release:  # Arrow's function returns nothing, so the result of `call` has no meaning
        call(batch.release, address)


@on_demand
def release(address):
    """The same, from Python."""
    let_go(address)
    return 1
