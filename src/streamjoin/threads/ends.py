"""The two ends of the workers' queues: what the driver puts in, and what the collector takes out.

Both are Python threads; what they do with memory that workers read and write at the same time is compiled, because it
needs atomics and must not hold the GIL while it waits.
"""

from __future__ import annotations

from streamjoin.algorithms.protocol import FIRST, STOP
from streamjoin.codegen.jit import inner, njit
from streamjoin.threads.atomics import NAPS, SPINS, YIELDS, load_acquire, store_release, wait
from streamjoin.threads.eventcount import get_up, lie_down, sleep, wake
from streamjoin.threads.ring import LINES, TAIL, is_empty, push, room
from streamjoin.threads.worker import ABORT, BOARD, GO, IDLE, PROGRESS, RESULT_BLOCKS

# The longest naps of the driver, in microseconds: for the workers to come to rest, and for room in a queue that is not
# used up by then.
FOR_REST, FOR_ROOM = 100, 10_000
# Rounds of waiting after which the driver comes back to Python, where an interruption is noticed: a tenth of a second.
UNTIL_REST, UNTIL_ROOM = SPINS + YIELDS + NAPS + 50, SPINS + YIELDS + 20
LULL = 10_000_000  # nanoseconds after which a collector without results looks how far the workers have come


@njit(nogil=True, cache=True)
def quiet(ring_index, board, nodes, control, patient):
    """Is there nothing that moves any more? Waits a while for it if `patient`, unless the join is given up.

    A node counts its progress before it takes a message away, so whoever sees all queues empty and all nodes idle,
    twice with the same progress, has seen the end.
    """
    rounds, before = 0, -1
    while True:
        if load_acquire(control, 0) == ABORT:
            return False
        still, total = True, 0
        for ring in range(2 * nodes):
            still &= is_empty(ring_index, ring)
        for node in range(nodes):
            progress = load_acquire(board, node * BOARD + PROGRESS)
            still &= load_acquire(board, node * BOARD + IDLE) == progress
            total += progress
        if still and total == before:
            return True
        if not still and not patient:
            return False
        before = total if still else -1
        if rounds > UNTIL_REST:
            return False
        wait(rounds, FOR_REST)
        rounds += 1


@njit(nogil=True, cache=True)
def send(ring_words, ring_index, ring, message, control, bells, patient):
    """Sends a message from the driver, waiting a while for room if `patient`. False if it was not sent."""
    return put(ring_words, ring_index, ring, message, control, bells, patient) >= 0


@inner
def put(ring_words, ring_index, ring, message, control, bells, patient):
    """Puts a message into a queue. Returns for how many rounds it waited; -1 if it was in vain.

    Who had to wait does so until a quarter of the queue is free, not for every place anew.
    """
    rounds, wanted = 0, 1
    while room(ring_words, ring_index, ring) < wanted:
        if not patient or rounds > UNTIL_ROOM or load_acquire(control, 0) == ABORT:
            return -1
        wanted = max(1, ring_words.shape[1] // 4)
        wait(rounds, FOR_ROOM)
        rounds += 1
    push(ring_words, ring_index, ring, message)
    wake(bells[ring // 2])
    return rounds


@njit(nogil=True, cache=True)
def feed(ring_words, ring_index, rings, message, batch, stretch, control, bells):
    """Sends the arrivals of a message in pieces that cross no multiple of the batch size, each to its turn's ring.

    Returns up to which tuple they were sent: all, unless it had to wait for long or the join is given up.
    """
    first, stop, waited = message[FIRST], message[STOP], 0
    while first < stop and waited <= UNTIL_ROOM:
        message[FIRST], message[STOP] = first, min(stop, (first // batch + 1) * batch)
        ring = rings[first // stretch % len(rings)]
        rounds = put(ring_words, ring_index, ring, message, control, bells, True)
        if rounds < 0:
            break
        first, waited = message[STOP], waited + rounds
    return first


@njit(nogil=True, cache=True)
def await_results(result_index, nodes, control, bells):
    """Waits until a block of results is there or the workers are to stop, some milliseconds at most."""
    for k in range(SPINS + YIELDS):
        if due(result_index, nodes, control):
            return
        wait(k, 0)
    bell = bells[-1]
    lie_down(bell)
    if not due(result_index, nodes, control):
        sleep(bell, LULL)
    get_up(bell)


@inner
def due(result_index, nodes, control):
    """Has the collector something to do?"""
    for node in range(nodes):
        if not is_empty(result_index, node):
            return True
    return load_acquire(control, 0) != GO


@njit(nogil=True, cache=True)
def block_ready(result_index, node):
    """The oldest block of a node that waits for the collector; -1 if none does."""
    return -1 if is_empty(result_index, node) else load_acquire(result_index, node * LINES + TAIL) % RESULT_BLOCKS


@njit(nogil=True, cache=True)
def give_back(result_index, node):
    """Returns the oldest block to its node."""
    store_release(result_index, node * LINES + TAIL, load_acquire(result_index, node * LINES + TAIL) + 1)


@njit(nogil=True, cache=True)
def tell(control, word, bells):
    """Gives everybody an order, who sleeps too."""
    store_release(control, 0, word)
    for k in range(len(bells)):
        wake(bells[k])


@njit(nogil=True, cache=True)
def read_word(array, index):
    return load_acquire(array, index)


@njit(nogil=True, cache=True)
def write_word(array, index, value):
    store_release(array, index, value)
