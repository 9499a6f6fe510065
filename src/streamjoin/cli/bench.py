"""`streamjoin bench`: the benchmarks. Each verifies its result before it prints a figure."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from streamjoin.cli.parameters import AsJson
from streamjoin.cli.watch import Address, Recording, Watched, watched

app = typer.Typer(help="Benchmarks that verify their results.", no_args_is_help=True, rich_markup_mode=None)

_shown = Watched(None)  # of the benchmark that runs


class Begun(TyperCommand):
    """A benchmark, which says at once that it has begun."""

    def invoke(self, ctx: Any) -> Any:
        print(f"{ctx.command_path}: figures follow when its results are verified", file=sys.stderr, flush=True)
        return super().invoke(ctx)


@app.callback()
def shared(context: typer.Context, watch: Address = None, record: Recording = None) -> None:
    """Options of every benchmark."""
    if watch is None and record is None:
        return
    from streamjoin.metrics import watchers

    global _shown
    _shown = context.with_resource(watched(f"streamjoin bench {context.invoked_subcommand}", watch, record))
    watchers.append(_shown.join)
    context.call_on_close(watchers.clear)


OneAlgorithm = Annotated[str, typer.Option(help="kang, or one with workers.")]
Workers = Annotated[int, typer.Option(min=1, help="Of such an algorithm.")]


@app.command(cls=Begun)
def scan(
    tuples: Annotated[int, typer.Option(min=1, help="Tuples in the window.")] = 1_000_000,
    seconds: Annotated[float, typer.Option(min=0.0, help="How long to measure.")] = 5.0,
    as_json: AsJson = False,
) -> None:
    """The two-dimensional band scan of one window on one core, with pairs emitted."""
    from streamjoin.bench import one_core as bench

    _show(bench.scan(tuples=tuples, seconds=seconds), as_json)


@app.command(cls=Begun)
def join(
    access: Annotated[str, typer.Option(help="band, scan or hash.")] = "band",
    window: Annotated[str | None, typer.Option(help="The length of the window; 15 minutes, for hash 1 minute.")] = None,
    rate: Annotated[
        int | None,
        typer.Option(min=1, help="Tuples/s per stream to fill the windows for; 40000, scan 2000, hash 500000."),
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.0, help="How long to measure.")] = 20.0,
    how: Annotated[
        str | None,
        typer.Option(help="Kinds to measure beside the inner join, in turns: left,full,semi,anti,take,count, or all."),
    ] = None,
    rows: Annotated[
        bool, typer.Option("--rows", help="Results as rows, in Arrow batches, in turns with pairs of tuple numbers.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """The papers' band join, or its equality variant, sustained on one core with the windows prefilled.

    With --how other kinds beside it, from push to poll; --window (10 seconds) and --rate (10000) set the sizes.
    """
    if how is not None:
        from streamjoin.bench.kinds_bench import kinds

        line = (
            "{kind:<8} {rate_per_stream:>12,.0f} tuples/s  {rows:>11,} rows, {unmatched:>9,} alone  "
            "{time_to_inner:.2f} x the time of inner"
        )
        _show(kinds(_words(how), window or "10 seconds", rate or 10_000), as_json, line)
        return
    if rows:
        from streamjoin.bench.rows_bench import rows as measure

        _show(measure(access=access, window=window, rate=rate, seconds=seconds), as_json)
        return
    from streamjoin.bench import one_core as bench

    _show(bench.join(access=access, window=window, rate=rate, seconds=seconds), as_json)


@app.command(cls=Begun)
def tables(
    job: Annotated[str, typer.Option(help="Jobs, separated by commas, or all; an unknown name lists them.")] = "band2d",
    rows: Annotated[int, typer.Option(min=1, help="Rows of each table.")] = 1_000_000,
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each engine; the best counts.")] = 5,
    engines: Annotated[
        str | None,
        typer.Option(help="Peers, separated by commas: duckdb,polars,datafusion,chdb,polars_bio; all installed."),
    ] = None,
    limit: Annotated[float, typer.Option(min=1, help="Time limit of a call, in seconds.")] = 120.0,
    how: Annotated[
        str | None,
        typer.Option(help="Kinds instead, relative to inner: left,semi,anti,take,count,asof, or all; or peers."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Two whole tables against other engines, each in its best phrasing and its own process, in turns."""
    from streamjoin.bench import tables_bench

    if how is not None:
        from streamjoin.bench.table_kinds import kinds

        line_of_kind = (
            "{job:<10} {kind:<11} {seconds:>8.3f} s {rows_out:>12,} rows {ratio:>7.2f}, {cpu_ratio:.2f} of CPU time"
        )
        _show(kinds(_words(job), _words(how), rows, rounds, _note), as_json, line_of_kind, ("machine",))
        return
    names = None if engines is None else _words(engines)
    figures = tables_bench.tables(_words(job), rows, rounds, names, limit, _note)

    def line(run: dict[str, Any]) -> str:
        what, ratio = f"{run['job']:<16} {run['engine']:<11}", figures["ratios"][run["job"]].get(run["engine"])
        if run["seconds"] is None:
            return f"{what} more than {limit:g} s"
        return (
            f"{what} {run['seconds']:>8.3f} s  first {run['first_seconds']:>8.3f} s {run['peak_mb']:>7,.0f} MB "
            f"{run['rows_out']:>12,} rows" + (f"  {ratio:,.2f} x ours" if ratio else "")
        )

    _show(figures, as_json, line, ("machine",))


@app.command(cls=Begun)
def push(
    windows: Annotated[str, typer.Option(help="Tuples in each window: 10000,1000000.")] = "10000,1000000",
    pushes: Annotated[int, typer.Option(min=1, help="Rows of each side in a round.")] = 2_000,
    rounds: Annotated[int, typer.Option(min=1, help="The best counts.")] = 3,
    algorithm: OneAlgorithm = "kang",
    workers: Workers = 1,
    as_json: AsJson = False,
) -> None:
    """Pushes of 1, 64 and 1,024 rows into a live band join with full windows; the latency of single rows."""
    from streamjoin.bench.push_bench import push as measure

    line = (
        "window {window:>9,}  {rows:>5,} rows, {pushed_as:<6}  push {push_us:>8.1f} us, p99 {push_us_p99:>8.1f}  "
        "poll {poll_us:>8.1f} us  {results_per_row:.1f} results/row"
    )
    _show(measure(_counts(windows), pushes, rounds, algorithm, workers), as_json, line)


@app.command(cls=Begun, name="watch")
def watching(
    window: Annotated[str, typer.Option(help="The length of the window.")] = "10 seconds",
    rate: Annotated[int, typer.Option(min=1, help="Tuples per second of stream time and stream.")] = 50_000,
    seconds: Annotated[float, typer.Option(min=0.01, help="Of a turn, about; whole windows.")] = 0.5,
    rounds: Annotated[int, typer.Option(min=1, help="Turns with the page and without it; the median counts.")] = 40,
    algorithm: OneAlgorithm = "kang",
    workers: Workers = 1,
    as_json: AsJson = False,
) -> None:
    """What an open live page costs a live band join: equal work with it and without it, in turns."""
    from streamjoin.bench.watch_bench import watching as measure

    _show(measure(window, rate, seconds, rounds, algorithm, workers), as_json)


@app.command(cls=Begun)
def cold(
    joins: Annotated[str | None, typer.Option(help="Of join, Join, parallel, duckdb, polars; all.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="The best counts.")] = 1,
    as_json: AsJson = False,
) -> None:
    """A first join in processes that begin with an empty folder for machine code; seconds from start to end."""
    from streamjoin.bench.cold_bench import cold as measure

    line = "{join:<10} {step:<16} {seconds:>7.2f} s  {compiled:>4} functions compiled"
    _show(measure(None if joins is None else _words(joins), rounds), as_json, line)


@app.command(cls=Begun)
def check(
    record: Annotated[bool, typer.Option("--record", help="Write the record instead of comparing with it.")] = False,
    file: Annotated[Path | None, typer.Option(help="The record; benchmarks/recorded.json.")] = None,
    job: Annotated[str, typer.Option(help="Jobs of bench tables, separated by commas, or all.")] = "all",
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each engine; the best counts.")] = 5,
    engines: Annotated[str | None, typer.Option(help="As for bench tables.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compares the ratios of bench tables with recorded ones; names those that fell by more than 15 %, and exits 1."""
    from streamjoin.bench import check as checking

    measure = checking.record if record else checking.check
    names = None if engines is None else _words(engines)
    figures = measure(file or checking.RECORDED, _words(job), rounds, names, _note)
    if as_json:
        print(json.dumps(figures))
    else:
        for name, ratios in figures["ratios"].items():
            print(f"{name:<16} " + "  ".join(f"{peer} {ratio:.2f}" for peer, ratio in ratios.items()))
        for fall in figures.get("fallen", ()):
            print(f"fallen: {fall['job']} to {fall['engine']}, {fall['recorded']:.2f} on record, {fall['now']:.2f} now")
    if figures.get("fallen"):
        raise typer.Exit(1)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(","))


def _note(text: str) -> None:
    _shown.note(text)
    print(text, file=sys.stderr, flush=True)


def _chosen(parts: str, known: str) -> tuple[str, ...]:
    """The parts of a benchmark that --parts names."""
    chosen = _words(parts)
    unknown = [part for part in chosen if part not in known.split(",")]
    if unknown:
        raise typer.BadParameter(f'--parts "{unknown[0]}" is not one of {known}')
    return chosen


PARTS = "scaling,sustained,band,latency,order"


@app.command(cls=Begun)
def parallel(
    seconds: Annotated[float, typer.Option(min=0.1, help="How long to measure each configuration.")] = 5.0,
    rate: Annotated[float, typer.Option(min=1, help="Tuples/s per stream that scans begin with.")] = 2_000.0,
    band_rate: Annotated[float, typer.Option(min=1, help="The same for band access.")] = 70_000.0,
    latency_seconds: Annotated[float, typer.Option(min=0.1, help="How long to measure latencies.")] = 20.0,
    handshake_seconds: Annotated[
        float, typer.Option(min=0.1, help="The same for handshake, whose latencies are long.")
    ] = 60.0,
    window: Annotated[str, typer.Option(help="The window for throughput.")] = "15 minutes",
    short_window: Annotated[str, typer.Option(help="The window for latency.")] = "200 seconds",
    parts: Annotated[str, typer.Option(help=f"Which measurements: {PARTS}.")] = PARTS,
    as_json: AsJson = False,
) -> None:
    """The papers' band join under all parallel algorithms: scaling, sustained rates, latency, the price of order."""
    from streamjoin.bench.parallel import parallel as measure

    chosen = _chosen(parts, PARTS)
    lengths = seconds, rate, band_rate, latency_seconds, handshake_seconds
    figures = measure(*lengths, window, short_window, chosen, _note)

    def line(run: dict[str, Any]) -> str:
        wait = run["latency_ms"]
        return (
            f"{run['algorithm']:<12} {run['workers']:>3} workers  {run['access']:<6} "
            f"{run['comparisons_per_s'] / 1e9:>7.2f} G comparisons/s {run['rate_per_stream']:>10,.0f} tuples/s each"
            + (f"  latency {wait['avg']:,.2f} ms, p99 {wait['p99']:,.2f}" if wait else "")
        )

    _show(figures, as_json, line)


MOST = 10**9  # tuples of a window
SPARK_PARTS = "opaque,band,large,outer,tiny,static"


@app.command(cls=Begun)
def spark(
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes: a check that it works, no figures.")] = False,
    windows: Annotated[str | None, typer.Option(help="Of the band joins, in tuples per side: 100000,1000000.")] = None,
    parts: Annotated[str, typer.Option(help=f"Which measurements: {SPARK_PARTS}.")] = SPARK_PARTS,
    rounds: Annotated[int | None, typer.Option(min=1, help="Turns of each engine; the best counts.")] = None,
    master: Annotated[str, typer.Option(help="Spark's master.")] = "local[2]",
    memory: Annotated[str, typer.Option(help="Of Spark's driver, which in local mode is all of it.")] = "8g",
    as_json: AsJson = False,
) -> None:
    """The Spark engine against rewrites of Spark's own joins; takes more than half an hour."""
    from streamjoin.spark.pipeline.session import Cluster, check_installed, session

    chosen = _chosen(parts, SPARK_PARTS)
    check_installed()
    from streamjoin.bench import spark_bench

    sizes = spark_bench.QUICK if quick else spark_bench.Sizes()
    if windows is not None:
        sizes = replace(sizes, windows=_counts(windows))
    if rounds is not None:
        sizes = replace(sizes, rounds=rounds)
    conf = {"spark.driver.memory": memory, "spark.sql.adaptive.enabled": "true"}  # tables are joined better with it
    with session(Cluster(master, conf, name="streamjoin-bench")) as running:
        figures = spark_bench.measure(running, sizes, chosen, _note)
    if not as_json:
        del figures["runs"]  # which were reported one by one
        for name, ratio in figures.pop("ratios").items():
            print(f"{name:<40} {ratio:,.2f}")
    _show(figures, as_json)


@app.command(cls=Begun)
def hells(
    windows: Annotated[str, typer.Option(help="Entries of the window, at the paper's selectivity.")] = (
        "10000,100000,1000000,10000000"
    ),
    selectivities: Annotated[
        str, typer.Option(help="Parts of all pairs that match, at a window of --selective-window.")
    ] = "0.00004,0.001,0.01,0.1,0.4,1",
    selective_window: Annotated[int, typer.Option(min=1, help="Entries of that window.")] = 1_000_000,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long to measure each join.")] = 2.0,
    as_json: AsJson = False,
) -> None:
    """HELLS-Join on an OpenCL device against one thread and a grid of threads that scan, by window and selectivity."""
    from streamjoin.bench.hells_bench import measure

    parts = _numbers(selectivities, "--selectivities", 1e-9, 1)
    figures = measure(_counts(windows), parts, selective_window, seconds, _note)
    if not as_json:
        for point in (*figures.pop("by_window"), *figures.pop("by_selectivity")):
            speeds = ", ".join(f"{name} {speed / 1e9:.2f}" for name, speed in point["comparisons_per_s"].items())
            print(f"window {point['window']:>11,}  selectivity {point['selectivity']:>9.4%}  {speeds} G comparisons/s")
    _show(figures, as_json)


def _counts(windows: str) -> tuple[int, ...]:
    """Sizes of windows, separated by commas."""
    counts = windows.split(",")
    if not all(count.strip().isdecimal() and 0 < int(count) <= MOST for count in counts):
        raise typer.BadParameter(f'--windows "{windows}" is not numbers of tuples, such as 100000,1000000')
    return tuple(map(int, counts))


def _numbers(text: str, option: str, low: float, high: float) -> tuple[float, ...]:
    """Numbers, separated by commas."""
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or not all(low <= number <= high for number in found):
        raise typer.BadParameter(
            f'{option} "{text}" is not a list of numbers from {low:g} to {high:g}, separated by commas'
        )
    return found


Run = dict[str, Any]


def _show(figures: Run, as_json: bool, line: str | Callable[[Run], str] = "", rest: tuple[str, ...] = ()) -> None:
    """Prints figures. With a `line`, a template or a function, it prints one for each of the runs, then the `rest`."""
    if as_json:
        print(json.dumps(figures))
        return
    for run in figures["runs"] if line else ():
        print(line.format(**run) if isinstance(line, str) else line(run))
    for name in rest or [name for name in figures if name != "runs" or not line]:
        value = figures[name]
        number = isinstance(value, int | float) and not isinstance(value, bool)
        print(f"{name:<22} {value:,}" if number else f"{name:<22} {value}")
