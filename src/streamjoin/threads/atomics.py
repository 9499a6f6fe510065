"""Ordered loads and stores, and waiting, for threads without the GIL.

Every shared word has one writer. It publishes with `store_release`, readers use `load_acquire`: a reader that sees the
word sees everything that was written before it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from streamjoin.codegen.intrinsics import words_at
from streamjoin.codegen.jit import njit

_sched_yield = types.ExternalFunction("sched_yield", types.int32())
_usleep = types.ExternalFunction("usleep", types.int32(types.uint32))

SPINS, YIELDS = 100, 4  # rounds of waiting before a thread yields its core, and before it sleeps
# Microseconds. A sleep also costs some 30 us of a core. So the first one is short, and each next one is twice as long,
# up to what the waiting thread can afford.
SHORTEST, LONGEST, NAPS = 20, 1000, 200


def _address_of(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """A field of a record, or an element of an array."""
    where, what = sig.args[:2]
    if isinstance(where, types.Record):
        kind = context.get_value_type(types.int64)
        return cgutils.get_record_member(builder, args[0], where.offset(what.literal_value), kind)
    data = context.make_array(where)(context, builder, args[0]).data
    return builder.gep(data, [args[1]])


def _key(where: Any, what: Any) -> Any:
    return what if isinstance(where, types.Record) else types.intp


@intrinsic(prefer_literal=True)
def load_acquire(typingctx: Any, where: Any, what: Any) -> Any:
    """A word of a record, by its field's name, or of a flat array; pairs with the `store_release` that wrote it."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load_atomic(_address_of(context, builder, sig, args), "acquire", 8)

    return types.int64(where, _key(where, what)), codegen


@intrinsic(prefer_literal=True)
def store_release(typingctx: Any, where: Any, what: Any, value: Any) -> Any:
    """Writes a word of a record or of a flat array. A thread that acquires it sees everything written before."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store_atomic(args[2], _address_of(context, builder, sig, args), "release", 8)
        return context.get_dummy_value()

    return types.void(where, _key(where, what), types.int64), codegen


@njit(nogil=True, cache=True)
def read_word(address):
    """The shared word at an address, for Python."""
    return load_acquire(words_at(address, 1), 0)


@njit(nogil=True, cache=True)
def write_word(address, value):
    store_release(words_at(address, 1), 0, value)


@njit(nogil=True, cache=True)
def back_off(rounds, longest):
    """Spins, then yields, then sleeps: a thread that has been idle for long takes almost no time of a core."""
    if rounds < SPINS:
        return
    naps = rounds - SPINS - YIELDS
    if naps < 0:
        _sched_yield()
    elif naps < NAPS:
        _usleep(np.uint32(min(longest, SHORTEST << min(naps, 9))))
    else:
        _usleep(np.uint32(max(longest, LONGEST)))
