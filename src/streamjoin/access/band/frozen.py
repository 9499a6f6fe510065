"""Runs that lie still: one ordered run as plain arrays, to be kept in a file and probed where it lies.

A store takes tuples in and lets them go; here a batch is ordered once and never changes. Whoever keeps such runs,
in order of time, has a window whose probes cost what those of a band store cost, and whose parts survive a process.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

import numpy as np

from streamjoin.access.band.bins import total_cells
from streamjoin.access.band.index import BandStore
from streamjoin.access.band.search import FEW, aim, candidates
from streamjoin.access.layout import (
    BEGIN,
    BUCKETS,
    END,
    FIRST_AT,
    KEYED,
    LAST_AT,
    LIVE,
    NEWEST,
    RUN_COUNT,
    STATE_FIELDS,
    Band,
    Probes,
    Ranges,
    Stored,
)
from streamjoin.access.segment import Store, Trouble
from streamjoin.access.simd import LANES
from streamjoin.access.tuples import Shape, Tuples
from streamjoin.codegen.records import Array

Arrays = Mapping[str, Array]


def freeze(store: BandStore, batch: Tuples, reach: Array | None = None) -> dict[str, Array]:
    """A batch of at least one tuple as one ordered run. `reach`: how wide the boxes are that will probe it."""
    if reach is not None:
        store.band.reach[:] = reach
    store.build(batch)
    band, stored, n, dims = store.band, store.stored, len(batch), store.shape.dims
    cells = int(total_cells(band.boxes[0], int(band.runs[0, BUCKETS])))
    coord = np.zeros((dims, n + LANES), np.float32)
    coord[:, :n] = stored.coord[:, :n]
    return {
        "run": band.runs[:1].copy(),
        "box": band.boxes[:1].copy(),
        "directory": band.directory[: cells + 1].copy(),
        "coord": coord,
        "key": stored.key[:n].copy() if store.shape.keyed else np.zeros(1, np.uint32),
        "at": stored.at[:n].copy(),
        "number": stored.number[:n].copy(),
        **{f"column{k}": column[:n].copy() for k, column in enumerate(stored.columns)},
    }


class RunReader(Store):
    """Probes frozen runs, one after the other: `attach` one, then `probe`."""

    access = "band"

    def __init__(self, shape: Shape, exact: ModuleType, trouble: Trouble) -> None:
        super().__init__(shape, exact, trouble)
        self._straight = np.zeros(0, np.uint32)
        self._length = 0
        nothing = np.zeros(1, np.int64)
        self._spare = {
            "columns": np.zeros((2, 1), np.int64),
            "jobs": np.zeros((1, 1), np.int64),
            "seen": np.zeros((1, 1), np.uint64),
            "held": nothing.astype(np.bool_),
            "target": nothing.astype(np.uint32),
        }

    @property
    def stored(self) -> Stored:
        return self._stored

    @property
    def newest(self) -> int:
        return self._length - 1

    def __len__(self) -> int:
        return self._length

    def attach(self, run: Arrays) -> RunReader:
        """From here on, this run is the window. Its tuples are numbered from 0."""
        n, dims = len(run["at"]), self.shape.dims
        columns = tuple(run[f"column{k}"] for k in range(len(self.shape.columns)))
        self._length = n
        self._stored = Stored(columns, run["coord"], run["key"], run["at"], run["number"])
        state = np.zeros(STATE_FIELDS, np.int64)
        state[NEWEST], state[LIVE], state[RUN_COUNT], state[KEYED] = n - 1, n, 1, self.shape.keyed
        self._band = Band(
            state=state,
            coord=run["coord"],
            key=run["key"],
            runs=run["run"],
            boxes=run["box"],
            directory=run["directory"],
            reach=np.full(dims, np.nan),
            **self._spare,
        )
        return self

    def insert(self, batch: Tuples) -> None:
        raise NotImplementedError("a frozen run takes no arrivals; freeze() makes a new one")

    def expire(self, horizon: int) -> None:
        raise NotImplementedError("a frozen run is dropped as a whole by whoever keeps it")

    def _aim(self, batch: Tuples) -> Tuples:
        n = len(batch)
        if n > len(self._straight):
            self._straight = np.arange(n, dtype=np.uint32)
        if n < FEW:
            return batch
        order = np.empty(n, np.uint32)
        aim(self._band, batch.probes, 0, n, order)
        return batch.probing(order, self.shape.keyed)

    def _candidates(self, probes: Probes, ranges: Ranges, cursor: Array) -> bool:
        return bool(candidates(probes, self._straight, len(probes.since), self._band, ranges, cursor))


def span(run: Arrays) -> tuple[int, int]:
    """The smallest and the largest place in a run."""
    return int(run["run"][0, FIRST_AT]), int(run["run"][0, LAST_AT])


def check(run: Arrays) -> bool:
    """Does a run hold together? Guards against files that are not what they should be."""
    n = len(run["at"])
    return bool(run["run"][0, BEGIN] == 0 and run["run"][0, END] == n and len(run["number"]) == n)
