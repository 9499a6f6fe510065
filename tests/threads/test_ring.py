"""The ring between two threads: every message once, in order and whole, whatever the capacity and the cores."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import njit

from streamjoin.threads.atomics import load_acquire, store_release, wait
from streamjoin.threads.ring import LINES, front, pop, push, room

WORDS = 8
RINGS = 3  # the one under test lies between two that nobody uses
RING = 1
FINE, EMPTIED, TORN, OVERFULL, LOST = 0, 1, 2, 3, 4  # what a thread can report
UNTOUCHED = -77


@njit(nogil=True)
def word(number, k):
    """Word k of a message: from its number, and different in every bit from its neighbours'."""
    mixed = (number * WORDS + k + 1) * np.int64(-7046029254386353131)
    return mixed ^ (mixed >> np.int64(29))


@njit(nogil=True)
def produce(words, index, ring, count, stop):
    message = np.empty(WORDS, np.int64)
    for number in range(count):
        rounds = 0
        while True:
            free = room(words, index, ring)
            if free > words.shape[1]:
                return OVERFULL
            if free > 0:
                break
            if load_acquire(stop, 0):
                return LOST
            wait(rounds, 100)
            rounds += 1
        for k in range(WORDS):
            message[k] = word(number, k)
        push(words, index, ring, message)
        message[:] = 0  # the ring must have a copy of its own
    return FINE


@njit(nogil=True)
def consume(words, index, ring, count, stop):
    message = np.empty(WORDS, np.int64)
    for number in range(count):
        rounds = 0
        while not front(words, index, ring, message):
            if load_acquire(stop, 0):
                return LOST
            wait(rounds, 100)
            rounds += 1
        for k in range(WORDS):
            if message[k] != word(number, k):
                store_release(stop, 0, 1)
                return TORN
        if number % 1024 == 0 and not front(words, index, ring, message):  # looking takes nothing away
            return EMPTIED
        pop(words, index, ring)
    return FINE


@njit(nogil=True)
def pass_on(words, index, inward, outward, count, stop):
    message = np.empty(WORDS, np.int64)
    for _ in range(count):
        rounds = 0
        while not front(words, index, inward, message) or room(words, index, outward) < 1:
            if load_acquire(stop, 0):
                return LOST
            wait(rounds, 100)
            rounds += 1
        push(words, index, outward, message)
        pop(words, index, inward)
    return FINE


@njit(nogil=True)
def put(words, index, ring, number):
    """Appends one message; returns how much room there was."""
    message = np.empty(WORDS, np.int64)
    for k in range(WORDS):
        message[k] = word(number, k)
    before = room(words, index, ring)
    push(words, index, ring, message)
    return before


@njit(nogil=True)
def look(words, index, ring, message, take):
    seen = front(words, index, ring, message)
    if seen and take:
        pop(words, index, ring)
    return seen, room(words, index, ring)


def new_rings(capacity: int) -> tuple[np.ndarray, np.ndarray]:
    words = np.full((RINGS, capacity, WORDS), UNTOUCHED, np.int64)
    return words, np.zeros(RINGS * LINES, np.int64)


def run(*work: Callable[[np.ndarray], int], cores: list[int] | None = None) -> list[int]:
    """Runs all at the same time, each on its core if told; what hangs is stopped and shows in the reports."""
    stop = np.zeros(1, np.int64)
    reports = [LOST] * len(work)
    failures: list[BaseException] = []

    def one(k: int) -> None:
        try:
            if cores:
                os.sched_setaffinity(0, {cores[k % len(cores)]})  # of this thread alone
            reports[k] = work[k](stop)
        except BaseException as error:  # told by the test's own thread
            failures.append(error)
            stop[0] = 1

    threads = [threading.Thread(target=one, args=(k,), daemon=True) for k in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
        if thread.is_alive():
            stop[0] = 1
            thread.join(timeout=10)
    if failures:
        raise failures[0]
    return reports


def stream(capacity: int, count: int, cores: list[int] | None = None) -> None:
    words, index = new_rings(capacity)
    work: list[Callable[[Any], int]] = [
        lambda stop: produce(words, index, RING, count, stop),
        lambda stop: consume(words, index, RING, count, stop),
    ]
    assert run(*work, cores=cores) == [FINE, FINE]
    assert look(words, index, RING, np.empty(WORDS, np.int64), True) == (False, capacity)
    for other in (0, 2):
        assert (words[other] == UNTOUCHED).all(), "a neighbouring ring was written"
        assert not index[other * LINES : (other + 1) * LINES].any()


@pytest.mark.parametrize("capacity", [1, 2, 3, 64])
def test_first_in_first_out(capacity: int) -> None:
    """In one thread: fills, empties and wraps around; what is full shows no room, what is empty no message."""
    words, index = new_rings(capacity)
    message = np.empty(WORDS, np.int64)
    sent = taken = 0
    for fill in (1, capacity, capacity, max(1, capacity - 1), capacity):
        for _ in range(fill):
            assert put(words, index, RING, sent) == capacity - (sent - taken)
            sent += 1
        for take in (False, True) * fill:
            seen, free = look(words, index, RING, message, take)
            assert seen
            assert message.tolist() == [word(taken, k) for k in range(WORDS)]
            taken += take
            assert free == capacity - (sent - taken)
        assert look(words, index, RING, message, False) == (False, capacity)


@pytest.mark.parametrize(("capacity", "count"), [(1, 200_000), (2, 200_000), (3, 300_000), (64, 1_000_000)])
def test_two_threads(capacity: int, count: int, soak: bool) -> None:
    stream(capacity, count * 20 if soak else count)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads cannot be bound to a core here")
@pytest.mark.parametrize("capacity", [1, 3, 64])
def test_two_threads_on_one_core(capacity: int) -> None:
    """Whoever waits gives the core away: it ends, and soon."""
    stream(capacity, 50_000, cores=[min(os.sched_getaffinity(0))])


@pytest.mark.parametrize("capacity", [1, 3, 64])
def test_passed_on(capacity: int) -> None:
    """A thread between two rings, as a worker is: consumer of the one and producer of the other."""
    words, index = new_rings(capacity)
    count = 100_000
    work: list[Callable[[Any], int]] = [
        lambda stop: produce(words, index, 0, count, stop),
        lambda stop: pass_on(words, index, 0, 2, count, stop),
        lambda stop: consume(words, index, 2, count, stop),
    ]
    assert run(*work) == [FINE, FINE, FINE]
