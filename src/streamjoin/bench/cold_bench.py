"""The first join on a machine: whole processes that begin with an empty folder for machine code.

Three processes for each kind of join, one after the other: nothing was compiled before; the same join again; and a
predicate that is new where all else is known. Beside them processes in which another engine does its first join. A
process reads two Arrow files, joins them and says how many pairs it found; whether they are right is checked outside.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from streamjoin.errors import OptionError, StreamjoinError
from streamjoin.machine import machine

ROWS = 4_096  # enough rows that an access path pays
PREDICATES = ("abs(r.x - s.x) <= 3 AND abs(r.y - s.y) <= 3", "abs(r.x - s.x) <= 3 AND abs(r.y + 1 - s.y) <= 2")
BANDS = ((0, 3), (1, 2))  # on y: a shift of r, and how far apart
AGAIN = ("second process", 0)
STEPS = (("empty cache", 0), AGAIN, ("new predicate", 1))
WITHIN = 500


def cold(kinds: Iterable[str] | None = None, rounds: int = 1) -> dict[str, Any]:
    """By kind of join: seconds of whole processes, and how many functions they compiled."""
    known = {**KINDS, **{name: peer for name, peer in PEERS.items() if importlib.util.find_spec(name)}}
    chosen = tuple(known) if kinds is None else tuple(kinds)
    for kind in chosen:
        if kind not in known:
            raise OptionError(f'"{kind}" is not one of {", ".join(known)}')
    runs: dict[tuple[str, str], dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as tables:
        _write(tables)
        for _ in range(rounds):
            for kind in chosen:
                with tempfile.TemporaryDirectory() as folder:
                    for step, predicate in STEPS if kind in KINDS else (AGAIN,):
                        seconds, compiled = _process(kind, predicate, tables, folder)
                        run = runs.setdefault((kind, step), {"seconds": seconds, "compiled": compiled})
                        run["seconds"] = min(run["seconds"], seconds)
    return {
        "runs": [{"join": kind, "step": step, **run} for (kind, step), run in runs.items()],
        "verified": True,
        "machine": machine(),
    }


def _process(kind: str, predicate: int, tables: str, folder: str) -> tuple[float, int]:
    """A process that does one join: its seconds from start to end, and the functions it compiled."""
    command = [sys.executable, "-m", "streamjoin.bench.cold_bench", kind, str(predicate), tables]
    start = time.perf_counter()
    done = subprocess.run(command, env=os.environ | {"STREAMJOIN_CACHE": folder}, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise StreamjoinError(f"the first {kind} failed: {done.stderr[-2000:]}")
    answer, expected = json.loads(done.stdout), _expected(predicate)
    if answer["found"] != expected:
        raise StreamjoinError(f"wrong result: {answer['found']} pairs, a nested loop finds {expected}")
    return seconds, int(answer["compiled"])


def _tables(r: Any, s: Any, predicate: int) -> int:
    import streamjoin as sj

    return int(sj.join(r, s, on=PREDICATES[predicate], within=WITHIN, time="t").num_rows)


def _live(r: Any, s: Any, predicate: int, **options: Any) -> int:
    import streamjoin as sj

    on = PREDICATES[predicate]
    with sj.Join(r=r.schema, s=s.schema, on=on, within=WITHIN, time="t", **options) as join:
        join.push_r(r)
        join.push_s(s)
        join.close()
        results: list[Any] = list(join.poll())
    return sum(batch.num_rows for batch in results)


def _parallel(r: Any, s: Any, predicate: int) -> int:
    return _live(r, s, predicate, algorithm="low_latency", workers=2)


def _duckdb(r: Any, s: Any, predicate: int) -> int:
    import duckdb

    on = f"abs(r.t - s.t) <= {WITHIN} AND {PREDICATES[predicate]}"
    result: Any = duckdb.sql(f"SELECT * FROM r JOIN s ON {on}")
    return int(result.to_arrow_table().num_rows)


def _polars(r: Any, s: Any, predicate: int) -> int:
    import polars as pl

    shift, width = BANDS[predicate]
    left = pl.DataFrame(r).rename({name: f"{name}r" for name in "txy"})
    right = pl.DataFrame(s).rename({name: f"{name}s" for name in "txy"})
    near = [(pl.col("tr") - pl.col("ts"), WITHIN), (pl.col("xr") - pl.col("xs"), 3)]
    near.append((pl.col("yr") + shift - pl.col("ys"), width))
    bounds = [condition for value, limit in near for condition in (value <= limit, value >= -limit)]
    return left.join_where(right, *bounds).height


Function = Callable[[Any, Any, int], int]
KINDS: Mapping[str, Function] = MappingProxyType({"join": _tables, "Join": _live, "parallel": _parallel})
PEERS: Mapping[str, Function] = MappingProxyType({"duckdb": _duckdb, "polars": _polars})


def _rows(seed: int) -> Any:
    import numpy as np
    import pyarrow as pa

    random = np.random.default_rng(seed)
    return pa.table({"t": np.arange(ROWS), "x": random.integers(0, 100, ROWS), "y": random.uniform(0, 100, ROWS)})


def _write(folder: str) -> None:
    import pyarrow as pa

    for side, name in enumerate("rs"):
        table = _rows(side)
        with pa.ipc.new_file(f"{folder}/{name}.arrow", table.schema) as file:
            file.write_table(table)


@cache
def _expected(predicate: int) -> int:
    """The number of pairs, by a nested loop."""
    import numpy as np

    r, s = ({name: table[name].to_numpy() for name in "txy"} for table in (_rows(0), _rows(1)))
    shift, width = BANDS[predicate]
    near = np.abs(r["t"][:, None] - s["t"]) <= WITHIN
    near &= np.abs(r["x"][:, None] - s["x"]) <= 3
    near &= np.abs(r["y"][:, None] + shift - s["y"]) <= width
    return int(near.sum())


def main() -> None:
    """One join, in a process of its own."""
    import pyarrow as pa

    kind, predicate, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    r, s = (pa.ipc.open_file(f"{folder}/{name}.arrow").read_all() for name in "rs")
    found = {**KINDS, **PEERS}[kind](r, s, predicate)
    compiled = sys.modules["streamjoin.codegen.jit"].NOTICE.compiled if kind in KINDS else 0
    print(json.dumps({"found": found, "compiled": compiled}))


if __name__ == "__main__":
    main()
