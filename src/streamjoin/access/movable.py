"""Segments that keep their tuples, and can hand all of them over to a segment with another access path."""

from __future__ import annotations

from abc import abstractmethod

from streamjoin.access.segment import Segment
from streamjoin.access.tuples import Tuples
from streamjoin.codegen.jit import OnDemand


class Movable(Segment):
    """What `choosing.py` asks of the segments that it chooses from."""

    enter: OnDemand
    taken = 0  # tuples that an insert took before it stopped

    @property
    def uneven(self) -> bool:
        """Do its tuples turn out not to suit it?"""
        return False

    @abstractmethod
    def offer(self, batch: Tuples) -> None:
        """A batch is to be inserted."""

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
