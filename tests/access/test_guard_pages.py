"""Workers read nothing beyond the ends of a tape: every array of it lies right before a page that may not be touched.

Run as a program it joins; a stray access ends it with a segmentation fault, which is what the test looks for.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.access import tape
from streamjoin.threads import driver

NEAR = "abs(r.x - s.x) <= 3 AND r.y BETWEEN s.y - 0.3D AND s.y + 0.3D"
SAME = "r.k = s.k"
OPAQUE = "(r.x * s.x) % 7 = 3"
ROADS = [
    ("biclique", "band", NEAR),
    ("low_latency", "band", NEAR),
    ("grid", "band", f"{NEAR} AND {SAME}"),
    ("low_latency", "tree", f"{NEAR} AND {SAME}"),
    ("cell", "scan", NEAR),
    ("low_latency", "scan", NEAR),
    ("grid", "scan", OPAQUE),
    ("handshake", "sorted", NEAR),
    ("handshake", "hash", SAME),
    ("grid", "hash", SAME),
]
ROWS = 3_000


class Guarded:
    """NumPy, but for `zeros`: what it makes ends where a page begins that may not be touched."""

    def __init__(self) -> None:
        self._kept: list[mmap.mmap] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def zeros(self, shape: Any, dtype: Any) -> np.ndarray:
        count = math.prod(shape) if isinstance(shape, tuple) else int(shape)
        size = count * np.dtype(dtype).itemsize
        guard = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        memory = mmap.mmap(-1, guard + mmap.PAGESIZE)
        self._kept.append(memory)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory, guard))
        assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(address), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
        return np.frombuffer(memory, dtype, count, guard - size).reshape(shape)


def rows(seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "t": np.arange(ROWS),
            "x": random.integers(0, 50, ROWS),
            "y": random.uniform(0, 5, ROWS),
            "k": random.integers(0, 100, ROWS),
        }
    )


def main() -> None:
    """Takes all roads, and prints each and how many pairs it found. Streams are pushed a few tuples at a time."""
    tape.np = Guarded()  # type: ignore
    tape.CHUNK = driver.FIRST_ROOM = driver.UNDER_WAY = 64
    tables = rows(1), rows(2)
    for algorithm, access, on in ROADS:
        print(algorithm, access, on, end=": ", flush=True)
        options: dict[str, Any] = {"algorithm": algorithm, "access": access, "workers": 3, "batch": 4}
        with sj.Join(r=tables[0].schema, s=tables[1].schema, on=on, within=500, time="t", **options) as join:
            for begin in range(0, ROWS, 30):
                join.push_r(tables[0].slice(begin, 30))
                join.push_s(tables[1].slice(begin, 30))
        print(sum(batch.num_rows for batch in join.poll()), flush=True)


@pytest.mark.skipif(sys.platform != "linux", reason="mprotect as on Linux")
def test_nothing_is_read_beyond_a_tape() -> None:
    ran = subprocess.run([sys.executable, __file__], capture_output=True, text=True)
    assert ran.returncode == 0, (ran.returncode, ran.stdout, ran.stderr[-2000:])
    counts = {on: sj.join(rows(1), rows(2), on=on, within=500, time="t").num_rows for _, _, on in ROADS}
    assert min(counts.values()) > 0
    assert ran.stdout.splitlines() == [f"{a} {b} {on}: {counts[on]}" for a, b, on in ROADS]


if __name__ == "__main__":
    main()
