"""Bounded single-producer single-consumer queues: from driver to workers, between them, and from them to the collector.

    Queue   [ head .. | tail .. | slots, capacity, reader ]     a cache line each

The head is written by the producer alone, the tail by the consumer alone. The release of the head publishes what lies
in a slot to the consumer that acquires it; the release of the tail gives the slot back to the producer.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from streamjoin.algorithms.protocol import ARRIVAL, Message
from streamjoin.codegen.intrinsics import record_at, records_at
from streamjoin.codegen.jit import inner, njit
from streamjoin.codegen.records import Address, Array, Record, Word, address
from streamjoin.threads.atomics import SPINS, YIELDS, back_off, load_acquire, store_release
from streamjoin.threads.eventcount import Eventcount, cancel_wait, notify, prepare_wait, wait

RestOfLine = Annotated[Array, (np.int64, 7)]

GO, FINISH, ABORT = range(3)  # orders: go on, return when there is nothing to do, return at once

FOR_ROOM = 10_000  # microseconds: the longest nap of a driver that waits for room, which is not used up by then
LULL = 10_000_000  # nanoseconds after which a collector without results looks how far the workers have come
UNTIL_ROOM = SPINS + YIELDS + 20  # rounds of waiting after which it comes back to Python: a tenth of a second


class Queue(Record):
    """Of messages, or of blocks of results."""

    head: Word  # how many were ever pushed
    head_line: RestOfLine
    tail: Word  # how many were ever taken
    tail_line: RestOfLine
    slots: Address
    capacity: Word
    reader: Address  # the eventcount of the consumer


class Control(Record):
    """What all threads of a join are told."""

    order: Word
    prefill: Word  # arrivals are stored and not compared


def new_queues(slots: Array, readers: list[int]) -> Array:
    """Empty queues, one for each row of slots, and who reads them."""
    queues = Queue.array(len(slots))
    queues["slots"], queues["capacity"] = [address(row) for row in slots], slots.shape[1]
    queues["reader"] = readers
    return queues


@inner(forceinline=True)
def length(queue):
    """What waits in it: more for the consumer, less for the producer may be true by now."""
    return load_acquire(queue, "head") - load_acquire(queue, "tail")


@inner(forceinline=True)
def room(queue):
    """Free slots, as the producer knows it: there may be more."""
    return queue.capacity - length(queue)


@inner(forceinline=True)
def newest(queue):
    """The slot that the producer fills next."""
    return load_acquire(queue, "head") % queue.capacity


@inner(forceinline=True)
def oldest(queue):
    """The slot that the consumer reads next."""
    return load_acquire(queue, "tail") % queue.capacity


@inner
def publish(queue):
    """The producer has filled a slot."""
    store_release(queue, "head", load_acquire(queue, "head") + 1)
    notify(record_at(queue.reader, Eventcount))


@inner(forceinline=True)
def pop(queue):
    """The consumer has read a slot."""
    store_release(queue, "tail", load_acquire(queue, "tail") + 1)


@inner
def push(queue, message):
    """Appends a message; the producer has seen that there is room."""
    records_at(queue.slots, queue.capacity, Message)[newest(queue)] = message
    publish(queue)


@inner
def front(queue):
    """The oldest message; there is one, and it stays until it is popped."""
    return records_at(queue.slots, queue.capacity, Message)[oldest(queue)]


@inner
def push_in_time(queue, message, control):
    """Waits for room and appends a message. Returns for how many rounds it waited; -1 if it was in vain.

    Who had to wait does so until a quarter of the queue is free, not for every slot anew.
    """
    rounds, wanted = 0, 1
    while room(queue) < wanted:
        if rounds > UNTIL_ROOM or load_acquire(control, "order") == ABORT:
            return -1
        wanted = max(1, queue.capacity // 4)
        back_off(rounds, FOR_ROOM)
        rounds += 1
    push(queue, message)
    return rounds


@njit(nogil=True, cache=True)
def send(queue_at, message_at, control_at, kind, side, first, stop, low, high, horizon, needed_from):
    """Sends a message from the driver. False if there was no room for it in time."""
    message = record_at(message_at, Message)
    message.kind, message.side, message.first, message.stop = kind, side, first, stop
    message.low, message.high, message.horizon, message.needed_from = low, high, horizon, needed_from
    return push_in_time(record_at(queue_at, Queue), message, record_at(control_at, Control)) >= 0


@njit(nogil=True, cache=True)
def feed(queues, message_at, control_at, side, first, stop, batch, stripe):
    """Sends arrivals in parts that cross no multiple of the batch size, each to the queue of its stripe.

    Returns up to which tuple they were sent: all, unless it had to wait for long or the join is given up.
    """
    message, control, waited = record_at(message_at, Message), record_at(control_at, Control), 0
    message.kind, message.side = ARRIVAL, side
    while first < stop and waited <= UNTIL_ROOM:
        message.first, message.stop = first, min(stop, (first // batch + 1) * batch)
        queue = record_at(queues[first // stripe % len(queues)], Queue)
        rounds = push_in_time(queue, message, control)
        if rounds < 0:
            break
        first, waited = message.stop, waited + rounds
    return first


@njit(nogil=True, cache=True)
def await_blocks(queues_at, nodes, control_at, eventcount_at):
    """Waits until a block of results is there, some milliseconds at most. False if the workers are to stop."""
    queues, control = records_at(queues_at, nodes, Queue), record_at(control_at, Control)
    for k in range(SPINS + YIELDS):
        if due(queues, control):
            return load_acquire(control, "order") == GO
        back_off(k, 0)
    eventcount = record_at(eventcount_at, Eventcount)
    prepare_wait(eventcount)
    if due(queues, control):
        cancel_wait(eventcount)
    else:
        wait(eventcount, LULL)
    return load_acquire(control, "order") == GO


@inner
def due(queues, control):
    """Has the collector something to do?"""
    for k in range(len(queues)):
        if length(queues[k]):
            return True
    return load_acquire(control, "order") != GO


@njit(nogil=True, cache=True)
def ready(queue_at):
    """The oldest block that waits for the collector; -1 if none does."""
    queue = record_at(queue_at, Queue)
    return oldest(queue) if length(queue) else -1


@njit(nogil=True, cache=True)
def give_back(queue_at):
    """Returns the oldest block to its worker."""
    pop(record_at(queue_at, Queue))
