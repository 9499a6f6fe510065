"""Frozen runs of either kind: ordered by the bins of a grid, or with trees of minima where a grid does not divide them.

Each run is frozen as it suits its own tuples. What it is shows in its arrays.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from streamjoin.access.band import frozen as grids
from streamjoin.access.band.index import BandSegment, uneven
from streamjoin.access.tree import frozen as trees
from streamjoin.access.tree.index import TreeSegment
from streamjoin.access.tuples import Shape, Tuples

if TYPE_CHECKING:
    from streamjoin.access.segment import Segment
    from streamjoin.codegen.records import Array

Arrays = grids.Arrays


class Freezer:
    """Freezes batches of one side, and has them probed."""

    def __init__(self, shape: Shape, by_tree: bool) -> None:
        """`by_tree`: the predicate gives no band of a known width by which a grid could be cut."""
        self._shape, self._by_tree = shape, by_tree
        self._open: dict[type[Segment], grids.FrozenRun | trees.FrozenTree] = {}

    def freeze(self, batch: Tuples, probe_width: Array) -> dict[str, Array]:
        """A batch of at least one tuple as a run. `probe_width`: how wide the boxes are that will probe it."""
        if not self._by_tree:
            run = grids.freeze(self._grid, batch, probe_width)
            if not uneven([np.diff(run["directory"].astype(np.int64))]):
                return run
        return trees.freeze(self._tree, batch, probe_width)

    @cached_property
    def _grid(self) -> BandSegment:
        return BandSegment(self._shape)

    @cached_property
    def _tree(self) -> TreeSegment:
        return TreeSegment(self._shape)

    def open(self, run: Arrays) -> Segment:
        """The segment of a run, to be searched until another one is opened."""
        kind = trees.FrozenTree if trees.MARK in run else grids.FrozenRun
        segment = self._open.get(kind) or self._open.setdefault(kind, kind(self._shape))
        return segment.open(run)


def span(run: Arrays) -> tuple[int, int]:
    """The smallest and the largest `at` in a run."""
    (record,) = trees.record_of(run) if trees.MARK in run else grids.record_of(run)
    return int(record.first_at), int(record.last_at)


def check(run: Arrays) -> bool:
    """Does a run hold together? Guards against files that are not what they should be."""
    return trees.check(run) if trees.MARK in run else grids.check(run)
