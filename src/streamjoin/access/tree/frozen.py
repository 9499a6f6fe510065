"""Frozen tree runs: one ordered run with its trees as plain arrays, which can be kept in a file and probed there."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from streamjoin.access.tree.index import TreeSegment
from streamjoin.access.tree.records import FAN_OUT, Run
from streamjoin.access.tuples import Tuples, addresses
from streamjoin.codegen.records import Array, address

Arrays = Mapping[str, Array]
MARK = "trees"  # the name of an array that only these runs have


def freeze(builder: TreeSegment, batch: Tuples, probe_width: Array) -> dict[str, Array]:
    """A batch of at least one tuple as one run. `probe_width`: the width of the boxes that will probe it."""
    n = len(batch)
    builder.build(batch, probe_width)
    *columns, at, number = (array[:n].copy() for array in builder.arrays)
    return {
        "run": builder.runs.view(np.int64).copy(),
        "axes": builder.forest.axes.copy(),
        MARK: builder.trees[:, : _tree_size(n)].copy(),
        "rank": builder.places["rank"][:n].copy(),
        "ordinal": builder.places["ordinal"][:n].copy(),
        "at": at,
        "number": number,
        **{f"column{k}": column for k, column in enumerate(columns)},
    }


def _tree_size(count: int) -> int:
    """The size of a tree over `count` values, all levels together."""
    size = -(-count // FAN_OUT) * FAN_OUT
    return size if size <= FAN_OUT else size + _tree_size(size // FAN_OUT)


class FrozenTree(TreeSegment):
    """A segment for frozen runs, one after the other: `open` one, then search."""

    def open(self, run: Arrays) -> FrozenTree:
        """Makes this run the window. Its tuples are numbered from 0."""
        n, forest, record = len(run["at"]), self.forest, self.record
        columns = [run[f"column{k}"] for k in range(len(self.shape.columns))]
        self.arrays = (*columns, run["at"], run["number"])
        self.places = {"rank": run["rank"], "ordinal": run["ordinal"]}
        self.trees = run[MARK]
        self._columns = addresses(self.columns)
        self._use_runs(record_of(run).copy())
        forest.axes[:] = run["axes"]
        forest.run_count = forest.closed = 1
        forest.oldest, forest.stop, forest.capacity, forest.growing = 0, n, n, 0
        forest.rank, forest.ordinal = address(run["rank"]), address(run["ordinal"])
        forest.values, forest.stride = address(self.trees), self.trees.shape[1]
        record.stop, record.room, record.columns = n, 1 << n.bit_length(), address(self._columns)
        record.at, record.number = address(run["at"]), address(run["number"])
        return self


def record_of(run: Arrays) -> Array:
    """The record of a frozen run, as the one element of an array."""
    return run["run"].reshape(-1).view(Run.dtype)


def check(run: Arrays) -> bool:
    """Is a run consistent? Guards against damaged files."""
    n = len(run["at"])
    if run["run"].nbytes != Run.dtype.itemsize or run[MARK].ndim != 2 or run["axes"].shape != (2,):
        return False
    (first,) = record_of(run)
    whole = first.begin == 0 and first.count == n == len(run["number"]) == len(run["rank"]) == len(run["ordinal"])
    return bool(whole and run[MARK].shape[1] == _tree_size(n) and run["ordinal"].max(initial=0) < n)
