"""Hash access: chains of tuples with equal keys over the columns in order of arrival."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from streamjoin.access.hash import candidates, count_below, link
from streamjoin.access.layout import Probes, Ranges
from streamjoin.access.segment import Store, Trouble
from streamjoin.access.tuples import Shape, Tuples
from streamjoin.codegen.records import Array

FEWEST_HEADS = 1024
TUPLES_PER_HEAD = 2
ORDINALS = 1 << 31  # links hold ordinals modulo 2**32: all chains are built anew before one could come round


class HashStore(Store):
    """Chains by key hash; see `access/hash.py`."""

    access = "hash"

    def __init__(self, shape: Shape, exact: ModuleType, trouble: Trouble) -> None:
        super().__init__(shape, exact, trouble)
        self._tail = 0  # ordinal of the next tuple
        self._built = 0  # ordinal at which the chains were last built
        self._links = np.empty(self.arena.capacity, np.uint32)
        self._heads = np.full(FEWEST_HEADS, np.uint32(0xFFFFFFFF), np.uint32)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._links.nbytes + self._heads.nbytes

    def insert(self, batch: Tuples) -> None:
        shift, arena = self.arena.append(batch), self.arena
        older = len(arena) - len(batch)
        if arena.capacity != len(self._links):
            moved = np.empty(arena.capacity, np.uint32)
            moved[:older] = self._links[shift : shift + older]
            self._links = moved
        elif shift:
            self._links[:older] = self._links[shift : shift + older].copy()
        first = self._tail
        self._tail += len(batch)
        if len(self) > TUPLES_PER_HEAD * len(self._heads) or self._tail - self._built > ORDINALS:
            self._rebuild()
        else:
            link(arena.stored.key, arena.end - len(batch), arena.end, first, self._heads, self._links)

    def expire(self, horizon: int) -> None:
        """Drops from the front up to the first tuple that is still within reach."""
        arena = self.arena
        arena.drop(count_below(arena.stored.at, arena.begin, arena.end, horizon))
        if not len(arena) and len(self._heads) > FEWEST_HEADS:
            self._links = np.empty(arena.capacity, np.uint32)
            self._rebuild()

    def _rebuild(self) -> None:
        arena = self.arena
        oldest = self._tail - len(arena)
        size = max(FEWEST_HEADS, 1 << len(arena).bit_length() >> 1)
        self._heads = np.full(size, np.uint32((oldest - 1) & 0xFFFFFFFF), np.uint32)
        self._built = self._tail
        link(arena.stored.key, arena.begin, arena.end, oldest, self._heads, self._links)

    def _candidates(self, probes: Probes, ranges: Ranges, cursor: Array) -> bool:
        arena = self.arena
        return bool(
            candidates(
                probes,
                arena.stored.key,
                arena.begin,
                arena.end,
                self._tail,
                self._heads,
                self._links,
                ranges,
                cursor,
            )
        )
