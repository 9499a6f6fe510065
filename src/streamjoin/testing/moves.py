"""The moves of the scheduler, compiled: runs one schedule after the other, from a seed to its failures.

See `scheduler.py`.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from streamjoin.algorithms.protocol import (
    ARRIVAL,
    DROP,
    INSERT,
    MEET,
    NOWHERE,
    PROBE,
    SEND,
    Action,
    Message,
    Node,
    R,
    S,
)
from streamjoin.codegen.intrinsics import address_of, words_at
from streamjoin.codegen.jit import njit
from streamjoin.codegen.records import Array, PerSide, Record, Word

# What can be wrong with a run; several bits may be set.
MISSED = 1  # a pair in the window has not met
DOUBLED = 2  # a pair has met twice
STUCK = 4  # nothing moves, yet messages are left
LEFT = 8  # a window is not empty, or tuples are still said to be needed
NO_ROOM = 16  # a message was sent into a full queue, or has no receiver
ASTRAY = 32  # a window is not all of the node's own tuples between the last drop and the last insert
FREED = 64  # a tuple was needed that the node had given up (needed_from): a runtime may have overwritten it
HALF = 128  # a step said WAIT and had changed something
HORIZON = 256  # a drop names another horizon than the driver did
ANY = 511
NAMES = ("missed", "doubled", "stuck", "left", "no room", "astray", "freed", "half", "horizon")

FAR = 1 << 40  # room where there is no next node
AGES = 4  # published sizes that are remembered: a neighbour may act upon any of them
MOST_ROUNDS = 100_000  # far beyond any run of this size
FEED, TAKE, REST, MOVES = 0, 2, 4, 5  # moves of a node's: the driver or the node itself, by direction; rest; how many

NODES, TUPLES, LINES, CAPACITY = 6, 20, 400, 8  # of the largest case

ByTuples = Annotated[Array, (np.int64, TUPLES, TUPLES)]  # [r, s]
ByNode = Annotated[Array, (np.int64, NODES, 2)]  # [node, side or direction]


class AnyState(Node):
    """The state of a node of any protocol."""

    own: Annotated[Array, (np.int64, 8)]


CHANGING = (AnyState.dtype.itemsize - AnyState.offset("seen")) // 8  # words from `seen` on: what protocols change


class Line(Record):
    """What the driver sends to which queue."""

    node: Word
    direction: Word
    message: Message
    follow: Word  # the next line for the same queue, or -1


class Plan(Record):
    """What all schedules of a case have in common."""

    nodes: Word
    next: ByNode  # the next node, or -1
    capacity: Word  # slots of a queue
    strict: Word  # the driver waits until a message has room; else it looks after every queue by itself
    keeps: Word  # nodes have windows of their own
    lines: Word
    script: Annotated[Any, (Line, LINES)]
    tuples: PerSide
    eligible: ByTuples  # does the pair lie in the window?
    horizons: Annotated[Array, (np.int64, 2, TUPLES + 1)]  # [side, n]: the first n tuples lie below


class Schedule(Record):
    """One schedule on its way."""

    nodes: Annotated[Any, (AnyState, NODES)]
    queue: Annotated[Any, (Message, NODES, 2, CAPACITY)]  # [node, direction, slot]
    head: ByNode
    length: ByNode
    cursor: ByNode  # the driver's next line, or -1
    published: Annotated[Array, (np.int64, NODES, 2, AGES)]  # [node, side, age]: loads, as neighbours may see them
    held: Annotated[Array, (np.int64, NODES, 2, TUPLES)]  # [node, side, number]: is it in the node's window?
    inserted: ByNode  # tuples below have been inserted
    dropped: ByNode  # tuples below have been dropped
    met: ByTuples  # how often
    met_at: ByTuples  # at which node, at last
    met_by: ByTuples  # PROBE or MEET, and the side that arrived: 2 * action + side
    before: AnyState  # the node's state before the present call
    message: Message
    sent: Word  # lines of the script
    failures: Word
    random: Word
    careless: Word  # nodes act upon old news


class Note(Record):
    """A line of a log: a move, whose message is the body, or one of the actions that follow from it."""

    actor: Word  # -1: an action
    action: Action


@njit
def draw(state, n):
    """A number below n: the upper bits of a linear congruential generator."""
    state.random = state.random * 6364136223846793005 + 1442695040888963407
    return ((state.random >> 33) & 0x3FFFFFFF) % n


@njit
def fail(state, what):
    state.failures |= what


@njit
def push(plan, state, node, direction, message):
    if node < 0 or state.length[node, direction] == plan.capacity:
        fail(state, NO_ROOM)
        return
    slot = (state.head[node, direction] + state.length[node, direction]) % plan.capacity
    state.queue[node, direction, slot] = message
    state.length[node, direction] += 1


@njit
def feed(plan, state, out, k, direction):
    """The driver fills a queue. Returns whether it could."""
    line = state.cursor[k, direction]
    if line < 0 or (plan.strict and line != state.sent) or state.length[k, direction] == plan.capacity:
        return False
    state.message = plan.script[line].message
    push(plan, state, k, direction, state.message)
    state.cursor[k, direction] = plan.script[line].follow
    state.sent += 1
    out.count = 0
    return True


@njit
def look_round(plan, state, k):
    """Copies what a node may know of its neighbours into its state.

    There may be more room than it has noticed, never less: it alone fills the queue. Loads may be old ones.
    """
    for d in range(2):
        to, room, load = plan.next[k, d], FAR, 0
        if to >= 0:
            room, load = plan.capacity - state.length[to, d], state.published[to, d, 0]
            if state.careless and draw(state, 8) == 0:
                room = draw(state, room + 1)
            if state.careless and draw(state, 4) == 0:
                load = state.published[to, d, draw(state, AGES)]
        state.nodes[k].room[d], state.nodes[k].neighbour[d] = room, load
    state.before = state.nodes[k]


@njit
def look_back(state, k):
    """Publishes what neighbours may know of a node. Returns whether its state has changed."""
    node, changed = state.nodes[k], False
    for side in range(2):
        loads = state.published[k, side]
        if node.load[side] != loads[0]:
            for age in range(AGES - 1, 0, -1):
                loads[age] = loads[age - 1]
            loads[0] = node.load[side]
        if node.needed_from[side] < state.before.needed_from[side]:
            fail(state, FREED)
    now, before = words_at(address_of(node, "seen"), CHANGING), words_at(address_of(state.before, "seen"), CHANGING)
    for word in range(CHANGING):
        changed |= now[word] != before[word]
    return changed


@njit
def rest(protocol, plan, state, out, k):
    """A node does what is due without a message. Returns whether anything was."""
    look_round(plan, state, k)
    out.count = 0
    protocol.rest(address_of(state.nodes[k], "index"), address_of(out, "count"))
    perform(plan, state, out, k)
    return look_back(state, k) or out.count > 0


@njit
def take(protocol, plan, state, out, k, direction):
    """A node takes the oldest message of a queue. Returns whether there was one, and it could."""
    if state.length[k, direction] == 0:
        return False
    look_round(plan, state, k)
    state.message = state.queue[k, direction, state.head[k, direction]]
    node, message = address_of(state.nodes[k], "index"), address_of(state.message, "kind")
    out.count = 0
    if not protocol.step(node, message, address_of(out, "count")):
        if look_back(state, k) or out.count > 0:
            fail(state, HALF)
        return False
    state.head[k, direction] = (state.head[k, direction] + 1) % plan.capacity
    state.length[k, direction] -= 1
    perform(plan, state, out, k)
    look_back(state, k)
    return True


@njit
def perform(plan, state, out, k):
    for i in range(out.count):
        action = out.each[i]
        do, body = action.do, action.body
        if do in (PROBE, MEET, INSERT) or (do == SEND and body.kind == ARRIVAL):
            if body.first < state.before.needed_from[body.side]:
                fail(state, FREED)
        if do == SEND:
            push(plan, state, plan.next[k, action.direction], action.direction, body)
        elif do in (PROBE, MEET):
            compare(plan, state, k, do, body)
        elif do == INSERT:
            insert(state, k, body.side, body.first, body.stop)
        elif do == DROP:
            drop(plan, state, k, body.side, body.stop, body.horizon)


@njit
def compare(plan, state, k, do, body):
    """Arrivals meet tuples of the other side: those of the node's window (PROBE), or all of a range (MEET)."""
    side, other = body.side, 1 - body.side
    if do == MEET and body.low < state.before.needed_from[other]:
        fail(state, FREED)
    for i in range(body.first, body.stop):
        for j in range(body.low, min(body.high, plan.tuples[other])):
            if do == MEET or state.held[k, other, j]:
                r, s = (i, j) if side == R else (j, i)
                state.met[r, s] += 1
                state.met_at[r, s], state.met_by[r, s] = k, 2 * do + side


@njit
def insert(state, k, side, first, stop):
    """Into the window. Two numbers are to stand for it, so nothing of the node's own may be left out."""
    behind, node = max(state.inserted[k, side], state.dropped[k, side]), state.nodes[k]
    if first < behind:
        fail(state, ASTRAY)
    for number in range(behind, stop):
        own = number // node.stripe % node.ways[side] == node.way[side]
        if own != (number >= first):
            fail(state, ASTRAY)
    for number in range(first, stop):
        state.held[k, side, number] = 1
    state.inserted[k, side] = stop


@njit
def drop(plan, state, k, side, stop, horizon):
    if horizon != NOWHERE and horizon != plan.horizons[side, state.nodes[k].expired[side]]:
        fail(state, HORIZON)
    for number in range(min(stop, plan.tuples[side])):
        state.held[k, side, number] = 0
    state.dropped[k, side] = max(stop, state.dropped[k, side])


@njit
def act(protocol, plan, state, out, actor):
    """The move with this number. Returns whether it moved anything."""
    k, what = actor // MOVES, actor % MOVES
    if what == REST:
        return rest(protocol, plan, state, out, k)
    if what >= TAKE:
        return take(protocol, plan, state, out, k, what - TAKE)
    return feed(plan, state, out, k, what - FEED)


@njit
def choose(plan, state, wheel):
    """Who moves often for a while, who seldom, who sleeps. Returns the number of places on the wheel."""
    size = 0
    while size == 0:
        for actor in range(plan.nodes * MOVES):
            lot = draw(state, 4) if state.careless else 1
            for _ in range(8 if lot == 3 else min(lot, 1)):
                wheel[size] = actor
                size += 1
    return size


@njit
def run(protocol, plan, state, out, seed, log):
    """Runs one schedule until no node moves even after all have looked. Returns its failures."""
    wheel = np.empty(8 * NODES * MOVES, np.int64)
    state.random, state.careless = seed, 1
    for _ in range(MOST_ROUNDS):
        size, moved = choose(plan, state, wheel), False
        for i in range((8 << draw(state, 5)) if state.careless else size):
            actor = wheel[draw(state, size) if state.careless else i]
            if act(protocol, plan, state, out, actor):
                moved = True
                note(state, out, actor, log)
        if not moved and not state.careless:
            break
        state.careless = np.int64(moved)
    return judge(plan, state)


@njit
def note(state, out, actor, log):
    """Adds a line for a move and one for every action. The first line says how many there are."""
    for i in range(-1, out.count):
        line = log[0].actor + 1
        if line < len(log):
            log[0].actor = line
            if i < 0:
                log[line].actor = actor
                log[line].action.body = state.message
            else:
                log[line].actor = -1
                log[line].action = out.each[i]


@njit
def judge(plan, state):
    """What is wrong at the end of a run."""
    if state.sent < plan.lines:
        fail(state, STUCK)
    for k in range(plan.nodes):
        for x in range(2):
            if state.length[k, x] > 0:
                fail(state, STUCK)
            node = state.nodes[k]
            if node.finished[x] != node.seen[x] or (plan.keeps and node.needed_from[x] != node.seen[x]):
                fail(state, LEFT)
            for number in range(plan.tuples[x]):
                if state.held[k, x, number]:
                    fail(state, LEFT)
    for r in range(plan.tuples[R]):
        for s in range(plan.tuples[S]):
            if state.met[r, s] > 1:
                fail(state, DOUBLED)
            if plan.eligible[r, s] and state.met[r, s] == 0:
                fail(state, MISSED)
    return state.failures


@njit
def run_many(protocol, plan, states, out, seed, count, wanted, log):
    """Schedules seed, seed + 1, ... until one fails as wanted. Returns its seed and failures; (-1, 0) if none does.

    states[1] is how each of them begins, states[0] the one that is under way.
    """
    for one in range(seed, seed + count):
        states[0] = states[1]
        failures = run(protocol, plan, states[0], out, one, log)
        if failures & wanted:
            return one, failures
    return -1, 0
