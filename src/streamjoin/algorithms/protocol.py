"""Common to all protocols: messages, actions, the state of a node.

A protocol is a function from (node state, message) to (node state, actions). It compares and stores nothing itself; its
actions say what to compare and store, and which messages to send. Worker threads call it, and so does the scheduler of
the tests, which picks interleavings from a seed. Its file has

    State                       a Node, and the protocol's own state
    step(node, message, out)    takes a message; WAIT, with nothing changed, if there is no room for its actions
    rest(node, out)             does what is due without a message

Messages name tuples by number: their position in their stream. All queues are first in, first out. So the tuples that a
node has seen, forwarded or been told of are always a prefix of a stream, and one number stands for it.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from streamjoin.algorithms import Topology
from streamjoin.codegen.cache import PACKAGE, load_module
from streamjoin.codegen.jit import OnDemand, inner
from streamjoin.codegen.records import Address, PerSide, Record, Word

R, S = 0, 1  # sides; stream r flows in direction 0, stream s in direction 1

# Kinds of messages.
ARRIVAL = 1  # tuples first..stop-1 of the side
ACKNOWLEDGEMENT = 2  # tuples of the side below stop have been received
EXPEDITION_END = 3  # tuples of the side below stop have reached the end of their pipeline
EXPIRY = 4  # no tuple behind this message meets tuples of the side below stop, whose `at` is below the horizon
SHARE = 5  # compare tuples first..stop-1 of the side with low..high-1 of the other one

# What actions do.
SEND = 1  # the body is the message
PROBE = 2  # compare first..stop-1 of the side with what this node has inserted of the other side, in low..high-1
MEET = 3  # compare first..stop-1 of the side with low..high-1 of the other side, inserted or not
INSERT = 4  # first..stop-1 of the side become part of this node's window
DROP = (
    5  # tuples of the side below stop leave this node's window; they lie below the horizon; NOWHERE: they were sent on
)

MOST_ACTIONS = 4096  # of one step
TAKEN, WAIT = True, False  # results of a step
ALL = np.iinfo(np.int64).max
NOWHERE = np.iinfo(np.int64).min  # a horizon below which nothing lies


class Message(Record):
    """An entry of a queue: one cache line. Its kind determines which fields have a meaning."""

    kind: Word
    side: Word
    first: Word
    stop: Word
    low: Word
    high: Word
    horizon: Word  # time or row number, as the window counts
    needed_from: Word  # of a SHARE: tuples of the other side below this number are needed no more


class Action(Record):
    do: Word
    direction: Word  # in which something is sent
    body: Message


class Actions(Record):
    """The actions of a step, and how many of them have been carried out."""

    count: Word
    done: Word
    each: Annotated[Any, (Action, MOST_ACTIONS)]


class Node(Record):
    """The state of a node. Protocols that need more inherit from it."""

    index: Word  # in the topology
    nodes: Word
    stripe: Word  # consecutive tuples that go to the same way
    batch: Word  # most tuples that travel together
    way: PerSide  # stripes are dealt to `ways` ways: this node keeps those of its own way
    ways: PerSide
    room: PerSide  # per direction: free slots in the queue to the next node
    neighbour: PerSide  # the load of the next node in the side's direction
    # Protocols change the fields from here on.
    seen: PerSide  # tuples below have arrived here
    needed_from: PerSide  # this node needs no tuples below, except those in its window
    finished: PerSide  # tuples below have met all their partners here
    load: PerSide  # of this node's window, published to the neighbours
    expired: PerSide  # tuples below have expired
    horizon: PerSide  # and their `at` lies below
    expiry_sent: PerSide  # the next node has been told of the expiry of tuples below


class Call(Record):
    """The arguments that a worker thread passes to a protocol."""

    node: Address
    message: Address
    actions: Address
    resting: Word  # is there no message?


ACT = """
from {package}.algorithms.{file} import State, rest, step
from {package}.algorithms.protocol import TAKEN, Actions, Call, Message
from {package}.codegen.intrinsics import record_at
from {package}.codegen.jit import on_demand

@on_demand
def act(address):
    call = record_at(address, Call)
    node, out = record_at(call.node, State), record_at(call.actions, Actions)
    out.count = out.done = 0
    if call.resting:
        rest(node, out)
        return TAKEN
    return step(node, record_at(call.message, Message), out)
"""


def act(file: str) -> OnDemand:
    """A protocol to be called by address: it takes the address of a `Call`, and returns what `step` returns.

    Generated text, since the machine code of a closure over compiled functions cannot be kept (numba 6264).
    """
    found: OnDemand = load_module(ACT.format(package=PACKAGE, file=file)).act
    return found


def new_node(state: type[Node], topology: Topology, index: int, stripe: int, batch: int) -> Node:
    """The initial state of a node."""
    node = state.new()
    node.index, node.nodes, node.stripe, node.batch = index, topology.nodes, stripe, batch
    node.way[:], node.ways[:], node.horizon[:] = topology.way[index], topology.ways, NOWHERE
    return node


@inner
def put(out: Actions, do: int, side: int, first: int, stop: int) -> Action:
    """Appends an action, whose other fields are 0."""
    action: Action = out.each[out.count]
    out.count += 1
    action.do, action.direction, body = do, 0, action.body
    body.kind, body.side, body.first, body.stop = 0, side, first, stop
    body.low = body.high = body.horizon = body.needed_from = 0
    return action


@inner
def send(out: Actions, direction: int, kind: int, side: int, first: int, stop: int) -> Action:
    action: Action = put(out, SEND, side, first, stop)
    action.direction, action.body.kind = direction, kind
    return action


@inner
def compare(out: Actions, do: int, side: int, first: int, stop: int, low: int, high: int) -> None:
    """PROBE or MEET."""
    body = put(out, do, side, first, stop).body
    body.low, body.high = low, high


@inner
def drop(out: Actions, side: int, stop: int, horizon: int) -> None:
    put(out, DROP, side, 0, stop).body.horizon = horizon


@inner
def next_own(node: Node, side: int, first: int, stop: int) -> tuple[int, int]:
    """The first stripe of first..stop-1 that this node keeps, as (first, stop); (stop, stop) if there is none."""
    stripe, ways, way = node.stripe, node.ways[side], node.way[side]
    while first < stop:
        end = min(stop, (first // stripe + 1) * stripe)
        if first // stripe % ways == way:
            return first, end
        first = end
    return stop, stop


@inner
def pass_by(node: Node, side: int, stop: int) -> None:
    """Tuples below have arrived here and met all their partners; only the window still needs them."""
    node.seen[side] = node.finished[side] = node.needed_from[side] = stop


@inner
def learn_expiry(node: Node, message: Message, out: Actions) -> None:
    """An expiry has arrived: drops tuples, and notes it for tuples that are still to come and for the next node."""
    side, stop = message.side, message.stop
    if stop > node.expired[side]:
        node.expired[side], node.horizon[side] = stop, max(message.horizon, node.horizon[side])
        drop(out, side, stop, node.horizon[side])


@inner
def pass_expiry(node: Node, side: int, last: bool, out: Actions) -> None:
    """Forwards an expiry to the next node, against the stream, once there is room. A late expiry is never wrong."""
    direction = 1 - side
    if not last and node.expired[side] > node.expiry_sent[side] and node.room[direction] > 0:
        node.expiry_sent[side] = node.expired[side]
        node.room[direction] -= 1
        send(out, direction, EXPIRY, side, 0, node.expired[side]).body.horizon = node.horizon[side]
