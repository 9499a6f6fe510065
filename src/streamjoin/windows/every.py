"""No window: every pair of two tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from streamjoin.codegen.records import Array
from streamjoin.windows import FOREVER, SINCE_EVER
from streamjoin.windows.window import Asked, Window


@dataclass(frozen=True)
class EveryWindow(Window):
    """All tuples of the other side, whatever their times."""

    @property
    def bounded(self) -> bool:
        return False

    def bounds(self, side: int, at: Array, opposite: int | Array) -> tuple[Array, Array]:
        return np.full(len(at), SINCE_EVER), np.full(len(at), FOREVER)

    def horizon(self, side: int, watermark: int, opposite: int) -> int:
        return SINCE_EVER

    @property
    def retention(self) -> None:
        return None

    def identity(self) -> str:
        return "none: every pair"


@dataclass(frozen=True)
class VersionWindow(EveryWindow):
    """The same on streams, where an r only looks back. It has met all its partners when s has passed its time.

    In a live join `at` of s counts the tuples: see `live/versions.py`.
    """

    carries = True

    def horizon(self, side: int, watermark: int, opposite: int) -> int:
        return watermark if side else opposite

    def closing(self, side: int) -> str:
        return "s has passed r.time"

    def identity(self) -> str:
        return "none: one version of s per key"


def latest(keys: tuple[Array, ...], times: Array, arrival: Array, passed: int) -> Array:
    """Which versions r may need from a time on: of each key the last one up to that time, and all later ones.

    Of several at one time the last to arrive is the last one.

    >>> latest((np.array([1, 1, 2, 1]),), np.array([3, 5, 4, 9]), np.arange(4), 6).tolist()
    [False, True, True, True]
    """
    order = np.lexsort((arrival, times, *keys))
    replaced = times[order[1:]] <= passed  # by the next one in this order
    for key in keys:
        replaced &= key[order[1:]] == key[order[:-1]]
    needed = np.ones(len(order), np.bool_)
    needed[order[:-1]] = ~replaced
    return needed


@dataclass(frozen=True)
class Every(Asked):
    """`within` left out."""

    @property
    def lengths(self) -> tuple[Any, ...]:
        return ()

    def window(self, unit: str | None) -> EveryWindow:
        return EveryWindow()
