"""Segments of a window, and searches in them: from arrivals to candidates to pairs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from streamjoin.access.records import TESTED, Probing, Range, Stored
from streamjoin.access.tuples import Shape, Tuples
from streamjoin.codegen.jit import OnDemand
from streamjoin.codegen.records import Array, address

if TYPE_CHECKING:
    from streamjoin.access.tape import Tape

RANGES = 1 << 14
FIRST_PAIRS, MOST_PAIRS = 1 << 14, 1 << 20

Values = tuple[Any, ...]
Fault = Callable[[int, Values, Values], Exception]  # the error of a code, an arrival and a stored tuple


class Segment(ABC):
    """Tuples of one stream, behind one access path, with which arrivals of the other stream are compared.

    It owns the arrays whose addresses are in its record. Compiled code calls the functions in the record.
    """

    find: OnDemand  # see `records.Stored`
    enter: OnDemand | None = None
    forget: OnDemand | None = None
    # The whole of `insert` in compiled code, of a Stored: 0, without an effect, if Python must do it. None: `enter` is.
    take_in: OnDemand | None = None

    def __init__(self, shape: Shape, tape: Tape | None = None, way: int = -1) -> None:
        """`tape`: the source of arrivals, of which the segment has one way. None: batches are inserted."""
        self.shape = shape
        self.record = Stored.new()
        self.address = address(self.record)
        self.record.dims, self.record.ways, self.record.column_count = shape.dims, 1, len(shape.columns)
        self.record.find = self.find.address
        self.record.insert = self.enter.address if self.enter else 0
        self.record.expire = self.forget.address if self.forget else 0

    @abstractmethod
    def attach(self, tape: Tape) -> None:
        """Takes the addresses of a tape's arrays: at first, and whenever they have changed."""

    @property
    @abstractmethod
    def columns(self) -> tuple[Array, ...]:
        """The columns that the predicate reads, by position."""

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes held: columns, numbers, index, room to grow."""

    @abstractmethod
    def insert(self, batch: Tuples) -> None:
        """Adds arrivals."""

    def expect(self, probes: Tuples) -> None:  # noqa: B027  most segments do not need it
        """Announces tuples like those that will probe the segment."""

    def expire(self, horizon: int) -> None:
        """Drops tuples whose `at` lies below the horizon. Some may stay until others of their run have expired."""
        assert self.forget is not None
        self.record.horizon = horizon
        self.forget(self.address)

    def make_room(self, count: int) -> None:
        """Makes room for an insertion of `count` tuples that stopped for lack of it."""
        raise AssertionError("a window on a tape needs no room of its own")

    def aim(self, batch: Tuples, search: Search) -> Tuples:
        """Prepares a search, and may put its arrivals into an order that suits the access path."""
        return batch


class Search:
    """The state of one thread that searches segments with arrivals of one side: cursors, candidates, room for pairs.

    `refine` is the exact test; `fault` makes an error from a pair that it cannot compute.
    """

    def __init__(self, refine: OnDemand, fault: Fault) -> None:
        self._refine = refine
        self._fault = fault
        self.records = Probing.array(1)
        self.record = self.records[0]
        self.address = address(self.record)
        self._ranges = Range.array(RANGES)
        self.record.ranges, self.record.range_room, self.record.refine = address(self._ranges), RANGES, refine.address
        self._order = np.empty(0, np.uint32)
        self._empty(FIRST_PAIRS)

    @property
    def comparisons(self) -> int:
        """Candidates so far."""
        return int(self.record.compared)

    def _empty(self, room: int) -> None:
        self.pairs = np.empty((2, room), np.int64)
        self.record.pair_probe, self.record.pair_stored = address(self.pairs[0]), address(self.pairs[1])
        self.record.pair_room = room

    def order(self, count: int) -> Array:
        """Room for the order of `count` arrivals."""
        if count > len(self._order):
            self._order = np.empty(count, np.uint32)
            self.record.order = address(self._order)
        return self._order

    def probe(self, segment: Segment, batch: Tuples) -> Iterator[tuple[Array, Array]]:
        """Yields the numbers of matching (arriving, stored) tuples, in parts."""
        if not len(batch) or not len(segment):
            return
        record, stored = self.record, segment.record
        record.first, record.end, record.stored = 0, len(batch), segment.address
        record.low, record.high, record.newest = stored.oldest, stored.stop, stored.stop - 1
        record.count = record.run = record.step = record.row = record.ordered = 0
        record.at_range = record.at_position = record.found = 0
        record.batch = address(batch.record)
        batch = segment.aim(batch, self)
        record.batch = address(batch.record)
        more = True
        while more:
            more = not segment.find(self.address)
            done = False
            while not done:
                done = self._refine(self.address) == TESTED
                if error := self.fault(batch.columns, segment.columns):
                    raise error
                if not done:
                    yield self.taken()
        if record.found:
            yield self.taken()

    def fault(self, arrivals: tuple[Array, ...], stored: tuple[Array, ...]) -> Exception | None:
        """The error of a pair that the predicate could not compute, given the columns of both sides."""
        code, i, j = self.record.fault.tolist()
        self.record.fault[0] = 0
        return self._fault(code, tuple(c[i] for c in arrivals), tuple(c[j] for c in stored)) if code else None

    def taken(self) -> tuple[Array, Array]:
        """The pairs that were found. The room for them grows while it keeps filling up."""
        count, room = int(self.record.found), self.pairs.shape[1]
        probe, stored = self.pairs[:, :count]
        large = count >= MOST_PAIRS // 2
        found = (probe, stored) if large else (probe.copy(), stored.copy())
        self.record.found = 0
        if large or (count > room // 2 and room < MOST_PAIRS):
            self._empty(min(2 * room, MOST_PAIRS) if count > room // 2 else room)
        return found
