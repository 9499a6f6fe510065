"""How tuples lie in memory when a kernel sees them: the probing batch, the stored segment, its runs, what comes out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

FOREVER = int(np.iinfo(np.int64).max)
SINCE_EVER = int(np.iinfo(np.int64).min)


class Probes(NamedTuple):
    """A batch of arrivals as an access path sees it. A tuple is a box: a pair can match only if the two boxes touch."""

    lo: Array  # float32 (dims, n): lower corner
    hi: Array  # float32 (dims, n): upper corner
    key: Array  # uint32: hash of the equality keys, zero without any
    since: Array  # int64: the window on the other side, as places `at`, inclusive
    until: Array


class Stored(NamedTuple):
    """The tuples of one window segment."""

    columns: tuple[Array, ...]  # what the predicate reads, column by column
    coord: Array  # float32 (dims, capacity): lower corners
    key: Array  # uint32
    at: Array  # int64: place in the window: a time or a position
    number: Array  # uint32: low half of the tuple number, see `scalar.full_number`


class Runs(NamedTuple):
    """Consecutive stretches of a segment, oldest first, with what a probe must know to skip or enter one."""

    begin: Array  # int64 (runs)
    end: Array
    first_at: Array  # int64 (runs): smallest and largest `at`
    last_at: Array
    low: Array  # float32 (runs, dims): smallest and largest coordinate
    high: Array
    width: Array  # float32 (runs, dims): the widest box
    origin: Array  # float64 (runs, dims): where the grid of cells begins,
    scale: Array  # float64 (runs, dims): its cells per unit,
    cells: Array  # int64 (runs, dims): and their number
    buckets: Array  # int64 (runs): hash buckets, a power of two
    directory: Array  # int64 (runs): where the run's cell starts lie in the store's directory


class Ranges(NamedTuple):
    """Candidates, as an access path finds them: probe i against stored positions start..stop-1."""

    probe: Array  # int64
    start: Array  # int64
    stop: Array  # int64
    inside: Array  # bool: the whole range lies in the probe's window


class Pairs(NamedTuple):
    """Matches, as tuple numbers."""

    probe: Array  # int64
    stored: Array  # int64


# An access path stops when its ranges fill up, and goes on from its cursor: these are the cursor's fields.
RUN, STEP, ROW, COUNT, COMPARED = range(5)
# The exact test stops when its pairs fill up: in the middle of which range, at which position, with how many pairs.
RANGE, PLACE, FOUND = range(3)
FIELDS = 5

# What went wrong inside a predicate: a code above zero, and the indices of the probing and the stored tuple.
TROUBLE_FIELDS = 3
