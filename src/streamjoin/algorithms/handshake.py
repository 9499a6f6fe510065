"""Handshake join: two streams walk past each other along a chain, and each node holds a segment of both.

          ┌────────┐ r, ack ─▶ ┌────────┐ ─▶ ┌────────┐
    r ──▶ │ node 0 │           │ node 1 │    │ node n │ ◀── s
          └────────┘ ◀─ s      └────────┘ ◀─ └────────┘
     ▲    [ r seg. ]           [ r seg. ]    [ r seg. ]     ▲
     └ expiry of s             [ s seg. ]                   └ expiry of r

Teubner, Mueller: How soccer players would do stream joins, SIGMOD 2011, sections 3 and 4; figures 9, 12 and 13.

An arrival is compared with the whole segment of the other stream (immediate scan) and joins its own segment. Tuples are
sent on when a segment is larger than the neighbour's, oldest first, so that both windows spread evenly over the chain
like water in a pipe. Segments are contiguous stretches of their streams.

Two tuples in the queues between two nodes would cross unseen. Forwarding is therefore done in two phases on one side:
s remains, marked as sent, in the segment of the right node until the left one acknowledges it; an r that crossed it
finds it there. An acknowledgement must come before any r that is sent after s was received, so nothing is sent right
while one is due. r is removed as soon as it is sent: one side is enough.

Windows are known to the driver alone. It tells the ends of the chain what has expired: s at the left end, r at the
right one. A tuple is dropped only there, when it has come past every tuple of the other stream that entered before
its expiry; one that has expired but is still on its way is waited for.
"""

from __future__ import annotations

from streamjoin.algorithms.protocol import (
    ACKNOWLEDGEMENT,
    ARRIVAL,
    BATCH,
    DROP,
    EXPIRED,
    EXPIRED_PLACE,
    FIRST,
    INSERT,
    KEEP,
    KIND,
    NEIGHBOUR,
    NODE,
    NODES,
    NOWHERE,
    OWN,
    PLACE,
    PROBE,
    ROOM,
    SEEN,
    SEND,
    SIDE,
    SIZE,
    STOP,
    R,
    S,
    Topology,
    chain,
    put,
    unpack,
)
from streamjoin.codegen.jit import inner, njit, on_demand

# A segment holds tuples KEEP..SEEN-1 of its side.
SENT = OWN  # per side: tuples below have been sent on; r leaves at once, s waits for its acknowledgement
ACK_SENT = OWN + 2  # s below have been acknowledged to the right neighbour

FINISHED = KEEP  # below it, tuples have met all they had to meet at a node


def topology(workers: int) -> Topology:
    """A chain through which everything flows."""
    return chain(workers, dealt=False)


@njit(nogil=True, cache=True)
def step(node, message, out):
    """Takes a message. Returns the number of actions; never has to wait."""
    kind, side, stop = message[KIND], message[SIDE], message[STOP]
    if kind == ARRIVAL:
        other = 1 - side
        count = put(out, 0, PROBE, 0, 0, side, message[FIRST], stop, node[KEEP + other], node[SEEN + other], 0)
        count = put(out, count, INSERT, 0, 0, side, message[FIRST], stop, 0, 0, 0)
        node[SEEN + side] = stop
        return count
    if kind == ACKNOWLEDGEMENT:
        return leave(node, S, stop, NOWHERE, out, 0)
    node[EXPIRED + side], node[EXPIRED_PLACE + side] = stop, message[PLACE]
    return 0


@inner
def leave(node, side, stop, place, out, count):
    """The oldest tuples leave the segment."""
    node[KEEP + side] = stop
    node[SENT + side] = max(node[SENT + side], stop)
    return put(out, count, DROP, 0, 0, side, 0, stop, 0, 0, place)


@njit(nogil=True, cache=True)
def rest(node, out):
    """What is due without a message: acknowledgements, tuples that have expired, tuples to be sent on."""
    count = 0
    if node[ACK_SENT] < node[SEEN + S]:
        if node[NODE] == node[NODES] - 1:
            node[ACK_SENT] = node[SEEN + S]
        elif node[ROOM + R] > 0:
            node[ACK_SENT] = node[SEEN + S]
            node[ROOM + R] -= 1
            count = put(out, count, SEND, R, ACKNOWLEDGEMENT, S, 0, node[SEEN + S], 0, 0, 0)
    for side in range(2):
        if at_end(node, side):
            gone = min(node[EXPIRED + side], node[SEEN + side])
            if gone > node[KEEP + side]:
                count = leave(node, side, gone, node[EXPIRED_PLACE + side], out, count)
        else:
            count = forward(node, side, out, count)
        node[SIZE + side] = node[SEEN + side] - node[SENT + side]
    return count


@inner
def at_end(node, side):
    """Is this the last node that tuples of a side come to?"""
    return node[NODE] == (node[NODES] - 1 if side == R else 0)


@inner
def forward(node, side, out, count):
    """Sends the oldest tuples on if this segment is larger than the neighbour's (autonomous load balancing)."""
    first = node[SENT + side]
    if node[SEEN + side] - first <= node[NEIGHBOUR + side] or node[ROOM + side] < 1:
        return count
    if side == R and node[ACK_SENT] < node[SEEN + S]:
        return count
    stop = min(node[SEEN + side], (first // node[BATCH] + 1) * node[BATCH])
    node[ROOM + side] -= 1
    node[SENT + side] = stop
    count = put(out, count, SEND, side, ARRIVAL, side, first, stop, 0, 0, 0)
    return leave(node, R, stop, NOWHERE, out, count) if side == R else count


@on_demand
def act(address):
    """A step, or what there is to do without a message."""
    node, message, out, resting = unpack(address)
    return rest(node, out) if resting else step(node, message, out)
