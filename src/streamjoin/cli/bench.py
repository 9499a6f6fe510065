"""`streamjoin bench`: the benchmarks, each of which checks its result before it prints a figure."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

app = typer.Typer(help="Benchmarks that verify their results.", no_args_is_help=True, rich_markup_mode=None)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")]


@app.command()
def scan(
    tuples: Annotated[int, typer.Option(min=1, help="Tuples in the window.")] = 1_000_000,
    seconds: Annotated[float, typer.Option(min=0.0, help="How long to measure.")] = 5.0,
    as_json: AsJson = False,
) -> None:
    """The two-dimensional band scan of one window on one core, with pairs emitted."""
    from streamjoin.lab import bench

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
    as_json: AsJson = False,
) -> None:
    """The papers' band join, or its equality variant, sustained on one core with the windows prefilled."""
    from streamjoin.lab import bench

    _show(bench.join(access=access, window=window, rate=rate, seconds=seconds), as_json)


@app.command()
def tables(
    rows: Annotated[int, typer.Option(min=1, help="Rows of each table.")] = 1_000_000,
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each engine; the best counts.")] = 5,
    as_json: AsJson = False,
) -> None:
    """The papers' band join of two whole tables, against DuckDB and Polars where they are installed."""
    from streamjoin.lab import bench

    _show(bench.tables(rows=rows, rounds=rounds), as_json)


def _show(figures: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:<22} {value:,}" if isinstance(value, int | float) else f"{name:<22} {value}")
