"""Scan access: runs in order of arrival, nothing else."""

from __future__ import annotations

from types import ModuleType

from streamjoin.access import scan
from streamjoin.access.layout import Probes, Ranges
from streamjoin.access.run_list import RunList
from streamjoin.access.segment import Store, Trouble
from streamjoin.access.tuples import Shape, Tuples
from streamjoin.access.whole import candidates
from streamjoin.codegen.cache import load_module
from streamjoin.codegen.program import kernel_text
from streamjoin.codegen.records import Array

LONGEST = 1 << 16  # a run is skipped or dropped as a whole: short enough to matter, long enough to be few
PARTS = 16


def scan_module(dims: int) -> ModuleType:
    """The scan over boxes of so many dimensions. Vectors need the number at compile time."""
    return load_module(f"DIMS = {dims}\n{kernel_text(scan.__name__)}")


class ScanStore(Store):
    """Runs in order of arrival; SIMD over the boxes where the predicate has any."""

    access = "scan"

    def __init__(self, shape: Shape, exact: ModuleType, trouble: Trouble) -> None:
        super().__init__(shape, exact, trouble)
        self._runs = RunList(shape.dims)
        self._scan = scan_module(shape.dims) if shape.dims else None

    def insert(self, batch: Tuples) -> None:
        if not len(batch):
            return
        self._runs.shift(self.arena.append(batch))
        width = batch.width[: self.arena.shape.dims]
        end, begin = self.arena.end, self.arena.end - len(batch)
        longest = min(LONGEST, max(len(self) // PARTS, 64))
        if self._runs.count and self._runs.size(self._runs.count - 1) + len(batch) <= longest:
            self._runs.extend(end, batch.at, width)
            return
        for start in range(begin, end, LONGEST):
            stop = min(start + LONGEST, end)
            self._runs.add(start, stop, batch.at[start - begin : stop - begin], width)

    def expire(self, horizon: int) -> None:
        self.arena.drop(self._runs.drop(self._runs.expired(horizon)))

    def _candidates(self, probes: Probes, ranges: Ranges, cursor: Array) -> bool:
        coord, runs = self.arena.stored.coord, self._runs
        if self._scan is None:
            return bool(candidates(probes, runs.arrays, runs.count, ranges, cursor))
        return bool(self._scan.candidates(probes, coord, runs.arrays, runs.count, ranges, cursor))
