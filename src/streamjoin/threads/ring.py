"""Bounded single-producer single-consumer queues: from driver to workers, between workers, from workers to collector.

    Queue   [ head .. | tail .. | slots, capacity, reader ]     a cache line each

Only the producer writes the head, only the consumer writes the tail. The release of the head publishes the content of
a slot to the consumer that acquires it. The release of the tail gives the slot back to the producer.
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

FOR_ROOM = 10_000  # microseconds: the longest sleep of a driver that waits for room; workers are busy for longer
LULL = 10_000_000  # nanoseconds after which a collector without results checks the progress of the workers
UNTIL_ROOM = SPINS + YIELDS + 20  # rounds after which a driver that waits for room returns to Python: 0.1 s


class Queue(Record):
    """Of messages, or of blocks of results."""

    head: Word  # entries pushed so far
    head_line: RestOfLine
    tail: Word  # entries popped so far
    tail_line: RestOfLine
    slots: Address
    capacity: Word
    reader: Address  # the eventcount of the consumer


class Control(Record):
    """Orders to all threads of a join."""

    order: Word
    prefill: Word  # arrivals are stored and not compared


def new_queues(slots: Array, readers: list[int]) -> Array:
    """Empty queues, one for each row of slots; `readers`: the eventcounts of their consumers."""
    queues = Queue.array(len(slots))
    queues["slots"], queues["capacity"] = [address(row) for row in slots], slots.shape[1]
    queues["reader"] = readers
    return queues


@inner(forceinline=True)
def length(queue):
    """Entries in the queue. By now there may be more if the consumer asks, fewer if the producer asks."""
    return load_acquire(queue, "head") - load_acquire(queue, "tail")


@inner(forceinline=True)
def room(queue):
    """Free slots, for the producer. By now there may be more."""
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
    """Called by the producer when it has filled a slot."""
    store_release(queue, "head", load_acquire(queue, "head") + 1)
    notify(record_at(queue.reader, Eventcount))


@inner(forceinline=True)
def pop(queue):
    """Called by the consumer when it has read a slot."""
    store_release(queue, "tail", load_acquire(queue, "tail") + 1)


@inner
def push(queue, message):
    """Appends a message. There must be room."""
    records_at(queue.slots, queue.capacity, Message)[newest(queue)] = message
    publish(queue)


@inner
def front(queue):
    """The oldest message, which stays until it is popped. There must be one."""
    return records_at(queue.slots, queue.capacity, Message)[oldest(queue)]


@inner
def push_in_time(queue, message, control):
    """Waits for room and appends a message. Returns the rounds it waited; -1 if there was no room in time.

    A producer that has to wait does so until a quarter of the queue is free, not for every slot again.
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

    Returns the end of the tuples that were sent: all, unless it had to wait for long or the join was aborted.
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
    """Waits for a block of results, some milliseconds at most. False if the workers are to stop."""
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
    """Does the collector have work?"""
    for k in range(len(queues)):
        if length(queues[k]):
            return True
    return load_acquire(control, "order") != GO


@njit(nogil=True, cache=True)
def ready(queue_at):
    """The oldest block in the queue; -1 if it is empty."""
    queue = record_at(queue_at, Queue)
    return oldest(queue) if length(queue) else -1


@njit(nogil=True, cache=True)
def give_back(queue_at):
    """Gives the oldest block back to its worker."""
    pop(record_at(queue_at, Queue))
