"""`streamjoin demo`: the papers' workload, live, verified at the end."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from streamjoin.cli.parameters import EMBEDDED, PIPELINE, AsJson, check_engine, default, described
from streamjoin.cli.progress import Live, LiveJoin, sparkline
from streamjoin.cli.watch import Address, Recording, Watched, watched
from streamjoin.options import from_text


def demo(
    context: typer.Context,
    engine: Annotated[str, typer.Option(help=f"{PIPELINE}: a pipeline in local mode; {EMBEDDED}.")] = PIPELINE,
    tuples: Annotated[int | None, typer.Option(min=1, help="Tuples of each stream; 40000, on Spark 80000.")] = None,
    rate: Annotated[
        int | None, typer.Option(min=1, help="Tuples per second of stream time; 1000, on Spark 2000.")
    ] = None,
    window: Annotated[str, typer.Option(help="The length of the window.")] = "15 seconds",
    algorithm: Annotated[str, described("algorithm")] = "kang",
    workers: Annotated[str, described("workers")] = default("workers"),
    watch: Address = None,
    record: Recording = None,
    as_json: AsJson = False,
) -> None:
    """Joins the papers' two streams live, shows the rates, and checks the result against a nested loop."""
    check_engine(context, engine)
    sizes = {"tuples": tuples, "rate": rate}
    asked: dict[str, Any] = {name: value for name, value in sizes.items() if value is not None}
    with watched("streamjoin demo", watch, record) as shown:
        if engine == PIPELINE:
            figures = _on_spark(window, asked, shown)
        else:
            asked |= {"algorithm": algorithm, "workers": from_text("workers", workers)}
            with LiveJoin("the papers' band join", shown.note) as live:
                live("loading libraries", 0.0)
                from streamjoin.bench.demo import run

                figures = run(window=window, report=live, observe=shown.join, **asked)
    if engine == PIPELINE:
        how = f"Spark {figures['master']}, {figures['batches']} micro-batches"
    else:
        spread = f"{figures['algorithm']}, {figures['workers']} worker{'s' * (figures['workers'] > 1)}"
        how = f"access by {figures['access']}, {spread}"
    if as_json:
        print(json.dumps(figures))
        return
    print(f"{figures['predicate']}\nwithin {window}, {how}")
    print(
        f"{figures['results']:,} results from {figures['tuples_per_stream']:,} tuples of each stream at "
        f"{figures['rate_per_stream']:,.0f} tuples/s per stream: verified against a nested loop"
    )
    curve = sparkline(figures["by_time"], sys.stdout.encoding or "ascii")
    print(f"results over time; the windows fill first:\n{curve}")


def _on_spark(window: str, asked: dict[str, Any], shown: Watched) -> dict[str, Any]:
    from streamjoin.spark.pipeline.session import check_installed

    check_installed()
    with Live("the papers' band join on Spark", also=shown.pipeline) as live:
        live.show("loading libraries", [])
        from streamjoin.bench.demo import SPARK_TUPLES, run_on_spark

        live.tuples = 2 * (asked.get("tuples") or SPARK_TUPLES)
        return run_on_spark(window=window, report=live, **asked)
