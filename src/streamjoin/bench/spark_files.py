"""The files of the Spark benchmark: two folders of Parquet, whose files become micro-batches in order of age."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from streamjoin.papers import HIGHEST, LOWEST, MICROSECONDS, NAMES, tuples

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
    """Windows of this many tuples per side, filled in strips, then arrivals of both sides at the same rate."""
    pieces: dict[str, list[pa.Table]] = {}
    for side in "rs":
        filled = [
            _tuples(side, first, min(AT_ONCE, window - first), window / seconds, strips=True)
            for first in range(0, window, AT_ONCE)
        ]
        new = [_tuples(side, window + k * arrivals, arrivals, window / seconds) for k in range(batches)]
        pieces[side] = filled + new
    return _written(folder, pieces, batches, 2 * arrivals)


def outer_files(folder: Path, arrivals: int, batches: int, seconds: int) -> Files:
    """Arrivals of both sides; the windows of a micro-batch, so many seconds in both directions, close with the next."""
    pieces = {
        side: [_tuples(side, k * arrivals, arrivals, arrivals / (2 * seconds)) for k in range(batches + 1)]
        for side in "rs"
    }
    return _written(folder, pieces, batches, 2 * arrivals)


def opaque_files(folder: Path, window: int, arrivals: int, batches: int) -> Files:
    """A window of r, filled; then arrivals of s alone, all within the window of all of r."""
    r = [_tuples("r", 0, window, window / 1_000)]
    s = [_tuples("s", k * arrivals, arrivals, window / 1_000) for k in range(batches)]
    nothing = {"r": r[0].slice(0, 0), "s": s[0].slice(0, 0)}
    pieces = {"r": r + [nothing["r"]] * batches, "s": [nothing["s"], *s]}
    return _written(folder, pieces, batches, arrivals)


def static_tables(folder: Path, rows: int, seconds: int) -> Files:
    """Two whole tables, of which a window holds half."""
    pieces = {side: [_tuples(side, 0, rows, rows // 2 / seconds)] for side in "rs"}
    return _written(folder, pieces, 1, 2 * rows)


def _tuples(side: str, first: int, count: int, rate: float, *, strips: bool = False) -> pa.Table:
    """Tuples first..first+count-1 of a stream, with their numbers."""
    highest = HIGHEST // PERIOD * WIDTH if strips else HIGHEST
    ts, integer, real = tuples(side, first, first + count, rate, highest=highest, start=START)
    if strips:
        strip, place = np.divmod(integer - LOWEST, WIDTH)
        integer = strip * PERIOD + STRIPS[side] + place
    number = np.arange(first, first + count, dtype=np.int64)
    label = {"r": "n", "s": "m"}[side]
    times = pa.array(ts).cast(pa.timestamp("us", "UTC"))
    return pa.table([times, number, integer.astype(np.int32), real], names=["ts", label, *NAMES[side]])


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
