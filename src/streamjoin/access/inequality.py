"""Access by two inequalities: values in some order, and above them an implicit 16-ary tree of minima.

    level 2                      [ 1 ]
    level 1        [ 3 ]         [ 1 ]         [ 7 ]         minima of 16 below
    level 0   [ 5 3 9 ... ] [ 1 8 4 ... ] [ 7 7 8 ... ]      the values, in the order of another column

All places in first..end-1 whose value is at most a limit are found one after the other: up while a node has no such
value behind the place, down where it has one. That takes at most 16 * (2 * levels + 1) comparisons for each place found
and for one more, whatever the values are. A node is compared as one vector.

An interval [start, end] that overlaps [low, high] has start <= high and -end <= -low: ordered by start, with -end as
the values, the same tree finds intervals of any lengths.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from streamjoin.codegen.jit import inner, njit
from streamjoin.codegen.records import Array

FAN_OUT = 16
_I32, _I64 = ir.IntType(32), ir.IntType(64)


@intrinsic
def at_most(typingctx: Any, values: Any, j: Any, limit: Any) -> Any:
    """Bit k of the result: values[j + k] <= limit, for k in 0..15, of float64, float32 or uint32."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        vector = ir.VectorType(data.type.pointee, FAN_OUT)
        node = builder.load(builder.bitcast(builder.gep(data, [args[1]]), vector.as_pointer()))
        node.align = sig.args[2].bitwidth // 8
        undefined = ir.Constant(vector, ir.Undefined)
        first = builder.insert_element(undefined, args[2], ir.Constant(_I32, 0))
        limits = builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_I32, FAN_OUT), [0] * FAN_OUT))
        compare = builder.icmp_unsigned if isinstance(data.type.pointee, ir.IntType) else builder.fcmp_ordered
        mask = compare("<=", node, limits)
        return builder.zext(builder.bitcast(mask, ir.IntType(FAN_OUT)), _I64)

    return types.int64(values, types.intp, values.dtype), codegen


@intrinsic
def lowest_bit(typingctx: Any, mask: Any) -> Any:
    """The number of zero bits below the lowest set bit of a mask that is not zero."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), codegen


def levels_of(n: int) -> Array:
    """The begin of each level of a tree over n values, the values first; at the end, the size of the whole."""
    sizes = [-(-max(n, 1) // FAN_OUT) * FAN_OUT]
    while sizes[-1] > FAN_OUT:
        sizes.append(-(-(sizes[-1] // FAN_OUT) // FAN_OUT) * FAN_OUT)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


@njit(nogil=True, cache=True)
def fill(tree, levels, top):
    """Computes the minima above the values of level 0, which must be there, padded with the type's top."""
    for level in range(1, len(levels) - 1):
        below, here = levels[level - 1], levels[level]
        count = (here - below) // FAN_OUT
        for k in range(count):
            least = tree[below + k * FAN_OUT]
            for i in range(1, FAN_OUT):
                least = min(least, tree[below + k * FAN_OUT + i])
            tree[here + k] = least
        for k in range(here + count, levels[level + 1]):
            tree[k] = top


def top_of(values: Array) -> Any:
    """A padding value above every limit; for floats infinity, which only an infinite limit reaches."""
    return np.inf if values.dtype == np.float64 else np.iinfo(values.dtype).max


@njit(nogil=True, cache=True)
def least_behind(tree, levels, found):
    """For every node of level 0, the least value of all nodes behind it. The last entry must be there."""
    for node in range(len(found) - 2, -1, -1):
        found[node] = min(found[node + 1], tree[levels[1] + node + 1])


def nothing_behind(tree: Array, levels: Array) -> Array:
    """By node of level 0: the least value behind the node. With a lower limit, no search need climb from there."""
    found = np.full(int(levels[1]) // FAN_OUT, top_of(tree), tree.dtype)
    least_behind(tree, levels, found)
    return found


@inner(error_model="numpy")
def next_place(tree, levels, place, limit):
    """The first place from `place` on whose value is at most the limit, or -1, and how many nodes were read."""
    depth, level, nodes = len(levels) - 2, 0, 0
    while True:
        if place >= levels[level + 1] - levels[level]:
            return -1, nodes
        node = place & ~(FAN_OUT - 1)
        nodes += 1
        mask = at_most(tree, levels[level] + node, limit) >> (place - node) << (place - node)
        if mask:
            place = node + lowest_bit(mask)
            break
        if level == depth:
            return -1, nodes
        level, place = level + 1, (node >> 4) + 1
    while level > 0:  # down: one of the children matches
        level -= 1
        node = place << 4
        nodes += 1
        place = node + lowest_bit(at_most(tree, levels[level] + node, limit))
    return place, nodes
