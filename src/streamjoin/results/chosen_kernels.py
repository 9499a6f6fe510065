"""The best partners of each r, in chains of candidates, the best one first."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from streamjoin.codegen.intrinsics import bytes_at, record_at, words_at
from streamjoin.codegen.jit import inner, njit
from streamjoin.codegen.records import Record, Word
from streamjoin.results.reduce import OUT, USUAL, closer, distance
from streamjoin.results.undecided_kernels import Waitlist, put_earlier
from streamjoin.windows import FOREVER

END = -1  # of a chain
NOTED = -1  # in place of a rank, within `insert_by_time`: its r is written down


class Candidate(Record):
    """A partner: `results/best.py` defines the order."""

    score: Annotated[int, np.uint64]
    rank: Word
    s: Word  # its number
    at: Word  # its time
    next: Word  # the next candidate of the same r


class Room(Record):
    """The free candidates of an array, and how many an r may have."""

    free: Word  # the head of the chain of candidates that were in use
    used: Word  # candidates from here on were never in use
    k: Word
    forward: Word  # does r's own time count as after it?


@inner(forceinline=True)
def better(t, score, rank, s, there, other, forward):
    """Is a partner of an r at a time better than a candidate?"""
    if rank != other.rank:
        return rank < other.rank
    if score != other.score:
        return score < other.score
    return closer(t, s, there, other.s, other.at, forward)


@inner
def new_place(kept, room):
    """A free candidate."""
    place = room.free
    if place == END:
        place = room.used
        room.used += 1
    else:
        room.free = kept[place].next
    return place


@inner
def due_by_time(own, best, backward):
    """What s must have passed before none can follow that is closer to r in time than the best so far."""
    if not backward:
        return best - 1
    apart = distance(own, best)
    nearer = apart - min(apart, np.uint64(1))
    return own + np.int64(min(nearer, np.uint64(FOREVER - own)))


@njit(nogil=True, cache=True)
def insert_by_time(r, s, times_r, times_s, waiting, heads, kept, room, backward, forward, hastens):
    """Offers partners to the r that wait, each of which keeps the best one by time. There are as many free candidates.

    The times of both sides come with the number of the first tuple that has one. `waiting`: the address of a Waitlist,
    in which there is room for as many that are hastened, if `hastens`. `heads`: of the chains, by position.
    """
    waiting, (times_r, first_r), (times_s, first_s) = record_at(waiting, Waitlist), times_r, times_s
    first, end = waiting.first, waiting.next - waiting.first
    due, is_open = words_at(waiting.due, end), bytes_at(waiting.open, end)
    improved, count = np.empty(len(r), np.int64), 0
    for i in range(len(r)):
        at = r[i] - first
        if at < 0 or not is_open[at]:  # an r that is decided may still get partners that are no better
            continue
        t, there = times_r[r[i] - first_r], times_s[s[i] - first_s]
        if (there > t and not forward) or (there < t and not backward):
            continue
        place = heads[at]
        if place == END:
            place = heads[at] = new_place(kept, room)
            kept[place].rank = USUAL
        elif not closer(t, s[i], there, kept[place].s, kept[place].at, not backward):
            continue
        kept[place].score, kept[place].s, kept[place].at, kept[place].next = distance(t, there), s[i], there, END
        if kept[place].rank != NOTED:
            kept[place].rank = NOTED
            improved[count] = at
            count += 1
    for i in range(count):
        at = improved[i]
        best = kept[heads[at]]
        best.rank = USUAL
        if hastens:
            soon = due_by_time(times_r[at + first - first_r], best.at, backward)
            if soon < due[at]:
                put_earlier(waiting, at, soon)


@njit(nogil=True, cache=True)
def insert(r, s, scores, ranks, times_r, times_s, waiting, heads, kept, room):
    """Offers partners with scores to the r that wait; the rest as in `insert_by_time`. No times: all are equal."""
    waiting, (times_r, first_r), (times_s, first_s) = record_at(waiting, Waitlist), times_r, times_s
    first, is_open, forward = waiting.first, bytes_at(waiting.open, waiting.next - waiting.first), room.forward != 0
    for i in range(len(r)):
        row, score, rank = r[i] - first, scores[i], ranks[i]
        if rank == OUT or row < 0 or not is_open[row]:  # an r that is decided may still get partners that are no better
            continue
        t = there = 0
        if len(times_r):
            t, there = times_r[r[i] - first_r], times_s[s[i] - first_s]
        before, at, length = END, heads[row], 0
        while at != END and not better(t, score, rank, s[i], there, kept[at], forward):
            before, at = at, kept[at].next
            length += 1
        if length == room.k:
            continue
        if at != END and length + 1 == room.k:  # it takes the place of the last one
            new, at = at, kept[at].next
        else:
            new = new_place(kept, room)
        kept[new].score, kept[new].rank, kept[new].s, kept[new].at, kept[new].next = score, rank, s[i], there, at
        if before == END:
            heads[row] = new
        else:
            kept[before].next = new
        last, length = new, length + 1
        while at != END and length < room.k:
            last, at = at, kept[at].next
            length += 1
        if at != END:  # there is one too many, the last
            kept[last].next = END
            kept[at].next = room.free
            room.free = at


@njit(nogil=True, cache=True)
def count(positions, heads, kept):
    """How many candidates are on the chains at these positions."""
    found = 0
    for i in range(len(positions)):
        at = heads[positions[i]]
        while at != END:
            found += 1
            at = kept[at].next
    return found


@njit(nogil=True, cache=True)
def drain(positions, heads, kept, room, of, s, at_s):
    """Removes the chains at these positions: where each candidate was, its number and time, the best ones first.

    The positions without a candidate move to the front; returns how many there are.
    """
    found = empty = 0
    for i in range(len(positions)):
        at = heads[positions[i]]
        if at == END:
            positions[empty] = positions[i]
            empty += 1
            continue
        heads[positions[i]] = END
        while at != END:
            of[found], s[found], at_s[found] = positions[i], kept[at].s, kept[at].at
            found += 1
            following = kept[at].next
            kept[at].next = room.free
            room.free = at
            at = following
    return empty


@njit(nogil=True, cache=True)
def lowest(heads, kept, number):
    """The smallest number of a candidate on these chains, or `number` if that is smaller."""
    for i in range(len(heads)):
        at = heads[i]
        while at != END:
            number = min(number, kept[at].s)
            at = kept[at].next
    return number
