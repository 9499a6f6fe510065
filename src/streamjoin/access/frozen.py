"""Frozen runs of either kind: ordered by the bins of a grid, or with trees of minima where a grid does not divide them.

The tuples of each run determine its kind. The names of its arrays show the kind.
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
    """Freezes batches of one side, and opens frozen runs to be probed."""

    def __init__(self, shape: Shape, by_tree: bool) -> None:
        """`by_tree`: the predicate has no band of a known width for a grid."""
        self._shape, self._by_tree = shape, by_tree
        self._open: dict[type[Segment], grids.FrozenRun | trees.FrozenTree] = {}

    def freeze(self, batch: Tuples, probe_width: Array) -> dict[str, Array]:
        """A batch of at least one tuple as a run. `probe_width`: the width of the boxes that will probe it."""
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
    """Is a run consistent? Guards against damaged files."""
    return trees.check(run) if trees.MARK in run else grids.check(run)
