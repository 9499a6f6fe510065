"""The interface of window stores, and the way from probes over candidates to pairs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np

from streamjoin.access.layout import COMPARED, COUNT, FIELDS, FOUND, TROUBLE_FIELDS, Pairs, Probes, Ranges, Stored
from streamjoin.access.tuples import Arena, Shape, Tuples
from streamjoin.codegen.records import Array

RANGES = 1 << 14
FIRST_PAIRS, MOST_PAIRS = 1 << 14, 1 << 20

Trouble = Callable[[int, tuple[Any, ...], tuple[Any, ...]], Exception]


class Store(ABC):
    """One window segment of one stream. Insert adds arrivals, probe meets the other stream's, expire forgets.

    `exact` is the generated module whose `sift` knows the predicate; `trouble` makes an error of what it cannot do.
    """

    access: str

    def __init__(self, shape: Shape, exact: ModuleType, trouble: Trouble) -> None:
        self.shape = shape
        self.comparisons = 0
        self._exact = exact
        self._trouble = trouble
        self._ranges = Ranges(
            np.empty(RANGES, np.int64),
            np.empty(RANGES, np.int64),
            np.empty(RANGES, np.int64),
            np.empty(RANGES, np.bool_),
        )
        self._pairs = Pairs(np.empty(FIRST_PAIRS, np.int64), np.empty(FIRST_PAIRS, np.int64))

    @cached_property
    def arena(self) -> Arena:
        """The columns, in stores that keep them in order of arrival."""
        return Arena(self.shape)

    @property
    def stored(self) -> Stored:
        """The columns as kernels see them."""
        return self.arena.stored

    @property
    def newest(self) -> int:
        """The largest tuple number so far."""
        return self.arena.newest

    def __len__(self) -> int:
        return len(self.arena)

    @property
    def nbytes(self) -> int:
        """Bytes held: columns, numbers, index, room to grow."""
        return self.arena.nbytes

    @property
    def raw_bytes(self) -> int:
        """Bytes of the live tuples' predicate columns and times alone."""
        return len(self) * self.shape.raw_bytes

    @abstractmethod
    def insert(self, batch: Tuples) -> None:
        """Adds arrivals."""

    @abstractmethod
    def expire(self, horizon: int) -> None:
        """Forgets tuples whose place lies below the horizon; some may stay until their whole run is below."""

    @abstractmethod
    def _candidates(self, probes: Probes, ranges: Ranges, cursor: Array) -> bool:
        """Fills the ranges from the cursor on; False if there are more."""

    def _aim(self, batch: Tuples) -> Tuples:
        """Prepares for a batch of probes, and may put it into an order that suits the access path."""
        return batch

    def probe(self, batch: Tuples) -> Iterator[tuple[Array, Array]]:
        """Yields the numbers of matching (probing, stored) tuples, in chunks."""
        if not len(batch) or not len(self):
            return
        batch = self._aim(batch)
        probes = batch.probes
        path, test = np.zeros(FIELDS, np.int64), np.zeros(FIELDS, np.int64)
        more = True
        while more:
            more = not self._candidates(probes, self._ranges, path)
            while not self._sift(batch, int(path[COUNT]), test):
                yield self._emptied(test)
        if test[FOUND]:
            yield self._emptied(test)
        self.comparisons += int(path[COMPARED])

    def warm_up(self, empty: Tuples) -> None:
        """Has the exact test compiled, or loaded from the cache, by a call without candidates."""
        self._sift(empty, 0, np.zeros(FIELDS, np.int64))

    def _sift(self, batch: Tuples, count: int, cursor: Array) -> bool:
        stored, trouble = self.stored, np.zeros(TROUBLE_FIELDS, np.int64)
        done: bool = self._exact.sift(
            batch.columns,
            batch.since,
            batch.until,
            batch.number,
            stored,
            self.newest,
            self._ranges,
            count,
            self._pairs,
            cursor,
            trouble,
        )
        if trouble[0]:
            code, i, j = (int(value) for value in trouble)
            raise self._trouble(
                code, tuple(column[i] for column in batch.columns), tuple(column[j] for column in stored.columns)
            )
        return done

    def _emptied(self, cursor: Array) -> tuple[Array, Array]:
        """What the pairs hold. Their room grows while they keep filling up."""
        count = int(cursor[FOUND])
        cursor[FOUND] = 0
        filled = self._pairs
        if count < MOST_PAIRS // 2:
            found = filled.probe[:count].copy(), filled.stored[:count].copy()
        else:
            found = filled.probe[:count], filled.stored[:count]
        size = min(2 * len(filled.probe), MOST_PAIRS) if count > len(filled.probe) // 2 else len(filled.probe)
        if size > len(filled.probe) or count >= MOST_PAIRS // 2:
            self._pairs = Pairs(np.empty(size, np.int64), np.empty(size, np.int64))
        return found
