"""Low-latency handshake join: tuples rush through a chain, and each leaves one copy at its home node.

          ┌────────┐ r, ack, expiry of s ─▶ ┌────────┐ ─▶ ┌────────┐
    r ──▶ │ node 0 │                        │ node 1 │    │ node n │ ◀── s
          └────────┘ ◀─ s, end, expiry of r └────────┘ ◀─ └────────┘
          [W_r][W_s]                        [W_r][W_s]    [W_r][W_s]   [in flight: s sent on, not acknowledged]

Roy, Teubner, Gemulla: Low-latency handshake join, VLDB 2014, sections 4 to 6; figures 12 to 14 and table 1.

An arrival is forwarded before it is compared, so that it reaches every node within messages' time (expedition). Where
two tuples may meet is decided so that each pair does once (table 1):

- r meets the s copies of every node it comes through, and the s that this node has sent on to the left while they are
  fresh (not yet home) and unacknowledged: the two would otherwise cross in the queues.
- s meets the r copies whose expedition has ended. One that is still under way meets s, or its copy, itself.

A stored r whose expedition has not ended is invisible to everybody: it is inserted when its expedition end comes by,
which is the paper's flag without a flag. An acknowledgement stands between the r that crossed an s and those that met
it further left; so does an expedition end between the s that met a travelling r and those that will meet its copy. Both
must therefore keep their place in the queue: nothing is sent on in a direction in which one of them is still due.
Acknowledgements and ends name a prefix of the stream, so one that waits for room absorbs the next, and taking a
message never waits for room in the opposite direction: the chain cannot deadlock.
"""

from __future__ import annotations

from streamjoin.algorithms.protocol import (
    ACKNOWLEDGEMENT,
    ALL,
    ARRIVAL,
    EXPEDITION_END,
    EXPIRED,
    FIRST,
    INSERT,
    KEEP,
    KIND,
    MEET,
    NODE,
    NODES,
    OWN,
    PROBE,
    ROOM,
    SEEN,
    SEND,
    SIDE,
    STOP,
    STRETCH,
    TURNS,
    WAIT,
    R,
    S,
    Topology,
    chain,
    learn_expiry,
    next_own,
    pass_expiry,
    put,
    unpack,
)
from streamjoin.codegen.jit import inner, njit, on_demand

ACKED = OWN  # s below have been received by the left neighbour
ACK_SENT = OWN + 1  # s below have been acknowledged to the right neighbour
ENDED = OWN + 2  # r below have ended their expedition
END_SENT = OWN + 3  # r below are known to the left neighbour to have
MOST = 1000  # stretches that may be unacknowledged, or end at once: what follows from a message must have a bound

FINISHED = SEEN  # below it, tuples have met all they had to meet at a node


def topology(workers: int) -> Topology:
    """A chain whose nodes are home to equal shares of both streams, in turns."""
    return chain(workers, dealt=True)


@njit(nogil=True, cache=True)
def step(node, message, out):
    """Takes a message. Returns the number of actions, or WAIT."""
    kind = message[KIND]
    if kind == ARRIVAL:
        return arrive_r(node, message, out) if message[SIDE] == R else arrive_s(node, message, out)
    if kind == ACKNOWLEDGEMENT:
        node[ACKED] = message[STOP]
        node[KEEP + S] = message[STOP]
        return 0
    if kind == EXPEDITION_END:
        return end(node, message[STOP], out, 0)
    return learn_expiry(node, message, out)


@inner
def arrive_r(node, message, out):
    first, stop, last = message[FIRST], message[STOP], node[NODE] == node[NODES] - 1
    count = 0
    if not last:
        if node[ROOM + R] < 1 or node[ACK_SENT] < node[SEEN + S]:
            return WAIT
        count = put(out, count, SEND, R, ARRIVAL, R, first, stop, 0, 0, 0)
    count = put(out, count, PROBE, 0, 0, R, first, stop, 0, ALL, 0)
    count = meet_in_flight(node, first, stop, out, count)
    node[SEEN + R] = stop
    return end(node, stop, out, count) if last else count


@inner
def meet_in_flight(node, first, stop, out, count):
    """Compares r with the fresh s that were sent on from here and are not acknowledged: those whose home lies left."""
    place, stretch = node[ACKED], node[STRETCH]
    while place < node[SEEN + S]:
        past = min(node[SEEN + S], (place // stretch + 1) * stretch)
        if place // stretch % node[TURNS + S] < node[NODE]:
            count = put(out, count, MEET, 0, 0, R, first, stop, place, past, 0)
        place = past
    return count


@inner
def arrive_s(node, message, out):
    first, stop, leftmost = message[FIRST], message[STOP], node[NODE] == 0
    count = 0
    if not leftmost:
        if node[ROOM + S] < 1 or node[END_SENT] < node[ENDED]:
            return WAIT
        if stop - node[ACKED] > MOST * node[STRETCH]:
            return WAIT
        count = put(out, count, SEND, S, ARRIVAL, S, first, stop, 0, 0, 0)
    count = put(out, count, PROBE, 0, 0, S, first, stop, 0, ALL, 0)
    mine, past = next_own(node, S, max(first, node[EXPIRED + S]), stop)
    if mine < past:
        count = put(out, count, INSERT, 0, 0, S, mine, past, 0, 0, 0)
    node[SEEN + S] = stop
    if leftmost:  # nobody to send on to: nothing is in flight
        node[ACKED] = stop
        node[KEEP + S] = stop
    return count


@inner
def end(node, stop, out, count):
    """The expedition of r below `stop` has ended: those at home here become visible to s."""
    mine, past = next_own(node, R, max(node[ENDED], node[EXPIRED + R]), stop)
    while mine < past:
        count = put(out, count, INSERT, 0, 0, R, mine, past, 0, 0, 0)
        mine, past = next_own(node, R, past, stop)
    node[ENDED] = stop
    node[KEEP + R] = stop
    return count


@njit(nogil=True, cache=True)
def rest(node, out):
    """What is due without a message: acknowledgements, expedition ends and expiries that had to wait for room."""
    leftmost, last, count = node[NODE] == 0, node[NODE] == node[NODES] - 1, 0
    if node[ACK_SENT] < node[SEEN + S] and (last or node[ROOM + R] > 0):
        node[ACK_SENT] = node[SEEN + S]
        if not last:
            node[ROOM + R] -= 1
            count = put(out, count, SEND, R, ACKNOWLEDGEMENT, S, 0, node[SEEN + S], 0, 0, 0)
    if leftmost:
        node[END_SENT] = node[ENDED]
    elif node[END_SENT] < node[ENDED] and node[ROOM + S] > 0:
        node[END_SENT] = min(node[ENDED], node[END_SENT] + MOST * node[STRETCH])
        node[ROOM + S] -= 1
        count = put(out, count, SEND, S, EXPEDITION_END, R, 0, node[END_SENT], 0, 0, 0)
    count = pass_expiry(node, out, count, S, last)
    return pass_expiry(node, out, count, R, leftmost)


@on_demand
def act(address):
    """A step, or what there is to do without a message."""
    node, message, out, resting = unpack(address)
    return rest(node, out) if resting else step(node, message, out)
