"""Join-biclique: one half of the workers keeps r, the other keeps s; a tuple is kept once and crosses over once.

                ┌─▶ [worker 0: r] ◀─┐
    r ─▶ driver ┼─▶ [worker 1: r] ◀─┼ driver ◀─ s      r is kept by one of the upper ones, in turns,
                ├─▶ [worker 2: s] ◀─┤                  and compared with all of the lower ones; s the other way round
                └─▶ [worker 3: s] ◀─┘

Lin, Ooi, Wang, Yu: Scalable distributed stream join processing, SIGMOD 2015 (join-biclique), here on one machine.

Every worker takes both streams from one queue, in the one order in which the driver sends them. Of a pair, the earlier
tuple is therefore with its keeper before the later one comes there, and the later one's own keeper has not heard of
it when the earlier one passes: they meet once, without acknowledgements and without deduplication.

A chain enters a tuple into one index but probes all; a grid probes few but enters it into several. Here it is one entry
and one half of the probes, which is best for index access on few cores. Invariants: a keeper's window is all of its
share that has arrived and not expired; a tuple is needed on the tape only until the worker has passed it.
"""

from __future__ import annotations

from streamjoin.algorithms.protocol import (
    ALL,
    EXPIRY,
    FIRST,
    INSERT,
    KEEP,
    KIND,
    PROBE,
    SEEN,
    SIDE,
    STOP,
    TURN,
    Topology,
    learn_expiry,
    next_own,
    put,
    unpack,
)
from streamjoin.codegen.jit import njit, on_demand

FINISHED = SEEN  # below it, tuples have met all they had to meet at a node
NONE = -1  # the turn of who keeps nothing of a side


def topology(workers: int) -> Topology:
    """A star: the driver fills one queue of every worker. A single one keeps both sides."""
    everyone, nobody = tuple(range(workers)), ((-1, -1),) * workers
    if workers == 1:
        return Topology(1, (everyone, ()), nobody, (1, 1), ((0, 0),))
    of_r, of_s = workers - workers // 2, workers // 2
    turn = tuple((k, NONE) if k < of_r else (NONE, k - of_r) for k in everyone)
    return Topology(workers, (everyone, ()), nobody, (of_r, of_s), turn)


@njit(nogil=True, cache=True)
def step(node, message, out):
    """Compares arrivals with what is kept of the other side, and keeps its own share of them."""
    if message[KIND] == EXPIRY:
        return learn_expiry(node, message, out)
    side, first, stop, count = message[SIDE], message[FIRST], message[STOP], 0
    if node[TURN + 1 - side] != NONE:
        count = put(out, count, PROBE, 0, 0, side, first, stop, 0, ALL, 0)
    begin, end = next_own(node, side, first, stop)
    while begin < end:
        count = put(out, count, INSERT, 0, 0, side, begin, end, 0, 0, 0)
        begin, end = next_own(node, side, end, stop)
    node[SEEN + side] = node[KEEP + side] = stop
    return count


@njit(nogil=True, cache=True)
def rest(node, out):
    """Workers have nothing to do without a message."""
    return 0


@on_demand
def act(address):
    """A step, or what there is to do without a message."""
    node, message, out, resting = unpack(address)
    return rest(node, out) if resting else step(node, message, out)
