"""The loop of a worker thread, compiled as a whole: take messages, follow the protocol, compare, hand out results.

It knows neither the window nor the predicate nor the access path: those are behind the protocol's actions and the
addresses in its segments. It returns to Python only when it is told to stop, when an array must grow, or when a
predicate failed.
"""

from __future__ import annotations

import numpy as np

from streamjoin.access.records import RAISED, TESTED, Probing, Stored
from streamjoin.access.tape_kernels import position
from streamjoin.algorithms.protocol import ALL, ARRIVAL, DROP, INSERT, MEET, PROBE, SEND, SHARE, Actions, Node
from streamjoin.codegen.intrinsics import address_of, call, record_at, records_at, words_at
from streamjoin.codegen.jit import inner, njit, on_demand
from streamjoin.threads.atomics import NAPS, SPINS, YIELDS, back_off, load_acquire, store_release
from streamjoin.threads.eventcount import Eventcount, cancel_wait, notify, prepare_wait, wait
from streamjoin.threads.records import RESULT_BLOCKS, RESULT_SIZE, Block, Status, Worker
from streamjoin.threads.ring import ABORT, FINISH, GO, Control, Queue, front, length, newest, pop, publish, push, room

STOPPED, NEEDS_ROOM, FAULT = range(3)  # why a worker returned
EXCEPTION = -1  # value of `Worker.failed`: the predicate raised an exception

PATIENCE = 16  # rounds after which a busy worker hands over a block that is not full
FOR_ROOM, FOR_RESULTS = 100, 2000  # microseconds: longest sleeps of a worker that waits for queues, for the collector
# Nanoseconds. A message wakes a worker. For anything else, room or a neighbour's load, it polls: first at the shorter
# interval, and after some polls without a change at the longer one.
DOZE, SLEEP, DOZES = 500_000, 10_000_000, 400
LEAST_ROOM = 64  # a block with less room for pairs is full
FOR_REST = 100  # microseconds: the longest sleep of a driver that waits until all workers are idle
UNTIL_REST = SPINS + YIELDS + NAPS + 50  # rounds after which that driver returns to Python: 0.1 s


@on_demand
def work(at):
    """Runs until there is a reason to return."""
    w = record_at(at, Worker)
    control, status = record_at(w.control, Control), record_at(w.status, Status)
    rounds, since_handed = 0, 0
    code = perform(w)  # the actions left when it last returned
    if code != STOPPED:
        return code
    tell(w)
    while True:
        if load_acquire(control, "order") == ABORT:
            return STOPPED
        moved = False
        for direction in range(2):
            code, happened = take_turn(w, record_at(w.inbox[direction], Queue))
            if code != STOPPED:
                return code
            moved |= happened
        if not moved or since_handed >= PATIENCE or not waiting(w):
            hand_over(w, False)
            since_handed = 0
        since_handed += 1
        tell(w)
        if moved:
            rounds = 0
            continue
        if w.filled == 0:
            store_release(status, "idle", status.progress)
            if load_acquire(control, "order") == FINISH:
                return STOPPED
        doze(w, control, rounds)
        rounds += 1


@inner
def take_turn(w, queue):
    """Takes messages up to the first one that leads to comparisons. Directions take turns at such messages.

    Before every message, the protocol does what is due, since the message may have to wait for it. Returns the code of
    `perform`, and whether anything happened.
    """
    moved, light = False, True
    while light:
        act(w, True)
        if record_at(w.actions, Actions).count:
            moved = True
            begin(w)
            code = perform(w)
            if code != STOPPED:
                return code, moved
        if length(queue) == 0:
            break
        message = front(queue)
        w.call.message = address_of(message, "kind")
        if not act(w, False):
            break
        moved, light = True, message.kind not in (ARRIVAL, SHARE)
        begin(w)
        pop(queue)
        record_at(w.status, Status).messages += 1
        code = perform(w)
        if code != STOPPED:
            return code, moved
    return STOPPED, moved


@inner
def doze(w, control, rounds):
    """Waits for work, at first without sleeping."""
    if rounds < SPINS + YIELDS or waiting(w):  # a message that cannot be taken yet waits for room
        back_off(rounds, FOR_ROOM)
        return
    eventcount = record_at(w.eventcount, Eventcount)
    prepare_wait(eventcount)
    if waiting(w) or load_acquire(control, "order") != GO:
        cancel_wait(eventcount)
    else:
        wait(eventcount, DOZE if rounds < SPINS + YIELDS + DOZES else SLEEP)


@inner
def waiting(w):
    """Are there messages to take?"""
    return length(record_at(w.inbox[0], Queue)) > 0 or length(record_at(w.inbox[1], Queue)) > 0


@inner
def act(w, resting):
    """Has the protocol act on the message, or on having none. False if the message has to wait.

    The protocol knows the room in the queues and the neighbours' loads.
    """
    node = record_at(w.node, Node)
    for direction in range(2):
        if w.outbox[direction]:
            node.room[direction] = room(record_at(w.outbox[direction], Queue))
            node.neighbour[direction] = load_acquire(record_at(w.beside[direction], Status).load, direction)
        else:
            node.room[direction] = ALL
    w.call.resting = resting
    return call(w.act, address_of(w, "call"))


@inner
def begin(w):
    """The node has work: the status says so before any message leaves a queue."""
    status = record_at(w.status, Status)
    store_release(status, "progress", status.progress + 1)


@inner
def tell(w):
    """Publishes the progress of this node."""
    node, status = record_at(w.node, Node), record_at(w.status, Status)
    for side in range(2):
        segment, needed_from = record_at(w.segments[side], Stored), node.needed_from[side]
        if w.on_tape and segment.oldest < segment.stop:
            needed_from = min(needed_from, segment.oldest)
        status.held[side] = own_count(node, side, segment.oldest, segment.stop)
        store_release(status.load, side, node.load[side])
        store_release(status.needed_from, side, needed_from)
        if w.filled == 0:  # the collector has all of its results
            store_release(status.finished, side, node.finished[side])


@inner
def own_count(node, side, first, stop):
    """How many of the tuples first..stop-1 are this node's."""
    if stop <= first:
        return 0
    if node.ways[side] == 1:
        return stop - first
    return own_below(node, side, stop) - own_below(node, side, first)


@inner
def own_below(node, side, number):
    """How many of this node's tuples have numbers below this one."""
    cycle = node.stripe * node.ways[side]
    inside = number % cycle - node.way[side] * node.stripe
    return number // cycle * node.stripe + min(max(inside, 0), node.stripe)


@inner
def perform(w):
    """Carries out the remaining actions. Returns STOPPED when all are done, otherwise the reason."""
    actions = record_at(w.actions, Actions)
    while actions.done < actions.count:
        action = actions.each[actions.done]
        do, body = action.do, action.body
        if do == SEND:
            push(record_at(w.outbox[action.direction], Queue), body)
            status = record_at(w.status, Status)
            status.sent += 1
            if body.kind == ARRIVAL:
                status.forwarded += body.stop - body.first
        elif do == INSERT:
            if not insert(w, body):
                return NEEDS_ROOM
        elif do == DROP:
            drop(w, body)
        elif do in (PROBE, MEET):
            code = compare(w, body, do == MEET)
            if code != STOPPED:
                return code
        actions.done += 1
    return STOPPED


@inner
def insert(w, body):
    """Makes tuples part of this node's window. False if its index must grow first."""
    at, tape = w.segments[body.side], record_at(w.tapes[body.side], Stored)
    segment = record_at(at, Stored)
    if segment.oldest == segment.stop:  # it is empty, maybe since long before these tuples
        segment.oldest = segment.stop = body.first
    while segment.insert and body.first < body.stop:
        end = min(body.stop, (body.first // tape.stripe + 1) * tape.stripe)
        segment.first, segment.begin = body.first, position(tape, body.first)
        segment.end = segment.begin + end - body.first
        if not call(segment.insert, at):
            return False
        body.first = segment.stop = end
    segment.stop = body.stop
    return True


@inner
def drop(w, body):
    at = w.segments[body.side]
    segment = record_at(at, Stored)
    segment.oldest = max(segment.oldest, min(body.stop, segment.stop))
    if not w.on_tape:
        segment.horizon = body.horizon
        call(segment.expire, at)


@inner
def compare(w, body, tape):
    """Compares arrivals with this node's window, or with a part of the other stream's tape."""
    side, other, low, high = body.side, 1 - body.side, body.low, body.high
    stored, address = w.tapes[other] if tape else w.segments[other], w.searches[side]
    segment, arrivals, search = record_at(stored, Stored), record_at(w.tapes[side], Stored), record_at(address, Probing)
    if not tape:
        low, high = max(low, segment.oldest), min(high, segment.stop)
    if low >= high or record_at(w.control, Control).prefill:
        return STOPPED
    search.batch, search.first = arrivals.source, position(arrivals, body.first)
    search.end = search.first + body.stop - body.first
    search.stored, search.low, search.high = stored, low, high
    search.newest = high - 1 if tape or w.on_tape else segment.stop - 1
    search.run = search.step = search.row = search.compared = search.ordered = 0
    search.at_range = search.at_position = 0
    more = True
    while more:
        more = call(segment.find, address) == 0
        done = search.count == 0
        while not done:
            if not make_result_room(w):
                return STOPPED
            search.pair_probe, search.pair_stored = result_address(w, side), result_address(w, other)
            search.pair_room, search.found = RESULT_SIZE - w.filled, 0
            answer = call(search.refine, address)
            done = answer == TESTED
            w.filled += search.found
            if answer == RAISED:
                w.failed = EXCEPTION
                return FAULT
            if search.fault[0]:
                w.failed = 2 * side + np.int64(tape)
                return FAULT
            if not done:
                hand_over(w, True)
    record_at(w.status, Status).comparisons += search.compared
    return STOPPED


@inner
def present_block(w):
    """The block that is being filled."""
    queue = record_at(w.results, Queue)
    return records_at(queue.slots, RESULT_BLOCKS, Block)[newest(queue)]


@inner
def result_address(w, side):
    """The address of the next result's number of a side."""
    return address_of(present_block(w), "numbers") + (side * RESULT_SIZE + w.filled) * 8


@inner
def make_result_room(w):
    """Makes room for results in the current block; waits for the collector. False if the join was aborted."""
    if w.filled + LEAST_ROOM > RESULT_SIZE:
        hand_over(w, True)
    queue, rounds = record_at(w.results, Queue), 0
    while room(queue) == 0:
        if load_acquire(record_at(w.control, Control), "order") == ABORT:
            return False
        back_off(rounds, FOR_RESULTS)
        rounds += 1
    return True


@inner
def hand_over(w, full):
    """Gives the current block to the collector: when it is full, or when few blocks are in the queue."""
    queue = record_at(w.results, Queue)
    if w.filled == 0 or (not full and room(queue) <= 1):
        return
    present_block(w).count = w.filled
    record_at(w.status, Status).results += w.filled
    w.filled = 0
    publish(queue)


@njit(nogil=True, cache=True)
def quiet(queues_at, statuses_at, nodes, control_at, patient):
    """Are all queues empty and all nodes idle? If `patient`, waits a while for it, unless the join was aborted.

    A node counts its progress before it removes a message. So if all queues are empty and all nodes idle, twice with
    the same progress, no message is left.
    """
    queues, statuses = records_at(queues_at, 2 * nodes, Queue), records_at(statuses_at, nodes, Status)
    control, rounds, before = record_at(control_at, Control), 0, -1
    while True:
        if load_acquire(control, "order") == ABORT:
            return False
        still, total = True, 0
        for k in range(2 * nodes):
            still &= length(queues[k]) == 0
        for node in range(nodes):
            progress = load_acquire(statuses[node], "progress")
            still &= load_acquire(statuses[node], "idle") == progress
            total += progress
        if still and total == before:
            return True
        if not still and not patient:
            return False
        before = total if still else -1
        if rounds > UNTIL_REST:
            return False
        back_off(rounds, FOR_REST)
        rounds += 1


@njit(nogil=True, cache=True)
def order(control_at, what, eventcounts_at, count):
    """Gives an order to all threads, and wakes those that wait."""
    store_release(record_at(control_at, Control), "order", what)
    eventcounts = records_at(eventcounts_at, count, Eventcount)
    for k in range(count):
        notify(eventcounts[k])


@njit(nogil=True, cache=True)
def copy_words(source_at, target_at, count):
    """Copies shared words with acquire loads, for Python to read the status of nodes."""
    source, target = words_at(source_at, count), words_at(target_at, count)
    for k in range(count):
        target[k] = load_acquire(source, k)
