"""Segments that store their tuples in runs, and can move all of them to a segment with another access path."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from streamjoin.access.records import Index
from streamjoin.access.segment import Segment
from streamjoin.access.tape import Tape
from streamjoin.access.tuples import Tuples
from streamjoin.codegen.jit import OnDemand
from streamjoin.codegen.records import Array, address


class Movable(Segment):
    """A segment with runs. `choosing.py` moves its tuples to another one if they do not suit it."""

    enter: OnDemand
    arrays: tuple[Array, ...]  # the stored columns are the first of them
    first_room: ClassVar[int]  # of an empty segment

    def _use_index(self, index: Index, runs: Array) -> None:
        self._index, self.record.index = index, address(index)
        self._use_runs(runs)

    def _use_runs(self, runs: Array) -> None:
        self._runs = runs
        self._index.runs, self._index.run_room = address(runs), len(runs)

    def _more_runs(self) -> None:
        """Makes room for twice as many runs."""
        self._use_runs(np.concatenate([self._runs, np.zeros_like(self._runs)]))

    @property
    def runs(self) -> Array:
        """The runs, oldest first."""
        return self._runs[: self._index.run_count]

    def attach(self, tape: Tape) -> None:
        record = self.record
        record.source, record.ways, record.stripe = tape.record.source, tape.ways, tape.stripe

    @property
    def columns(self) -> tuple[Array, ...]:
        return self.arrays[: len(self.shape.columns)]

    @property
    def taken(self) -> int:
        """Tuples that an insert took before it stopped."""
        return int(self._index.taken)

    @taken.setter
    def taken(self, count: int) -> None:
        self._index.taken = count

    def insert(self, batch: Tuples) -> None:
        if not len(batch):
            return
        self.offer(batch)
        while not self.enter(self.address):
            self.make_room(len(batch))

    def offer(self, batch: Tuples) -> None:
        """Enters a batch into the record as the next to be inserted."""
        record = self.record
        record.source, record.begin, record.end = address(batch.record), 0, len(batch)
        record.stop = max(int(record.stop), int(batch.number.max()) + 1)

    def expire(self, horizon: int) -> None:
        super().expire(horizon)
        if not len(self) and self.record.room > self.first_room:
            self._clear(self.first_room)

    @abstractmethod
    def _clear(self, room: int) -> None:
        """Starts with an empty window."""

    def _numbers(self, low: Array) -> Array:
        """The tuple numbers with these low halves."""
        newest = int(self.record.stop) - 1
        numbers: Array = newest - ((newest - low.astype(np.int64)) & 0xFFFFFFFF)
        return numbers

    @property
    def uneven(self) -> bool:
        """Are its tuples such that they do not suit it?"""
        return False

    @property
    @abstractmethod
    def entered(self) -> int:
        """Tuples inserted so far."""

    @property
    def due(self) -> bool:
        """Has `enter` stopped for a check of the tuples?"""
        return bool(self.entered >= self._index.look)

    def look_again(self, after: int) -> None:
        """Lets `enter` stop after this many more tuples."""
        self._index.look = self.entered + after

    @abstractmethod
    def tuples(self) -> Tuples:
        """All tuples; of their boxes, the ends that are stored."""
