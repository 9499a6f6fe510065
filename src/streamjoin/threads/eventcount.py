"""A bell: one thread sleeps until another wakes it, or for a while, and costs nothing meanwhile.

    sleeper   lies down · looks once more whether there is something · sleeps · gets up
    others    publish something · wake it, which is one load as long as nobody sleeps

Both look after they have written, with a fence between: either the sleeper sees what was published, or the other one
sees the sleeper. The mutex keeps a call from falling between the sleeper's last look and its sleep.

    words   [ ASLEEP | until: seconds, nanoseconds | attribute | mutex .. | condition .. ]

Time is told by a clock that nobody sets, where the system offers it for this: a sleep must not last for an hour because
somebody put the clock back.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from streamjoin.codegen.intrinsics import pointer
from streamjoin.codegen.jit import inner, njit
from streamjoin.codegen.records import Array
from streamjoin.threads.atomics import load_acquire, store_release

ASLEEP, UNTIL, ATTRIBUTE, MUTEX, CONDITION = 0, 1, 3, 8, 24  # more room than any system takes for its own
BELL_WORDS = 40
SECOND = 1_000_000_000
STEADY = sys.platform == "linux"  # elsewhere a condition goes by the time of day
CLOCK = np.int32(1 if STEADY else 0)  # CLOCK_MONOTONIC, CLOCK_REALTIME

_two_words = types.int32(types.voidptr, types.voidptr)
_mutex_init = types.ExternalFunction("pthread_mutex_init", _two_words)
_cond_init = types.ExternalFunction("pthread_cond_init", _two_words)
_lock = types.ExternalFunction("pthread_mutex_lock", types.int32(types.voidptr))
_unlock = types.ExternalFunction("pthread_mutex_unlock", types.int32(types.voidptr))
_signal = types.ExternalFunction("pthread_cond_signal", types.int32(types.voidptr))
_timed_wait = types.ExternalFunction("pthread_cond_timedwait", types.int32(types.voidptr, types.voidptr, types.voidptr))
_clock = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.voidptr))


@intrinsic
def fence(typingctx: Any) -> Any:
    """What was stored before is visible to all before anything is loaded after."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), codegen


def new_bells(count: int) -> Array:
    """So many bells that nobody waits for, a row each."""
    bells = np.zeros((count, BELL_WORDS), np.int64)
    for bell in bells:
        _prepare(bell)
    return bells


@inner(forceinline=True)
def at(bell, word):
    return pointer(bell.ctypes.data + 8 * word)


if STEADY:
    _attribute_init = types.ExternalFunction("pthread_condattr_init", types.int32(types.voidptr))
    _attribute_clock = types.ExternalFunction("pthread_condattr_setclock", types.int32(types.voidptr, types.int32))

    @inner
    def _prepare_condition(bell):
        _attribute_init(at(bell, ATTRIBUTE))
        _attribute_clock(at(bell, ATTRIBUTE), CLOCK)
        _cond_init(at(bell, CONDITION), at(bell, ATTRIBUTE))

else:

    @inner
    def _prepare_condition(bell):
        _cond_init(at(bell, CONDITION), pointer(0))


@njit(nogil=True, cache=True)
def _prepare(bell):
    _mutex_init(at(bell, MUTEX), pointer(0))
    _prepare_condition(bell)


@inner
def lie_down(bell):
    """From here on others wake us. To be followed by a last look, and by `sleep` or `get_up`."""
    _lock(at(bell, MUTEX))
    store_release(bell, ASLEEP, 1)
    fence()


@inner
def sleep(bell, nanoseconds):
    """Until somebody wakes us, or for so long; sometimes shorter."""
    _clock(CLOCK, at(bell, UNTIL))
    later = bell[UNTIL + 1] + nanoseconds
    bell[UNTIL] += later // SECOND
    bell[UNTIL + 1] = later % SECOND
    _timed_wait(at(bell, CONDITION), at(bell, MUTEX), at(bell, UNTIL))


@inner
def get_up(bell):
    store_release(bell, ASLEEP, 0)
    _unlock(at(bell, MUTEX))


@inner
def wake(bell):
    """Wakes the sleeper, if there is one, to what was published before."""
    fence()
    if load_acquire(bell, ASLEEP):
        _lock(at(bell, MUTEX))
        _signal(at(bell, CONDITION))
        _unlock(at(bell, MUTEX))
