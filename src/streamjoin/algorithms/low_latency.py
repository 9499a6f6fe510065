"""Low-latency handshake join: tuples are forwarded through the whole chain at once; each is stored at its home node.

          ┌────────┐ r, ack, expiry of s ─▶ ┌────────┐ ─▶ ┌────────┐
    r ──▶ │ node 0 │                        │ node 1 │    │ node n │ ◀── s
          └────────┘ ◀─ s, end, expiry of r └────────┘ ◀─ └────────┘
          [W_r][W_s]                        [W_r][W_s]    [W_r][W_s]   [in flight: s forwarded, not acknowledged]

Roy, Teubner, Gemulla: Low-latency handshake join, VLDB 2014, sections 4 to 6; figures 12 to 14 and table 1.

A node forwards an arrival before it compares it. So the arrival reaches every node within the time of a few messages
(expedition). Two rules make each pair meet exactly once (table 1):

- r meets the s copies of every node that it passes. It also meets the s that this node has forwarded to the left, while
  they are fresh (not yet home) and unacknowledged: the two would otherwise cross in the queues.
- s meets the r copies whose expedition has ended. An r that is still under way meets s, or its copy, itself.

A stored r is invisible until its expedition has ended: a node inserts it when its expedition end arrives. (The paper
has a flag for this.) An acknowledgement separates the r that crossed an s from those that met it further left. An
expedition end separates the s that met a travelling r from those that will meet its copy. So both must keep their
position in the queue: a node forwards nothing in a direction in which one of them is due. Acknowledgements and ends
name a prefix of the stream. So one that waits for room absorbs the next one, and taking a message never waits for room
in the opposite direction: the chain cannot deadlock.
"""

from __future__ import annotations

from streamjoin.algorithms.protocol import (
    ACKNOWLEDGEMENT,
    ALL,
    ARRIVAL,
    EXPEDITION_END,
    INSERT,
    MEET,
    PROBE,
    TAKEN,
    WAIT,
    Actions,
    Message,
    Node,
    R,
    S,
    compare,
    learn_expiry,
    next_own,
    pass_expiry,
    put,
    send,
)
from streamjoin.codegen.jit import inner, njit
from streamjoin.codegen.records import Word

MOST = 1000  # stripes that may be unacknowledged, or end at once: it bounds the actions that follow from a message


class State(Node):
    acked: Word  # s below have been received by the left neighbour
    ack_sent: Word  # s below have been acknowledged to the right neighbour
    ended: Word  # r below have ended their expedition
    end_sent: Word  # the left neighbour has been told of the expedition ends of r below


@njit(nogil=True, cache=True)
def step(node: State, message: Message, out: Actions) -> bool:
    kind = message.kind
    if kind == ARRIVAL:
        if message.side == R:
            return arrive_r(node, message.first, message.stop, out)
        return arrive_s(node, message.first, message.stop, out)
    if kind == ACKNOWLEDGEMENT:
        node.acked = node.needed_from[S] = message.stop
    elif kind == EXPEDITION_END:
        end(node, message.stop, out)
    else:
        learn_expiry(node, message, out)
    return TAKEN


@inner
def arrive_r(node: State, first: int, stop: int, out: Actions) -> bool:
    last = node.index == node.nodes - 1
    if not last:
        if node.room[R] < 1 or node.ack_sent < node.seen[S]:
            return WAIT
        send(out, R, ARRIVAL, R, first, stop)
    compare(out, PROBE, R, first, stop, 0, ALL)
    meet_in_flight(node, first, stop, out)
    node.seen[R] = node.finished[R] = stop
    if last:
        end(node, stop, out)
    return TAKEN


@inner
def meet_in_flight(node: State, first: int, stop: int, out: Actions) -> None:
    """Compares r with the fresh s that this node has forwarded and that are not acknowledged: their home lies left."""
    begin, stripe = node.acked, node.stripe
    while begin < node.seen[S]:
        past = min(node.seen[S], (begin // stripe + 1) * stripe)
        if begin // stripe % node.ways[S] < node.index:
            compare(out, MEET, R, first, stop, begin, past)
        begin = past


@inner
def arrive_s(node: State, first: int, stop: int, out: Actions) -> bool:
    leftmost = node.index == 0
    if not leftmost:
        if node.room[S] < 1 or node.end_sent < node.ended:
            return WAIT
        if stop - node.acked > MOST * node.stripe:
            return WAIT
        send(out, S, ARRIVAL, S, first, stop)
    compare(out, PROBE, S, first, stop, 0, ALL)
    mine, past = next_own(node, S, max(first, node.expired[S]), stop)
    if mine < past:
        put(out, INSERT, S, mine, past)
    node.seen[S] = node.finished[S] = stop
    if leftmost:  # there is no next node: nothing is in flight
        node.acked = node.needed_from[S] = stop
    return TAKEN


@inner
def end(node: State, stop: int, out: Actions) -> None:
    """The expedition of r below `stop` has ended: s can now meet those whose home is here."""
    mine, past = next_own(node, R, max(node.ended, node.expired[R]), stop)
    while mine < past:
        put(out, INSERT, R, mine, past)
        mine, past = next_own(node, R, past, stop)
    node.ended = node.needed_from[R] = stop


@njit(nogil=True, cache=True)
def rest(node: State, out: Actions) -> None:
    """Sends acknowledgements, expedition ends and expiries that had to wait for room."""
    leftmost, last = node.index == 0, node.index == node.nodes - 1
    if node.ack_sent < node.seen[S] and (last or node.room[R] > 0):
        node.ack_sent = node.seen[S]
        if not last:
            node.room[R] -= 1
            send(out, R, ACKNOWLEDGEMENT, S, 0, node.seen[S])
    if leftmost:
        node.end_sent = node.ended
    elif node.end_sent < node.ended and node.room[S] > 0:
        node.end_sent = min(node.ended, node.end_sent + MOST * node.stripe)
        node.room[S] -= 1
        send(out, S, EXPEDITION_END, R, 0, node.end_sent)
    pass_expiry(node, S, last, out)
    pass_expiry(node, R, leftmost, out)
