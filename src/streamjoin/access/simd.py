"""Explicit vectors: boxes near a centre, eight at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from streamjoin.codegen.intrinsics import FARTHEST
from streamjoin.codegen.jit import inner

LANES = 8
_VECTOR = ir.VectorType(ir.FloatType(), LANES)
_I32, _I64 = ir.IntType(32), ir.IntType(64)
_WORDS = ir.VectorType(_I32, LANES)


@inner(forceinline=True)
def centre_and_square(low, width, high):
    """A centre, and a squared distance that is greater than that of every point of [low - width, high].

    A scan compares squares in float32. So the distance is widened by more than all rounding errors together, and
    limited to values whose squares neither underflow nor overflow. An interval that is not finite covers all
    coordinates.
    """
    bottom, top = np.float64(low) - np.float64(width), np.float64(high)
    if not (bottom > -FARTHEST and top < FARTHEST):
        return np.float32(0), np.float32(3e38)
    middle = np.float32((bottom + top) / 2)
    half = max(np.float64(middle) - bottom, top - np.float64(middle)) * (1 + 2.0**-20)
    return middle, np.float32(max(half * half * (1 + 2.0**-20), 1e-37))


def _splat(builder: Any, scalar: Any) -> Any:
    undefined = ir.Constant(_VECTOR, ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(_WORDS, [0] * LANES))


@intrinsic
def corner(typingctx: Any, box: Any, dims: Any, i: Any) -> Any:
    """The column box[:, i] of a (dims, n) float32 array as a tuple of scalars, which compilers keep in registers."""
    if not isinstance(dims, types.IntegerLiteral):
        return None
    count = dims.literal_value
    result = types.UniTuple(types.float32, count)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        array = context.make_array(sig.args[0])(context, builder, args[0])
        strides = cgutils.unpack_tuple(builder, array.strides, 2)
        values = []
        for d in range(count):
            offset = builder.mul(strides[0], ir.Constant(strides[0].type, d))
            row = cgutils.pointer_add(builder, array.data, offset)
            values.append(builder.load(builder.gep(row, [args[2]])))
        return context.make_tuple(builder, result, values)

    return result(box, dims, types.intp), codegen


def _row(builder: Any, array: Any, d: int, j: Any) -> Any:
    """The vector coord[d, j : j + LANES]."""
    strides = cgutils.unpack_tuple(builder, array.strides, 2)
    start = cgutils.pointer_add(builder, array.data, builder.mul(strides[0], ir.Constant(strides[0].type, d)))
    value = builder.load(builder.bitcast(builder.gep(start, [j]), _VECTOR.as_pointer()))
    value.align = 4
    return value


def _near(context: Any, builder: Any, coord: Any, j: Any, centre: Any, square: Any, dims: int) -> Any:
    """A vector of integers, negative where (coord[d, j + k] - centre[d])**2 < square[d] in every dimension d."""
    fused = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(_VECTOR, [_VECTOR] * 3), f"llvm.fmuladd.v{LANES}f32"
    )
    inside = None
    for d in range(dims):
        away = builder.fsub(_row(builder, coord, d, j), _splat(builder, builder.extract_value(centre, d)))
        limit = _splat(builder, builder.fneg(builder.extract_value(square, d)))
        here = builder.bitcast(builder.call(fused, [away, away, limit]), _WORDS)
        inside = here if inside is None else builder.and_(inside, here)
    return inside


def _bits(builder: Any, words: Any) -> Any:
    """The sign bits of a vector of integers."""
    return builder.bitcast(builder.icmp_signed("<", words, ir.Constant(_WORDS, [0] * LANES)), ir.IntType(LANES))


@intrinsic
def near_any(typingctx: Any, coord: Any, j: Any, c0: Any, c1: Any, c2: Any, c3: Any, square: Any) -> Any:
    """Whether any of coord[:, j : j + LANES] is nearer to any of the four centres than the square's root."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        array = context.make_array(sig.args[0])(context, builder, args[0])
        near = [_near(context, builder, array, args[1], centre, args[6], sig.args[6].count) for centre in args[2:6]]
        words = builder.or_(builder.or_(near[0], near[1]), builder.or_(near[2], near[3]))
        return builder.icmp_unsigned("!=", _bits(builder, words), ir.Constant(ir.IntType(LANES), 0))

    return types.boolean(coord, types.intp, c0, c1, c2, c3, square), codegen


@intrinsic
def near_mask(typingctx: Any, coord: Any, j: Any, centre: Any, square: Any) -> Any:
    """Bit k of the result: coord[:, j + k] is nearer to the centre than the square's root, for k in 0..LANES-1."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        array = context.make_array(sig.args[0])(context, builder, args[0])
        return _bits(builder, _near(context, builder, array, args[1], args[2], args[3], sig.args[3].count))

    return types.uint8(coord, types.intp, centre, square), codegen


@intrinsic
def trailing_zeros(typingctx: Any, mask: Any) -> Any:
    """The number of zero bits below the lowest set bit of a non-zero mask."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        wide = builder.zext(args[0], _I64)
        return builder.cttz(wide, ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint8), codegen
