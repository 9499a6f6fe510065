"""What a worker thread does, compiled as a whole: take messages, follow the protocol, compare, hand out results.

It knows neither the window nor the predicate nor the access path: those are behind the protocol's actions and the
addresses in its jobs. It returns to Python only when told to stop, when an array must grow, or when a predicate
failed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamjoin.access import job as words
from streamjoin.access.job import path_of, position, test_of, trouble_of
from streamjoin.access.layout import COMPARED, COUNT, FIELDS, FOUND
from streamjoin.algorithms.protocol import (
    ALL,
    ARRIVAL,
    BODY,
    DIRECTION,
    DO,
    DROP,
    FIRST,
    HI,
    INSERT,
    KEEP,
    KIND,
    LO,
    MEET,
    NEIGHBOUR,
    NODE,
    PLACE,
    PROBE,
    RESTING,
    ROOM,
    SEND,
    SHARE,
    SIDE,
    SIZE,
    STOP,
    STRETCH,
    TURN,
    TURNS,
    WAIT,
)
from streamjoin.codegen.intrinsics import call
from streamjoin.codegen.jit import inner, njit
from streamjoin.codegen.records import Array
from streamjoin.threads.atomics import SPINS, YIELDS, load_acquire, store_release, wait
from streamjoin.threads.eventcount import get_up, lie_down, sleep, wake
from streamjoin.threads.ring import HEAD, LINES, TAIL, front, is_empty, pop, push, room

# Why a worker returned.
STOPPED, NEEDS_ROOM, TROUBLE = range(3)
# The control word: go on, return when there is nothing to do, return at once.
GO, FINISH, ABORT = range(3)
SILENT = 1  # a second control word: nothing is compared, windows are only filled

# The functions of one side's jobs, by address; 0 where nothing is to be done.
COMPARE_WINDOW, COMPARE_TAPE, EXACT, ENTER, FORGET, FUNCTIONS = range(6)

# A node's part of the window, per side: inserted tuples lie in OLDEST..NEWEST-1.
OLDEST, NEWEST, WINDOW_WORDS = range(3)

# What a node lets others know; a pair of words for r and s where it says "per side".
FINISHED = 0  # per side: everything below has been compared with all it had to meet here
NEED = 2  # per side: nothing below is read from the tape any more
SHOWN = 4  # per side: size of the window, for neighbours
HELD = 6  # per side: tuples in the window
PROGRESS = 8  # grows with everything that happens here,
IDLE = 9  # and equals PROGRESS while nothing is left to do
COMPARISONS, RESULTS, MESSAGES, SENT, FORWARDED = range(10, 15)
BOARD = 16

RESULT_BLOCKS, RESULT_SIZE = 16, 1 << 15
PATIENCE = 16  # rounds of a busy worker before it hands over a block that is not full
FOR_ROOM, FOR_RESULTS = 100, 2000  # microseconds of a worker's longest naps: for room in queues, for the collector
# Nanoseconds. A message wakes a worker; what else it may wait for, room or a neighbour's window, it looks for itself:
# so often at first, and so often when nothing has happened for so many looks.
DOZE, SLEEP, DOZES = 500_000, 10_000_000, 400
LEAST_ROOM = 64  # a block with less room for pairs is full

COUNT_TODO, DONE_TODO, FILLED, FAILED_JOB = range(4)
RAISED = -1  # as a failed job: the predicate raised an exception


class Worker(NamedTuple):
    """All that one worker reads and writes."""

    protocol: int  # address of its `act`
    finished: int  # the word of the node's state below which tuples have met all they had to meet here
    on_tape: int  # 1: the node's window lies on the tape itself
    node: Array
    out_ring: Array  # per direction: the queue of the next node, -1 at the end
    ring_words: Array
    ring_index: Array
    board: Array
    control: Array
    jobs: Array  # (4, words): 2 * probing side + (0: against the node's window, 1: against the tape)
    job_address: Array
    functions: Array  # (2, FUNCTIONS) by probing side; ENTER and FORGET by the side that is stored
    window: Array  # (2, WINDOW_WORDS)
    message: Array
    actions: Array
    frame: Array  # what the protocol is called with, and where it lies
    frame_address: int
    todo: Array
    results: Array  # (nodes, 2, blocks, size): tuple numbers of r and of s
    result_address: Array  # of this node's first result of r, and of s
    result_count: Array  # (nodes, blocks)
    result_index: Array  # per node: blocks handed over, blocks given back
    bells: Array  # of every node, and of the collector


@njit(nogil=True, cache=True)
def work(w):
    """Runs until there is a reason to return."""
    me, control = w.node[NODE], w.control
    rounds, since_handed = 0, 0
    code = perform(w)  # what an interruption left undone
    if code != STOPPED:
        return code
    publish(w)
    while True:
        if load_acquire(control, 0) == ABORT:
            return STOPPED
        moved = False
        for direction in range(2):
            code, happened = take_turn(w, 2 * me + direction)
            if code != STOPPED:
                return code
            moved |= happened
        if not moved or since_handed >= PATIENCE or not waiting(w):
            hand_over(w, False)
            since_handed = 0
        since_handed += 1
        publish(w)
        if moved:
            rounds = 0
            continue
        if w.todo[FILLED] == 0:
            store_release(w.board, me * BOARD + IDLE, w.board[me * BOARD + PROGRESS])
            if load_acquire(control, 0) == FINISH:
                return STOPPED
        doze(w, rounds)
        rounds += 1


@inner
def take_turn(w, ring):
    """Takes messages up to one that brings comparisons: those of both directions take turns, the others cost none.

    What is due goes before every message, which may have to wait for it. Returns what `perform` does, and if it moved.
    """
    moved, light = False, True
    while light:
        look_around(w)
        count = act(w, 1)
        if count:
            moved = True
            begin(w, count)
            code = perform(w)
            if code != STOPPED:
                return code, moved
        if not front(w.ring_words, w.ring_index, ring, w.message):
            break
        look_around(w)
        count = act(w, 0)
        if count == WAIT:
            break
        moved, light = True, w.message[KIND] not in (ARRIVAL, SHARE)
        begin(w, count)
        pop(w.ring_words, w.ring_index, ring)
        w.board[w.node[NODE] * BOARD + MESSAGES] += 1
        code = perform(w)
        if code != STOPPED:
            return code, moved
    return STOPPED, moved


@inner
def doze(w, rounds):
    """Waits for something to do, for a moment without sleeping."""
    if rounds < SPINS + YIELDS or waiting(w):  # a message that cannot be taken yet waits for room
        wait(rounds, FOR_ROOM)
        return
    bell = w.bells[w.node[NODE]]
    lie_down(bell)
    if not waiting(w) and load_acquire(w.control, 0) == GO:
        sleep(bell, DOZE if rounds < SPINS + YIELDS + DOZES else SLEEP)
    get_up(bell)


@inner
def waiting(w):
    """Are there messages to take?"""
    ring = 2 * w.node[NODE]
    return not (is_empty(w.ring_index, ring) and is_empty(w.ring_index, ring + 1))


@inner
def act(w, resting):
    """Asks the protocol what follows from the message, or from having none. Returns the number of actions."""
    w.frame[RESTING] = resting
    return call(w.protocol, w.frame_address)


@inner
def look_around(w):
    """Tells the protocol how much room there is, and how large the neighbours' windows are."""
    for direction in range(2):
        ring = w.out_ring[direction]
        w.node[ROOM + direction] = ALL if ring < 0 else room(w.ring_words, w.ring_index, ring)
        beside = 0 if ring < 0 else load_acquire(w.board, ring // 2 * BOARD + SHOWN + direction)
        w.node[NEIGHBOUR + direction] = beside


@inner
def begin(w, count):
    """Something happens: the board says so before any message disappears from a queue."""
    w.todo[COUNT_TODO], w.todo[DONE_TODO] = count, 0
    place = w.node[NODE] * BOARD + PROGRESS
    store_release(w.board, place, w.board[place] + 1)


@inner
def publish(w):
    """Lets others know how far this node has come."""
    node, base = w.node, w.node[NODE] * BOARD
    for side in range(2):
        oldest, newest = w.window[side, OLDEST], w.window[side, NEWEST]
        need = node[KEEP + side]
        if w.on_tape and oldest < newest:
            need = min(need, oldest)
        held = own_count(node, side, oldest, newest)
        w.board[base + HELD + side] = held
        store_release(w.board, base + SHOWN + side, node[SIZE + side])
        store_release(w.board, base + NEED + side, need)
        if w.todo[FILLED] == 0:  # its results are with the collector
            store_release(w.board, base + FINISHED + side, node[w.finished + side])


@inner
def own_count(node, side, first, stop):
    """How many of the tuples first..stop-1 are this node's."""
    if stop <= first:
        return 0
    if node[TURNS + side] == 1:
        return stop - first
    cycle = node[STRETCH] * node[TURNS + side]
    return below(node, side, stop, cycle) - below(node, side, first, cycle)


@inner
def below(node, side, number, cycle):
    """How many of this node's tuples have smaller numbers."""
    inside = number % cycle - node[TURN + side] * node[STRETCH]
    return number // cycle * node[STRETCH] + min(max(inside, 0), node[STRETCH])


@inner
def perform(w):
    """Carries out the actions that are left. Returns STOPPED when all are done, otherwise why not."""
    while w.todo[DONE_TODO] < w.todo[COUNT_TODO]:
        action = w.actions[w.todo[DONE_TODO]]
        do, body = action[DO], action[BODY:]
        if do == SEND:
            ring = w.out_ring[action[DIRECTION]]
            push(w.ring_words, w.ring_index, ring, body)
            wake(w.bells[ring // 2])
            base = w.node[NODE] * BOARD
            w.board[base + SENT] += 1
            if body[KIND] == ARRIVAL:
                w.board[base + FORWARDED] += body[STOP] - body[FIRST]
        elif do == INSERT:
            if not insert(w, body):
                return NEEDS_ROOM
        elif do == DROP:
            drop(w, body)
        elif do in (PROBE, MEET):
            code = compare(w, body, do == MEET)
            if code != STOPPED:
                return code
        w.todo[DONE_TODO] += 1
    return STOPPED


@inner
def insert(w, body):
    """Makes tuples part of this node's window. False if its index must grow first."""
    side = body[SIDE]
    if w.window[side, OLDEST] == w.window[side, NEWEST]:  # it is empty, maybe since long before these tuples
        w.window[side, OLDEST] = w.window[side, NEWEST] = body[FIRST]
    enter = w.functions[1 - side, ENTER]
    if enter:
        job = w.jobs[2 * (1 - side)]
        job[words.LOW], job[words.HIGH], job[words.NEWEST] = body[FIRST], body[STOP], w.window[side, OLDEST]
        if not call(enter, w.job_address[2 * (1 - side)]):
            body[FIRST] = job[words.LOW]  # some may be in already
            return False
    w.window[side, NEWEST] = body[STOP]
    return True


@inner
def drop(w, body):
    side = body[SIDE]
    w.window[side, OLDEST] = max(w.window[side, OLDEST], min(body[STOP], w.window[side, NEWEST]))
    forget = w.functions[1 - side, FORGET]
    if forget:
        job = w.jobs[2 * (1 - side)]
        job[words.LOW] = body[PLACE]
        call(forget, w.job_address[2 * (1 - side)])


@inner
def compare(w, body, tape):
    """Compares arrivals with this node's window, or with a part of the other stream's tape."""
    side = body[SIDE]
    stored, row = 1 - side, 2 * side + np.int64(tape)
    job, address = w.jobs[row], w.job_address[row]
    low, high = body[LO], body[HI]
    if not tape:
        low, high = max(low, w.window[stored, OLDEST]), min(high, w.window[stored, NEWEST])
    if low >= high or w.control[SILENT]:
        return STOPPED
    stretch, chunk, turns = job[words.STRETCH], job[words.CHUNK], job[words.PROBE_TURNS]
    job[words.FROM] = position(body[FIRST], stretch, chunk, turns, job[words.PROBE_ROOM])
    job[words.TO] = job[words.FROM] + body[STOP] - body[FIRST]
    job[words.LOW], job[words.HIGH], job[words.NEWEST], job[words.COUNT_ORDERED] = low, high, high - 1, 0
    path, test = path_of(job), test_of(job)
    for k in range(FIELDS):
        path[k] = test[k] = 0
    find, exact = w.functions[side, COMPARE_TAPE if tape else COMPARE_WINDOW], w.functions[side, EXACT]
    more = True
    while more:
        more = call(find, address) == 0
        done = path[COUNT] == 0
        while not done:
            if not make_result_room(w):
                return STOPPED
            filled = w.todo[FILLED]
            job[words.PAIR_PROBE] = result_place(w, side, filled)
            job[words.PAIR_STORED] = result_place(w, stored, filled)
            job[words.PAIR_ROOM] = RESULT_SIZE - filled
            test[FOUND] = 0
            answer = call(exact, address)  # 2: all pairs were looked at, 1: there is no room for more, 0: it raised
            done = answer == 2
            w.todo[FILLED] = filled + test[FOUND]
            if answer == 0:
                w.todo[FAILED_JOB] = RAISED
                return TROUBLE
            if trouble_of(job)[0]:
                w.todo[FAILED_JOB] = row
                return TROUBLE
            if not done:
                hand_over(w, True)
    w.board[w.node[NODE] * BOARD + COMPARISONS] += path[COMPARED]
    return STOPPED


@inner
def result_place(w, side, filled):
    """The address of the next result's number of a side."""
    block = load_acquire(w.result_index, w.node[NODE] * LINES + HEAD) % RESULT_BLOCKS
    return w.result_address[side] + (block * RESULT_SIZE + filled) * 8


@inner
def make_result_room(w):
    """Sees to it that the present block takes results; waits for the collector. False if the join is given up."""
    if w.todo[FILLED] + LEAST_ROOM > RESULT_SIZE:
        hand_over(w, True)
    base, rounds = w.node[NODE] * LINES, 0
    while load_acquire(w.result_index, base + HEAD) - load_acquire(w.result_index, base + TAIL) >= RESULT_BLOCKS:
        if load_acquire(w.control, 0) == ABORT:
            return False
        wait(rounds, FOR_RESULTS)
        rounds += 1
    return True


@inner
def hand_over(w, full):
    """Gives the present block to the collector: when it is full, or when few are under way."""
    filled, base = w.todo[FILLED], w.node[NODE] * LINES
    if filled == 0:
        return
    head = load_acquire(w.result_index, base + HEAD)
    if not full and head - load_acquire(w.result_index, base + TAIL) >= RESULT_BLOCKS - 1:
        return
    w.result_count[w.node[NODE], head % RESULT_BLOCKS] = filled
    w.board[w.node[NODE] * BOARD + RESULTS] += filled
    w.todo[FILLED] = 0
    store_release(w.result_index, base + HEAD, head + 1)
    wake(w.bells[-1])
