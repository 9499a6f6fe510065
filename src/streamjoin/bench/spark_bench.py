"""`streamjoin bench spark`: the Spark engine against Spark's own joins, in one session, every result verified.

Both engines read the same Parquet files, one of each side per micro-batch: first those that fill the windows, then
those that are measured. What they wrote is compared with the embedded engine's join of the same tables.

Filling must not take hours where Spark compares every candidate. So the tuples that fill r and s lie in alternate
strips of x, too far apart to be candidates of one another; arrivals lie everywhere and meet as many as in an even
window. Under an opaque predicate there is no such trick, and only r's window is filled; arrivals are s.

Large micro-batches suit every engine better than small ones, so each is measured with both and a ratio compares the
best of each. Spark's grid, and its 1-D buckets, would take minutes or hours with large ones; what they do per second
does not grow with them. A small round of everything comes first, because Java compiles what it has seen often; then
bands and tables are joined in turns, because the speed of the machine varies and Java keeps compiling; the best run
counts. Spark's 1-D buckets take minutes for a band and have one turn.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamjoin.api import join
from streamjoin.bench import spark_peers as peers
from streamjoin.bench.spark_files import Files, opaque_files, outer_files, static_tables, window_files
from streamjoin.errors import StreamjoinError
from streamjoin.intake.columns import as_numpy, flat
from streamjoin.machine import machine
from streamjoin.papers import BAND
from streamjoin.spark.settings import PROVIDER, ROCKSDB

OPAQUE = "(r.x * 7919 + s.a * 104729) % 10007 = 5"
DEFAULT_STORE = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
SECONDS = 1_000  # the window of the band join, as stream time
DAY = 86_400
EQUAL, NEAR = "r.x = s.a", 10  # of the outer join, and its window in seconds
PARTS = ("opaque", "band", "large", "outer", "tiny", "static")

Report = Callable[[str], None]
Maker = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Sizes:
    """How much is measured. Arrivals are per side and micro-batch."""

    windows: tuple[int, ...] = (100_000, 1_000_000)
    arrivals: tuple[int, ...] = (10_000, 100_000)
    opaque_window: int = 100_000
    opaque_arrivals: tuple[int, ...] = (1_000, 10_000)
    grid_arrivals: tuple[int, ...] = (200, 1_000)
    batches: int = 4
    large_arrivals: int = 500_000
    large_batches: int = 3
    rounds: int = 3
    tiny: int = 30
    tiny_rounds: int = 5
    static: int = 1_000_000
    static_seconds: float = 45.0

    def rounds_of(self, engine: str, arrivals: int) -> int:
        return int(arrivals == self.arrivals[0]) if engine == "spark-bucket-1d" else self.rounds


QUICK = Sizes((3_000,), (300,), 2_000, (300,), (100,), 2, 600, 2, 1, 4, 1, 5_000, 0.0)


class Bench:
    """The measurements in one session, one after the other."""

    def __init__(self, spark: Any, folder: Path, sizes: Sizes, report: Report) -> None:
        self._spark, self._folder, self._sizes, self._report = spark, folder, sizes, report
        self.runs: list[dict[str, Any]] = []

    def opaque(self) -> None:
        """A predicate without keys: streamjoin against the grid."""
        sizes = self._sizes
        partitions = int(self._spark.conf.get("spark.sql.shuffle.partitions"))
        labels = peers.labels_of(self._spark, partitions)
        for engine, several in (("streamjoin", sizes.opaque_arrivals), ("spark-grid", sizes.grid_arrivals)):
            make = self._ours(OPAQUE, DAY) if engine == "streamjoin" else _grid(labels)
            for arrivals in several:
                files = opaque_files(self._new("opaque"), sizes.opaque_window, arrivals, sizes.batches)
                self._stream(engine, "opaque", OPAQUE, DAY, sizes.opaque_window, files, make)

    def band(self) -> None:
        """The papers' band at every window: streamjoin against both bucket rewrites."""
        sizes = self._sizes
        for window in sizes.windows:
            for arrivals in sizes.arrivals:
                files = window_files(self._new("band"), window, arrivals, sizes.batches, SECONDS)
                for turn in range(sizes.rounds):
                    for engine, make in self._band_joins():
                        if turn < sizes.rounds_of(engine, arrivals):
                            self._stream(engine, "band", BAND, SECONDS, window, files, make)

    def large(self) -> None:
        """The same in micro-batches of a million tuples, at the widest window: streamjoin against 2-D buckets."""
        sizes = self._sizes
        window = max(sizes.windows)
        files = window_files(self._new("large"), window, sizes.large_arrivals, sizes.large_batches, SECONDS)
        for _ in range(sizes.rounds):
            for engine, make in self._band_joins():
                if engine != "spark-bucket-1d":
                    self._stream(engine, "large band", BAND, SECONDS, window, files, make)

    def outer(self) -> None:
        """Left outer with an equality, which Spark has itself, while windows close: about a third has no partner."""
        sizes = self._sizes
        joins: tuple[tuple[str, Maker], ...] = (
            ("streamjoin", self._ours(EQUAL, NEAR, how="left")),
            ("spark", lambda r, s: peers.left_outer(r, s, EQUAL, NEAR)),
        )
        for arrivals in sizes.arrivals:
            files = outer_files(self._new("outer"), arrivals, sizes.batches, NEAR)
            for _ in range(sizes.rounds):
                for engine, make in joins:
                    self._stream(engine, "left outer", EQUAL, NEAR, arrivals, files, make)

    def tiny(self) -> dict[str, Any]:
        """The trigger of a micro-batch of one tuple per side, and that of a stateful operator that does nothing.

        Each run of ours lies between two of the other, so that changes of the machine's speed affect both. The median
        of the differences from their mean is the result. A run's first half warms it up.
        """
        sizes = self._sizes
        files = window_files(self._new("tiny"), 1_000, 1, sizes.tiny, SECONDS)
        ours: list[float] = []
        floor = [self._tiny_ms(files, _floor)]
        for _ in range(sizes.tiny_rounds):
            ours.append(self._tiny_ms(files, self._ours(BAND, SECONDS)))
            floor.append(self._tiny_ms(files, _floor))
            around = (floor[-2] + floor[-1]) / 2
            self._report(f"tiny micro-batch: {ours[-1]:,.0f} ms, a stateful operator alone: {around:,.0f} ms")
        above = [mine - (before + after) / 2 for mine, (before, after) in zip(ours, pairwise(floor), strict=True)]
        return {
            "tiny_ms": statistics.median(ours),
            "floor_ms": statistics.median(floor),
            "tiny_above_floor_ms": statistics.median(above),
            "tiny_above_floor_ms_all": above,
        }

    def _tiny_ms(self, files: Files, make: Maker) -> float:
        spent = self._trigger_ms(files, make, ROCKSDB)[0]
        return statistics.median(spent[len(spent) // 2 :])

    def static(self) -> None:
        """Two whole tables: streamjoin against both bucket rewrites."""
        rows = self._sizes.static
        tables = static_tables(self._new("static"), rows, SECONDS)
        wanted = _fingerprint(join(*tables.arrow, on=BAND, within=f"{SECONDS}s", time="ts"))
        r, s = (self._spark.read.parquet(str(folder)) for folder in tables.folders)
        waiting = dict(self._band_joins())
        spent: dict[str, list[float]] = {engine: [] for engine in waiting}
        while waiting:
            for engine, make in list(waiting.items()):
                start = time.perf_counter()
                joined = make(r, s).selectExpr("count(*) AS c", "sum(pmod(n * 31 + m * 17, 1000003)) AS h").collect()[0]
                spent[engine].append(time.perf_counter() - start)
                self._check(engine, (joined["c"], joined["h"] or 0), wanted)
                if sum(spent[engine]) >= self._sizes.static_seconds:
                    del waiting[engine]
        for engine, several in spent.items():
            best = min(several)
            self._add(engine, "static band", rows, 2 * rows / best, rows * rows / best, 1_000 * best, rows)

    def _band_joins(self) -> tuple[tuple[str, Maker], ...]:
        return (
            ("streamjoin", self._ours(BAND, SECONDS)),
            ("spark-bucket-1d", lambda r, s: peers.bucket_1d(r, s, SECONDS)),
            ("spark-bucket-2d", lambda r, s: peers.bucket_2d(r, s, SECONDS)),
        )

    def _stream(self, engine: str, name: str, on: str, seconds: int, window: int, files: Files, make: Maker) -> None:
        store = ROCKSDB if engine == "streamjoin" else DEFAULT_STORE
        self._report(f"{engine}: {name}, window of {window:,} per side ...")
        spent, found = self._trigger_ms(files, make, store)
        wanted = join(*files.arrow, on=on, within=f"{seconds}s", time="ts")
        alone = found.filter(pc.is_null(found["m"]))["n"]
        self._check(engine, _fingerprint(found.drop_null()), _fingerprint(wanted))
        if len(alone):  # those whose window has passed, each once
            met = pc.sum(pc.is_in(alone, value_set=wanted["n"])).as_py()
            self._check(engine, (len(pc.unique(alone)), met), (len(alone), 0))
        measured = spent[1:]  # the first one still compiles and starts workers
        tuples = files.arrivals * len(measured)
        per_second = 1_000 * tuples / sum(measured)
        self._add(engine, name, window, per_second, per_second * window, statistics.median(measured), files.arrivals)

    def _trigger_ms(self, files: Files, make: Maker, store: str) -> tuple[list[float], pa.Table]:
        """Milliseconds of each measured micro-batch, and the pairs that the sink holds in the end."""
        run = self._new("run")
        before = self._spark.conf.get(PROVIDER)
        self._spark.conf.set(PROVIDER, store)
        try:
            r, s = (
                self._spark.readStream.schema(self._spark.read.parquet(str(folder)).schema)
                .option("maxFilesPerTrigger", 1)
                .parquet(str(folder))
                .withWatermark("ts", "1 second")
                for folder in files.folders
            )
            writer = make(r, s).writeStream.format("parquet").option("path", str(run / "out"))
            query = writer.option("checkpointLocation", str(run / "checkpoint")).trigger(availableNow=True).start()
            try:
                query.awaitTermination()
            finally:
                query.stop()
            triggers = [p["durationMs"]["triggerExecution"] for p in query.recentProgress if p["numInputRows"]]
            found = self._spark.read.parquet(str(run / "out")).toArrow()
        finally:
            self._spark.conf.set(PROVIDER, before)
            shutil.rmtree(run, ignore_errors=True)
        return [float(ms) for ms in triggers[-files.batches :]], found

    def _ours(self, on: str, seconds: int, **kind: Any) -> Maker:
        from streamjoin.spark import join

        return lambda r, s: join(r, s, on=on, within=f"{seconds}s", time="ts", **kind).select("n", "m")

    def _check(self, engine: str, found: Any, wanted: Any) -> None:
        if tuple(found) != tuple(wanted):
            raise StreamjoinError(f"wrong result of {engine}: rows and sum are {found}, should be {wanted}")

    def _add(
        self, engine: str, name: str, window: int, tuples: float, pairs: float, trigger: float, arrivals: int
    ) -> None:
        run = {"engine": engine, "predicate": name, "window": window, "tuples_per_s": tuples, "pairs_per_s": pairs}
        self.runs.append({**run, "trigger_ms": trigger, "arrivals": arrivals, "verified": True})
        self._report(
            f"{engine:<16} {name:<12} window {window:>9,}  {tuples:>10,.0f} tuples/s  {pairs / 1e6:>10,.1f} M pairs/s  "
            f"trigger {trigger:>8,.0f} ms of {arrivals:,}  verified"
        )

    def _new(self, name: str) -> Path:
        return Path(tempfile.mkdtemp(dir=self._folder, prefix=f"{name}-"))


def measure(
    spark: Any,
    sizes: Sizes = Sizes(),  # noqa: B008
    parts: tuple[str, ...] = PARTS,
    report: Report = lambda text: None,
) -> dict[str, Any]:
    """All parts in one session; `runs` and what follows from them."""
    with tempfile.TemporaryDirectory(prefix="streamjoin-bench-") as folder:
        if sizes != QUICK:
            report("a small round first ...")
            _measure(Bench(spark, Path(folder), QUICK, lambda text: None), parts)
        bench = Bench(spark, Path(folder), sizes, report)
        floor = _measure(bench, parts)
    return {"runs": bench.runs, "ratios": ratios(bench.runs), **floor, "machine": machine() | {"spark": spark.version}}


def _measure(bench: Bench, parts: tuple[str, ...]) -> dict[str, float]:
    floor: dict[str, float] = {}
    for part in parts:
        floor |= getattr(bench, part)() or {}
    return floor


def ratios(runs: list[dict[str, Any]]) -> dict[str, float]:
    """How many times as fast streamjoin is, per peer, predicate and window, each with its best run.

    Also its trigger at the widest window to that at the narrowest, with the same arrivals.

    >>> runs = [{"engine": e, "predicate": "band", "window": 9, "tuples_per_s": t, "pairs_per_s": t, "trigger_ms": 1.0,
    ...          "arrivals": 3} for e, t in (("streamjoin", 8.0), ("spark-bucket-1d", 1.0), ("spark-bucket-1d", 2.0))]
    >>> ratios(runs)
    {'band 9 to spark-bucket-1d': 4.0}
    """
    best: dict[tuple[str, int, str], float] = {}
    triggers: dict[int, dict[int, float]] = {}
    for run in runs:
        case = run["predicate"], run["window"], run["engine"]
        best[case] = max(best.get(case, 0.0), run["pairs_per_s" if run["predicate"] == "opaque" else "tuples_per_s"])
        if (run["predicate"], run["engine"]) == ("band", "streamjoin"):
            several = triggers.setdefault(run["arrivals"], {})
            several[run["window"]] = min(run["trigger_ms"], several.get(run["window"], run["trigger_ms"]))
    found = {
        f"{name} {window} to {engine}": best[name, window, "streamjoin"] / speed
        for (name, window, engine), speed in best.items()
        if engine != "streamjoin"
    }
    for arrivals, several in triggers.items():
        narrow, wide = min(several), max(several)
        if wide > narrow:
            found[f"trigger, {arrivals} arrivals, window {wide} to {narrow}"] = several[wide] / several[narrow]
    return found


def _grid(labels: list[int]) -> Maker:
    return lambda r, s: peers.grid(r, s, OPAQUE, DAY, labels)


def _fingerprint(pairs: pa.Table) -> tuple[int, int]:
    """The number of pairs and a checksum over them; Spark computes the same in SQL."""
    n, m = (as_numpy(flat(pairs.column(name))).astype(np.int64) for name in ("n", "m"))
    return pairs.num_rows, int(np.mod(n * 31 + m * 17, 1_000_003).sum())


def _floor(r: Any, s: Any) -> Any:
    """Both streams through a stateful Python operator that keeps a number and outputs nothing."""
    from streamjoin.bench.spark_peers import Nothing

    both = r.selectExpr("CAST(n % 2 AS INT) AS key", "n").union(s.selectExpr("CAST(m % 2 AS INT) AS key", "m AS n"))
    return both.groupBy("key").transformWithState(
        statefulProcessor=Nothing(), outputStructType="n BIGINT, m BIGINT", outputMode="Append", timeMode="EventTime"
    )
