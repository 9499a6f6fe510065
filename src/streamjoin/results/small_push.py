"""A small batch on its way through an engine to the output: one record, which each of them completes."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from streamjoin.codegen.records import Array
from streamjoin.intake.packed import PackedRows
from streamjoin.results.plain import PlainRows
from streamjoin.windows.watermark import Watermark


@dataclass(slots=True)
class SmallPush:
    """A batch that an engine is asked to take as it is; once taken, its latest time and its first results."""

    side: int
    batch: pa.RecordBatch | PackedRows
    watermark: Watermark  # of its side
    rows: PlainRows | None = None  # with room for it, where compiled code can write rows of its side
    moment: int = 0  # of its arrival, by `time.perf_counter_ns`
    newest: int = 0
    r: Array | None = None  # tuple numbers of results, in the engine's own memory
    s: Array | None = None
    nulls: bool | None = None  # are there nulls in it? None: it was not written into `rows`
