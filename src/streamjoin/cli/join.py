"""`streamjoin join`: two files in, one file out; or two streams through Spark."""

from __future__ import annotations

import json
import sys
from functools import partial
from itertools import pairwise
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamjoin.cli.spark import check_engine, pipeline
from streamjoin.cli.words import (
    ALGORITHMS,
    parse_device,
    parse_layout,
    parse_rate,
    parse_within,
    parse_workers,
)
from streamjoin.windows import SPELLINGS

if TYPE_CHECKING:
    from streamjoin.cli.files import Source

_FORMATS = "parquet, arrow, arrows, csv or ndjson, the last three also compressed, as csv.gz"


def join(
    context: typer.Context,
    left: Annotated[
        str,
        typer.Option(
            help="The left input, r in the predicate; - is standard input. For Spark: a folder of files, "
            "kafka://host:port/topic or generate://papers?rate=1000."
        ),
    ],
    right: Annotated[str, typer.Option(help="The right input, s in the predicate; - is standard input.")],
    on: Annotated[str, typer.Option(help='The predicate, as SQL: "r.x BETWEEN s.a - 10 AND s.a + 10".')],
    within: Annotated[str, typer.Option(help=f"The window: {SPELLINGS}.")],
    time: Annotated[str | None, typer.Option(help="The time column, if both sides call it the same.")] = None,
    time_left: Annotated[str | None, typer.Option(help="The left side's time column.")] = None,
    time_right: Annotated[str | None, typer.Option(help="The right side's time column.")] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="The output, - for standard output. An existing file is replaced when all is written. "
            "For Spark: a folder, kafka://host:port/topic or console.",
        ),
    ] = None,
    left_format: Annotated[str | None, typer.Option(help=f"Instead of by suffix: {_FORMATS}.")] = None,
    right_format: Annotated[str | None, typer.Option(help="The same for the right input.")] = None,
    output_format: Annotated[str | None, typer.Option(help="The same for the output.")] = None,
    left_encoding: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of CSV or NDJSON that is not UTF-8: latin1, cp1252, utf-16.")
    ] = None,
    right_encoding: Annotated[str | None, typer.Option(metavar="NAME", help="The same for the right input.")] = None,
    null: Annotated[
        list[str] | None,
        typer.Option(metavar="WORD", help="Means null in CSV, as an empty field; repeatable."),
    ] = None,
    algorithm: Annotated[str, typer.Option(help=f"Who meets whom: {ALGORITHMS}.")] = "auto",
    workers: Annotated[
        str, typer.Option(metavar="N|auto", help="Threads of a parallel algorithm, which are all but kang.")
    ] = "auto",
    layout: Annotated[
        str, typer.Option(metavar="MxN|auto", help="Rows and columns of a grid, as 2x3 for six workers.")
    ] = "auto",
    device: Annotated[
        str | None, typer.Option(help="Of hells: an index as `streamjoin doctor` lists them, a type, a part of a name.")
    ] = None,
    memory: Annotated[str, typer.Option(help="Of hells: where windows lie: auto, host, device or parts.")] = "auto",
    access: Annotated[str, typer.Option(help="How windows are searched: auto, scan, sorted, band or hash.")] = "auto",
    ordered: Annotated[bool, typer.Option("--ordered", help="Results in the order of their time.")] = False,
    suffixes: Annotated[
        str, typer.Option(help='For names that both sides have; "none" makes them an error.')
    ] = "_r,_s",
    explain: Annotated[bool, typer.Option("--explain", help="Print the plan and do nothing.")] = False,
    rate: Annotated[
        str | None,
        typer.Option(
            metavar="N|R,S",
            help="Tuples per second, both or each. Spark: shapes the grid. Else with --explain: of live streams.",
        ),
    ] = None,
    stats: Annotated[bool, typer.Option("--stats", help="Print what was measured (standard error).")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on standard output, and nothing else there.")
    ] = False,
    engine: Annotated[str, typer.Option(help="embedded: files, in this process; spark: streams.")] = "embedded",
    master: Annotated[str, typer.Option(help="Spark: its master, as local[*] or spark://host:7077.")] = "local[*]",
    checkpoint: Annotated[
        str | None, typer.Option(help="Spark: the folder from which a stopped pipeline goes on.")
    ] = None,
    watermark: Annotated[
        str, typer.Option(metavar="DELAY|LEFT,RIGHT", help="Spark: how late a row may come.")
    ] = "10 seconds",
    trigger: Annotated[
        str | None, typer.Option(help='Spark: a micro-batch every so often, as "1 second"; else as fast as it can.')
    ] = None,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Spark: join what is there now, then end.")
    ] = False,
    left_schema: Annotated[
        str | None,
        typer.Option(help='Spark: columns and types, as "ts TIMESTAMP, x INT", or the name of a file with them.'),
    ] = None,
    right_schema: Annotated[str | None, typer.Option(help="The same for the right input.")] = None,
    left_option: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Spark: for its reader, as maxFilesPerTrigger=10; repeatable."),
    ] = None,
    right_option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="The same for the right input.")
    ] = None,
    output_option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Spark: for its writer; repeatable.")
    ] = None,
    malformed: Annotated[
        str, typer.Option(help="Spark: what to do about text that does not fit the columns: fail or drop.")
    ] = "fail",
    cells: Annotated[int | None, typer.Option(min=1, help="Spark: into how many parts the join is divided.")] = None,
    conf: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Spark: a setting of its session; repeatable.")
    ] = None,
    packages: Annotated[
        list[str] | None,
        typer.Option(metavar="GROUP:NAME:VERSION", help="Spark: from Maven Central, as Kafka's connector; repeatable."),
    ] = None,
) -> None:
    """Joins two files, or two streams on Spark: every pair of rows for which the predicate holds, in the window.

    Example: streamjoin join --left trades.parquet --right quotes.csv --time ts --within "2 seconds"
    --on "r.price BETWEEN s.bid - 0.05 AND s.ask + 0.05" -o pairs.parquet
    """
    check_engine(context, engine)
    if engine == "spark":
        pipeline(context.params, _times(time, time_left, time_right), _suffixes(suffixes), as_json)
        return
    if left == right == "-":
        raise typer.BadParameter("only one of --left and --right can be standard input")
    if rate is not None and not explain:
        raise typer.BadParameter("--rate is for --explain; the rows of files come as fast as they can be read")
    times = _times(time, time_left, time_right)
    request: dict[str, Any] = {
        "on": on,
        "within": parse_within(within),
        "time": times,
        "algorithm": algorithm,
        "workers": parse_workers(workers),
        "layout": parse_layout(layout),
        "device": parse_device(device),
        "memory": memory,
        "access": access,
        "ordered": ordered,
        "suffixes": _suffixes(suffixes),
    }
    from streamjoin.cli.files import STANDARD, Target, choose_format

    r = _source(left, "left", left_format, left_encoding)
    s = _source(right, "right", right_format, right_encoding)
    words = tuple(null or ())
    if explain:
        _explain(r.schema(times[0], words), s.schema(times[1], words), request, rate, as_json)
        return
    if output is None:
        raise typer.BadParameter("name the output with -o, or ask for the plan with --explain")
    if output == STANDARD and as_json:
        raise typer.BadParameter("--json needs standard output for itself; give -o a file name")
    target = Target(output, choose_format(output, output_format, "output", "--output-format"))

    target.check(inputs=(r, s))
    report = _run(r, s, words, target, request)
    if as_json:
        print(json.dumps(report))
        return
    print(f"{report['rows']:,} rows in {report['seconds']:.2f} s", file=sys.stderr)
    if stats:
        print("\n".join(_readable(report["stats"])), file=sys.stderr)


def _source(name: str, side: str, format: str | None, encoding: str | None) -> Source:
    from streamjoin.cli.files import Source, choose_encoding, choose_format

    chosen = choose_format(name, format, f"{side} input", f"--{side}-format")
    return Source(name, side, chosen, choose_encoding(chosen, encoding, f"--{side}-encoding"))


def _run(r: Any, s: Any, nulls: tuple[str, ...], target: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Reads, joins and writes; returns what --json prints."""
    import streamjoin as sj
    from streamjoin.cli.progress import progress

    gaps: dict[Source, tuple[int, str]] = {}
    moments = [perf_counter()]
    with progress() as stage:
        tables = []
        for source, time in zip((r, s), request["time"], strict=True):
            stage(f"reading {source}")
            tables.append(source.read(time, nulls, partial(gaps.__setitem__, source)))
        target.check(*(table.schema for table in tables))
        moments.append(perf_counter())
        stage(f"joining {tables[0].num_rows:,} x {tables[1].num_rows:,} rows")
        counts: dict[str, Any] = {}
        result = sj.join(*tables, **request, stats=counts)
        moments.append(perf_counter())
        target.write(result, stage(f"writing {result.num_rows:,} rows", result.num_rows))
        moments.append(perf_counter())
    for source, (rows, first) in gaps.items():
        verb = "row lacks" if rows == 1 else "rows lack"
        print(f"{source}: {rows:,} {verb} a column that others have, which is null there; {first}", file=sys.stderr)
    incomplete = [gaps[source][0] if source in gaps else 0 for source in (r, s)]
    read, joined, written = (round(b - a, 6) for a, b in pairwise(moments))
    return {
        "rows": result.num_rows,
        "seconds": round(moments[-1] - moments[0], 6),
        "output": target.name,
        "stats": {
            "left_rows": tables[0].num_rows,
            "right_rows": tables[1].num_rows,
            "left_incomplete": incomplete[0],
            "right_incomplete": incomplete[1],
            **counts,
            "read_seconds": read,
            "join_seconds": joined,
            "write_seconds": written,
        },
    }


def _readable(stats: dict[str, Any]) -> list[str]:
    """A line per figure, and a small table of the workers where there are any."""
    lines = [f"  {name:<16} {value}" for name, value in stats.items() if name != "per_worker"]
    workers: list[dict[str, Any]] = stats.get("per_worker", [])
    if workers:
        rows = [list(workers[0]), *([_short(value) for value in worker.values()] for worker in workers)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines += ["", *("  " + "  ".join(map(str.rjust, row, widths)) for row in rows)]
    return lines


def _short(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def _explain(r: Any, s: Any, request: dict[str, Any], rate: str | None, as_json: bool) -> None:
    import pyarrow as pa

    import streamjoin as sj

    del request["ordered"]  # a matter of the output, not of the plan
    if rate is None:
        plan = sj.explain(*(pa.Table.from_batches([], schema) for schema in (r, s)), **request)
    else:
        plan = sj.explain(r, s, rate=parse_rate(rate), **request)  # schemas stand for live streams
    print(json.dumps(plan.to_dict(), default=str) if as_json else plan)


def _times(both: str | None, left: str | None, right: str | None) -> tuple[str, str]:
    first, second = left or both, right or both
    if first is None or second is None:
        raise typer.BadParameter("name the time column with --time, or with --time-left and --time-right")
    return first, second


def _suffixes(text: str) -> tuple[str, str] | None:
    if text == "none":
        return None
    parts = text.split(",")
    if len(parts) != 2:
        raise typer.BadParameter(f'--suffixes "{text}" should be two suffixes and a comma, or "none"')
    return parts[0], parts[1]
