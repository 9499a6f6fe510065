"""The files of the Spark benchmark: two folders of Parquet, whose files become micro-batches in order of age."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.papers import HIGHEST, LOWEST, MICROSECONDS, NAMES, Array

AT_ONCE = 250_000  # tuples of a file that fills a window
STRIPS = {"r": 0, "s": 100}  # where the strips of x begin, in every 200; each is 80 wide
PERIOD, WIDTH = 200, 80
START = 1_767_225_600 * MICROSECONDS  # 2026; in 1970 Spark's first watermark, which is 0, would make a row late
AGE = 1_000_000_000  # seconds; the files' ages only need an order


@dataclass(frozen=True)
class Files:
    """Folders of r and s, the same rows as tables, and how many of the last micro-batches are measured."""

    folders: tuple[Path, Path]
    arrow: tuple[pa.Table, pa.Table]
    batches: int
    arrivals: int  # of both sides, in each of those


def window_files(folder: Path, window: int, arrivals: int, batches: int, seconds: int) -> Files:
    """Windows of so many tuples per side, filled in strips, then arrivals of both sides at the same rate."""
    random = np.random.default_rng(0)
    pieces: dict[str, list[pa.Table]] = {}
    for side in "rs":
        filled = [
            _tuples(side, random, first, min(AT_ONCE, window - first), window, seconds, strips=True)
            for first in range(0, window, AT_ONCE)
        ]
        new = [
            _tuples(side, random, window + k * arrivals, arrivals, window, seconds, strips=False)
            for k in range(batches)
        ]
        pieces[side] = filled + new
    return _written(folder, pieces, batches, 2 * arrivals)


def opaque_files(folder: Path, window: int, arrivals: int, batches: int) -> Files:
    """A window of r, filled; then arrivals of s alone, all within the window of all of r."""
    random = np.random.default_rng(1)
    r = [_tuples("r", random, 0, window, window, 1_000, strips=False)]
    s = [_tuples("s", random, k * arrivals, arrivals, window, 1_000, strips=False) for k in range(batches)]
    nothing = {"r": r[0].slice(0, 0), "s": s[0].slice(0, 0)}
    pieces = {"r": r + [nothing["r"]] * batches, "s": [nothing["s"], *s]}
    return _written(folder, pieces, batches, arrivals)


def static_tables(folder: Path, rows: int, seconds: int) -> Files:
    """Two whole tables, of which a window holds half."""
    random = np.random.default_rng(2)
    pieces = {side: [_tuples(side, random, 0, rows, rows // 2, seconds, strips=False)] for side in "rs"}
    return _written(folder, pieces, 1, 2 * rows)


def _tuples(side: str, random: Any, first: int, count: int, window: int, seconds: int, *, strips: bool) -> pa.Table:
    """Tuples first..first+count-1 of a stream of which `window` come in `seconds`."""
    number = np.arange(first, first + count, dtype=np.int64)
    ts = pa.array(START + number * seconds * MICROSECONDS // window).cast(pa.timestamp("us", "UTC"))
    if strips:
        strip = random.integers(0, HIGHEST // PERIOD, count) * PERIOD
        integer = strip + STRIPS[side] + random.integers(0, WIDTH, count)
    else:
        integer = random.integers(LOWEST, HIGHEST + 1, count)
    real: Array = random.uniform(LOWEST, HIGHEST, count).astype(np.float32)
    label = {"r": "n", "s": "m"}[side]
    return pa.table([ts, number, integer.astype(np.int32), real], names=["ts", label, *NAMES[side]])


def _written(folder: Path, pieces: dict[str, list[pa.Table]], batches: int, arrivals: int) -> Files:
    import pyarrow.parquet as pq

    for side, tables in pieces.items():
        (folder / side).mkdir()
        for number, table in enumerate(tables):
            path = folder / side / f"{number:05}.parquet"
            pq.write_table(table, path)
            os.utime(path, (AGE + number, AGE + number))
    r, s = (pa.concat_tables(pieces[side]) for side in "rs")
    return Files((folder / "r", folder / "s"), (r, s), batches, arrivals)
