"""The bell: nobody sleeps through a call, however the two threads meet."""

from __future__ import annotations

import threading
import time

import numpy as np
from numba import njit

from streamjoin.threads.atomics import load_acquire, store_release, wait
from streamjoin.threads.eventcount import get_up, lie_down, new_bells, sleep, wake

LONG = 10  # seconds: who sleeps that long has missed a call
MOMENTS = 500  # loads
OTHER = 16  # words between the two threads' numbers: a cache line each


@njit(nogil=True)
def listen(bell, numbers, count):
    """Says that it waits for a number, and lies down at once."""
    for number in range(1, count + 1):
        store_release(numbers, 0, number)
        while load_acquire(numbers, OTHER) < number:
            lie_down(bell)
            if load_acquire(numbers, OTHER) < number:
                sleep(bell, np.int64(LONG * 1_000_000_000))
            get_up(bell)


@njit(nogil=True)
def call(bell, numbers, count):
    """Gives each number out somewhat later than the last one, so that every moment of the other thread is met."""
    for number in range(1, count + 1):
        rounds = 0
        while load_acquire(numbers, 0) < number:
            wait(rounds, 0)
            rounds += 1
        for _ in range(number % MOMENTS):
            load_acquire(numbers, 0)
        store_release(numbers, OTHER, number)
        wake(bell)


def test_no_call_is_missed(soak: bool) -> None:
    count = 1_000_000 if soak else 20_000
    call(new_bells(1)[0], np.ones(2 * OTHER, np.int64), 1)  # compiled, before the clock runs
    listen(new_bells(1)[0], np.ones(2 * OTHER, np.int64), 1)
    bell, numbers = new_bells(1)[0], np.zeros(2 * OTHER, np.int64)
    threads = [threading.Thread(target=part, args=(bell, numbers, count)) for part in (listen, call)]
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


def test_a_sleep_ends_without_a_call() -> None:
    @njit(nogil=True)
    def nap(bell):
        lie_down(bell)
        sleep(bell, np.int64(2_000_000))
        get_up(bell)

    bell = new_bells(1)[0]
    for _ in range(3):
        nap(bell)
    assert bell[0] == 0
