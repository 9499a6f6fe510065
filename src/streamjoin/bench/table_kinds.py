"""Kinds of joins of two tables: what each takes in times of an inner join, and as-of against other engines, in turns.

What must hold between the kinds is checked before any figure is given out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin import api
from streamjoin.bench.jobs import COLUMNS, DENSE, INNER, JOBS, KINDS, Inputs, Job
from streamjoin.errors import OptionError, StreamjoinError
from streamjoin.machine import machine

AS_OF = "asof"
HOWS = ("left", "semi", "anti", "take", "count", AS_OF)
KEYS = 1_000  # of the as-of join
Note = Callable[[str], None]
Run = Callable[[], pa.Table]


def kinds(
    jobs: Sequence[str], hows: Sequence[str], rows: int, rounds: int, note: Note = lambda text: None
) -> dict[str, Any]:
    """By job and kind: seconds, and how many of an inner join's they are; as-of by engine."""
    for how in hows:
        if how not in (*HOWS, "all"):
            raise OptionError(f'"{how}" is not one of {", ".join(HOWS)}, all')
    chosen = HOWS if "all" in hows else tuple(hows)
    runs = []
    for name in jobs:
        job = _job(name)
        if any(how != AS_OF for how in chosen):
            wanted = {kind: options for kind, options in KINDS.items() if kind == INNER or kind in chosen}
            runs += _measured(name, _runs(job, job.inputs(rows), wanted), rounds, INNER, _check, note)
    if AS_OF in chosen:
        runs += _measured(AS_OF, _as_of(rows), rounds, "streamjoin", _same, note)
    return {"machine": machine(), "rows": rows, "verified": True, "runs": runs}  # or an error was raised


def _job(name: str) -> Job:
    known: dict[str, Job] = {**JOBS, "dense": DENSE}
    if name not in known:
        raise OptionError(f'"{name}" is not one of the jobs {", ".join(known)}')
    return known[name]


def _runs(job: Job, inputs: Inputs, wanted: Mapping[str, dict[str, Any]]) -> dict[str, Run]:
    times = COLUMNS["r"][0], COLUMNS["s"][0]

    def run(options: dict[str, Any]) -> Run:
        return lambda: api.join(inputs.r, inputs.s, on=job.on, within=inputs.within, time=times, **options)

    return {name: run(options) for name, options in wanted.items()}


def _measured(
    job: str, runs: dict[str, Run], rounds: int, base: str, check: Callable[[dict[str, pa.Table]], None], note: Note
) -> list[dict[str, Any]]:
    """The best of some rounds in turns, after one that is not counted."""
    check({name: run() for name, run in runs.items()})
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    counts = dict.fromkeys(runs, 0)
    for turn in range(rounds):
        for name, run in runs.items():
            start, busy = time.perf_counter(), time.process_time()
            counts[name] = run().num_rows
            spent[name].append((time.perf_counter() - start, time.process_time() - busy))
            note(f"{job}, round {turn + 1}: {name} {spent[name][-1][0]:.3f} s")
    best = {name: [min(values) for values in zip(*times, strict=True)] for name, times in spent.items()}
    return [
        {
            "job": job,
            "kind": name,
            "seconds": seconds,
            "cpu_seconds": busy,
            "rows_out": counts[name],
            "ratio": seconds / best[base][0],
            "cpu_ratio": busy / max(best[base][1], 1e-9),
        }
        for name, (seconds, busy) in best.items()
    ]


def _check(found: dict[str, pa.Table]) -> None:
    """What the kinds of one join have to do with each other."""
    n = {name: table.num_rows for name, table in found.items()}
    wrong = [
        "left" in n and "anti" in n and n["left"] != n[INNER] + n["anti"],
        "take" in n and "semi" in n and n["take"] != n["semi"],
        "count" in n and int(np.sum(found["count"]["n"].to_numpy())) != n[INNER],
        "count" in n and "semi" in n and n["count"] != n["semi"],
    ]
    if any(wrong):
        raise StreamjoinError(f"the kinds of join contradict each other: {n}")


def _as_of(rows: int) -> dict[str, Run]:
    """The latest s of the same key, by every engine that is installed; times are in order, as peers need them."""
    random = np.random.default_rng(1)

    def table(time: str, value: str) -> pa.Table:
        times = np.sort(random.integers(0, 10 * rows, rows))
        return pa.table({time: times, "k": random.integers(0, KEYS, rows, dtype=np.int32), value: random.random(rows)})

    r, s = table("t", "x"), table("u", "y")
    wanted = "r.t, r.k, r.x, s.y, s.u"
    on = "r.k = s.k"
    found: dict[str, Run] = {
        "streamjoin": lambda: api.join(r, s, on=on, time=("t", "u"), take="backward", select=wanted)
    }
    if find_spec("polars"):
        import polars as pl

        left, right = pl.DataFrame(r), pl.DataFrame(s).with_columns(at=pl.col("u"))
        found["polars"] = lambda: (
            left.join_asof(right, left_on="t", right_on="at", by="k", check_sortedness=False)
            .drop_nulls("u")
            .select("t", "k", "x", "y", "u")
            .to_arrow()
        )
    if find_spec("duckdb"):
        import duckdb

        connection = duckdb.connect()
        connection.register("r", r)
        connection.register("s", s)
        text = f"SELECT {wanted} FROM r ASOF JOIN s ON {on} AND r.t >= s.u"
        found["duckdb"] = lambda: connection.sql(text).to_arrow_table()
    return found


def _same(found: dict[str, pa.Table]) -> None:
    """Ties of s at one time and key may be decided otherwise; the times that were found may not."""
    prints = {
        name: (table.num_rows, int(table["u"].to_numpy().sum()), round(float(table["x"].to_numpy().sum()), 3))
        for name, table in found.items()
    }
    if len(set(prints.values())) > 1:
        raise StreamjoinError(f"the engines disagree about the as-of join: {prints}")
