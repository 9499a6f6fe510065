"""The stateful operator: Spark's side of a cell. Its state is one map per cell: chunks by number, and the manifest."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from streamjoin.predicate.tree import SIDES
from streamjoin.spark.metrics import BY_CELL, COUNTS, pack_cell
from streamjoin.spark.routing import cell_keys
from streamjoin.spark.spec import JoinSpec

IN = StructType(
    [StructField("cell", IntegerType()), StructField("side", IntegerType()), StructField("rows", BinaryType())]
)
OUT = StructType(
    [
        StructField("rows", BinaryType()),
        StructField(BY_CELL, BinaryType()),
        *(StructField(name, LongType()) for name in COUNTS),
    ]
)
_CHUNK = StructType([StructField("rows", BinaryType())])
_NUMBER = StructType([StructField("number", LongType())])
_MANIFEST = -1  # its number; a state variable of its own would cost every trigger another 10 ms

MOST_QUERIES = 8  # whose chunks one process keeps mapped

_caches: dict[str, Any] = {}


class SparkState:
    """A cell's state, in Spark's state store; Spark knows which cell is meant."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._chunks = handle.getMapState("chunks", _NUMBER, _CHUNK)

    def manifest(self) -> bytes | None:
        found = self._chunks.getValue((_MANIFEST,))
        return bytes(found[0]) if found is not None else None

    def save(self, manifest: bytes) -> None:
        self.put(_MANIFEST, manifest)

    def get(self, number: int) -> bytes:
        return bytes(self._chunks.getValue((number,))[0])

    def put(self, number: int, data: bytes) -> None:
        self._chunks.updateValue((number,), (data,))

    def remove(self, number: int) -> None:
        self._chunks.removeKey((number,))

    def wake(self, before: int, at: int) -> None:
        """Sets a timer: Spark visits the cell when the watermark reaches `at`, no longer at `before`; 0 means never."""
        if before != at:
            if before:
                self._handle.deleteTimer(before)
            self._handle.registerTimer(at)


class JoinProcessor(StatefulProcessor):
    """Micro-batch by micro-batch, cell by cell: rows in, result rows out, chunks and manifest in between."""

    def __init__(self, spec: JoinSpec) -> None:
        self._spec = spec

    def init(self, handle: Any) -> None:
        self._state = SparkState(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        from streamjoin.spark.wire import unpack

        tables: dict[str, list[Any]] = {"r": [], "s": []}
        for row in rows:
            if row.side < len(SIDES):  # 2: neither, the message is empty
                tables[SIDES[row.side]].append(unpack(row.rows))
        yield from self._visit(key, tables, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """The watermark has advanced without new rows, which may decide tuples."""
        yield from self._visit(key, {"r": [], "s": []}, timerValues)

    def close(self) -> None:
        """Nothing to do: Spark closes the state."""

    def _visit(self, key: Any, tables: dict[str, list[Any]], timers: Any) -> Iterator[Row]:
        from streamjoin.spark.cell import tick_of
        from streamjoin.spark.cell_kernels import engine_of
        from streamjoin.spark.deciding import cell_of
        from streamjoin.spark.wire import packets

        spec, cache = self._spec, _cache()
        hits, misses = cache.hits, cache.misses
        number = cell_keys(spec.router.cells).index(key[0])
        cell = cell_of(engine_of(spec), number, self._state, cache)
        now = timers.getCurrentWatermarkInMs()
        watermark = tick_of(spec, now)
        for table in chain(cell.arrive(tables), cell.decide(watermark)):
            for data in packets(table):
                yield Row(rows=data, by_cell=None, **dict.fromkeys(COUNTS, 0))
        cell.expire(watermark)
        if spec.duty.deciding:
            # All cells at the same moment, whatever they hold: they must agree on what is late.
            self._state.wake(cell.manifest.timer, now + 1)
            cell.manifest.timer = now + 1
        cell.save()
        tally = cell.tally
        yield Row(
            rows=None,
            by_cell=pack_cell(number, tally),
            results=tally.results,
            late=tally.late,
            comparisons=tally.comparisons,
            cells=1,
            chunks=tally.chunks,
            cache_hits=cache.hits - hits,
            cache_misses=cache.misses - misses,
            state_rows=tally.state_rows,
            state_bytes=tally.state_bytes,
        )


def _cache() -> Any:
    """The chunk files of the query that this task belongs to."""
    from pyspark import TaskContext

    from streamjoin.spark.chunk_files import ChunkCache

    task = TaskContext.get()
    query = (task.getLocalProperty("sql.streaming.queryId") if task else None) or "no-query"
    if query not in _caches:
        while len(_caches) >= MOST_QUERIES:
            _caches.pop(next(iter(_caches)))
        _caches[query] = ChunkCache(query)
    return _caches[query]
