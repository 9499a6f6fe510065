"""The papers' workload through a live join or a Spark pipeline, with progress, verified by a nested loop."""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from streamjoin import papers
from streamjoin.bench.harness import papers_join
from streamjoin.errors import StreamjoinError
from streamjoin.exits import signalled
from streamjoin.intake.columns import as_numpy, flat
from streamjoin.live.join import Join
from streamjoin.machine import machine
from streamjoin.options import Options
from streamjoin.papers import BAND, Array, Source, partners
from streamjoin.windows.duration import parse_duration

if TYPE_CHECKING:
    from streamjoin.spark.pipeline.pipeline import Figures, Request
    from streamjoin.spark.pipeline.stop import Stop

BATCH = 500
PARTS = 40  # of the streams' time, for a picture of the results
SPARK_TUPLES, SPARK_BATCHES = 80_000, 10


def run(
    tuples: int = 40_000,
    rate: int = 1_000,
    window: str = "15 seconds",
    report: Callable[..., None] = lambda stage, done, stats=None: None,
    algorithm: str = "kang",
    workers: int | str = "auto",
    observe: Callable[[Join], None] = lambda join: None,
) -> dict[str, Any]:
    """Joins this many tuples of each stream and verifies the result. `report` gets the stage, the progress, and
    the figures of the join. `observe` gets the join before its first tuple.

    Workers hand out results a little after a push; the last ones are there when the join is closed.
    """
    report("compiling the join (a first run takes some seconds, later ones find it in the cache)", 0.0)
    with _join(window, algorithm, workers) as warm:
        for _ in range(2):
            warm.push_r(Source("r", rate).batch(BATCH))
            warm.push_s(Source("s", rate).batch(BATCH))
    sources = {side: Source(side, rate) for side in "rs"}
    found: list[Array] = []
    with _join(window, algorithm, workers) as join:
        observe(join)
        start = time.perf_counter()
        while sources["s"].count < tuples:
            join.push_r(sources["r"].batch(BATCH))
            join.push_s(sources["s"].batch(BATCH))
            found.append(pair_times(join.poll()))
            report("joining", sources["s"].count / tuples, join.stats())
    elapsed = time.perf_counter() - start
    found.append(pair_times(join.poll()))
    stats = join.stats()
    report("verifying every pair", 1.0)
    expected = expected_pairs(sources["r"].sent(), sources["s"].sent(), parse_duration(window) // 1000)
    got = np.concatenate(found)
    verify(got, expected)
    own = {"algorithm": stats["algorithm"], "workers": join.plan.workers, "access": stats["access"]}
    return _figures("embedded", got, tuples, elapsed, window) | {"comparisons": stats["comparisons"]} | own


def _figures(engine: str, got: Array, tuples: int, seconds: float, window: str) -> dict[str, Any]:
    """What both engines tell."""
    return {
        "engine": engine,
        "results": len(got),
        "verified": True,
        "tuples_per_stream": tuples,
        "rate_per_stream": tuples / seconds,
        "window": window,
        "predicate": BAND,
        "by_time": by_time(got),
        "machine": machine(),
    }


def run_on_spark(
    tuples: int = SPARK_TUPLES,
    rate: int = 2_000,
    window: str = "15 seconds",
    report: Callable[[str, Figures], None] = lambda stage, figures: None,
    master: str = "local[*]",
) -> dict[str, Any]:
    """The same as a pipeline in local mode; verifies what its sink holds."""
    from streamjoin.spark.pipeline.pipeline import Figures
    from streamjoin.spark.pipeline.session import Cluster, session
    from streamjoin.spark.pipeline.stop import Stop

    stop = Stop()
    report("starting Java and Spark", Figures())
    with session(Cluster(master, name="streamjoin-demo")) as spark, stop.listening():
        return run_verified(spark, tuples, rate, window, report, stop)


def run_verified(
    spark: Any, tuples: int, rate: int, window: str, report: Callable[[str, Figures], None], stop: Stop
) -> dict[str, Any]:
    """The same in a session that is already there."""
    from streamjoin.spark.pipeline.endpoints import SETTINGS
    from streamjoin.spark.pipeline.generator import microseconds
    from streamjoin.spark.pipeline.pipeline import Figures, check, run_in

    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="streamjoin-demo-") as folder:
        request = _request(Path(folder), tuples, rate, window)
        check(request)
        done = run_in(spark, request, stop, report, figures)
        if not done["finished"]:
            raise KeyboardInterrupt if stop.number in (None, signal.SIGINT) else SystemExit(signalled(stop.number))
        report("verifying every pair", figures)
        got = pair_times([spark.read.parquet(request.output.place).select("ts_r", "ts_s").toArrow()])
    start = microseconds(SETTINGS["start"])
    r, s = (papers.tuples(side, 0, tuples, rate, start=start) for side in "rs")
    expected = expected_pairs(r, s, parse_duration(window) // 1000)
    verify(got, expected)
    own = {name: done[name] for name in ("comparisons", "batches", "late")} | {"master": spark.sparkContext.master}
    return _figures("spark", got, tuples, done["seconds"], window) | own


def _request(folder: Path, tuples: int, rate: int, window: str) -> Request:
    from streamjoin.spark.pipeline.endpoints import sink, source
    from streamjoin.spark.pipeline.pipeline import Request

    word = f"generate://papers?rate={rate}&tuples={tuples}&batch={-(-tuples // SPARK_BATCHES)}&pace=fast"
    return Request(
        left=source("--left", word, None, {}, None),
        right=source("--right", word, None, {}, None),
        output=sink("--output", str(folder / "pairs"), "parquet", {}),
        options=Options(on=BAND, within=window, time="ts"),
        watermark=("1 second", "1 second"),
        checkpoint=str(folder / "checkpoint"),
        available_now=True,
    )


def _join(window: str, algorithm: str, workers: int | str) -> Join:
    return papers_join(on=BAND, within=window, algorithm=algorithm, workers=workers)


def pair_times(tables: Iterable[Any]) -> Array:
    """Results as (time of r, time of s) in microseconds, which tell the tuples of a stream apart."""
    pairs = [
        np.stack([as_numpy(flat(table.column(name)).view("int64")) for name in ("ts_r", "ts_s")], axis=1)
        for table in tables
    ]
    return np.concatenate([np.zeros((0, 2), np.int64), *pairs])


def expected_pairs(r: tuple[Array, Array, Array], s: tuple[Array, Array, Array], window: int) -> Array:
    """All pairs as (time of r, time of s), by a nested loop over every r and the s in its window."""
    pairs = [np.zeros((0, 2), np.int64)]
    for ts, positions in zip(r[0], partners(r, s, window, equality=False), strict=True):
        pairs.append(np.stack([np.full(len(positions), ts), s[0][positions]], axis=1))
    return np.concatenate(pairs)


def by_time(pairs: Array) -> list[int]:
    """How many results there are in each of equal parts of the streams' time."""
    if not len(pairs):
        return []
    return [int(count) for count in np.histogram(pairs.max(axis=1), bins=PARTS)[0]]


def verify(got: Array, expected: Array) -> None:
    """Raises unless both are the same pairs, in whatever order."""
    if not np.array_equal(_sorted(got), _sorted(expected)):
        raise StreamjoinError(f"wrong result: {len(got)} pairs instead of {len(expected)}, or others")


def _sorted(pairs: Array) -> Array:
    """In the order of r's time, then of s's."""
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
