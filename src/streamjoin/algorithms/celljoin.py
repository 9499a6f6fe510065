"""CellJoin: an emitter that owns both windows, and workers that know of none.

                      ┌─▶ [worker 0]  window[ 0 .. 1/n ]
    r, s ──▶ emitter ─┼─▶ [worker 1]  window[ 1/n .. 2/n ]
                      └─▶ [worker n]  ...

Gedik, Bordawekar, Yu: CellJoin, VLDB Journal 2009, as told in DP-Join, section 4.1.

For every arrival the emitter cuts the present window of the other stream into n equal parts, and sends arrival and part
to each worker (multicast). Workers compare and forget. The window lies in shared memory, so a part is two numbers; the
emitter still sends n messages per arrival, which limits how many workers it can feed.
"""

from __future__ import annotations

from streamjoin.algorithms.protocol import (
    FIRST,
    HI,
    KEEP,
    LO,
    MEET,
    PLACE,
    SEEN,
    SHARE,
    SIDE,
    STOP,
    Topology,
    put,
    unpack,
)
from streamjoin.codegen.jit import njit, on_demand

FINISHED = SEEN  # below it, tuples have met all they had to meet at a node


def topology(workers: int) -> Topology:
    """A star: the driver fills one queue of every worker."""
    everyone = tuple(range(workers))
    return Topology(workers, (everyone, ()), ((-1, -1),) * workers, (1, 1), ((0, 0),) * workers)


def shares(
    workers: int, side: int, first: int, stop: int, window: tuple[int, int]
) -> list[tuple[int, int, int, int, int, int, int]]:
    """The messages for an arrival, one per worker: the window of the other side in equal parts."""
    begin, end = window
    cuts = [begin + (end - begin) * k // workers for k in range(workers + 1)]
    return [(SHARE, side, first, stop, cuts[k], cuts[k + 1], begin) for k in range(workers)]


@njit(nogil=True, cache=True)
def step(node, message, out):
    """Compares an arrival with a part of the window."""
    side, stop = message[SIDE], message[STOP]
    node[SEEN + side] = stop
    node[KEEP + 1 - side] = message[PLACE]
    if message[LO] == message[HI]:
        return 0
    return put(out, 0, MEET, 0, 0, side, message[FIRST], stop, message[LO], message[HI], 0)


@njit(nogil=True, cache=True)
def rest(node, out):
    """Workers have nothing to do without a message."""
    return 0


@on_demand
def act(address):
    """A step, or what there is to do without a message."""
    node, message, out, resting = unpack(address)
    return rest(node, out) if resting else step(node, message, out)
