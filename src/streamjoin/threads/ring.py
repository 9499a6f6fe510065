"""Bounded single-producer single-consumer rings of messages.

    words   [ ring | place | word ]        what was sent
    index   [ ring | HEAD .. | TAIL .. ]   messages ever pushed, messages ever taken; a cache line each

HEAD is written by the producer alone, TAIL by the consumer alone. The release of HEAD publishes the words of a message
to the consumer that acquires it; the release of TAIL gives the places back to the producer.
"""

from __future__ import annotations

from streamjoin.codegen.jit import inner
from streamjoin.threads.atomics import load_acquire, store_release

HEAD, TAIL, LINES = 0, 8, 16


@inner(forceinline=True)
def room(words, index, ring):
    """Free places, as the producer knows it: there may be more."""
    used = load_acquire(index, ring * LINES + HEAD) - load_acquire(index, ring * LINES + TAIL)
    return words.shape[1] - used


@inner(forceinline=True)
def is_empty(index, ring):
    """Is there nothing to take? The producer may be about to push."""
    return load_acquire(index, ring * LINES + HEAD) == load_acquire(index, ring * LINES + TAIL)


@inner(forceinline=True)
def push(words, index, ring, message):
    """Appends a message; the producer has seen that there is room."""
    head = load_acquire(index, ring * LINES + HEAD)
    place = head % words.shape[1]
    for k in range(words.shape[2]):
        words[ring, place, k] = message[k]
    store_release(index, ring * LINES + HEAD, head + 1)


@inner(forceinline=True)
def front(words, index, ring, message):
    """Copies the oldest message. False if there is none."""
    tail = load_acquire(index, ring * LINES + TAIL)
    if load_acquire(index, ring * LINES + HEAD) == tail:
        return False
    place = tail % words.shape[1]
    for k in range(words.shape[2]):
        message[k] = words[ring, place, k]
    return True


@inner(forceinline=True)
def pop(words, index, ring):
    """Takes the oldest message away."""
    store_release(index, ring * LINES + TAIL, load_acquire(index, ring * LINES + TAIL) + 1)
