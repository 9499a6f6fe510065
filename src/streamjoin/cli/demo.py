"""`streamjoin demo`: the papers' workload, live, verified at the end."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from streamjoin.cli.spread import ALGORITHMS, parse_workers


def demo(
    tuples: Annotated[int, typer.Option(min=1, help="Tuples of each stream.")] = 40_000,
    rate: Annotated[int, typer.Option(min=1, help="Tuples per second of stream time.")] = 1_000,
    window: Annotated[str, typer.Option(help="The length of the window.")] = "15 seconds",
    algorithm: Annotated[str, typer.Option(help=f"Who meets whom: {ALGORITHMS}.")] = "kang",
    workers: Annotated[
        str, typer.Option(metavar="N|auto", help="Threads of a parallel algorithm, which are all but kang.")
    ] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")] = False,
) -> None:
    """Joins the papers' two streams live, shows the rates, and checks the result against a look at every pair."""
    from streamjoin.lab.demo import run

    figures = run(tuples, rate, window, _Report(), algorithm, parse_workers(workers))
    if as_json:
        print(json.dumps(figures))
        return
    spread = f"{figures['algorithm']}, {figures['workers']} worker{'s' * (figures['workers'] > 1)}"
    print(f"{figures['predicate']}\nwithin {window}, access by {figures['access']}, {spread}")
    print(
        f"{figures['results']:,} results from {tuples:,} tuples of each stream at "
        f"{figures['rate_per_stream']:,.0f} tuples/s per stream: verified, every pair was looked at"
    )


class _Report:
    """Progress on standard error: one line that moves on a terminal, a line every tenth of the way elsewhere."""

    def __init__(self) -> None:
        self._tenths = -1
        self._moving = sys.stderr.isatty()

    def __call__(self, text: str, done: float) -> None:
        if self._moving:
            print(f"\r\033[K{done:>4.0%}  {text}", end="" if 0 < done < 1 else "\n", file=sys.stderr, flush=True)
        elif done in (0.0, 1.0) or int(10 * done) > self._tenths:
            print(f"{done:>4.0%}  {text}", file=sys.stderr, flush=True)
        self._tenths = int(10 * done)
