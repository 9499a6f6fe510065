"""What a running join reports: observed metrics in Spark's progress, as one flat dict per micro-batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from streamjoin.metrics import CELL

PREFIX = "streamjoin"
COUNTS = tuple(figure.name for figure in CELL)
MALFORMED = "malformed"  # counted where a pipeline drops rows, before they come to the join


def flatten(progress: Any) -> dict[str, Any] | None:
    """One progress report as a dict, or None if the query contains no join of ours.

    Several joins in one query are added up. `cells`, `chunks`, `state_rows` and `state_bytes` are those of the cells
    that the micro-batch touched.
    """
    observed = {name: row for name, row in progress.observedMetrics.items() if name.startswith(PREFIX)}
    if not observed and not any(op.operatorName.startswith("transformWithState") for op in progress.stateOperators):
        return None
    counts = {
        name: sum(int(row[name] or 0) for row in observed.values() if name in row) for name in (*COUNTS, MALFORMED)
    }
    return {
        "batch": int(progress.batchId),
        "rows_in": int(progress.numInputRows),
        "watermark": dict(progress.eventTime).get("watermark"),
        "batch_ms": int(progress.batchDuration),
        **counts,
    }


class JoinListener(StreamingQueryListener):
    """Hands every micro-batch of every join to a function, as a dict:

    batch, rows_in, results, late, watermark, state_rows, state_bytes, comparisons, cells, chunks, cache_hits,
    cache_misses, batch_ms, and malformed, which only pipelines of the command line count. Attach it with
    `spark.streams.addListener(JoinListener(print))`.
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
