"""Kinds of live joins beside the inner join: the same tuples through each, in turns, from push to poll."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from streamjoin.bench.harness import papers_join
from streamjoin.bench.jobs import INNER, KINDS
from streamjoin.errors import OptionError, StreamjoinError
from streamjoin.live.join import Join
from streamjoin.machine import machine
from streamjoin.metrics import observed
from streamjoin.papers import BAND, Source
from streamjoin.predicate.tree import SIDES

BATCH = 1024


def kinds(
    names: Sequence[str], window: str = "10 seconds", rate: int = 10_000, tuples: int = 200_000, rounds: int = 3
) -> dict[str, Any]:
    """The papers' band join on one core, in batches of 1,024 tuples; the best of some rounds counts.

    Checked before figures are given out: the numbers of rows of all kinds agree with each other.
    """
    names = tuple(KINDS) if "all" in names else names
    unknown = [name for name in names if name not in KINDS]
    if unknown:
        raise OptionError(f'how="{unknown[0]}" is not one of {", ".join(KINDS)}, all')
    chosen = list(dict.fromkeys([INNER, *names]))
    best: dict[str, float] = {}
    counts: dict[str, dict[str, int]] = {}
    for _ in range(rounds):
        for name in chosen:
            seconds, counts[name] = _run(KINDS[name], window, rate, tuples)
            best[name] = min(seconds, best.get(name, seconds))
    _check(counts, tuples)
    runs = [
        {
            "kind": name,
            "rate_per_stream": tuples / best[name],
            "rows": counts[name]["rows"],
            "unmatched": counts[name]["unmatched"],
            "time_to_inner": best[name] / best[INNER],
        }
        for name in chosen
    ]
    return {"runs": runs, "verified": True, "window": window, "predicate": BAND, "batch": BATCH, "machine": machine()}


def _run(kind: dict[str, Any], window: str, rate: int, tuples: int) -> tuple[float, dict[str, int]]:
    """Seconds of CPU time, and the result."""
    sources = [Source(name, rate) for name in SIDES]
    pushed = [[source.batch(min(BATCH, tuples - first)) for first in range(0, tuples, BATCH)] for source in sources]
    rows = 0
    with papers_join(on=BAND, within=window, algorithm="kang", **kind) as join:
        observed(join)
        begin = time.process_time()
        for r, s in zip(*pushed, strict=True):
            join.push_r(r)
            join.push_s(s)
            rows += _rows(join)
        join.close()
        rows += _rows(join)
        seconds = time.process_time() - begin
    return seconds, {"rows": rows, "unmatched": join.stats().get("unmatched", 0)}


def _rows(join: Join) -> int:
    return sum(batch.num_rows for batch in join.poll() if isinstance(batch, pa.RecordBatch))


def _check(counts: dict[str, dict[str, int]], tuples: int) -> None:
    """Raises unless the laws hold: outer rows are pairs and rows alone; every r is in semi or in anti; and so on."""
    pairs = counts[INNER]["rows"]
    matched = counts.get("semi", counts.get("take", counts.get("count")))
    alone = counts.get("anti", counts.get("left"))
    laws: dict[str, bool] = {
        name: counts[name]["rows"] - counts[name]["unmatched"] == pairs for name in ("left", "full") if name in counts
    }
    if matched is not None:
        laws |= {name: counts[name]["rows"] == matched["rows"] for name in ("semi", "take", "count") if name in counts}
    if matched is not None and alone is not None:
        laws["semi and anti"] = matched["rows"] + alone["unmatched"] == tuples
    wrong = [name for name, holds in laws.items() if not holds]
    if wrong:
        raise StreamjoinError(f"wrong result: {', '.join(wrong)} disagree with the {pairs} pairs of the inner join")
