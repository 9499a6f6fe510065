"""One engine with one job of `bench tables`, in a process of its own.

A line on stdin asks for a call, a line on stdout answers: `python -m streamjoin.bench.contestant band2d 1000000 duckdb`
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin import api
from streamjoin.bench.jobs import COLUMNS, JOBS, Inputs, Job
from streamjoin.bench.yardsticks import PEERS, Run
from streamjoin.intake.columns import as_numpy, flat
from streamjoin.papers import Array, mixed

OURS = "streamjoin"
HASHED = 1 << 18  # rows at a time
FIRST_IMPORTS = (
    "streamjoin.tables.join",
    "streamjoin.predicate.calls",
    "streamjoin.predicate.lists",
    "sqlglot.dialects.spark",
)


def prepare(engine: str, job: Job, inputs: Inputs) -> Run:
    """A function that does a job once. Before it returns, modules are imported, and a peer has its tables."""
    if engine != OURS:
        return PEERS[engine].prepare(job, inputs)
    # Peers' modules are imported before the clock, so ours are: those that a first join would import.
    for module in FIRST_IMPORTS:
        import_module(module)
    times = COLUMNS["r"][0], COLUMNS["s"][0]
    return lambda: api.join(inputs.r, inputs.s, on=job.on, within=inputs.within, time=times)


def fingerprint(table: pa.Table) -> tuple[int, int]:
    """The number of rows, and a sum of hashes of whole rows: the same for the same rows in any order.

    >>> import pyarrow as pa
    >>> rows = {"t": [1, 2], "x": [3, 4], "y": [0.5, 0.25], "u": [5, 6], "a": [7, 8], "b": [1.5, 2.5]}
    >>> table = pa.table(rows)
    >>> fingerprint(table) == fingerprint(table.take([1, 0])) != fingerprint(table.take([1, 1]))
    True
    """
    total = 0
    for start in range(0, table.num_rows, HASHED):
        part = table.slice(start, HASHED)
        hashes = np.zeros(part.num_rows, np.uint64)
        for side in "rs":
            for name in COLUMNS[side]:
                hashes = mixed(hashes + _bits(as_numpy(flat(part.column(name)))))
        total += int(hashes.sum(dtype=np.uint64))
    return table.num_rows, total % (1 << 64)


def _bits(values: Array) -> Array:
    """64 bits of each value; engines may widen a column."""
    return values.astype(np.float64 if values.dtype.kind == "f" else np.int64).view(np.uint64)


def _forget_peak() -> None:
    """Lets the system note the largest size of this process from here on, where it can."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _peak_mb() -> float:
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _call(run: Run) -> tuple[pa.Table, dict[str, Any]]:
    _forget_peak()
    start, busy = time.perf_counter(), time.process_time()
    table = run()
    spent = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - busy}
    return table, {**spent, "peak_mb": _peak_mb(), "rows_out": table.num_rows}


def serve(run: Run, say: Callable[[dict[str, Any]], None]) -> None:
    """Answers every line of stdin with the figures of one call. The first answer has the result's fingerprint."""
    first = True
    for _ in sys.stdin:
        table, answer = _call(run)
        if first:
            answer["fingerprint"] = fingerprint(table)
            first = False
        del table  # its memory is not to count in the next call
        say(answer)


def main() -> None:
    """Reads what to do from the arguments."""
    name, rows, engine = sys.argv[1:4]
    # Engines may print; what they print goes to stderr.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(answer: dict[str, Any]) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    job = JOBS[name]
    run = prepare(engine, job, job.inputs(int(rows)))
    say({"ready": True})
    serve(run, say)


if __name__ == "__main__":
    main()
