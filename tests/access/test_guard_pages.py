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
from streamjoin.testing.cases import BY_NAME, SCHEMAS, R, S, long_stream
from streamjoin.testing.rows import to_table
from streamjoin.threads import driver

ROADS = [
    ("biclique", "band", "band_2d"),
    ("low_latency", "band", "band_2d"),
    ("grid", "band", "equality_band"),
    ("low_latency", "tree", "equality_band"),
    ("cell", "scan", "band_2d"),
    ("low_latency", "scan", "band_2d"),
    ("grid", "scan", "opaque"),
    ("handshake", "sorted", "band_2d"),
    ("handshake", "hash", "equality"),
    ("grid", "hash", "equality"),
]
ROWS, WITHIN = 3_000, 100


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


def tables() -> tuple[pa.Table, pa.Table]:
    return tuple(to_table(long_stream(side, 1, ROWS, 1, False), SCHEMAS[side]) for side in "rs")


def main() -> None:
    """Takes all roads, and prints each and how many pairs it found. Streams are pushed a few tuples at a time."""
    tape.np = Guarded()  # type: ignore
    tape.CHUNK = driver.FIRST_ROOM = driver.UNDER_WAY = 64
    r, s = tables()
    for algorithm, access, case in ROADS:
        print(algorithm, access, case, end=": ", flush=True)
        options: dict[str, Any] = {"algorithm": algorithm, "access": access, "workers": 3, "batch": 4}
        with sj.Join(r=R, s=S, on=BY_NAME[case].on, within=WITHIN, time="t", **options) as join:
            for begin in range(0, ROWS, 30):
                join.push_r(r.slice(begin, 30))
                join.push_s(s.slice(begin, 30))
        print(sum(batch.num_rows for batch in join.poll()), flush=True)


@pytest.mark.skipif(sys.platform != "linux", reason="mprotect as on Linux")
def test_nothing_is_read_beyond_a_tape() -> None:
    ran = subprocess.run([sys.executable, __file__], capture_output=True, text=True)
    assert ran.returncode == 0, (ran.returncode, ran.stdout, ran.stderr[-2000:])
    r, s = tables()
    cases = {case for _, _, case in ROADS}
    counts = {case: sj.join(r, s, on=BY_NAME[case].on, within=WITHIN, time="t").num_rows for case in cases}
    assert min(counts.values()) > 0
    assert ran.stdout.splitlines() == [f"{a} {b} {case}: {counts[case]}" for a, b, case in ROADS]


if __name__ == "__main__":
    main()
