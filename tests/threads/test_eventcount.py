"""The eventcount: nobody sleeps through a notification, however the two threads meet."""

from __future__ import annotations

import threading
import time

import numpy as np

from streamjoin.codegen.intrinsics import record_at
from streamjoin.codegen.jit import njit
from streamjoin.codegen.records import address
from streamjoin.threads.atomics import back_off, load_acquire, store_release
from streamjoin.threads.eventcount import Eventcount, cancel_wait, new_eventcounts, notify, prepare_wait, wait

LONG = 10  # seconds: who waits that long has missed a notification
MOMENTS = 500  # loads
OTHER = 16  # words between the two threads' numbers: a cache line each


@njit(nogil=True)
def listen(at, numbers, count):
    """Says that it waits for a number, and waits at once."""
    eventcount = record_at(at, Eventcount)
    for number in range(1, count + 1):
        store_release(numbers, 0, number)
        while load_acquire(numbers, OTHER) < number:
            prepare_wait(eventcount)
            if load_acquire(numbers, OTHER) < number:
                wait(eventcount, np.int64(LONG * 1_000_000_000))
            else:
                cancel_wait(eventcount)


@njit(nogil=True)
def call(at, numbers, count):
    """Gives each number out somewhat later than the last one, so that every moment of the other thread is met."""
    eventcount = record_at(at, Eventcount)
    for number in range(1, count + 1):
        rounds = 0
        while load_acquire(numbers, 0) < number:
            back_off(rounds, 0)
            rounds += 1
        for _ in range(number % MOMENTS):
            load_acquire(numbers, 0)
        store_release(numbers, OTHER, number)
        notify(eventcount)


def test_no_notification_is_missed(soak: bool) -> None:
    count = 1_000_000 if soak else 20_000
    eventcounts = new_eventcounts(3)
    first, second, third = (address(one) for one in eventcounts)
    call(first, np.ones(2 * OTHER, np.int64), 1)  # compiled, before the clock runs
    listen(second, np.ones(2 * OTHER, np.int64), 1)
    numbers = np.zeros(2 * OTHER, np.int64)
    threads = [threading.Thread(target=part, args=(third, numbers, count)) for part in (listen, call)]
    for thread in threads:
        thread.start()
    seen, since, slowest = 0, time.perf_counter(), 0.0
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.05)
        if numbers[0] != seen:
            seen, since = int(numbers[0]), time.perf_counter()
        slowest = max(slowest, time.perf_counter() - since)
    assert numbers[0] == numbers[OTHER] == count
    assert slowest < LONG / 2, "a thread slept until its time was over"


@njit(nogil=True)
def nap(at):
    eventcount = record_at(at, Eventcount)
    prepare_wait(eventcount)
    wait(eventcount, np.int64(2_000_000))


def test_a_wait_ends_without_a_notification() -> None:
    eventcounts = new_eventcounts(1)
    for _ in range(3):
        nap(address(eventcounts[0]))
    assert eventcounts[0].waiting == 0
