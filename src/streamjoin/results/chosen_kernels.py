"""The best partners of each r, in chains of candidates, the best one first."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from streamjoin.codegen.jit import inner, njit
from streamjoin.codegen.records import Record, Word
from streamjoin.results.reduce import OUT, USUAL, closer, distance

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


@inner
def better(time, a, b, forward):
    """Is one candidate of an r at a time better than another one?"""
    if a.rank != b.rank:
        return a.rank < b.rank
    if a.score != b.score:
        return a.score < b.score
    return closer(time, a.s, a.at, b.s, b.at, forward)


@njit(nogil=True, cache=True)
def insert_by_time(r, s, times_s, first_s, waiting, kept, room, backward, forward, improved):
    """Offers partners to the r that wait, each of which keeps the best one by time. There are as many free candidates.

    `waiting`: by position, from tuple `first` of r on: is it open, its time, the head of its chain. `times_s` begins
    with tuple `first_s`. Writes the positions of the r that have a better partner now, each once; returns their number.
    """
    first, is_open, own, heads = waiting
    count = 0
    for i in range(len(r)):
        at = r[i] - first
        if at < 0 or not is_open[at]:  # an r that is decided may still get partners that are no better
            continue
        t, there = own[at], times_s[s[i] - first_s]
        if (there > t and not forward) or (there < t and not backward):
            continue
        place = heads[at]
        if place == END:
            place = room.free
            if place == END:
                place = room.used
                room.used += 1
            else:
                room.free = kept[place].next
            heads[at] = place
            kept[place].rank = USUAL
        elif not closer(t, s[i], there, kept[place].s, kept[place].at, not backward):
            continue
        kept[place].score, kept[place].s, kept[place].at, kept[place].next = distance(t, there), s[i], there, END
        if kept[place].rank != NOTED:
            kept[place].rank = NOTED
            improved[count] = at
            count += 1
    for i in range(count):
        kept[heads[improved[i]]].rank = USUAL
    return count


@njit(nogil=True, cache=True)
def insert(offered, times, of, heads, kept, room):
    """Offers candidates, each to an r with a time, at a position of `heads`. There are as many free candidates."""
    for i in range(len(offered)):
        if offered[i].rank == OUT:
            continue
        before, at, length = END, heads[of[i]], 0
        while at != END and not better(times[i], offered[i], kept[at], room.forward != 0):
            before, at = at, kept[at].next
            length += 1
        if length == room.k:
            continue
        new = room.free
        if new == END:
            new = room.used
            room.used += 1
        else:
            room.free = kept[new].next
        kept[new] = offered[i]
        kept[new].next = at
        if before == END:
            heads[of[i]] = new
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
def count(heads, kept):
    """How many candidates are on these chains."""
    found = 0
    for i in range(len(heads)):
        at = heads[i]
        while at != END:
            found += 1
            at = kept[at].next
    return found


@njit(nogil=True, cache=True)
def drain(heads, kept, room, of, s, at_s):
    """Removes chains: for every candidate its chain, its number and its time, the best one first."""
    found = 0
    for i in range(len(heads)):
        at = heads[i]
        while at != END:
            of[found], s[found], at_s[found] = i, kept[at].s, kept[at].at
            found += 1
            following = kept[at].next
            kept[at].next = room.free
            room.free = at
            at = following


@njit(nogil=True, cache=True)
def lowest(heads, kept, number):
    """The smallest number of a candidate on these chains, or `number` if that is smaller."""
    for i in range(len(heads)):
        at = heads[i]
        while at != END:
            number = min(number, kept[at].s)
            at = kept[at].next
    return number
