"""Segments that keep their tuples, and can hand all of them over to a segment with another access path."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from streamjoin.access.segment import Segment
from streamjoin.access.tuples import Tuples
from streamjoin.codegen.jit import OnDemand
from streamjoin.codegen.records import Array, address


class Movable(Segment):
    """What `choosing.py` asks of the segments that it chooses from."""

    enter: OnDemand
    arrays: tuple[Array, ...]  # the stored columns are the first of them

    def _use_index(self, index: Any) -> None:
        """The record of its index, which has a word `taken`."""
        self._index, self.record.index = index, address(index)

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
        """A batch is to be inserted."""
        record = self.record
        record.source, record.begin, record.end = address(batch.record), 0, len(batch)
        record.stop = max(int(record.stop), int(batch.number.max()) + 1)

    @property
    def uneven(self) -> bool:
        """Do its tuples turn out not to suit it?"""
        return False

    @property
    @abstractmethod
    def due(self) -> bool:
        """Has `enter` stopped because it is time for a look at the tuples?"""

    @abstractmethod
    def look_again(self, after: int) -> None:
        """Has `enter` stop once so many more tuples have come."""

    @abstractmethod
    def tuples(self) -> Tuples:
        """All tuples; of their boxes, as much as is known."""
