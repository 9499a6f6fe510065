"""DP-Join: m x n workers, each responsible for the pairs of one row of r and one column of s.

                 s ──▶ dealt to columns
                  │         │         │
    r ──▶ row 0 ─▶[0,0] ──▶ [0,1] ──▶ [0,2]
                  │         │         │         every worker: segment of r (its row's), segment of s (its column's)
          row 1 ─▶[1,0] ──▶ [1,1] ──▶ [1,2]

Buono, De Matteis, Mencagli: A high-throughput and low-latency parallelization of window-based stream joins on
multicores, sections 4.3 and 4.4.

An r goes to one row, in turns, and is forwarded along it (distributed multicast); an s goes to one column. The two meet
at the worker where row and column cross: the later one finds the earlier one, once, without any coordination. A worker
inserts an arrival, compares it with its segment of the other stream, and then receives the expiries of that stream: one
scan per arrival (4.4.3).

Linear layouts are 1 x n, square ones m = n. The segments of a row are shared by its workers, those of a column as well:
see `access/tape.py`.
"""

from __future__ import annotations

from streamjoin.algorithms.protocol import (
    ALL,
    ARRIVAL,
    INSERT,
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
    pass_by,
    pass_expiry,
    put,
    send,
)
from streamjoin.codegen.jit import inner, njit

State = Node


@inner
def at_end(node: State, side: int) -> bool:
    """Is this the last worker of its row (for r) or column (for s)?"""
    columns = node.ways[S]
    return node.index % columns == columns - 1 if side == R else node.index + columns >= node.nodes


@njit(nogil=True, cache=True)
def step(node: State, message: Message, out: Actions) -> bool:
    side, first, stop = message.side, message.first, message.stop
    if message.kind != ARRIVAL:
        learn_expiry(node, message, out)
        return TAKEN
    if not at_end(node, side):
        if node.room[side] < 1:
            return WAIT
        send(out, side, ARRIVAL, side, first, stop)
    if stop > node.expired[side]:
        put(out, INSERT, side, max(first, node.expired[side]), stop)
    compare(out, PROBE, side, first, stop, 0, ALL)
    pass_by(node, side, stop)
    return TAKEN


@njit(nogil=True, cache=True)
def rest(node: State, out: Actions) -> None:
    """Sends expiries that had to wait for room."""
    pass_expiry(node, S, at_end(node, R), out)
    pass_expiry(node, R, at_end(node, S), out)
