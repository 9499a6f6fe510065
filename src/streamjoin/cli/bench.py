"""`streamjoin bench`: the benchmarks. Each verifies its result before it prints a figure."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from streamjoin.cli.watch import Address, Recording, Watched, watched

app = typer.Typer(help="Benchmarks that verify their results.", no_args_is_help=True, rich_markup_mode=None)

_shown = Watched(None)  # of the benchmark that runs


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
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")]


@app.command()
def scan(
    tuples: Annotated[int, typer.Option(min=1, help="Tuples in the window.")] = 1_000_000,
    seconds: Annotated[float, typer.Option(min=0.0, help="How long to measure.")] = 5.0,
    as_json: AsJson = False,
) -> None:
    """The two-dimensional band scan of one window on one core, with pairs emitted."""
    from streamjoin.bench import one_core as bench

    _show(bench.scan(tuples=tuples, seconds=seconds), as_json)


@app.command()
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

        figures = kinds(_words(how), window or "10 seconds", rate or 10_000)
        if as_json:
            print(json.dumps(figures))
            return
        for run in figures.pop("runs"):
            print(
                f"{run['kind']:<8} {run['rate_per_stream']:>12,.0f} tuples/s  {run['rows']:>11,} rows, "
                f"{run['unmatched']:>9,} alone  {run['time_to_inner']:.2f} x the time of inner"
            )
        _show(figures, False)
        return
    if rows:
        from streamjoin.bench.rows_bench import rows as measure

        _show(measure(access=access, window=window, rate=rate, seconds=seconds), as_json)
        return
    from streamjoin.bench import one_core as bench

    _show(bench.join(access=access, window=window, rate=rate, seconds=seconds), as_json)


@app.command()
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
        _kinds(_words(job), _words(how), rows, rounds, as_json)
        return
    names = None if engines is None else _words(engines)
    figures = tables_bench.tables(_words(job), rows, rounds, names, limit, _note)
    if as_json:
        print(json.dumps(figures))
        return
    for run in figures["runs"]:
        if run["seconds"] is None:
            print(f"{run['job']:<16} {run['engine']:<11} more than {limit:g} s")
            continue
        ratio = figures["ratios"][run["job"]].get(run["engine"])
        print(
            f"{run['job']:<16} {run['engine']:<11} {run['seconds']:>8.3f} s  first {run['first_seconds']:>8.3f} s "
            f"{run['peak_mb']:>7,.0f} MB {run['rows_out']:>12,} rows" + (f"  {ratio:,.2f} x ours" if ratio else "")
        )
    print(f"{'machine':<22} {figures['machine']}")


def _kinds(jobs: tuple[str, ...], hows: tuple[str, ...], rows: int, rounds: int, as_json: bool) -> None:
    from streamjoin.bench import table_kinds

    figures = table_kinds.kinds(jobs, hows, rows, rounds, _note)
    if as_json:
        print(json.dumps(figures))
        return
    for run in figures["runs"]:
        print(
            f"{run['job']:<10} {run['kind']:<11} {run['seconds']:>8.3f} s {run['rows_out']:>12,} rows "
            f"{run['ratio']:>7.2f}, {run['cpu_ratio']:.2f} of CPU time"
        )
    print(f"{'machine':<22} {figures['machine']}")


@app.command()
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

    figures = measure(_counts(windows), pushes, rounds, algorithm, workers)
    if as_json:
        print(json.dumps(figures))
        return
    for run in figures.pop("runs"):
        print(
            f"window {run['window']:>9,}  {run['rows']:>5,} rows, {run['pushed_as']:<6}  "
            f"push {run['push_us']:>8.1f} us, "
            f"p99 {run['push_us_p99']:>8.1f}  poll {run['poll_us']:>8.1f} us  {run['results_per_row']:.1f} results/row"
        )
    _show(figures, False)


@app.command("watch")
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


@app.command()
def cold(
    joins: Annotated[str | None, typer.Option(help="Of join, Join, parallel, duckdb, polars; all.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="The best counts.")] = 1,
    as_json: AsJson = False,
) -> None:
    """A first join in processes that begin with an empty folder for machine code; seconds from start to end."""
    from streamjoin.bench.cold_bench import cold as measure

    figures = measure(None if joins is None else _words(joins), rounds)
    if as_json:
        print(json.dumps(figures))
        return
    for run in figures.pop("runs"):
        print(f"{run['join']:<10} {run['step']:<16} {run['seconds']:>7.2f} s  {run['compiled']:>4} functions compiled")
    _show(figures, False)


@app.command()
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


@app.command()
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
    figures = measure(
        seconds,
        rate,
        band_rate,
        latency_seconds,
        handshake_seconds,
        window,
        short_window,
        chosen,
        _note,
    )
    runs = figures.pop("runs")
    if as_json:
        print(json.dumps({"runs": runs, **figures}))
        return
    for run in runs:
        wait = run["latency_ms"]
        print(
            f"{run['algorithm']:<12} {run['workers']:>3} workers  {run['access']:<6} "
            f"{run['comparisons_per_s'] / 1e9:>7.2f} G comparisons/s {run['rate_per_stream']:>10,.0f} tuples/s each"
            + (f"  latency {wait['avg']:,.2f} ms, p99 {wait['p99']:,.2f}" if wait else "")
        )
    _show(figures, False)


MOST = 10**9  # tuples of a window
SPARK_PARTS = "opaque,band,large,outer,tiny,static"


@app.command()
def spark(
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes: a check that it works, no figures.")] = False,
    windows: Annotated[str | None, typer.Option(help="Of the band joins, in tuples per side: 100000,1000000.")] = None,
    parts: Annotated[str, typer.Option(help=f"Which measurements: {SPARK_PARTS}.")] = SPARK_PARTS,
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
    conf = {"spark.driver.memory": memory, "spark.sql.adaptive.enabled": "true"}  # tables are joined better with it
    with session(Cluster(master, conf, name="streamjoin-bench")) as running:
        figures = spark_bench.measure(running, sizes, chosen, _note)
    if as_json:
        print(json.dumps(figures))
        return
    for name, ratio in figures["ratios"].items():
        print(f"{name:<40} {ratio:,.2f}")
    _show({name: value for name, value in figures.items() if name not in ("runs", "ratios")}, False)


@app.command()
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
    if as_json:
        print(json.dumps(figures))
        return
    for point in (*figures["by_window"], *figures["by_selectivity"]):
        speeds = ", ".join(f"{name} {speed / 1e9:.2f}" for name, speed in point["comparisons_per_s"].items())
        print(f"window {point['window']:>11,}  selectivity {point['selectivity']:>9.4%}  {speeds} G comparisons/s")
    _show({name: figures[name] for name in ("break_even_selectivity", "device", "machine")}, False)


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


def _show(figures: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:<22} {value:,}" if isinstance(value, int | float) else f"{name:<22} {value}")
