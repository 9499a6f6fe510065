"""`streamjoin join`: two files in, one file out; or two streams through Spark."""

from __future__ import annotations

import json
import re
import sys
from functools import partial
from itertools import pairwise
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamjoin.cli.parameters import EMBEDDED, PIPELINE, check_engine, with_options
from streamjoin.cli.spark import pipeline
from streamjoin.cli.watch import Address, Recording, Watched, watched
from streamjoin.errors import either
from streamjoin.formats import BRIEFLY
from streamjoin.options import DECLARED, TABLES
from streamjoin.spark.pipeline import MALFORMED
from streamjoin.words import ENGINE, INPUT, ON_SPARK, RESULT, WINDOW

if TYPE_CHECKING:
    from streamjoin.cli.files import Source


def _own(group: str, help: str, *names: str, metavar: str | None = None) -> Any:
    """A parameter of the command's own."""
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=group)


_THE_SAME = "The same for the right input."


@with_options
def join(
    context: typer.Context,
    left: Annotated[
        str,
        _own(
            INPUT,
            "The left input, r in the predicate; - is standard input. For Spark: a folder of files, "
            "kafka://host:port/topic or generate://papers?rate=1000.",
        ),
    ],
    right: Annotated[str, _own(INPUT, "The right input, s in the predicate; - is standard input.")],
    time: Annotated[
        str | None,
        _own(
            WINDOW,
            "The time column, if it has the same name on both sides; or valid(FROM,TO), or valid(FROM,TO,most=1 day).",
        ),
    ] = None,
    time_left: Annotated[str | None, _own(WINDOW, "The left side's time column.")] = None,
    time_right: Annotated[str | None, _own(WINDOW, "The right side's time column.")] = None,
    output: Annotated[
        str | None,
        _own(
            RESULT,
            "The output, - for standard output. An existing file is replaced when all is written. "
            "For Spark: a folder, kafka://host:port/topic or console.",
            "--output",
            "-o",
        ),
    ] = None,
    left_format: Annotated[str | None, _own(INPUT, f"The format, if the suffix does not tell: {BRIEFLY}.")] = None,
    right_format: Annotated[str | None, _own(INPUT, _THE_SAME)] = None,
    output_format: Annotated[str | None, _own(RESULT, "The output's format, if the suffix does not tell.")] = None,
    left_encoding: Annotated[
        str | None,
        _own(INPUT, "The encoding of CSV or NDJSON that is not UTF-8: latin1, cp1252, utf-16.", metavar="NAME"),
    ] = None,
    right_encoding: Annotated[str | None, _own(INPUT, _THE_SAME, metavar="NAME")] = None,
    null: Annotated[
        list[str] | None, _own(INPUT, "A word that means null in CSV, like an empty field; repeatable.", metavar="WORD")
    ] = None,
    explain: Annotated[bool, _own(RESULT, "Print the plan and do nothing.", "--explain")] = False,
    stats: Annotated[bool, _own(RESULT, "Print what was measured (standard error).", "--stats")] = False,
    as_json: Annotated[
        bool, _own(RESULT, "Print one JSON object on standard output, and nothing else there.", "--json")
    ] = False,
    watch: Address = None,
    record: Recording = None,
    engine: Annotated[
        str, _own(ENGINE, f"{EMBEDDED}: files, in this process; {PIPELINE}: streams, on a cluster.")
    ] = EMBEDDED,
    master: Annotated[str, _own(ON_SPARK, "The cluster's master, such as local[*] or spark://host:7077.")] = "local[*]",
    checkpoint: Annotated[str | None, _own(ON_SPARK, "The folder from which a stopped pipeline resumes.")] = None,
    watermark: Annotated[str, _own(ON_SPARK, "How late a row may arrive.", metavar="DELAY|LEFT,RIGHT")] = "10 seconds",
    trigger: Annotated[
        str | None,
        _own(ON_SPARK, 'The interval between micro-batches, such as "1 second"; by default as fast as possible.'),
    ] = None,
    available_now: Annotated[
        bool, _own(ON_SPARK, "Join the input that exists now, then end.", "--available-now")
    ] = False,
    left_schema: Annotated[
        str | None, _own(ON_SPARK, 'Columns and types, such as "ts TIMESTAMP, x INT", or the name of a file with them.')
    ] = None,
    right_schema: Annotated[str | None, _own(ON_SPARK, _THE_SAME)] = None,
    left_option: Annotated[
        list[str] | None,
        _own(ON_SPARK, "An option of Spark's reader, such as maxFilesPerTrigger=10; repeatable.", metavar="KEY=VALUE"),
    ] = None,
    right_option: Annotated[list[str] | None, _own(ON_SPARK, _THE_SAME, metavar="KEY=VALUE")] = None,
    output_option: Annotated[
        list[str] | None, _own(ON_SPARK, "An option of Spark's writer; repeatable.", metavar="KEY=VALUE")
    ] = None,
    malformed: Annotated[
        str, _own(ON_SPARK, f"What to do with text that does not fit the columns: {either(MALFORMED)}.")
    ] = MALFORMED[0],
    conf: Annotated[
        list[str] | None, _own(ON_SPARK, "A setting of the session; repeatable.", metavar="KEY=VALUE")
    ] = None,
    packages: Annotated[
        list[str] | None,
        _own(
            ON_SPARK,
            "A package from Maven Central, such as Kafka's connector; repeatable.",
            metavar="GROUP:NAME:VERSION",
        ),
    ] = None,
    *,
    options: dict[str, Any],
) -> None:
    """Joins two files, or two streams on Spark: every pair of rows for which the predicate holds, in the window.

    Example: streamjoin join --left trades.parquet --right quotes.csv --time ts --within "2 seconds"
    --on "r.price BETWEEN s.bid - 0.05 AND s.ask + 0.05" -o pairs.parquet
    """
    check_engine(context, engine)
    options["time"] = _times(time, time_left, time_right, needed=options["within"] is not None or engine == PIPELINE)
    if engine == PIPELINE:
        pipeline(context.params, options, as_json)
        return
    if left == right == "-":
        raise typer.BadParameter("only one of --left and --right can be standard input")
    rate = options["rate"]
    if rate is not None and not explain:
        raise typer.BadParameter("--rate is for --explain; the rows of files come as fast as they are read")
    request = {name: value for name, value in options.items() if TABLES in DECLARED[name].metadata["engines"]}
    from streamjoin.cli.files import STANDARD, Target, choose_format

    r = _source(left, "left", left_format, left_encoding)
    s = _source(right, "right", right_format, right_encoding)
    words = tuple(null or ())
    if explain:
        schemas = [source.schema(column, words) for source, column in zip((r, s), _named(options), strict=True)]
        _explain(schemas, request, rate, as_json)
        return
    if output is None:
        raise typer.BadParameter("name the output with -o, or ask for the plan with --explain")
    if output == STANDARD and as_json:
        raise typer.BadParameter("--json needs standard output for itself; give -o a file name")
    target = Target(output, choose_format(output, output_format, "output", "--output-format"))

    target.check(inputs=(r, s))
    with watched("streamjoin join", watch, record) as shown:
        report = _run(r, s, words, target, request, shown, quiet=as_json or output == STANDARD)
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


def _run(
    r: Any, s: Any, nulls: tuple[str, ...], target: Any, request: dict[str, Any], shown: Watched, quiet: bool
) -> dict[str, Any]:
    """Reads, joins and writes; returns what --json prints."""
    import streamjoin as sj
    from streamjoin.cli.progress import progress

    gaps: dict[Source, tuple[int, str]] = {}
    moments = [perf_counter()]
    with progress(shown.note, quiet) as stage:
        tables = []
        for source, time in zip((r, s), _named(request), strict=True):
            stage(f"reading {source}")
            tables.append(source.read(time, nulls, partial(gaps.__setitem__, source)))
        target.check(*(table.schema for table in tables))
        moments.append(perf_counter())
        rows = tables[0].num_rows, tables[1].num_rows
        stage(f"joining {rows[0]:,} x {rows[1]:,} rows")
        counts: dict[str, Any] = {}
        shown.tables(lambda: sj.explain(*tables, **request), rows)
        result = sj.join(*tables, **request, stats=counts)
        moments.append(perf_counter())
        shown.finished(rows, result.num_rows, counts.get("comparisons", 0))
        target.write(result, stage(f"writing {result.num_rows:,} rows", result.num_rows))
        moments.append(perf_counter())
    for source, (count, first) in gaps.items():
        verb = "row lacks" if count == 1 else "rows lack"
        print(f"{source}: {count:,} {verb} a column that others have, which is null there; {first}", file=sys.stderr)
    incomplete = [gaps[source][0] if source in gaps else 0 for source in (r, s)]
    read, joined, written = (round(b - a, 6) for a, b in pairwise(moments))
    return {
        "rows": result.num_rows,
        "seconds": round(moments[-1] - moments[0], 6),
        "output": target.name,
        "stats": {
            "left_rows": rows[0],
            "right_rows": rows[1],
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


def _explain(sides: list[Any], request: dict[str, Any], rate: Any, as_json: bool) -> None:
    import pyarrow as pa

    import streamjoin as sj

    if rate is None:
        sides = [pa.Table.from_batches([], schema) for schema in sides]  # schemas would stand for live streams
    plan = sj.explain(sides[0], sides[1], rate=rate, **request)
    print(json.dumps(plan.to_dict(), default=str) if as_json else plan)


def _times(both: str | None, left: str | None, right: str | None, needed: bool) -> tuple[Any, Any] | None:
    first, second = left or both, right or both
    if first is None and second is None and not needed:
        return None
    if first is None or second is None:
        raise typer.BadParameter("name the time column with --time, or with --time-left and --time-right")
    return _time(first), _time(second)


def _time(text: str) -> Any:
    """A column, or since when and until when rows are valid."""
    found = re.fullmatch(r"valid\(([^,]+),([^,]+)(?:,\s*most\s*=([^,]+))?\)", text.strip())
    if found is None:
        if text.strip().startswith("valid("):
            raise typer.BadParameter(f'"{text}" is not valid(FROM,TO) or valid(FROM,TO,most=1 day), with two columns')
        return text
    from streamjoin.windows.duration import length_of
    from streamjoin.windows.valid import valid

    return valid(found[1].strip(), found[2].strip(), most=length_of(found[3] or ""))


def _named(options: dict[str, Any]) -> tuple[str, str]:
    """The time columns by name, for readers of text; "" where there is none."""
    first, second = (name if isinstance(name, str) else "" for name in options["time"] or ("", ""))
    return first, second
