"""The words that all protocols share: messages, actions, the state of a node, the shape of a topology.

A protocol is a function from (node state, message) to (node state, actions). It compares nothing and stores nothing
itself; it says what is to be compared and stored, and what is to be told to whom. Threads call it, and so does the
scheduler of the tests, which picks interleavings from a seed.

Tuples are named by number: their place in their stream. All queues are first in, first out, so that what a node has
seen, forwarded or been told of is always a prefix of a stream, and one number stands for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import carray

from streamjoin.codegen.intrinsics import pointer, words_at
from streamjoin.codegen.jit import inner

R, S = 0, 1  # sides; stream r flows in direction 0, stream s in direction 1

# A message, as words.
KIND, SIDE, FIRST, STOP, LO, HI, PLACE, _PAD = range(8)
WORDS = 8

ARRIVAL = 1  # tuples FIRST..STOP-1 of SIDE
ACKNOWLEDGEMENT = 2  # tuples of SIDE below STOP have been received
EXPEDITION_END = 3  # tuples of SIDE below STOP have reached the end of their pipeline
EXPIRY = 4  # no tuple that comes behind this message meets tuples of SIDE below STOP, whose places lie below PLACE
SHARE = 5  # compare tuples FIRST..STOP-1 of SIDE with LO..HI-1 of the other one; PLACE is where its window begins

# An action: what to do, in which direction if something is to be sent, and eight words as in a message.
DO, DIRECTION, BODY = 0, 1, 2
ACTION_WORDS = BODY + WORDS

SEND = 1  # the body is the message
PROBE = 2  # compare FIRST..STOP-1 of SIDE with what this node has inserted of the other side, in LO..HI-1
MEET = 3  # compare FIRST..STOP-1 of SIDE with LO..HI-1 of the other side, inserted or not
INSERT = 4  # FIRST..STOP-1 of SIDE become part of this node's window
DROP = 5  # tuples of SIDE below STOP leave this node's window; their places lie below PLACE; NOWHERE: they were sent on

# The state of a node. Entries for both sides are two words: s follows r.
NODE, NODES = 0, 1  # place in the topology, number of nodes
STRETCH, TURN, TURNS = 2, 3, 5  # stretches of the stream are dealt in turns: this node keeps TURN of TURNS, per side
BATCH = 7  # most tuples that travel together
ROOM = 8  # per direction: free places in the queue towards the next node
NEIGHBOUR = 10  # per side: size of the window of the next node in the side's direction
SEEN = 12  # per side: tuples below have arrived here
KEEP = 14  # per side: tuples below are needed no more by this node, but for those in its window
SIZE = 16  # per side: what the neighbours are told of this node's window
EXPIRED = 18  # per side: tuples below have expired
EXPIRED_PLACE = 20  # per side: their places lie below
EXPIRY_SENT = 22  # per side: tuples below are known to the next node to have expired
OWN = 24  # what a protocol needs for itself begins here
STATE_WORDS = 40

# How a worker thread hands all this to a protocol: addresses of state, message and actions, and what to do.
STATE_AT, MESSAGE_AT, ACTIONS_AT, RESTING, FRAME_WORDS = range(5)

MOST_ACTIONS = 4096  # that follow from one step
WAIT = -1  # a message cannot be taken now: there is no room for what follows from it
ALL = np.iinfo(np.int64).max
NOWHERE = np.iinfo(np.int64).min  # as a PLACE: nothing lies below it

Words = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Topology:
    """Who sends to whom. A node has one queue per direction in front of it, filled by a neighbour or by the driver."""

    nodes: int
    entries: tuple[tuple[int, ...], tuple[int, ...]]  # by direction: nodes whose queue the driver fills
    next: tuple[tuple[int, int], ...]  # by node: the next one in each direction, -1 at the end
    turns: tuple[int, int] = (1, 1)  # by side: among how many the stretches of the stream are dealt
    turn: tuple[tuple[int, int], ...] = ()  # by node: which of them are its own, per side


def chain(workers: int, dealt: bool) -> Topology:
    """Nodes in a row, r from the left, s from the right. `dealt`: each keeps its share of both streams."""
    following = tuple((k + 1 if k + 1 < workers else -1, k - 1) for k in range(workers))
    turns = workers if dealt else 1
    turn = tuple((k, k) if dealt else (0, 0) for k in range(workers))
    return Topology(workers, ((0,), (workers - 1,)), following, (turns, turns), turn)


def new_node(topology: Topology, place: int, stretch: int, batch: int) -> Words:
    """The state of a node before anything has happened."""
    node = np.zeros(STATE_WORDS, np.int64)
    node[NODE], node[NODES], node[STRETCH], node[BATCH] = place, topology.nodes, stretch, batch
    node[TURN : TURN + 2] = topology.turn[place]
    node[TURNS : TURNS + 2] = topology.turns
    node[EXPIRED_PLACE : EXPIRED_PLACE + 2] = NOWHERE
    return node


@inner
def unpack(address):
    """State, message, room for actions, and is there no message, from the frame at an address."""
    frame = words_at(address, FRAME_WORDS)
    actions = carray(pointer(frame[ACTIONS_AT]), (MOST_ACTIONS, ACTION_WORDS), np.int64)
    return words_at(frame[STATE_AT], STATE_WORDS), words_at(frame[MESSAGE_AT], WORDS), actions, frame[RESTING]


@inner
def put(out, count, do, direction, kind, side, first, stop, lo, hi, place):
    """Appends an action. Returns their number."""
    out[count, DO], out[count, DIRECTION] = do, direction
    out[count, BODY + KIND], out[count, BODY + SIDE] = kind, side
    out[count, BODY + FIRST], out[count, BODY + STOP] = first, stop
    out[count, BODY + LO], out[count, BODY + HI], out[count, BODY + PLACE] = lo, hi, place
    return count + 1


@inner
def next_own(node, side, first, stop):
    """The first stretch of FIRST..STOP-1 that this node keeps, as (first, stop); empty at the end if there is none."""
    stretch, turns, turn = node[STRETCH], node[TURNS + side], node[TURN + side]
    while first < stop:
        end = min(stop, (first // stretch + 1) * stretch)
        if first // stretch % turns == turn:
            return first, end
        first = end
    return stop, stop


@inner
def learn_expiry(node, message, out):
    """An expiry has arrived: forget, and remember it for what is still to come and for the next node."""
    side, stop = message[SIDE], message[STOP]
    if stop <= node[EXPIRED + side]:
        return 0
    node[EXPIRED + side], node[EXPIRED_PLACE + side] = stop, max(message[PLACE], node[EXPIRED_PLACE + side])
    return put(out, 0, DROP, 0, 0, side, 0, stop, 0, 0, node[EXPIRED_PLACE + side])


@inner
def pass_expiry(node, out, count, side, last):
    """Tells the next node what has expired, once there is room; later is never wrong. Travels against its stream."""
    direction = 1 - side
    if not last and node[EXPIRED + side] > node[EXPIRY_SENT + side] and node[ROOM + direction] > 0:
        stop = node[EXPIRY_SENT + side] = node[EXPIRED + side]
        node[ROOM + direction] -= 1
        return put(out, count, SEND, direction, EXPIRY, side, 0, stop, 0, 0, node[EXPIRED_PLACE + side])
    return count
