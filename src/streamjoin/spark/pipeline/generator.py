"""The papers' two streams as a Spark source.

Spark asks for the tuples between two offsets, and after a failure for the same ones once more. A random generator that
is drawn from in order could not answer that; a function of the tuple's number can.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from streamjoin.papers import HIGHEST, NAMES, tuples

NAME = "streamjoin_papers"
ROWS = 65_536  # of an Arrow batch
_ENDLESS = 2**62


def microseconds(text: str) -> int:
    """An ISO time in microseconds since 1970; UTC unless it says otherwise.

    >>> microseconds("1970-01-01T00:00:01Z")
    1000000
    """
    moment = datetime.fromisoformat(text)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


class Papers(DataSource):
    """The source that Spark knows as `streamjoin_papers`; its options are those of generate://papers, and `side`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        integer, real = NAMES[self.options["side"]]
        return f"ts TIMESTAMP, {integer} INT, {real} FLOAT"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return PapersReader(dict(self.options))


class Range(InputPartition):
    """Tuples first..end-1."""

    def __init__(self, first: int, end: int) -> None:
        super().__init__((first, end))
        self.first, self.end = first, end


class PapersReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are tuple numbers. Lives in one process of the driver's; `read` runs on the executors."""

    def __init__(self, options: dict[str, str]) -> None:
        self._side = options["side"]
        self._rate = int(options["rate"])
        self._total = int(options["tuples"]) if options.get("tuples") else _ENDLESS
        self._batch = int(options.get("batch") or self._rate)
        self._live = options.get("pace", "live") == "live"
        self._settings = {
            "seed": int(options.get("seed", 0)),
            "highest": int(options.get("highest", HIGHEST)),
            "start": microseconds(options["start"]) if "start" in options else 0,
        }
        self._partitions = int(options.get("partitions", 1))
        self._begin: tuple[float, int] | None = None

    def initialOffset(self) -> dict[str, int]:
        return {"next": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._batch)

    def prepareForTriggerAvailableNow(self) -> None:
        self._live = False  # a pause would look like the end

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """The offset that the clock (in live pace, counted from the first call), the limit and the total allow."""
        at = int(start["next"])
        latest = self._total
        if self._live:
            now = time.monotonic()
            if self._begin is None:
                self._begin = now, at
            latest = min(latest, self._begin[1] + int((now - self._begin[0]) * self._rate))
        if isinstance(limit, ReadMaxRows):
            latest = min(latest, at + limit.max_rows)
        elif isinstance(limit, ReadAllAvailable) and latest == _ENDLESS:
            latest = at + self._batch  # all of an endless stream is a batch of it
        return {"next": max(at, latest)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        first, last = int(start["next"]), int(end["next"])
        edges = np.linspace(first, last, min(self._partitions, max(last - first, 1)) + 1).astype(np.int64)
        return [Range(int(a), int(b)) for a, b in pairwise(edges) if b > a]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        names = ["ts", *NAMES[self._side]]
        for first in range(partition.first, partition.end, ROWS):
            end = min(first + ROWS, partition.end)
            ts, integer, real = tuples(self._side, first, end, self._rate, **self._settings)
            times = pa.array(ts).cast(pa.timestamp("us", "UTC"))
            yield pa.RecordBatch.from_arrays([times, pa.array(integer), pa.array(real)], names=names)
