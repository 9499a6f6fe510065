"""The papers' join with its results as rows, in turns with the same join whose results are pairs of tuple numbers."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.bench.harness import FilledJoin
from streamjoin.bench.one_core import CHECKED, Kept, Workload, workload
from streamjoin.errors import StreamjoinError
from streamjoin.machine import machine
from streamjoin.papers import EQUALITY, NAMES, Array, Source, partners
from streamjoin.predicate.tree import SIDES


class _Rows(FilledJoin):
    """A live join with full windows, from push to poll: its results are Arrow batches."""

    def __init__(self, work: Workload, access: str, sources: list[Source]) -> None:
        super().__init__(sources, work.filled, on=work.on, within=work.window, access=access, algorithm="kang")
        self.rows = 0
        self.seconds = 0.0

    def round(self, size: int) -> list[pa.RecordBatch]:
        """One more batch of each side. Returns the rows that came of them."""
        found: list[pa.RecordBatch] = []
        for side, source in enumerate(self._sources):
            table = source.batch(size)
            start = time.perf_counter()
            found += self.push(side, table)
            self.seconds += time.perf_counter() - start
        self.rows += sum(batch.num_rows for batch in found)
        return found


class _Pairs:
    """The same with pairs of numbers, and no rows materialised."""

    def __init__(self, work: Workload, access: str, sources: list[Source]) -> None:
        self._sources = sources
        self._join = Kept(work.on, work.window, access)
        self._join.fill(sources, work.filled, most=work.batch)
        self._join.results = 0
        self.seconds = 0.0

    @property
    def rows(self) -> int:
        return self._join.results

    def round(self, size: int) -> None:
        for side, source in enumerate(self._sources):
            first, table = source.count, source.batch(size)
            start = time.perf_counter()
            self._join.take(side, table, first)
            self.seconds += time.perf_counter() - start


def rows(
    access: str = "band", window: str | None = None, rate: int | None = None, seconds: float = 20.0
) -> dict[str, Any]:
    """Tuples/s with results as Arrow batches, and how much that is of the rate with pairs of numbers.

    Both joins take the same tuples, in turns. Rows of some r tuples are compared with a look at every s tuple; the
    numbers of rows and pairs are equal.
    """
    work = workload(access, window, rate)
    filled, size = work.filled, work.batch
    sources = {kind: [Source(name, work.rate, work.highest) for name in SIDES] for kind in ("rows", "pairs")}
    as_rows = _Rows(work, access, sources["rows"])
    as_pairs = _Pairs(work, access, sources["pairs"])
    rounds = 0
    while as_rows.seconds + as_pairs.seconds < seconds or rounds < 2:
        found = as_rows.round(size)
        as_pairs.round(size)
        if not rounds:
            _check(found, sources["rows"], range(filled, filled + size, max(1, size // CHECKED)), work.ticks, work.on)
        rounds += 1
    as_rows.join.close()
    if as_rows.rows != as_pairs.rows:
        raise StreamjoinError(f"wrong result: {as_rows.rows} rows, but {as_pairs.rows} pairs")
    return {
        "rate_per_stream": rounds * size / as_rows.seconds,
        "pairs_rate_per_stream": rounds * size / as_pairs.seconds,
        "ratio_to_pairs": as_pairs.seconds / as_rows.seconds,
        "results_per_s": as_rows.rows / as_rows.seconds,
        "window_tuples": filled,
        "access": access,
        "verified": True,
        "window": work.window,
        "predicate": work.on,
        "batch": size,
        "machine": machine(),
    }


def _check(found: list[pa.RecordBatch], sources: list[Source], numbers: range, window: int, on: str) -> None:
    """Raises unless some r tuples have the partners that a nested loop finds, with their values."""
    table = pa.Table.from_batches(found)
    columns = {name: _plain(np.asarray(table[name].to_numpy())) for name in ("ts_r", *NAMES["r"], "ts_s", *NAMES["s"])}
    r, s = (source.sent() for source in sources)
    sample = [column[numbers.start : numbers.stop : numbers.step] for column in r]
    expected = partners((sample[0], sample[1], sample[2]), s, window, on == EQUALITY)
    for k, (number, wanted) in enumerate(zip(numbers, expected, strict=True)):
        mine = np.ones(table.num_rows, bool)
        for name, values in zip(("ts_r", *NAMES["r"]), sample, strict=True):
            mine &= columns[name] == values[k]
        got = [columns[name][mine] for name in ("ts_s", *NAMES["s"])]
        if not _same(got, [column[wanted] for column in s]):
            raise StreamjoinError(
                f"wrong result: r tuple {number} has {len(wanted)} partners; the join gave {len(got[0])} rows"
            )


def _plain(values: Array) -> Array:
    """Times as counts, the rest as it is."""
    return values.view(np.int64) if values.dtype.kind == "M" else values


def _same(got: list[Array], wanted: list[Array]) -> bool:
    """The same rows in any order."""
    orders = np.lexsort(got), np.lexsort(wanted)
    return all(np.array_equal(a[orders[0]], b[orders[1]]) for a, b in zip(got, wanted, strict=True))
