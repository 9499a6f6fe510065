"""A small batch on its way through an engine to the output: one object, to which the engine adds its results."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from streamjoin.codegen.records import Array
from streamjoin.intake.packed import PackedRows
from streamjoin.results.plain import PlainRows
from streamjoin.windows.watermark import Watermark


@dataclass(slots=True)
class SmallPush:
    """A batch for an engine's compiled call. Once taken, it has its latest time and its first results."""

    side: int
    batch: pa.RecordBatch | PackedRows
    watermark: Watermark  # of its side
    rows: PlainRows | None = None  # of its side, with room for it, if compiled code can write there
    moment: int = 0  # of its arrival, by `time.perf_counter_ns`
    timed: bool = False  # are its times asked for?
    newest: int = 0
    times: Array | None = None
    r: Array | None = None  # tuple numbers of results, in the engine's own memory
    s: Array | None = None
    nulls: bool | None = None  # does it have nulls? None: it was not written into `rows`
