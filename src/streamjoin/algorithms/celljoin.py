"""CellJoin: an emitter that owns both windows, and workers without a window.

                      ┌─▶ [worker 0]  window[ 0 .. 1/n ]
    r, s ──▶ emitter ─┼─▶ [worker 1]  window[ 1/n .. 2/n ]
                      └─▶ [worker n]  ...

Gedik, Bordawekar, Yu: CellJoin, VLDB Journal 2009, as told in DP-Join, section 4.1.

For every arrival the emitter cuts the current window of the other stream into n equal parts, and sends the arrival and
a part to each worker (multicast). Workers compare and store nothing. The window lies in shared memory, so a part is two
numbers. The emitter still sends n messages per arrival, which limits the number of workers that it can feed.
"""

from __future__ import annotations

from streamjoin.algorithms.protocol import MEET, SHARE, TAKEN, Actions, Message, Node, compare
from streamjoin.codegen.jit import njit

State = Node


def shares(workers: int, side: int, first: int, stop: int, window: tuple[int, int]) -> list[dict[str, int]]:
    """The fields of the messages for an arrival, one per worker: the window of the other side in equal parts."""
    begin, end = window
    cuts = [begin + (end - begin) * k // workers for k in range(workers + 1)]
    same = {"kind": SHARE, "side": side, "first": first, "stop": stop, "needed_from": begin}
    return [{**same, "low": cuts[k], "high": cuts[k + 1]} for k in range(workers)]


@njit(nogil=True, cache=True)
def step(node: State, message: Message, out: Actions) -> bool:
    """Compares an arrival with a part of the window."""
    side, stop = message.side, message.stop
    node.seen[side] = node.finished[side] = stop
    node.needed_from[1 - side] = message.needed_from
    if message.low < message.high:
        compare(out, MEET, side, message.first, stop, message.low, message.high)
    return TAKEN


@njit(nogil=True, cache=True)
def rest(node: State, out: Actions) -> None:
    """Nothing is due without a message."""
