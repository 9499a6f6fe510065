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
    INSERT,
    PROBE,
    TAKEN,
    Actions,
    Message,
    Node,
    compare,
    learn_expiry,
    next_own,
    pass_by,
    put,
)
from streamjoin.codegen.jit import njit

State = Node


@njit(nogil=True, cache=True)
def step(node: State, message: Message, out: Actions) -> bool:
    """Compares arrivals with what is kept of the other side, and keeps its own share of them."""
    side, first, stop = message.side, message.first, message.stop
    if message.kind == EXPIRY:
        learn_expiry(node, message, out)
        return TAKEN
    if node.way[1 - side] >= 0:  # else it keeps nothing of the other side
        compare(out, PROBE, side, first, stop, 0, ALL)
    begin, end = next_own(node, side, first, stop)
    while begin < end:
        put(out, INSERT, side, begin, end)
        begin, end = next_own(node, side, end, stop)
    pass_by(node, side, stop)
    return TAKEN


@njit(nogil=True, cache=True)
def rest(node: State, out: Actions) -> None:
    """Workers have nothing to do without a message."""
