"""The ranks by which the tuples of a run are ordered: one value, or two in Z-order, behind a key if there is one."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from streamjoin.codegen.jit import inner

TOP = np.uint32(1 << 31)
EVERY_BIT = np.uint32(0xFFFFFFFF)


@intrinsic
def single_bits(typingctx: Any, value: Any) -> Any:
    """The bits of a float32 as an integer."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(32))

    return types.uint32(types.float32), codegen


@inner(forceinline=True)
def ordered(value):
    """An integer with the order of the floats."""
    bits = single_bits(value)
    return bits ^ (EVERY_BIT if bits & TOP else TOP)


@inner
def spread_out(bits):
    """The 32 bits of an integer at every second bit of 64."""
    x = np.uint64(bits)
    x = (x | (x << np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
    x = (x | (x << np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
    x = (x | (x << np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    x = (x | (x << np.uint64(2))) & np.uint64(0x3333333333333333)
    return (x | (x << np.uint64(1))) & np.uint64(0x5555555555555555)


@inner
def rank_of(forest, values, place, key):
    """The rank of the tuple whose values lie at a place of level 0."""
    first = ordered(values[forest.axes[0] * forest.stride + place])
    code = np.uint64(first) << np.uint64(32)
    if forest.axes[1] >= 0:
        other = ordered(values[forest.axes[1] * forest.stride + place])
        code = (spread_out(first) << np.uint64(1)) | spread_out(other)
    if forest.keyed:
        return lowest_rank(key) + np.int64(code >> np.uint64(32))
    return np.int64(code ^ (np.uint64(1) << np.uint64(63)))


@inner(forceinline=True)
def lowest_rank(key):
    """The lowest rank with a key."""
    return (np.int64(key) - (1 << 31)) << 32


@inner(forceinline=True)
def key_of(rank):
    """The key in a rank that has one."""
    return np.uint32((rank >> 32) + (1 << 31))
