"""The ring between two threads: every message once, in order and whole, whatever the capacity and the cores."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from streamjoin.algorithms.protocol import Message
from streamjoin.codegen.intrinsics import address_of, record_at, words_at
from streamjoin.codegen.jit import njit
from streamjoin.codegen.records import address
from streamjoin.threads.atomics import back_off, load_acquire, store_release
from streamjoin.threads.eventcount import new_eventcounts
from streamjoin.threads.ring import Queue, front, length, new_queues, pop, push, room

WORDS = Message.dtype.itemsize // 8
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
def fill(message, number):
    words = words_at(address_of(message, "kind"), WORDS)
    for k in range(WORDS):
        words[k] = word(number, k)


@njit(nogil=True)
def is_whole(message, number):
    words, same = words_at(address_of(message, "kind"), WORDS), True
    for k in range(WORDS):
        same &= words[k] == word(number, k)
    return same


@njit(nogil=True)
def produce(at, message, count, stop):
    queue = record_at(at, Queue)
    for number in range(count):
        rounds = 0
        while True:
            free = room(queue)
            if free > queue.capacity:
                return OVERFULL
            if free > 0:
                break
            if load_acquire(stop, 0):
                return LOST
            back_off(rounds, 100)
            rounds += 1
        fill(message, number)
        push(queue, message)
        fill(message, 0)  # the queue must have a copy of its own
    return FINE


@njit(nogil=True)
def consume(at, count, stop):
    queue = record_at(at, Queue)
    for number in range(count):
        rounds = 0
        while length(queue) == 0:
            if load_acquire(stop, 0):
                return LOST
            back_off(rounds, 100)
            rounds += 1
        if not is_whole(front(queue), number):
            store_release(stop, 0, 1)
            return TORN
        if number % 1024 == 0 and length(queue) == 0:  # looking takes nothing away
            return EMPTIED
        pop(queue)
    return FINE


@njit(nogil=True)
def pass_on(inward_at, outward_at, count, stop):
    inward, outward = record_at(inward_at, Queue), record_at(outward_at, Queue)
    for _ in range(count):
        rounds = 0
        while length(inward) == 0 or room(outward) < 1:
            if load_acquire(stop, 0):
                return LOST
            back_off(rounds, 100)
            rounds += 1
        push(outward, front(inward))
        pop(inward)
    return FINE


@njit(nogil=True)
def put(at, message, number):
    """Appends one message; returns how much room there was."""
    queue = record_at(at, Queue)
    fill(message, number)
    before = room(queue)
    push(queue, message)
    return before


@njit(nogil=True)
def look(at, number, take):
    """Is there a message, the one with this number, and how much room is there?"""
    queue = record_at(at, Queue)
    seen = length(queue) > 0
    whole = seen and is_whole(front(queue), number)
    if seen and take:
        pop(queue)
    return seen, whole, room(queue)


class Rings:
    """Queues side by side, and the memory behind them."""

    def __init__(self, capacity: int) -> None:
        self.messages = Message.array(RINGS, capacity)
        self.words = self.messages.view(np.int64)
        self.words[:] = UNTOUCHED
        self.eventcounts = new_eventcounts(RINGS)
        self.queues = new_queues(self.messages, [address(one) for one in self.eventcounts])
        self.at = [address(queue) for queue in self.queues]


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
    rings = Rings(capacity)
    work: list[Callable[[Any], int]] = [
        lambda stop: produce(rings.at[RING], Message.new(), count, stop),
        lambda stop: consume(rings.at[RING], count, stop),
    ]
    assert run(*work, cores=cores) == [FINE, FINE]
    assert look(rings.at[RING], count, True) == (False, False, capacity)
    for other in (0, 2):
        assert (rings.words[other] == UNTOUCHED).all(), "a neighbouring ring was written"
        assert rings.queues[other].head == rings.queues[other].tail == 0


@pytest.mark.parametrize("capacity", [1, 2, 3, 64])
def test_first_in_first_out(capacity: int) -> None:
    """In one thread: fills, empties and wraps around; what is full shows no room, what is empty no message."""
    rings, message = Rings(capacity), Message.new()
    at = rings.at[RING]
    sent = taken = 0
    for part in (1, capacity, capacity, max(1, capacity - 1), capacity):
        for _ in range(part):
            assert put(at, message, sent) == capacity - (sent - taken)
            sent += 1
        for take in (False, True) * part:
            expected = capacity - (sent - taken) + take
            assert look(at, taken, take) == (True, True, expected)
            taken += take
        assert look(at, taken, False) == (False, False, capacity)


@pytest.mark.parametrize(("capacity", "count"), [(1, 200_000), (2, 200_000), (3, 300_000), (64, 1_000_000)])
def test_two_threads(capacity: int, count: int, soak: bool) -> None:
    stream(capacity, count * 20 if soak else count)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads cannot be bound to a core here")
@pytest.mark.parametrize("capacity", [1, 3, 64])
def test_two_threads_on_one_core(capacity: int) -> None:
    """Whoever waits gives the core away: it ends, and soon."""
    stream(capacity, 50_000, cores=[min(os.sched_getaffinity(0))])


@pytest.mark.parametrize("capacity", [1, 3, 64])
def test_passed_on(capacity: int, soak: bool) -> None:
    """A thread between two rings, as a worker is: consumer of the one and producer of the other."""
    rings, count = Rings(capacity), 100_000 if soak or capacity > 1 else 20_000
    work: list[Callable[[Any], int]] = [
        lambda stop: produce(rings.at[0], Message.new(), count, stop),
        lambda stop: pass_on(rings.at[0], rings.at[2], count, stop),
        lambda stop: consume(rings.at[2], count, stop),
    ]
    assert run(*work) == [FINE, FINE, FINE]
