"""The report of a running join: observed metrics in Spark's progress, as one flat dict per micro-batch."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from streamjoin.metrics import ONE_CELL, PER_CELL

if TYPE_CHECKING:
    from streamjoin.spark.cell import Tally

PREFIX = "streamjoin"
COUNTS = tuple(figure.name for figure in ONE_CELL)
MALFORMED = "malformed"  # counted where a pipeline drops rows, before they reach the join

# Spark adds figures up and keeps no list of them. So each cell writes its own at its own place among zeros, and Spark
# combines these by a bitwise OR, which `bitmap_or_agg` does for 4,096 bytes: those of 128 cells.
BY_CELL = "by_cell"
RECORD = struct.Struct("<IIIIQQ")
REPORTED = tuple(figure.name for figure in PER_CELL if figure.name != "cell")  # in the order of the record
MOST_CELLS = 4096 // RECORD.size
_LIMITS = tuple(256 ** struct.calcsize(f"<{code}") - 1 for code in "IIIIQQ")


def pack_cell(number: int, tally: Tally) -> bytes | None:
    """The figures of a cell at its place; None beyond the last place."""
    if number >= MOST_CELLS:
        return None
    values = (min(getattr(tally, name), most) for name, most in zip(REPORTED, _LIMITS, strict=True))
    return bytes(RECORD.size * number) + RECORD.pack(*values)


def unpack_cells(data: bytes | str | None) -> list[dict[str, int]]:
    """The figures of all cells; Spark Connect hands bytes over as text."""
    found = base64.b64decode(data) if isinstance(data, str) else bytes(data or b"")
    return [dict(zip(REPORTED, values, strict=True)) for values in RECORD.iter_unpack(found)]


def flatten(progress: Any) -> dict[str, Any] | None:
    """One progress report as a dict, or None if the query contains no join of ours.

    Several joins in one query are added up. `cells`, `chunks`, `state_rows` and `state_bytes` are those of the cells
    that the micro-batch touched. `by_cell` has figures of each of the first 128 cells.
    """
    observed = {name: row for name, row in progress.observedMetrics.items() if name.startswith(PREFIX)}
    if not observed and not any(op.operatorName.startswith("transformWithState") for op in progress.stateOperators):
        return None
    counts = {
        name: sum(int(row[name] or 0) for row in observed.values() if name in row) for name in (*COUNTS, MALFORMED)
    }
    parts = [unpack_cells(row[BY_CELL]) for row in observed.values() if BY_CELL in row]
    return {
        "query": str(progress.id),
        "batch": int(progress.batchId),
        "rows_in": int(progress.numInputRows),
        "watermark": dict(progress.eventTime).get("watermark"),
        "batch_ms": int(progress.batchDuration),
        BY_CELL: [_added(cells) for cells in zip_longest(*parts, fillvalue=dict.fromkeys(REPORTED, 0))],
        **counts,
    }


def _added(cells: tuple[dict[str, int], ...]) -> dict[str, int]:
    return {name: sum(cell[name] for cell in cells) for name in REPORTED}


class JoinListener(StreamingQueryListener):
    """Hands every micro-batch of every join to a function, as a dict:

    query (its id), batch, rows_in, results, late, watermark, state_rows, state_bytes, comparisons, cells, chunks,
    cache_hits, cache_misses, batch_ms, by_cell, and malformed, which only pipelines of the command line count. Attach
    it with `spark.streams.addListener(JoinListener(print))`.
    """

    def __init__(self, on_progress: Callable[[dict[str, Any]], None]) -> None:
        super().__init__()
        self._on_progress = on_progress

    def onQueryStarted(self, event: Any) -> None:
        """Nothing to report yet."""

    def onQueryProgress(self, event: Any) -> None:
        found = flatten(event.progress)
        if found is not None:
            self._on_progress(found)

    def onQueryIdle(self, event: Any) -> None:
        """An idle query has nothing new."""

    def onQueryTerminated(self, event: Any) -> None:
        """The end is the caller's to notice."""
