"""Compiles ahead what joins need, by small joins of every kind: what they leave in the cache serves all others.

There is no list of kernels to keep up to date. A new access path or algorithm appears here by its registry.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from typing import Any

from streamjoin.access import ACCESSES
from streamjoin.algorithms import ALGORITHMS, AUTO, CIRCUIT, DEVICE, SEQUENTIAL, THREADS
from streamjoin.machine import usable_cores

BAND = "abs(r.x - s.x) <= 1 AND abs(r.y - s.y) <= 1"
TABLES = {
    "band in two dimensions": BAND,
    "band": "abs(r.x - s.x) <= 1",
    "equality": "r.k = s.k",
    "overlap": "r.x <= s.y AND s.x <= r.y",
    "inequalities": "r.x < s.x AND r.y > s.y",
    "anything": "r.x * s.x < 1",
}
KINDS: dict[str, dict[str, Any]] = {  # kernels of their own, beside those that find pairs
    "left": {"how": "left"},
    "semi": {"how": "semi"},
    "take": {"take": "nearest"},
    "count": {"aggregate": {"n": "count(*)"}},
    "sum": {"aggregate": {"total": "sum(s.x)"}},
}

Step = tuple[str, Callable[[], int]]


def steps() -> Iterator[Step]:
    """What is joined, and how: a name, and what does it and returns how many functions it had compiled."""
    for name, on in TABLES.items():
        yield f"tables, {name}", partial(_tables, on, {})
    for name, kind in KINDS.items():
        for on in ("band", "equality"):
            yield f"tables, {on}, {name}", partial(_tables, TABLES[on], kind)
    for algorithm in ALGORITHMS.values():
        if algorithm.engine != DEVICE:  # a device keeps kernels of its own
            workers = 2 if algorithm.engine == THREADS else 1
            # A path that may give way to another one has a function more than when it is asked for by name.
            for access in (*algorithm.accesses, *[AUTO] * (algorithm.name == SEQUENTIAL)):
                yield f"{algorithm.name}, {access}", partial(_live, algorithm.name, access, workers, {})
    for name, kind in KINDS.items():
        yield f"{SEQUENTIAL}, {name}", partial(_live, SEQUENTIAL, AUTO, 1, kind)


def warm(todo: list[Step], tell: Callable[[str, int, int], None]) -> int:
    """Takes steps in as many processes as there are cores; after each, tells its name, how many are done, of how many.

    Returns how many functions were compiled; zero if all were there.
    """
    compiled = 0
    with ProcessPoolExecutor(usable_cores(), multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(step): name for name, step in todo}
        for done, future in enumerate(as_completed(running), 1):
            compiled += future.result()
            tell(running[future], done, len(todo))
    return compiled


def _tuples(n: int = 64) -> Any:
    import numpy as np
    import pyarrow as pa

    count = np.arange(n)
    return pa.table({"ts": count, "k": count % 8, "x": count / 8, "y": count / 4})


def _counted(join: Callable[[], Any]) -> int:
    from streamjoin.codegen.jit import NOTICE

    before = NOTICE.compiled
    join()
    return NOTICE.compiled - before


def _tables(on: str, kind: dict[str, Any]) -> int:
    from streamjoin.api import join

    rows = _tuples(1 << 12)  # so many that it does not pay to compare all with each other
    return _counted(lambda: join(rows, rows, on=on, within=8, time="ts", **kind))


def _live(algorithm: str, access: str, workers: int, kind: dict[str, Any]) -> int:
    return _counted(lambda: _stream(algorithm, access, workers, kind))


def _stream(algorithm: str, access: str, workers: int, kind: dict[str, Any]) -> None:
    from streamjoin.live.join import Join
    from streamjoin.windows.last import last

    rows = _tuples()
    options = {**kind, "workers": workers} if workers > 1 else kind
    only_keys = access != AUTO and ACCESSES[access].by_key and not ACCESSES[access].by_box
    with Join(
        r=rows.schema,
        s=rows.schema,
        on=TABLES["equality"] if only_keys else BAND,
        within=last(8) if ALGORITHMS[algorithm].engine == CIRCUIT else 8,
        time="ts",
        algorithm=algorithm,
        access=access,
        **options,
    ) as join:
        for begin in range(0, rows.num_rows, 16):
            join.push_r(rows.slice(begin, 16))
            join.push_s(rows.slice(begin, 16))
