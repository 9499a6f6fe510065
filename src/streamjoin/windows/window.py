"""What a kind of window consists of: what the user asks for, and the same in ticks for the rest of the package."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamjoin.codegen.records import Array
from streamjoin.errors import WindowError, shown
from streamjoin.predicate.tree import Node


@dataclass(frozen=True)
class Retention:
    """How long a tuple waits for the other stream: an r for s, an s for r. In seconds, or in rows of its own stream."""

    r: float
    s: float
    by_rows: bool = False


class Window(ABC):
    """A window in ticks of the time columns, or in rows."""

    by_rows = False  # `at` is the position in the stream, otherwise the time
    by_arrival = False  # the order of arrival matters: only the later of two tuples may find the earlier one

    @property
    def bounded(self) -> bool:
        """Does every tuple expire at some time?"""
        return True

    carries = False  # on streams: tuples of s do not expire, but are replaced by newer ones of the same key

    @abstractmethod
    def bounds(self, side: int, at: Array, opposite: int | Array) -> tuple[Array, Array]:
        """The lowest and the highest `at` of the other side that probing tuples of a side meet, by their own `at`.

        `opposite` tuples of the other side arrived before.
        """

    @abstractmethod
    def horizon(self, side: int, watermark: int, opposite: int) -> int:
        """The smallest `at` of the other side that tuples of this side can still meet.

        `watermark` is the smallest `at` that may still arrive on this side, `opposite` how many arrived on the other.
        """

    @property
    @abstractmethod
    def retention(self) -> Retention | None:
        """How long tuples stay; None if that depends on the unit of integer times, which is not known."""

    @abstractmethod
    def identity(self) -> str:
        """The window's name in checkpoints. Its text must never change."""

    def describe(self) -> str:
        """The window in words."""
        return self.identity()

    def closing(self, side: int) -> str:
        """In words: the event after which a tuple of a side has met all its partners."""
        return "the streams have ended"

    def differences(self, side: int) -> tuple[int, int] | None:
        """The lowest and the highest difference from a tuple's time to its partners', if all tuples have the same."""
        return None

    def due(self, side: int, at: Array) -> Array:
        """What the input must have passed before no partner of tuples of a side can follow, by their `at`."""
        return at if self.by_rows else self.bounds(side, at, 0)[1]

    def ends(self, at: Array, due: Array) -> Array:
        """The time at which that is certain, given the times of such tuples; in windows of rows, their own time."""
        return at if self.by_rows else np.maximum(at, due)

    @property
    def later_side(self) -> int | None:
        """The side whose tuple is never the earlier one of a pair, if there is one."""
        return None


class Asked(ABC):
    """A window as the user asks for it, before the unit of the time columns is known."""

    @abstractmethod
    def window(self, unit: str | None) -> Window:
        """The same in ticks: of "us" or "ns" for timestamps, "int" for integer times; None: there is no time column."""

    @property
    @abstractmethod
    def lengths(self) -> tuple[Any, ...]:
        """The lengths of time in it."""

    def conditions(self, time_r: Node, time_s: Node) -> list[Node]:
        """Further conditions on a pair, given both time columns: bounds that depend on the row."""
        return []


def check_rows(what: str, rows: Any) -> None:
    """Refuses what is not a number of rows."""
    if isinstance(rows, bool) or not isinstance(rows, (int, np.integer)) or rows < 1:
        raise WindowError(f"{what} window of {shown(rows)} rows: give a whole number of at least 1")
