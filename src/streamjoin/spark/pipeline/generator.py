"""The papers' two streams as a Spark source: tuple n is a function of n alone, so any batch can be read again.

Spark asks for the tuples between two offsets, and after a failure for the same ones once more. A random generator that
is drawn from in order could not answer that; mixing the bits of n can.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

Array = npt.NDArray[Any]

NAME = "streamjoin_papers"
COLUMNS = {"r": ("x", "y"), "s": ("a", "b")}
HIGHEST = 10_000
MICROSECONDS = 1_000_000
ROWS = 65_536  # of an Arrow batch
_ENDLESS = 2**62


def papers(
    side: str, first: int, end: int, rate: int, *, seed: int = 0, highest: int = HIGHEST, start: int = 0
) -> tuple[Array, Array, Array]:
    """Tuples first..end-1 of one stream: times in microseconds, integers in 1..highest, floats in 1..10,000.

    >>> whole, part = papers("r", 0, 10, 1000), papers("r", 4, 6, 1000)
    >>> all((a[4:6] == b).all() for a, b in zip(whole, part))
    True
    """
    number = np.arange(first, end, dtype=np.int64)
    key = np.uint64((seed << 8 | ord(side)) & 0xFFFF_FFFF_FFFF_FFFF)
    ts = start + number * MICROSECONDS // rate
    with np.errstate(over="ignore"):
        key = _mixed(np.array([key]))[0]
        integer = 1 + (_unit(number, key) * highest).astype(np.int32)
        real = (1 + _unit(number, ~key) * (HIGHEST - 1)).astype(np.float32)
    return ts, integer, real


def _unit(number: Array, key: Any) -> Array:
    """For each number a value in [0, 1) that depends on it and the key."""
    return (_mixed(number.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + key) >> np.uint64(11)) * 2.0**-53


def _mixed(bits: Array) -> Array:
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every bit of the input moves every bit of the output."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = bits ^ (bits >> np.uint64(31))
    return mixed


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
        integer, real = COLUMNS[self.options["side"]]
        return f"ts TIMESTAMP, {integer} INT, {real} FLOAT"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return PapersReader(dict(self.options))


class Stretch(InputPartition):
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
        """As far as the clock (in live pace, counted from the first question), the limit and the total allow."""
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
        return [Stretch(int(a), int(b)) for a, b in pairwise(edges) if b > a]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Stretch)
        names = ["ts", *COLUMNS[self._side]]
        for first in range(partition.first, partition.end, ROWS):
            end = min(first + ROWS, partition.end)
            ts, integer, real = papers(self._side, first, end, self._rate, **self._settings)
            times = pa.array(ts).cast(pa.timestamp("us", "UTC"))
            yield pa.RecordBatch.from_arrays([times, pa.array(integer), pa.array(real)], names=names)
