"""The papers' workload through the Spark pipeline, as `streamjoin join --engine spark` runs it, checked at the end."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from streamjoin.bench.demo import expected_pairs, verify
from streamjoin.exits import signalled
from streamjoin.intake.columns import as_numpy, flat
from streamjoin.machine import machine
from streamjoin.options import Options
from streamjoin.papers import BAND, Array
from streamjoin.spark.pipeline.endpoints import SETTINGS, sink, source
from streamjoin.spark.pipeline.generator import microseconds, papers
from streamjoin.spark.pipeline.pipeline import Figures, Request, check, run_in
from streamjoin.spark.pipeline.session import Cluster, session
from streamjoin.spark.pipeline.stop import Stop
from streamjoin.windows.duration import parse_duration

TUPLES = 80_000
BATCHES = 10


def run(
    tuples: int = TUPLES,
    rate: int = 2_000,
    window: str = "15 seconds",
    report: Callable[[str, Figures], None] = lambda stage, figures: None,
    master: str = "local[*]",
) -> dict[str, Any]:
    """Joins so many tuples of each stream in local mode and verifies what the sink holds."""
    stop = Stop()
    report("starting Spark", Figures())
    with session(Cluster(master, name="streamjoin-demo")) as spark, stop.listening():
        return run_verified(spark, tuples, rate, window, report, stop)


def run_verified(
    spark: Any, tuples: int, rate: int, window: str, report: Callable[[str, Figures], None], stop: Stop
) -> dict[str, Any]:
    """The same in a session that is already there."""
    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="streamjoin-demo-") as folder:
        request = _request(Path(folder), tuples, rate, window)
        check(request)
        done = run_in(spark, request, stop, report, figures)
        if not done["finished"]:
            raise KeyboardInterrupt if stop.number in (None, signal.SIGINT) else SystemExit(signalled(stop.number))
        report("verifying: every pair of the two streams is looked at", figures)
        got = _pairs(spark.read.parquet(request.output.place))
    start = microseconds(SETTINGS["start"])
    r, s = (papers(side, 0, tuples, rate, start=start) for side in "rs")
    expected = expected_pairs(r, s, parse_duration(window) // 1000)
    verify(got, expected)
    return {
        "engine": "spark",
        "results": len(got),
        "verified": True,
        "tuples_per_stream": tuples,
        "rate_per_stream": tuples / done["seconds"],
        "comparisons": done["comparisons"],
        "batches": done["batches"],
        "late": done["late"],
        "window": window,
        "predicate": BAND,
        "master": spark.sparkContext.master,
        "machine": machine(),
    }


def _request(folder: Path, tuples: int, rate: int, window: str) -> Request:
    word = f"generate://papers?rate={rate}&tuples={tuples}&batch={-(-tuples // BATCHES)}&pace=fast"
    return Request(
        left=source("--left", word, None, {}, None),
        right=source("--right", word, None, {}, None),
        output=sink("--output", str(folder / "pairs"), "parquet", {}),
        options=Options(on=BAND, within=window, time="ts"),
        watermark=("1 second", "1 second"),
        checkpoint=str(folder / "checkpoint"),
        available_now=True,
    )


def _pairs(frame: Any) -> Array:
    """The results as (time of r, time of s) in microseconds, which tell the tuples of this workload apart."""
    table = frame.select("ts_r", "ts_s").toArrow()
    columns = [as_numpy(flat(table.column(name).cast("int64"))) for name in ("ts_r", "ts_s")]
    return np.stack(columns, axis=1)
