"""Kinds of joins of two tables, in turns: the time of each relative to an inner join; each against other engines that
do it without an equality; as-of against other engines.

What must hold between the kinds is checked before any figure is given out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from math import isclose
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamjoin import api
from streamjoin.bench.jobs import COLUMNS, DENSE, INNER, JOBS, KINDS, Inputs, Job
from streamjoin.bench.yardsticks import OUTPUT, Run, chdb_tables, duckdb_tables
from streamjoin.errors import OptionError, StreamjoinError
from streamjoin.machine import machine, usable_cores

AS_OF, PEERS = "asof", "peers"
HOWS = ("left", "semi", "anti", "take", "count", AS_OF)
ALONE = ("left", "full", "semi", "anti", "count")  # kinds that other engines run
KEYS = 1_000  # of the as-of join
Note = Callable[[str], None]


def kinds(
    jobs: Sequence[str], hows: Sequence[str], rows: int, rounds: int, note: Note = lambda text: None
) -> dict[str, Any]:
    """By job and kind: seconds, and how many of an inner join's they are; as-of by engine."""
    for how in hows:
        if how not in (*HOWS, PEERS, "all"):
            raise OptionError(f'"{how}" is not one of {", ".join(HOWS)}, {PEERS}, all')
    chosen = HOWS if "all" in hows else tuple(hows)
    runs = []
    for name in jobs:
        job = _job(name)
        if PEERS in chosen:
            for kind, engines in _by_engine(name, job, job.inputs(rows)).items():
                runs += _measured(f"{name} {kind}", engines, rounds, "streamjoin", _alike, note)
        if any(how not in (AS_OF, PEERS) for how in chosen):
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
    """The best of some rounds in turns, after one that is not counted; ratios are medians of those of each round."""
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
            "ratio": _ratio(spent[name], spent[base], 0),
            "cpu_ratio": _ratio(spent[name], spent[base], 1),
        }
        for name, (seconds, busy) in best.items()
    ]


def _ratio(times: list[tuple[float, float]], base: list[tuple[float, float]], which: int) -> float:
    """Of one to the other within a round: the machine's speed changes from one round to the next."""
    return median(one[which] / max(other[which], 1e-9) for one, other in zip(times, base, strict=True))


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


def _by_engine(name: str, job: Job, inputs: Inputs) -> dict[str, dict[str, Run]]:
    """By kind: the join by every engine that is installed and has something better than a nested loop for it."""
    if job.window is not None or job.equal:
        known = [name for name, job in JOBS.items() if job.window is None and not job.equal]
        raise OptionError(f'the job "{name}" has a window or an equality; {PEERS} do {", ".join(known)}')
    ours = _runs(job, inputs, {kind: KINDS[kind] for kind in ALONE})
    found = {kind: {"streamjoin": ours[kind]} for kind in ALONE}
    own = ", ".join(f"r.{column}" for column in COLUMNS["r"])
    on = f"s ON {job.on}"

    def texts(semi: str, anti: str) -> dict[str, str]:
        return {
            "left": f"SELECT {OUTPUT} FROM r LEFT JOIN {on}",
            "full": f"SELECT {OUTPUT} FROM r FULL JOIN {on}",
            "semi": f"SELECT {own} FROM r {semi} JOIN {on}",
            "anti": f"SELECT {own} FROM r {anti} JOIN {on}",
            "count": f"SELECT {own}, count(*) AS n FROM r JOIN {on} GROUP BY {own}",
        }

    if find_spec("duckdb"):
        connection = duckdb_tables(inputs)
        for kind, text in texts("SEMI", "ANTI").items():
            found[kind]["duckdb"] = lambda text=text: connection.sql(text).to_arrow_table()  # type: ignore[misc]
    if find_spec("chdb"):
        session = chdb_tables(inputs)
        settings = f"SETTINGS max_threads = {usable_cores()}, join_use_nulls = 1"
        for kind, text in texts("LEFT SEMI", "LEFT ANTI").items():
            query = f"{text} {settings}"
            found[kind]["chdb"] = lambda query=query: session.query(query, "ArrowTable")  # type: ignore[misc]
    return found


def _alike(found: dict[str, pa.Table]) -> None:
    """Whether the rows are the same, judged by sums and nulls of columns. Names differ."""
    prints = {
        name: (table.num_rows, [(pc.sum(column).as_py(), column.null_count) for column in table.columns])
        for name, table in found.items()
    }
    first = prints["streamjoin"]
    wrong = [
        name
        for name, (rows, columns) in prints.items()
        if rows != first[0] or len(columns) != len(first[1]) or not all(map(_near, columns, first[1]))
    ]
    if wrong:
        raise StreamjoinError(f"{', '.join(wrong)} disagree about the result: {prints}")


def _near(one: tuple[Any, int], other: tuple[Any, int]) -> bool:
    """Sums of floats depend on the order of the rows."""
    (a, nulls), (b, others) = one, other
    return nulls == others and (a == b or (a is not None and b is not None and isclose(a, b, rel_tol=1e-9)))


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
