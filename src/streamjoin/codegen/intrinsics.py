"""Intrinsics that Numba lacks, and scalar building blocks, each the size of a formula."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, typeof_impl
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import from_dtype

from streamjoin.codegen.jit import inner
from streamjoin.codegen.records import RecordType

_I32, _I64 = ir.IntType(32), ir.IntType(64)
FARTHEST = float(np.float32(1e19))  # the largest coordinate: its square is still finite in float32
ENDLESS = 9.2e18  # integers from here on are the limits of 64 bits, which stand for an unbounded end


@inner(forceinline=True)
def full_number(newest, low):
    """The tuple number whose low half is `low`, given a number that is less than 2**32 above it."""
    return newest - np.int64(np.uint32(np.uint32(newest) - low))


@inner(forceinline=True)
def down32(low, width):
    """low - width as float32, never above the true difference."""
    exact = np.float64(low) - np.float64(width)
    near = np.float32(exact)
    return near if np.float64(near) <= exact else np.nextafter(near, np.float32(-np.inf))


@inner(forceinline=True)
def up32(low, high):
    """high - low as float32, never below the true difference, which may need more than float64 has."""
    low, high = np.float64(low), np.float64(high)
    wide = high - low
    near = np.float32(wide)
    exact = np.float64(near) == wide and high - wide == low and low + wide == high
    return near if exact or np.float64(near) > wide else np.nextafter(near, np.float32(np.inf))


@inner(forceinline=True)
def truncated_div(a, b):
    """a / b, rounded towards zero. b must be neither 0 nor -1: the hardware traps on the smallest integer by -1."""
    quotient = a // b
    return quotient + 1 if quotient * b != a and (a < 0) != (b < 0) else quotient


@inner(forceinline=True)
def to_int64(value):
    """A float rounded towards zero, as Spark casts it: NaN is 0, a value out of range is the nearest limit."""
    if value != value:
        return np.int64(0)
    if value >= 9223372036854775808.0:
        return np.int64(9223372036854775807)
    if value <= -9223372036854775808.0:
        return np.int64(-9223372036854775808)
    return np.int64(value)


@inner(forceinline=True)
def mix(seed, value):
    """Folds 64 bits of a key into a hash (the finaliser of splitmix64)."""
    z = (np.uint64(seed) ^ np.uint64(value)) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@inner(forceinline=True)
def coordinate(value, origin):
    """A value on the axis of a dimension. Monotone: the order of values is kept; NaN is above everything."""
    if value != value:
        return np.float32(FARTHEST)
    return np.float32(min(max(value - origin, -FARTHEST), FARTHEST))


@inner(forceinline=True)
def axis(value):
    """A value where NaN, and an integer that stands for an unbounded end, are above everything, as infinity is."""
    wide = np.inf if value != value else np.float64(value)
    return np.inf if wide >= ENDLESS else -np.inf if wide <= -ENDLESS else wide


@intrinsic
def prefetch(typingctx: Any, array: Any, index: Any) -> Any:
    """Prefetches the cache line of array[index]."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        place = builder.bitcast(builder.gep(data, [args[1]]), cgutils.voidptr_t)
        function = builder.module.declare_intrinsic(
            "llvm.prefetch", [cgutils.voidptr_t], ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, _I32, _I32, _I32])
        )
        builder.call(function, [place, *(ir.Constant(_I32, flag) for flag in (0, 3, 1))])  # to read, to keep, data
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen


@intrinsic
def float_bits(typingctx: Any, value: Any) -> Any:
    """The bits of a float64 as an integer."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], _I64)

    return types.int64(types.float64), codegen


def _checked(name: str, method: str) -> Any:
    @intrinsic
    def operation(typingctx: Any, a: Any, b: Any) -> Any:
        result = types.Tuple((types.int64, types.boolean))

        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            pair = getattr(builder, method)(args[0], args[1])
            flag = builder.zext(builder.extract_value(pair, 1), ir.IntType(8))
            flag = context.cast(builder, flag, types.uint8, types.boolean)
            return context.make_tuple(builder, result, [builder.extract_value(pair, 0), flag])

        return result(types.int64, types.int64), codegen

    operation.__doc__ = f"a {name} b in 64 bits, and whether the true result lies outside of them."
    return operation


add_checked = _checked("+", "sadd_with_overflow")
sub_checked = _checked("-", "ssub_with_overflow")
mul_checked = _checked("*", "smul_with_overflow")


@intrinsic
def call(typingctx: Any, address: Any, job: Any) -> Any:
    """Calls the int64(int64) function at an address: a kernel of an access path or of a predicate."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        function = builder.inttoptr(args[0], ir.FunctionType(ir.IntType(64), [ir.IntType(64)]).as_pointer())
        return builder.call(function, [args[1]])

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def pointer(typingctx: Any, address: Any) -> Any:
    """An address as a pointer, for `carray`."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), codegen


@typeof_impl.register(RecordType)
def _record_type(record: Any, context: Any) -> Any:
    """In compiled code a record class stands for its dtype."""
    return types.DType(from_dtype(record.dtype))


@intrinsic
def record_at(typingctx: Any, address: Any, record: Any) -> Any:
    """The record of a class at an address."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(record.dtype))

    return record.dtype(types.int64, record), codegen


def _array_at(context: Any, builder: Any, kind: Any, address: Any, *shape: Any) -> Any:
    """Contiguous memory at an address as an array."""
    return _array(context, builder, kind, builder.inttoptr(address, cgutils.voidptr_t), *shape)


def _array(context: Any, builder: Any, kind: Any, pointer: Any, *shape: Any) -> Any:
    array, element = context.make_array(kind)(context, builder), context.get_data_type(kind.dtype)
    each = ir.Constant(_I64, context.get_abi_sizeof(element))
    strides = [each] if len(shape) == 1 else [builder.mul(shape[1], each), each]
    data = builder.bitcast(pointer, element.as_pointer())
    populate_array(array, data=data, shape=shape, strides=strides, itemsize=each, meminfo=None)
    return array._getvalue()


@intrinsic
def carray(typingctx: Any, pointer: Any, shape: Any, element: Any) -> Any:
    """An array at a pointer, like `numba.carray`, which would be compiled separately for every type."""
    flat = isinstance(shape, types.Integer)
    size = types.int64 if flat else types.UniTuple(types.int64, len(shape))
    kind = types.Array(element.dtype, 1 if flat else len(shape), "C")

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        lengths = [args[1]] if flat else cgutils.unpack_tuple(builder, args[1])
        return _array(context, builder, kind, args[0], *lengths)

    return kind(types.voidptr, size, element), codegen


@intrinsic
def records_at(typingctx: Any, address: Any, count: Any, record: Any) -> Any:
    """The array of `count` records of a class at an address."""
    kind = types.Array(record.dtype, 1, "C")

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _array_at(context, builder, kind, args[0], args[1])

    return kind(types.int64, types.int64, record), codegen


def _values_at(element: Any) -> Any:
    kind = types.Array(element, 1, "C")

    @intrinsic
    def values_at(typingctx: Any, address: Any, count: Any) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return _array_at(context, builder, kind, args[0], args[1])

        return kind(types.int64, types.int64), codegen

    values_at.__doc__ = f"The array of so many values of type {element} at an address."
    return values_at


words_at = _values_at(types.int64)
keys_at = _values_at(types.uint32)
doubles_at = _values_at(types.float64)
halves_at = _values_at(types.uint16)
bytes_at = _values_at(types.uint8)


@intrinsic
def floats_at(typingctx: Any, address: Any, rows: Any, stride: Any) -> Any:
    """The float32 array of `rows` rows, `stride` values apart, at an address."""
    kind = types.Array(types.float32, 2, "C")

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _array_at(context, builder, kind, args[0], args[1], args[2])

    return kind(types.int64, types.int64, types.int64), codegen


@intrinsic(prefer_literal=True)
def address_of(typingctx: Any, record: Any, name: Any) -> Any:
    """The address of a field of a record, by its name."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        offset = ir.Constant(_I64, record.offset(name.literal_value))
        return builder.add(builder.ptrtoint(args[0], _I64), offset)

    return types.int64(record, name), codegen


@intrinsic
def copy_bytes(typingctx: Any, to: Any, source: Any, count: Any) -> Any:
    """memcpy, from address to address."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointers = [builder.inttoptr(address, context.get_value_type(types.voidptr)) for address in args[:2]]
        cgutils.raw_memcpy(builder, *pointers, args[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen
