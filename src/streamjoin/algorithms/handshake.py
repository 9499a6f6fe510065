"""Handshake join: two streams flow past each other along a chain, and each node holds a segment of both.

          ┌────────┐ r, ack ─▶ ┌────────┐ ─▶ ┌────────┐
    r ──▶ │ node 0 │           │ node 1 │    │ node n │ ◀── s
          └────────┘ ◀─ s      └────────┘ ◀─ └────────┘
     ▲    [ r seg. ]           [ r seg. ]    [ r seg. ]     ▲
     └ expiry of s             [ s seg. ]                   └ expiry of r

Teubner, Mueller: How soccer players would do stream joins, SIGMOD 2011, sections 3 and 4; figures 9, 12 and 13.

An arrival is compared with the whole segment of the other stream (immediate scan) and enters its own segment. A node
forwards its oldest tuples when its segment is larger than the neighbour's, so both windows spread evenly over the
chain. Segments are contiguous parts of their streams.

Two tuples in the queues between two nodes would cross without meeting. So one side forwards in two phases: s remains,
marked as sent, in the segment of the right node until the left one acknowledges it. An r that crossed it finds it
there. An acknowledgement must precede any r that is sent after s was received, so nothing is sent right while one is
due. r is removed as soon as it is sent: two phases on one side are enough.

Only the driver knows the windows. It sends expiries to the ends of the chain: those of s to the left end, those of r to
the right end. A tuple is dropped only there, after it has passed every tuple of the other stream that entered before
its expiry. If an expired tuple is still on its way, the end waits for it.
"""

from __future__ import annotations

from streamjoin.algorithms.protocol import (
    ACKNOWLEDGEMENT,
    ARRIVAL,
    INSERT,
    NOWHERE,
    PROBE,
    TAKEN,
    Actions,
    Message,
    Node,
    R,
    S,
    compare,
    drop,
    put,
    send,
)
from streamjoin.codegen.jit import inner, njit
from streamjoin.codegen.records import PerSide, Word


class State(Node):
    """A segment holds the tuples needed_from..seen-1 of its side."""

    sent: PerSide  # tuples below have been forwarded; r leaves at once, s waits for its acknowledgement
    ack_sent: Word  # s below have been acknowledged to the right neighbour


@njit(nogil=True, cache=True)
def step(node: State, message: Message, out: Actions) -> bool:
    """Takes a message. It never answers WAIT."""
    kind, side, first, stop = message.kind, message.side, message.first, message.stop
    if kind == ARRIVAL:
        compare(out, PROBE, side, first, stop, node.needed_from[1 - side], node.seen[1 - side])
        put(out, INSERT, side, first, stop)
        node.seen[side] = stop
    elif kind == ACKNOWLEDGEMENT:
        leave(node, S, stop, NOWHERE, out)
    else:
        node.expired[side], node.horizon[side] = stop, message.horizon
    return TAKEN


@inner
def leave(node: State, side: int, stop: int, horizon: int, out: Actions) -> None:
    """The oldest tuples leave the segment: they have met all their partners here."""
    node.needed_from[side] = node.finished[side] = stop
    node.sent[side] = max(node.sent[side], stop)
    drop(out, side, stop, horizon)


@njit(nogil=True, cache=True)
def rest(node: State, out: Actions) -> None:
    """Does what is due without a message: acknowledges, drops expired tuples, forwards tuples."""
    if node.ack_sent < node.seen[S]:
        if node.index == node.nodes - 1:
            node.ack_sent = node.seen[S]
        elif node.room[R] > 0:
            node.ack_sent = node.seen[S]
            node.room[R] -= 1
            send(out, R, ACKNOWLEDGEMENT, S, 0, node.seen[S])
    for side in range(2):
        if at_end(node, side):
            gone = min(node.expired[side], node.seen[side])
            if gone > node.needed_from[side]:
                leave(node, side, gone, node.horizon[side], out)
        else:
            forward(node, side, out)
        node.load[side] = node.seen[side] - node.sent[side]


@inner
def at_end(node: State, side: int) -> bool:
    """Is this the last node that tuples of a side pass?"""
    return node.index == (node.nodes - 1 if side == R else 0)


@inner
def forward(node: State, side: int, out: Actions) -> None:
    """Forwards the oldest tuples if this segment is larger than the neighbour's (autonomous load balancing)."""
    first = node.sent[side]
    if node.seen[side] - first <= node.neighbour[side] or node.room[side] < 1:
        return
    if side == R and node.ack_sent < node.seen[S]:
        return
    stop = min(node.seen[side], (first // node.batch + 1) * node.batch)
    node.room[side] -= 1
    node.sent[side] = stop
    send(out, side, ARRIVAL, side, first, stop)
    if side == R:
        leave(node, R, stop, NOWHERE, out)
