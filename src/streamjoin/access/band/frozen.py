"""Frozen runs: one ordered run as plain arrays, which can be kept in a file and probed there.

A segment inserts and drops tuples; here a batch is ordered once and never changes. A sequence of such runs, in order of
time, is a window whose probes cost as much as those of a band segment, and whose parts survive the process.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from streamjoin.access.band.index import BandSegment
from streamjoin.access.band.records import Run
from streamjoin.access.simd import LANES
from streamjoin.access.tuples import Tuples, addresses
from streamjoin.codegen.records import Array, address

Arrays = Mapping[str, Array]


def freeze(builder: BandSegment, batch: Tuples, probe_width: Array) -> dict[str, Array]:
    """A batch of at least one tuple as one ordered run. `probe_width`: the width of the boxes that will probe it."""
    n, dims = len(batch), builder.shape.dims
    builder.band.probe_width[:dims] = probe_width
    builder.build(batch)
    count, (run,) = len(builder.shape.columns), builder.runs
    columns, coord, rest = builder.columns, np.zeros((dims, n + LANES), np.float32), builder.arrays[count + dims :]
    coord[:, :n] = [axis[:n] for axis in builder.arrays[count : count + dims]]
    bins = int(run.buckets * run.bins[:dims].prod())
    return {
        "run": builder.runs.view(np.int64).copy(),
        "directory": rest[-1][: bins + 1].copy(),
        "coord": coord,
        "key": rest[2][:n].copy() if builder.shape.keyed else np.zeros(1, np.uint32),
        "at": rest[0][:n].copy(),
        "number": rest[1][:n].copy(),
        **{f"column{k}": column[:n].copy() for k, column in enumerate(columns)},
    }


class FrozenRun(BandSegment):
    """A segment for frozen runs, one after the other: `open` one, then search."""

    def open(self, run: Arrays) -> FrozenRun:
        """Makes this run the window. Its tuples are numbered from 0."""
        n, band, record = len(run["at"]), self.band, self.record
        coord, at, number, key = run["coord"], run["at"], run["number"], run["key"]
        columns = [run[f"column{k}"] for k in range(len(self.shape.columns))]
        self.arrays = (*columns, *coord, at, number, *[key] * self.shape.keyed, run["directory"])
        self._columns = addresses(self.arrays)
        self._use_runs(record_of(run))
        band.run_count, band.live, band.directory = 1, n, address(run["directory"])
        band.probe_width[:] = np.nan
        record.stop, record.room, record.columns, record.stride = n, n, address(self._columns), coord.shape[1]
        record.coord, record.key, record.at, record.number = map(address, (coord, key, at, number))
        return self


def record_of(run: Arrays) -> Array:
    """The record of a frozen run, as the one element of an array."""
    return run["run"].reshape(-1).view(Run.dtype)


def check(run: Arrays) -> bool:
    """Is a run consistent? Guards against damaged files."""
    n, words = len(run["at"]), run["run"]
    if words.nbytes != Run.dtype.itemsize:
        return False
    (first,) = record_of(run)
    return bool(first.begin == 0 and first.end == n and len(run["number"]) == n)
