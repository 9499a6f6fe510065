"""Sorted keys as vectors of sixteen: how many lie below a limit, without a branch for each of them."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

LANES = 16
_I32, _I64 = ir.IntType(32), ir.IntType(64)


def _pointer(context: Any, builder: Any, kind: Any, array: Any, j: Any) -> Any:
    """Where LANES values from array[j] on lie, as a vector."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [j]), ir.VectorType(data.type.pointee, LANES).as_pointer())


def _spread(builder: Any, value: Any) -> Any:
    """A value in all lanes."""
    vector = ir.VectorType(value.type, LANES)
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES))


def _counting(comparison: str, words: str) -> Any:
    @intrinsic
    def count(typingctx: Any, keys: Any, j: Any, limit: Any) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            found = builder.load(_pointer(context, builder, sig.args[0], args[0], args[1]))
            found.align = keys.dtype.bitwidth // 8
            compare = builder.icmp_signed if keys.dtype.signed else builder.icmp_unsigned
            mask = builder.bitcast(compare(comparison, found, _spread(builder, args[2])), ir.IntType(LANES))
            return builder.ctpop(builder.zext(mask, _I64))

        return types.int64(keys, types.intp, keys.dtype), codegen

    count.__doc__ = f"How many of the keys from keys[j] on, of sixteen, are {words} a limit."
    return count


below = _counting("<", "below")
at_most = _counting("<=", "at most")


def _storing(step: int, words: str) -> Any:
    @intrinsic
    def store(typingctx: Any, out: Any, j: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            steps = ir.Constant(ir.VectorType(_I32, LANES), [step * lane for lane in range(LANES)])
            values = builder.add(_spread(builder, builder.trunc(args[2], _I32)), steps)
            written = builder.store(values, _pointer(context, builder, sig.args[0], args[0], args[1]))
            written.align = 4
            return context.get_dummy_value()

        return types.void(out, types.intp, types.int64), codegen

    store.__doc__ = f"Writes {words} to out[j] and the fifteen places behind it, which take 32 bits each."
    return store


store_same = _storing(0, "the same value")
store_rising = _storing(1, "a value, the next one, and so on")
