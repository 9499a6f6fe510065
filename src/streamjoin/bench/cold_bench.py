"""The first join on a machine: whole processes that begin with an empty folder for machine code.

Three processes for each kind of join, one after the other: nothing was compiled before; the same join again; and a
predicate that is new where all else is known. Every process checks its result.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from streamjoin.errors import OptionError, StreamjoinError
from streamjoin.machine import machine

ROWS = 4_096  # so many that it does not pay to compare all with each other
PREDICATES = ("abs(r.x - s.x) <= 3 AND abs(r.y - s.y) <= 3", "abs(r.x - s.x) <= 3 AND abs(r.y + 1 - s.y) <= 2")
STEPS = (("empty cache", 0), ("second process", 0), ("new predicate", 1))
WITHIN = 500


def cold(kinds: Iterable[str] | None = None, rounds: int = 1) -> dict[str, Any]:
    """By kind of join: seconds of whole processes, and how many functions they compiled."""
    chosen = tuple(KINDS) if kinds is None else tuple(kinds)
    for kind in chosen:
        if kind not in KINDS:
            raise OptionError(f'"{kind}" is not one of {", ".join(KINDS)}')
    runs: dict[tuple[str, str], dict[str, Any]] = {}
    for _ in range(rounds):
        for kind in chosen:
            with tempfile.TemporaryDirectory() as folder:
                for step, predicate in STEPS:
                    seconds, compiled = _process(kind, predicate, folder)
                    run = runs.setdefault((kind, step), {"seconds": seconds, "compiled": compiled})
                    run["seconds"] = min(run["seconds"], seconds)
    return {
        "runs": [{"join": kind, "step": step, **run} for (kind, step), run in runs.items()],
        "verified": True,
        "machine": machine(),
    }


def _process(kind: str, predicate: int, folder: str) -> tuple[float, int]:
    """A process that does one join: its seconds from start to end, and the functions it compiled."""
    command = [sys.executable, "-m", "streamjoin.bench.cold_bench", kind, str(predicate)]
    start = time.perf_counter()
    done = subprocess.run(command, env=os.environ | {"STREAMJOIN_CACHE": folder}, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise StreamjoinError(f"the first {kind} failed: {done.stderr[-2000:]}")
    return seconds, int(json.loads(done.stdout)["compiled"])


def _tables(on: str) -> int:
    import streamjoin as sj

    r, s = _rows(0), _rows(1)
    return int(sj.join(r, s, on=on, within=WITHIN, time="t").num_rows)


def _live(on: str, **options: Any) -> int:
    import streamjoin as sj

    r, s = _rows(0), _rows(1)
    with sj.Join(r=r.schema, s=s.schema, on=on, within=WITHIN, time="t", **options) as join:
        join.push_r(r)
        join.push_s(s)
        join.close()
        results: list[Any] = list(join.poll())
    return sum(batch.num_rows for batch in results)


def _parallel(on: str) -> int:
    return _live(on, algorithm="low_latency", workers=2)


KINDS: Mapping[str, Callable[[str], int]] = MappingProxyType({"join": _tables, "Join": _live, "parallel": _parallel})


def _rows(seed: int) -> Any:
    import numpy as np
    import pyarrow as pa

    random = np.random.default_rng(seed)
    return pa.table({"t": np.arange(ROWS), "x": random.integers(0, 100, ROWS), "y": random.uniform(0, 100, ROWS)})


def _expected(predicate: int) -> int:
    """How many pairs there are, by a look at all of them."""
    import numpy as np

    r, s = ({name: table[name].to_numpy() for name in "txy"} for table in (_rows(0), _rows(1)))
    shift, width = ((0, 3), (1, 2))[predicate]
    near = np.abs(r["t"][:, None] - s["t"]) <= WITHIN
    near &= np.abs(r["x"][:, None] - s["x"]) <= 3
    near &= np.abs(r["y"][:, None] + shift - s["y"]) <= width
    return int(near.sum())


def main() -> None:
    """One join, in a process of its own."""
    kind, predicate = sys.argv[1], int(sys.argv[2])
    found, expected = KINDS[kind](PREDICATES[predicate]), _expected(predicate)
    if found != expected:
        raise StreamjoinError(f"wrong result: {found} pairs, a look at all of them finds {expected}")
    from streamjoin.codegen.jit import NOTICE

    print(json.dumps({"compiled": NOTICE.compiled}))


if __name__ == "__main__":
    main()
