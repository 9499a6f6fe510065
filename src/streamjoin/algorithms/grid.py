"""DP-Join: m x n workers, each responsible for the pairs of one row of r and one column of s.

                 s ──▶ dealt to columns
                  │         │         │
    r ──▶ row 0 ─▶[0,0] ──▶ [0,1] ──▶ [0,2]
                  │         │         │         every worker: segment of r (its row's), segment of s (its column's)
          row 1 ─▶[1,0] ──▶ [1,1] ──▶ [1,2]

Buono, De Matteis, Mencagli: A high-throughput and low-latency parallelization of window-based stream joins on
multicores, sections 4.3 and 4.4.

An r goes to one row, in turns, and is passed on along it (distributed multicast); an s goes to one column. The two meet
at the one worker where row and column cross: the later one finds the earlier, once, without any coordination. A worker
inserts an arrival, compares it with its segment of the other stream, and learns behind it what has expired there: one
scan per arrival (4.4.3).

Linear layouts are 1 x n, square ones m = n. The segments of a row are shared by its workers, those of a column as well:
see `access/tape.py`.
"""

from __future__ import annotations

from streamjoin.algorithms.protocol import (
    ALL,
    ARRIVAL,
    EXPIRED,
    FIRST,
    INSERT,
    KEEP,
    KIND,
    NODE,
    NODES,
    PROBE,
    ROOM,
    SEEN,
    SEND,
    SIDE,
    STOP,
    TURNS,
    WAIT,
    R,
    S,
    Topology,
    learn_expiry,
    pass_expiry,
    put,
    unpack,
)
from streamjoin.codegen.jit import inner, njit, on_demand

FINISHED = SEEN  # below it, tuples have met all they had to meet at a node


def topology(rows: int, columns: int) -> Topology:
    """Workers numbered row by row."""
    nodes = [(i, j) for i in range(rows) for j in range(columns)]
    following = tuple(
        (i * columns + j + 1 if j + 1 < columns else -1, (i + 1) * columns + j if i + 1 < rows else -1)
        for i, j in nodes
    )
    entries = (tuple(i * columns for i in range(rows)), tuple(range(columns)))
    return Topology(rows * columns, entries, following, (rows, columns), tuple(nodes))


@inner
def at_end(node, side):
    """Is this the last worker of its row (for r) or column (for s)?"""
    columns = node[TURNS + S]
    return node[NODE] % columns == columns - 1 if side == R else node[NODE] + columns >= node[NODES]


@njit(nogil=True, cache=True)
def step(node, message, out):
    """Takes a message. Returns the number of actions, or WAIT."""
    if message[KIND] != ARRIVAL:
        return learn_expiry(node, message, out)
    side, first, stop, count = message[SIDE], message[FIRST], message[STOP], 0
    if not at_end(node, side):
        if node[ROOM + side] < 1:
            return WAIT
        count = put(out, count, SEND, side, ARRIVAL, side, first, stop, 0, 0, 0)
    if stop > node[EXPIRED + side]:
        count = put(out, count, INSERT, 0, 0, side, max(first, node[EXPIRED + side]), stop, 0, 0, 0)
    count = put(out, count, PROBE, 0, 0, side, first, stop, 0, ALL, 0)
    node[SEEN + side] = node[KEEP + side] = stop
    return count


@njit(nogil=True, cache=True)
def rest(node, out):
    """What is due without a message: expiries that had to wait for room."""
    count = pass_expiry(node, out, 0, S, at_end(node, R))
    return pass_expiry(node, out, count, R, at_end(node, S))


@on_demand
def act(address):
    """A step, or what there is to do without a message."""
    node, message, out, resting = unpack(address)
    return rest(node, out) if resting else step(node, message, out)
