"""What threads without the GIL need: ordered loads and stores, and waiting.

Every shared word has one writer. It publishes with `store_release`, readers look with `load_acquire`: who sees the
word sees everything that was written before it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from streamjoin.codegen.jit import njit

_sched_yield = types.ExternalFunction("sched_yield", types.int32())
_usleep = types.ExternalFunction("usleep", types.int32(types.uint32))

SPINS, YIELDS = 100, 4  # rounds of waiting before a thread yields its core, and before it sleeps
# Microseconds. A sleep costs some 30 us of a core besides, so the first is short and each next one twice as long, up to
# what the waiting thread can afford; who has waited for long sleeps long.
SHORTEST, LONGEST, NAPS = 20, 1000, 200


def _element(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    data = context.make_array(sig.args[0])(context, builder, args[0]).data
    return builder.gep(data, [args[1]])


@intrinsic
def load_acquire(typingctx: Any, array: Any, index: Any) -> Any:
    """array[index] of a flat int64 array; pairs with the `store_release` that wrote it."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load_atomic(_element(context, builder, sig, args), "acquire", 8)

    return types.int64(array, types.intp), codegen


@intrinsic
def store_release(typingctx: Any, array: Any, index: Any, value: Any) -> Any:
    """array[index] = value in a flat int64 array; everything written before is visible to who acquires it."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store_atomic(args[2], _element(context, builder, sig, args), "release", 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int64), codegen


@njit(nogil=True, cache=True)
def wait(rounds, longest):
    """Spins, then yields, then sleeps: a thread that has nothing to do for long costs next to nothing."""
    if rounds < SPINS:
        return
    naps = rounds - SPINS - YIELDS
    if naps < 0:
        _sched_yield()
    elif naps < NAPS:
        _usleep(np.uint32(min(longest, SHORTEST << min(naps, 9))))
    else:
        _usleep(np.uint32(max(longest, LONGEST)))
