"""An eventcount: one thread sleeps until another notifies it, or until a time-out.

    waiter    prepare_wait · checks its condition once more · wait or cancel_wait
    others    publish something · notify, which is one load if no thread waits

Both write, then fence, then read: either the waiter sees what was published, or the notifier sees the waiter. The mutex
keeps a notification from falling between the waiter's last check and its sleep.

Time-outs use a monotonic clock where the system offers one: a wait must not last for an hour because somebody put the
clock back.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from streamjoin.codegen.intrinsics import address_of, pointer, record_at
from streamjoin.codegen.jit import inner, njit
from streamjoin.codegen.records import Array, Record, Word, address
from streamjoin.threads.atomics import load_acquire, store_release

SECOND = 1_000_000_000
STEADY = sys.platform == "linux"  # elsewhere a condition variable uses the time of day
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
    """A full fence: all stores before it are visible to other threads before any load after it."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), codegen


class Eventcount(Record):
    """One for every thread that waits. The fields of the system have more room than any system needs."""

    waiting: Word
    seconds: Word  # until when it waits
    nanoseconds: Word
    attribute: Annotated[Array, (np.int64, 5)]
    mutex: Annotated[Array, (np.int64, 16)]
    condition: Annotated[Array, (np.int64, 16)]


def new_eventcounts(count: int) -> Array:
    """Eventcounts without a waiter."""
    found = Eventcount.array(count)
    for eventcount in found:
        _prepare(address(eventcount))
    return found


@inner(forceinline=True)
def mutex_of(eventcount):
    return pointer(address_of(eventcount, "mutex"))


@inner(forceinline=True)
def condition_of(eventcount):
    return pointer(address_of(eventcount, "condition"))


if STEADY:
    _attribute_init = types.ExternalFunction("pthread_condattr_init", types.int32(types.voidptr))
    _attribute_clock = types.ExternalFunction("pthread_condattr_setclock", types.int32(types.voidptr, types.int32))

    @inner
    def _prepare_condition(eventcount):
        attribute = pointer(address_of(eventcount, "attribute"))
        _attribute_init(attribute)
        _attribute_clock(attribute, CLOCK)
        _cond_init(condition_of(eventcount), attribute)

else:

    @inner
    def _prepare_condition(eventcount):
        _cond_init(condition_of(eventcount), pointer(0))


@njit(nogil=True, cache=True)
def _prepare(at):
    eventcount = record_at(at, Eventcount)
    _mutex_init(mutex_of(eventcount), pointer(0))
    _prepare_condition(eventcount)


@inner
def prepare_wait(eventcount):
    """From here on others notify us. The caller then checks its condition, and calls `wait` or `cancel_wait`."""
    _lock(mutex_of(eventcount))
    store_release(eventcount, "waiting", 1)
    fence()


@inner
def wait(eventcount, nanoseconds):
    """Sleeps until another thread notifies us, or until the time-out; sometimes shorter."""
    until = pointer(address_of(eventcount, "seconds"))
    _clock(CLOCK, until)
    later = eventcount.nanoseconds + nanoseconds
    eventcount.seconds += later // SECOND
    eventcount.nanoseconds = later % SECOND
    _timed_wait(condition_of(eventcount), mutex_of(eventcount), until)
    cancel_wait(eventcount)


@inner
def cancel_wait(eventcount):
    """Ends the wait before it began: the condition holds."""
    store_release(eventcount, "waiting", 0)
    _unlock(mutex_of(eventcount))


@inner
def notify(eventcount):
    """Wakes the waiting thread, if there is one. It then sees what was published before."""
    fence()
    if load_acquire(eventcount, "waiting"):
        _lock(mutex_of(eventcount))
        _signal(condition_of(eventcount))
        _unlock(mutex_of(eventcount))
