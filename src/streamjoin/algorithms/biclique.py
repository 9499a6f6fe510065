"""Join-biclique: one half of the workers stores r, the other stores s. A tuple is stored once and probes one half.

                ┌─▶ [worker 0: r] ◀─┐
    r ─▶ driver ┼─▶ [worker 1: r] ◀─┼ driver ◀─ s      r is stored by one of the upper ones, in turns,
                ├─▶ [worker 2: s] ◀─┤                  and compared with all of the lower ones; s in reverse
                └─▶ [worker 3: s] ◀─┘

Lin, Ooi, Wang, Yu: Scalable distributed stream join processing, SIGMOD 2015 (join-biclique), here on one machine.

Every worker takes both streams from one queue, in the order in which the driver sends them. So of a pair, the earlier
tuple is stored at its worker before the later one probes there. When the earlier one probes, the worker of the later
one does not have it yet. They meet once, without acknowledgements and without deduplication.

A chain enters a tuple into one index but probes all. A grid probes few indexes but enters the tuple into several. Here
there is one entry, and probes of one half of the indexes, which is best for index access on few cores. Invariants: a
worker's window is all of its share that has arrived and not expired. A tuple is needed on the tape only until the
worker has processed it.
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
    """Compares arrivals with the stored tuples of the other side, and stores its own share of them."""
    side, first, stop = message.side, message.first, message.stop
    if message.kind == EXPIRY:
        learn_expiry(node, message, out)
        return TAKEN
    if node.way[1 - side] >= 0:  # otherwise it stores nothing of the other side
        compare(out, PROBE, side, first, stop, 0, ALL)
    begin, end = next_own(node, side, first, stop)
    while begin < end:
        put(out, INSERT, side, begin, end)
        begin, end = next_own(node, side, end, stop)
    pass_by(node, side, stop)
    return TAKEN


@njit(nogil=True, cache=True)
def rest(node: State, out: Actions) -> None:
    """Nothing is due without a message."""
