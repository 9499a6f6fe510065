"""`streamjoin join --engine spark`: from the command line's words to a running pipeline and its exit code."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import typer

from streamjoin.cli.watch import watched
from streamjoin.errors import OptionError
from streamjoin.exits import signalled
from streamjoin.kinds import BACKWARD
from streamjoin.options import Options

if TYPE_CHECKING:
    from streamjoin.spark.pipeline.pipeline import Request

KIND = "how", "take", "aggregate", "select"  # options that say what comes out


def request(words: dict[str, Any], options: dict[str, Any]) -> Request:
    """The pipeline that the words ask for, given what they say about the join itself. Imports no Spark."""
    from streamjoin.spark.pipeline.endpoints import pairs, schema_text, sink, source
    from streamjoin.spark.pipeline.pipeline import Request

    asked = Options(**options)
    if asked.within is None and not asked.valid and asked.kind.take.name != BACKWARD:
        raise typer.BadParameter(
            f"streams need a window; name it with --within. Only --take {BACKWARD} with an equality does without one, "
            "and rows that are valid for a while: --time-right valid(FROM,TO,most=1 day)"
        )
    schemas = {}
    for side in ("left", "right"):
        given = words[f"{side}_schema"]
        schemas[side] = None if given is None else schema_text(f"--{side}-schema", given)
    ends = {}
    for side in ("left", "right"):
        settings = pairs(f"--{side}-option", words[f"{side}_option"] or [])
        ends[side] = source(f"--{side}", words[side], words[f"{side}_format"], settings, schemas[side])
    if words["explain"]:
        words = words | {"output": "console", "output_format": None, "output_option": None, "checkpoint": None}
    if words["output"] is None:
        raise typer.BadParameter("name the output with -o: a folder, kafka://host:port/topic, or console")
    settings = pairs("--output-option", words["output_option"] or [])
    delays = [part.strip() for part in words["watermark"].split(",")]
    if len(delays) > 2:
        raise OptionError(f'--watermark "{words["watermark"]}" is one delay, or two with a comma: left and right')
    kept = ("left", "right", "on", "within", "suffixes", "access", "left_schema", "right_schema", "output")
    # By default not there, as in the notes of versions that had no other kinds than inner.
    kinds = {f"--{name}": words[name] if asked.is_set(name) else None for name in KIND}
    return Request(
        left=ends["left"],
        right=ends["right"],
        output=sink("--output", words["output"], words["output_format"], settings),
        options=asked,
        watermark=(delays[0], delays[-1]),
        left_schema=schemas["left"],
        right_schema=schemas["right"],
        checkpoint=words["checkpoint"],
        trigger=words["trigger"],
        available_now=words["available_now"],
        malformed=words["malformed"],
        words={
            **{"--" + name.replace("_", "-"): words[name] for name in kept},
            **{f"--time-{side}": words[f"time_{side}"] or words["time"] for side in ("left", "right")},
            **kinds,
        },
    )


def pipeline(words: dict[str, Any], options: dict[str, Any], as_json: bool) -> None:
    """Runs it and prints what it did, or only what it would do; exit code 128 + n if signal n stopped it."""
    from streamjoin.cli.progress import Live
    from streamjoin.spark.pipeline.endpoints import CONSOLE, pairs
    from streamjoin.spark.pipeline.pipeline import explain, run
    from streamjoin.spark.pipeline.session import Cluster, check_installed
    from streamjoin.spark.pipeline.stop import Stop

    asked = request(words, options)
    if as_json and asked.output.kind == CONSOLE and not words["explain"]:
        raise typer.BadParameter("--json needs standard output for itself; give -o a folder or a topic")
    packages = tuple(part.strip() for word in words["packages"] or [] for part in word.split(",") if part.strip())
    cluster = Cluster(words["master"], pairs("--conf", words["conf"] or []), packages)
    check_installed()
    if words["explain"]:
        plan = explain(asked, cluster)
        print(json.dumps(plan.to_dict()) if as_json else plan)
        return
    stop = Stop()
    with (
        watched("streamjoin join on Spark", words["watch"], words["record"]) as shown,
        Live("streamjoin join", _expected(asked), shown.pipeline) as live,
    ):
        report = run(asked, cluster, stop, live)
    ended = "all input joined"
    if not report["finished"]:
        ended = "stopped" + ("" if asked.checkpoint is None else "; the same command resumes from the checkpoint")
    if as_json:
        print(json.dumps(report))
    if not as_json or not report["finished"]:
        print(
            f"{report['results']:,} results from {report['rows_in']:,} rows in {report['seconds']:.1f} s, "
            f"{report['late']:,} late rows{_left_out(report)}: {ended}",
            file=sys.stderr,
        )
    if stop.number is not None:
        raise typer.Exit(signalled(stop.number))


def _left_out(report: dict[str, Any]) -> str:
    """What was dropped, and what was not there."""
    said = f", {report['malformed']:,} malformed rows dropped" if report["malformed"] else ""
    for gap in report["absent"]:
        said += f', {gap["rows"]:,} rows of {gap["input"]} without column "{gap["column"]}"'
    return said


def _expected(asked: Request) -> int | None:
    """How many rows will come, where that is known."""
    counts = [end.options.get("tuples", "") if end.kind == "generate" else "" for end in (asked.left, asked.right)]
    return sum(map(int, counts)) if all(counts) else None
