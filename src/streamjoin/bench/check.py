"""Has anything become slower? Ratios to other engines, which depend little on the machine, beside the recorded ones.

What has fallen is measured once more, and counts if it has fallen again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from streamjoin.bench.jobs import JOBS
from streamjoin.bench.tables_bench import tables
from streamjoin.errors import OptionError

RECORDED = Path(__file__).parents[3] / "benchmarks" / "recorded.json"
ROWS = 200_000
ALLOWED = 0.85  # of a recorded ratio

Ratios = dict[str, dict[str, float]]
Note = Callable[[str], None]


def record(file: Path, jobs: Sequence[str], rounds: int, engines: Sequence[str] | None, note: Note) -> dict[str, Any]:
    """Measures, and writes the record."""
    figures = tables(jobs, ROWS, rounds, engines, note=note)
    kept = {"machine": figures["machine"], "rows": ROWS, "ratios": figures["ratios"]}
    file.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return {"recorded": str(file), **kept}


def check(file: Path, jobs: Sequence[str], rounds: int, engines: Sequence[str] | None, note: Note) -> dict[str, Any]:
    """Measures, and names the ratios that fell below the record."""
    if not file.is_file():
        raise OptionError(f"{file} does not exist; make it with: streamjoin bench check --record")
    kept = json.loads(file.read_text(encoding="utf-8"))
    known = {job: ratios for job, ratios in kept["ratios"].items() if "all" in jobs or job in jobs}
    if not known:
        raise OptionError(f"{file} has no figures for {', '.join(jobs)}, only for {', '.join(kept['ratios'])}")
    figures = tables(tuple(known), kept["rows"], rounds, engines, note=note)
    ratios: Ratios = figures["ratios"]
    if suspects := sorted({fall["job"] for fall in fallen(known, ratios)}, key=list(JOBS).index):
        note(f"measured again: {', '.join(suspects)}")
        again = tables(suspects, kept["rows"], rounds, engines, note=note)["ratios"]
        for job, found in again.items():
            ratios[job] = {peer: max(ratio, found.get(peer, 0.0)) for peer, ratio in ratios[job].items()}
    return {"fallen": fallen(known, ratios), "ratios": ratios, "recorded": known, "machine": figures["machine"]}


def fallen(recorded: Ratios, now: Ratios) -> list[dict[str, Any]]:
    """The ratios below the allowed part of the recorded one. A peer that was not measured is left out.

    >>> fallen({"equi": {"duckdb": 2.0, "polars": 1.0}}, {"equi": {"duckdb": 1.5, "polars": 0.9}})
    [{'job': 'equi', 'engine': 'duckdb', 'recorded': 2.0, 'now': 1.5}]
    """
    return [
        {"job": job, "engine": peer, "recorded": before, "now": now[job][peer]}
        for job, ratios in recorded.items()
        for peer, before in ratios.items()
        if peer in now.get(job, {}) and now[job][peer] < ALLOWED * before
    ]
