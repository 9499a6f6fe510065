"""The papers' workload through a live join, with progress, checked against a look at every pair at the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from streamjoin.errors import StreamjoinError
from streamjoin.intake.columns import as_numpy, flat
from streamjoin.live.join import Join
from streamjoin.machine import machine
from streamjoin.papers import BAND, Array, Source, partners, schema
from streamjoin.windows.duration import parse_duration

BATCH = 500


def run(
    tuples: int = 40_000,
    rate: int = 1_000,
    window: str = "15 seconds",
    report: Callable[[str, float], None] = lambda text, done: None,
    algorithm: str = "kang",
    workers: int | str = "auto",
) -> dict[str, Any]:
    """Joins so many tuples of each stream and verifies the result. `report` is told what happens and how far it is.

    Workers hand out results a little after a push; the last ones are there when the join is closed.
    """
    report("compiling the join (a first run takes some seconds, later ones find it in the cache)", 0.0)
    with _join(window, algorithm, workers) as warm:
        for _ in range(2):
            warm.push_r(Source("r", rate).batch(BATCH))
            warm.push_s(Source("s", rate).batch(BATCH))
    sources = {side: Source(side, rate) for side in "rs"}
    found: list[Array] = []
    with _join(window, algorithm, workers) as join:
        start = time.perf_counter()
        while sources["s"].count < tuples:
            join.push_r(sources["r"].batch(BATCH))
            join.push_s(sources["s"].batch(BATCH))
            found += [_pair_times(batch) for batch in join.poll()]
            elapsed = time.perf_counter() - start
            stats = join.stats()
            report(
                f"{stats['r']['pushed'] / elapsed:>9,.0f} tuples/s per stream   "
                f"{stats['comparisons'] / elapsed / 1e6:>7.1f} M comparisons/s   {stats['results']:>8,} results   "
                f"windows {stats['r']['window']:,} | {stats['s']['window']:,}",
                sources["s"].count / tuples,
            )
    elapsed = time.perf_counter() - start
    found += [_pair_times(batch) for batch in join.poll()]
    stats = join.stats()
    report("verifying: every pair of the two streams is looked at", 1.0)
    expected = expected_pairs(sources["r"].sent(), sources["s"].sent(), parse_duration(window) // 1000)
    got = np.concatenate([np.zeros((0, 2), np.int64), *found])
    verify(got, expected)
    return {
        "engine": "embedded",
        "results": len(got),
        "verified": True,
        "tuples_per_stream": tuples,
        "rate_per_stream": tuples / elapsed,
        "comparisons": stats["comparisons"],
        "window": window,
        "predicate": BAND,
        "algorithm": stats["algorithm"],
        "workers": join.plan.workers,
        "access": stats["access"],
        "machine": machine(),
    }


def _join(window: str, algorithm: str, workers: int | str) -> Join:
    return Join(r=schema("r"), s=schema("s"), on=BAND, within=window, time="ts", algorithm=algorithm, workers=workers)


def _pair_times(batch: Any) -> Array:
    """A result batch as (time of r, time of s); within a stream of this workload, no two tuples share a time."""
    return np.stack([as_numpy(flat(batch.column(name)).view("int64")) for name in ("ts_r", "ts_s")], axis=1)


def expected_pairs(r: tuple[Array, Array, Array], s: tuple[Array, Array, Array], window: int) -> Array:
    """All pairs as (time of r, time of s), by a look at every s in the window of every r."""
    pairs = [np.zeros((0, 2), np.int64)]
    for ts, positions in zip(r[0], partners(r, s, window, equality=False), strict=True):
        pairs.append(np.stack([np.full(len(positions), ts), s[0][positions]], axis=1))
    return np.concatenate(pairs)


def verify(got: Array, expected: Array) -> None:
    """Raises unless both are the same pairs, in whatever order."""
    if not np.array_equal(_sorted(got), _sorted(expected)):
        raise StreamjoinError(f"the join returned {len(got)} pairs, the oracle {len(expected)}, or others")


def _sorted(pairs: Array) -> Array:
    """In the order of r's time, then of s's."""
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
