"""Frozen runs of either kind: ordered by the bins of a grid, or with trees of minima where a grid does not divide them.

Each run is frozen as it suits its own tuples. What it is shows in its arrays.
"""

from __future__ import annotations

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
        self._builders: dict[type[BandSegment] | type[TreeSegment], BandSegment | TreeSegment] = {}
        self._open: dict[type[Segment], grids.FrozenRun | trees.FrozenTree] = {}

    def freeze(self, batch: Tuples, probe_width: Array) -> dict[str, Array]:
        """A batch of at least one tuple as a run. `probe_width`: how wide the boxes are that will probe it."""
        if not self._by_tree:
            builder = self._builders.setdefault(BandSegment, BandSegment(self._shape))
            assert isinstance(builder, BandSegment)
            run = grids.freeze(builder, batch, probe_width)
            if not uneven([np.diff(run["directory"].astype(np.int64))]):
                return run
        tree = self._builders.get(TreeSegment) or self._builders.setdefault(TreeSegment, TreeSegment(self._shape))
        assert isinstance(tree, TreeSegment)
        return trees.freeze(tree, batch, probe_width)

    def open(self, run: Arrays) -> Segment:
        """The segment of a run, to be searched until another one is opened."""
        kind = trees.FrozenTree if trees.MARK in run else grids.FrozenRun
        segment = self._open.get(kind) or self._open.setdefault(kind, kind(self._shape))
        return segment.open(run)


def span(run: Arrays) -> tuple[int, int]:
    """The smallest and the largest place in a run."""
    return trees.span(run) if trees.MARK in run else grids.span(run)


def check(run: Arrays) -> bool:
    """Does a run hold together? Guards against files that are not what they should be."""
    return trees.check(run) if trees.MARK in run else grids.check(run)
