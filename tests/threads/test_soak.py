"""A long run in miniature: streams that never end, windows that slide many times over, counts exact, memory flat.

In the suite a second per algorithm; under `make soak` ten minutes each.
"""

from __future__ import annotations

import time

import numpy as np
import psutil
import pyarrow as pa
import pytest

import streamjoin as sj
from profiles import SOAK

SECONDS = 600.0 if SOAK else 0.0  # at least until the windows have slid twelve times
WINDOW, STEP, HIGHEST, REACH, KEYS = 4_000, 64, 2_000, 3, 12
ON = f"r.x BETWEEN s.a - {REACH} AND s.a + {REACH} AND r.k = s.k"
GROWTH = 48 << 20  # bytes that a process may gain for reasons of its own

ROADS = [
    ("kang", "band", 1),
    ("cell", "scan", 2),
    ("handshake", "scan", 3),
    ("handshake", "sorted", 2),
    ("handshake", "hash", 2),
    ("low_latency", "scan", 3),
    ("low_latency", "band", 2),
    ("low_latency", "hash", 2),
    ("grid", "scan", 4),
    ("grid", "band", 2),
    ("grid", "hash", 2),
    *[("kang", "tree", 1), ("grid", "tree", 2)] * SOAK,
]


class Stream:
    """One endless stream, a tuple per tick, and what of it may still find partners."""

    def __init__(self, names: tuple[str, str], seed: int) -> None:
        self.names = names
        self._random = np.random.default_rng(seed)
        self._now = 0
        self.times, self.values, self.keys = (np.zeros(0, np.int64) for _ in range(3))

    def batch(self) -> dict[str, np.ndarray]:
        times = np.arange(self._now, self._now + STEP)
        self._now += STEP
        values, keys = self._random.integers(0, HIGHEST, STEP), self._random.integers(0, KEYS, STEP)
        recent = self.times >= self._now - WINDOW - 2 * STEP
        self.times = np.concatenate([self.times[recent], times])
        self.values = np.concatenate([self.values[recent], values])
        self.keys = np.concatenate([self.keys[recent], keys])
        return {"t": times, self.names[0]: values, self.names[1]: keys}


def partners(new: dict[str, np.ndarray], names: tuple[str, str], other: Stream) -> tuple[int, int]:
    """How many partners the new tuples have among those that came before, and a sum that tells which: plain NumPy."""
    apart = HIGHEST + 2 * REACH  # so that values with different keys are never near each other
    codes = other.keys * apart + other.values
    order = np.argsort(codes)
    wanted = new[names[1]] * apart + new[names[0]]
    low = np.searchsorted(codes, wanted - REACH, "left", order)
    high = np.searchsorted(codes, wanted + REACH, "right", order)
    mine = np.repeat(np.arange(len(low)), high - low)
    theirs = order[np.repeat(high - np.cumsum(high - low), high - low) + np.arange(len(mine))]
    near = np.abs(new["t"][mine] - other.times[theirs]) <= WINDOW
    return int(near.sum()), int(((new["t"][mine] + other.times[theirs])[near] * 31).sum())


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "access", "workers"), ROADS)
def test_an_endless_stream_is_counted_exactly_and_leaves_nothing_behind(
    algorithm: str, access: str, workers: int
) -> None:
    schema_r = pa.schema({"t": pa.int64(), "x": pa.int64(), "k": pa.int64()})
    schema_s = pa.schema({"t": pa.int64(), "a": pa.int64(), "k": pa.int64()})
    r, s = Stream(("x", "k"), 1), Stream(("a", "k"), 2)
    process, rested = psutil.Process(), 0
    expected = got = (0, 0)
    rounds, slides = 0, 0
    join = sj.Join(
        r=schema_r, s=schema_s, on=ON, within=WINDOW, time="t", algorithm=algorithm, access=access, workers=workers
    )
    with join:
        start = time.monotonic()
        while time.monotonic() - start < SECONDS or slides < 12:
            for mine, other, push in ((r, s, join.push_r), (s, r, join.push_s)):
                batch = mine.batch()
                found = partners(batch, mine.names, other)
                expected = (expected[0] + found[0], expected[1] + found[1])
                push(batch)
            got = counted(join, got)
            rounds += 1
            slides = rounds * STEP // WINDOW
            if slides == 4 and not rested:
                rested = process.memory_info().rss
        grown = process.memory_info().rss - rested
        held = join.stats()
    got = counted(join, got)
    assert got == expected
    assert grown < GROWTH
    assert max(held["r"]["window"], held["s"]["window"]) < 4 * WINDOW + 20_000


def counted(join: sj.Join, so_far: tuple[int, int]) -> tuple[int, int]:
    """Adds what is ready."""
    count, total = so_far
    for batch in join.poll():
        assert isinstance(batch, pa.RecordBatch)
        count += batch.num_rows
        total += sum(int(np.asarray(batch.column(name)).sum()) * 31 for name in ("t_r", "t_s"))
    return count, total
