"""A pipeline from its start to its end: two sources, the join, a sink, figures of every batch, and a clean stop."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from streamjoin.errors import OptionError, PipelineError, WindowError
from streamjoin.metrics import Totals
from streamjoin.options import Options, from_text
from streamjoin.spark.pipeline import MALFORMED
from streamjoin.spark.pipeline.checkpoint import check_checkpoint, remember
from streamjoin.spark.pipeline.endpoints import CONSOLE, Endpoint, check_reachable
from streamjoin.spark.pipeline.session import Cluster, check_kafka, session
from streamjoin.spark.pipeline.stop import Stop
from streamjoin.spark.settings import BATCH_BYTES
from streamjoin.windows.duration import parse_duration
from streamjoin.windows.valid import Valid

if TYPE_CHECKING:
    from streamjoin.plan.explain import Explanation

_SAME_SIGNAL = 0.5  # seconds between the ends of Java and the signal for Python, if both were sent one
_LOOK = 0.25  # seconds between two polls of a running query
_LAST_FIGURES = 5.0  # seconds to wait for the listener's event about the last batch


@dataclass(frozen=True)
class Request:
    """A requested pipeline. Watermarks are those of left and right."""

    left: Endpoint
    right: Endpoint
    output: Endpoint
    options: Options  # of the join itself
    watermark: tuple[str, str]
    left_schema: str | None = None
    right_schema: str | None = None
    checkpoint: str | None = None
    trigger: str | None = None
    available_now: bool = False
    malformed: str = MALFORMED[0]
    words: dict[str, Any] = field(default_factory=dict)  # what must not change between runs of one checkpoint

    @property
    def ends(self) -> tuple[Endpoint, Endpoint, Endpoint]:
        return self.left, self.right, self.output


@dataclass
class Figures(Totals):
    """What was done so far, and what to report of it.

    absent       columns that files lack: option, column, files, rows
    warnings     to be shown once
    explanation  of the join, once it is planned
    """

    absent: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    explanation: Explanation | None = None

    def summary(self) -> dict[str, Any]:
        """What --json prints."""
        return self.stats() | {"absent": self.absent}


def check(request: Request) -> dict[str, Any] | None:
    """Refuses what can be refused without Spark; returns what the run before was told, if the checkpoint has one."""
    if request.malformed not in MALFORMED:
        raise OptionError(f'--malformed "{request.malformed}" is not one of {", ".join(MALFORMED)}')
    for option, text in (("--watermark", request.watermark[0]), ("--watermark", request.watermark[1])):
        _interval(option, text)
    if request.trigger is not None:
        _interval("--trigger", request.trigger)
        if request.available_now:
            raise OptionError("--available-now processes the available input as fast as possible; leave out --trigger")
    if request.available_now:
        for end in (request.left, request.right):
            if end.kind == "generate" and not end.options["tuples"]:
                raise OptionError(
                    f"--available-now with {end.option} generate://{end.topic} would never end; add tuples=100000 to it"
                )
    _check_predicate(request)
    earlier = None
    if request.checkpoint is None:
        if request.output.kind != CONSOLE:
            raise OptionError(
                "name a folder with --checkpoint: with it the pipeline resumes after a stop without missing or "
                "repeating results"
            )
    elif "://" not in request.checkpoint:
        earlier = check_checkpoint(request.checkpoint, _told(request), request.output)
    for end in request.ends:
        check_reachable(end)
    return earlier


def run(
    request: Request, cluster: Cluster, stop: Stop, report: Callable[[str, Figures], None] = lambda stage, figures: None
) -> dict[str, Any]:
    """Runs until the end of the input (`available_now`) or until `stop` is set; returns what --json prints."""
    earlier = check(request)
    figures = Figures()
    report("starting Java and Spark", figures)
    with session(cluster) as spark, stop.listening():
        return run_in(spark, request, stop, report, figures, earlier)


def run_in(
    spark: Any,
    request: Request,
    stop: Stop,
    report: Callable[[str, Figures], None],
    figures: Figures,
    earlier: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The same in a session that is already there."""
    from py4j.protocol import Py4JError
    from pyspark.errors import StreamingQueryException

    from streamjoin.spark.dataframes import join_frames, plan_frames
    from streamjoin.spark.pipeline.absent import Absent, Watch

    def took(batch: dict[str, Any]) -> None:
        figures.add(batch)
        if absent is not None:
            figures.absent = absent.summary()
        report("stopping" if stop.is_set() else "running", figures)

    began = time.perf_counter()
    absent = listener = query = None
    finished = False
    try:
        request = _settled(spark, request, earlier or {})
        sides = _sides(spark, request)
        joined = join_frames(*sides, request.options)
        figures.explanation = plan_frames(*sides, request.options).explanation()
        if request.checkpoint is not None and "://" not in request.checkpoint:
            remember(request.checkpoint, _told(request))
            exact = spark.conf.get("spark.sql.caseSensitive") == "true"
            absent = Absent(request.checkpoint, request.ends[:2], [side.columns for side in sides], exact)
        listener = Watch(took, absent, figures.warnings.append)
        spark.streams.addListener(listener)
        report("preparing the first batch" if earlier is None else "resuming from the checkpoint", figures)
        began = time.perf_counter()
        if not stop.is_set():
            query = _writer(joined, request).start()
        while query is not None and not finished and not stop.is_set():
            finished = query.awaitTermination(_LOOK)
        if not finished:
            report("stopping", figures)
        elif _is_down(spark):
            raise ConnectionError("Spark has stopped")  # and ends a query as if it were done
        _leave(spark, query, listener, figures)
    except Exception as error:
        with suppress(Py4JError, OSError):
            _leave(spark, query, listener, figures)
        if isinstance(error, StreamingQueryException | Py4JError | OSError) and stop.wait(_SAME_SIGNAL):
            finished = False  # who ends all processes of a service ends Java as well: this is how the wish may show
        elif not isinstance(error, StreamingQueryException):
            raise
        elif _is_down(spark):  # whatever the query says then
            raise ConnectionError("Spark has stopped") from error
        else:
            raise explained(error) from error
    return {
        "engine": "spark",
        "output": request.words.get("--output", request.output.place),
        "seconds": round(time.perf_counter() - began, 3),
        "finished": finished,
        "resumed": earlier is not None,
        **figures.summary(),
    }


def _told(request: Request) -> dict[str, Any]:
    """What must not change between the runs of one checkpoint."""
    cells, rates = request.options.cells, request.options.rates
    return request.words | {"--cells": cells, "--rate": None if rates is None else f"{rates[0]:g},{rates[1]:g}"}


def _settled(spark: Any, request: Request, earlier: dict[str, Any]) -> Request:
    """With the number of cells: as requested, else that of the earlier run, else the default. Rates alike."""
    from streamjoin.spark.dataframes import default_cells

    options = request.options
    if options.cells is None:
        options = replace(options, cells=earlier.get("--cells") or default_cells(spark, streaming=True))
    if options.rate is None and earlier.get("--rate"):
        options = replace(options, rate=from_text("rate", earlier["--rate"]))
    return replace(request, options=options)


def explain(request: Request, cluster: Cluster) -> Explanation:
    """What the join would do and why. Looks at the sources' columns and starts no query."""
    from streamjoin.spark.dataframes import plan_frames

    check(request)
    with session(cluster) as spark:
        return plan_frames(*_sides(spark, request), request.options).explanation()


def _sides(spark: Any, request: Request) -> tuple[Any, Any]:
    """The two streams, with their watermarks."""
    from streamjoin.spark.pipeline.sources import stream

    kafka = [end.option for end in request.ends if end.kind == "kafka"]
    if kafka:
        check_kafka(spark, kafka)
    sides, times = [], request.options.times
    assert times is not None  # the command line asks for them
    ends = ((request.left, "r", request.left_schema), (request.right, "s", request.right_schema))
    for (end, side, schema), when, delay in zip(ends, times, request.watermark, strict=True):
        interval = _interval("--watermark", delay)
        column = when.time if isinstance(when, Valid) else when
        sides.append(stream(spark, end, side, schema, column, interval, request.malformed))
    return sides[0], sides[1]


def explained(error: Exception) -> PipelineError:
    """The failure of a query in one message: our own error if it was one, else the first words of Spark's."""
    text = str(error)
    own = re.findall(r"streamjoin\.errors\.\w+: (.*)", text)
    if own:
        return PipelineError(own[-1].strip())
    causes: list[Any] = [error]
    while getattr(causes[-1], "_cause", None) is not None:
        causes.append(causes[-1]._cause)
    everything = "\n".join(map(str, causes))
    header = re.search(r"(?s)(?:CSV header does|Number of column in CSV header).*?CSV file: (\S+)", everything)
    if header:
        said = " ".join(header[0].partition("CSV file:")[0].split())
        return PipelineError(
            f"{header[1]} has other columns than its stream ({said}); correct it, or take columns by position "
            "with --left-option or --right-option enforceSchema=true"
        )
    if re.search(r"Python worker exited unexpectedly|Broken pipe", everything):
        return PipelineError(
            "a Python worker of Spark was killed or crashed, and Spark gave up its task; if memory ran out, give it "
            "fewer rows per micro-batch. In local mode a task is tried once unless the master says more often, as "
            "local[2, 4] does. With a checkpoint, the same command resumes"
        )
    if "OversizedAllocationException" in text:
        return PipelineError(
            "rows are so wide that a batch of them would exceed Arrow's 2 GiB; make Spark limit the size of its "
            f"batches: --conf {BATCH_BYTES}=64m"
        )
    raised = re.findall(r"(?m)^\s*(?:Caused by: )?([\w.$]+(?:Exception|Error): .*)$", text)
    words = raised[-1] if raised else text.strip().splitlines()[0]
    words = re.sub(r"^\[STREAM_FAILED\].* terminated with exception: |(?: SQLSTATE: \w+)+$", "", words.strip())
    deepest = causes[-1]
    cause = str(deepest).strip().splitlines()[0] if deepest is not error and str(deepest).strip() else ""
    because = f", because: {cause}" if cause and cause not in words and words not in cause else ""
    return PipelineError(f"the pipeline failed: {words.strip()}{because} (run again with --debug to see all)")


def _writer(joined: Any, request: Request) -> Any:
    from streamjoin.spark.pipeline.sources import write

    writer = write(joined, request.output, request.checkpoint)
    if request.available_now:
        return writer.trigger(availableNow=True)
    if request.trigger is not None:
        return writer.trigger(processingTime=_interval("--trigger", request.trigger))
    return writer


def _is_down(spark: Any) -> bool:
    """Whether Spark was stopped from outside; a Java process that gets a signal stops it first."""
    from py4j.protocol import Py4JError

    try:
        return bool(spark.sparkContext._jsc.sc().isStopped())
    except (Py4JError, OSError):
        return True


def _leave(spark: Any, query: Any, listener: Any, figures: Figures) -> None:
    """Stops the query if it still runs. The listener gets its last event a little after the query has ended."""
    last = None
    if query is not None:
        query.stop()
        last = query.lastProgress
    limit = time.monotonic() + _LAST_FIGURES
    while last is not None and not figures.knows(str(last["id"]), int(last["batchId"])) and time.monotonic() < limit:
        time.sleep(0.05)
    if listener is not None:
        spark.streams.removeListener(listener)


def _interval(option: str, text: str) -> str:
    """A duration in the words of Spark."""
    try:
        length = parse_duration(text)
    except WindowError as error:
        raise OptionError(f"{option}: {error}") from error
    if length < 0:
        raise OptionError(f'{option} "{text}" is negative; write a delay such as "10 seconds", or "0 seconds"')
    return f"{length // 1_000} microseconds"


def _check_predicate(request: Request) -> None:
    """The grammar of the predicate; columns and types are known once the sources are open."""
    from streamjoin.predicate import as_tree

    as_tree(request.options.on)
