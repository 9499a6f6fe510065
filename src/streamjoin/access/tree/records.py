"""The records of a tree segment: its runs, and the state with which compiled code owns them."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from streamjoin.access.records import MOST_DIMS, Index
from streamjoin.codegen.intrinsics import records_at
from streamjoin.codegen.jit import inner
from streamjoin.codegen.records import Address, Array, Record, Word

MOST_ENDS = 2 * MOST_DIMS
FAN_OUT = 16
HEAD = FAN_OUT * FAN_OUT  # tuples that stay in order of arrival; runs begin at multiples of this
MOST_LEVELS = 9  # of a tree over 2**32 values, and one more
ASIDE = 64  # probes that are kept, as a sample

PerEnd = Annotated[Array, (np.int64, MOST_ENDS)]
Axes = Annotated[Array, (np.int64, 2)]


class Run(Record):
    """Tuples at places begin..begin+count-1 of the index, in the order of their ranks."""

    begin: Word
    count: Word
    last: Word  # the newest tuple's ordinal
    first_at: Word  # smallest and largest `at`
    last_at: Word


class Forest(Index):
    """The whole state of a tree segment, so that compiled code can own it.

    Tuples lie in a ring, in order of arrival: the tuple with ordinal n at position n modulo the room of the segment.
    The index has for each tuple a rank, which determines its place in a run, and a value for every end of its box.
    Boxes touch if no value is above the probe's limit of that end.
    """

    ends: Word
    dim: PerEnd  # by end: dimension of the boxes, and kind of value
    kind: PerEnd
    axes: Axes  # ends that ranks are made of; the second one may be -1
    keyed: Word  # the key's hash is the upper half of a rank
    oldest: Word  # ordinals of the tuples: oldest..stop-1
    stop: Word
    capacity: Word  # places
    rank: Address  # int64
    ordinal: Address  # uint32: low half
    values: Address  # float32 (ends, stride): a run at place p has its trees from 9 / 8 * p on
    stride: Word
    order: Address  # uint32 (capacity), room for a merge
    spare: Address  # int64 (capacity), the same
    growing: Word  # is the newest run a head, in order of arrival?
    limits: Address  # float32 (ASIDE, MOST_ENDS): limits of some probes
    asked: Word  # probes that were put there so far


@inner(forceinline=True)
def runs_of(forest):
    return records_at(forest.runs, forest.run_room, Run)


@inner(forceinline=True)
def tree_at(begin):
    """The begin of the trees of a run."""
    return begin + begin // 8


@inner(forceinline=True)
def padded(count, unit):
    return (count + unit - 1) // unit * unit


@inner
def level_starts(count, starts):
    """Writes the begin of each level of a tree, the values first, and the end. Returns the highest level."""
    size, level, start = padded(max(count, 1), FAN_OUT), 0, 0
    starts[0] = 0
    while size > FAN_OUT:
        start += size
        size = padded(size // FAN_OUT, FAN_OUT)
        level += 1
        starts[level] = start
    starts[level + 1] = start + size
    return level
