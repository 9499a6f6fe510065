"""The cost of watching a join: pushes into one join with full windows, in turns with and without an open page.

The tuples are made before the clock starts. The page's reader is a process of its own, as a browser is.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.bench.demo import expected_pairs, pair_times, verify
from streamjoin.bench.harness import papers_join
from streamjoin.live.join import Join
from streamjoin.machine import machine
from streamjoin.monitor.watch import EVERY, watch
from streamjoin.papers import BAND, MICROSECONDS, Array, Source, tuples
from streamjoin.predicate.tree import SIDES
from streamjoin.windows.duration import parse_duration

BATCH = 1024
CHECKED = 2_000  # r tuples whose partners are all looked for
READER = """
import sys, urllib.request
answer = urllib.request.urlopen(sys.argv[1] + "events")
print(answer.readline(), flush=True)
for line in answer: pass
"""
Pushes = list[tuple[pa.RecordBatch, pa.RecordBatch]]


def watching(window: str, rate: int, seconds: float, rounds: int, algorithm: str, workers: int) -> dict[str, Any]:
    """The papers' band join; by round, the time of equal work with a page compared with that without one.

    Windows hold `rate` tuples per second of stream time. A turn takes about so many seconds, but pushes whole windows
    of both streams, so that each turn merges as many runs. `slower_by` is the median of all rounds; `cpu_beside` is
    what threads beside the pushing one used of its time, more than without a page.
    """
    length = parse_duration(window) // 1000
    sources = [Source(name, rate) for name in SIDES]
    held = max(1, int(length / MICROSECONDS * rate) // BATCH)  # batches of a window
    spread: dict[str, Any] = {"algorithm": algorithm, "workers": workers}
    with papers_join(on=BAND, within=window, **spread) as join:
        found = list(_pushed(join, _made(sources, 3 * held)))
        size = held * max(1, round(seconds / _spent(join, _made(sources, held)).seconds))
        turns: dict[bool, list[Spent]] = {True: [], False: []}
        for k in range(rounds):
            for watched in (True, False) if k % 2 else (False, True):  # neither has always the later turn
                pushes = _made(sources, size)
                with _page(join) if watched else nullcontext():
                    turns[watched].append(_spent(join, pushes))
    list(join.poll())
    _check(found, length, rate)
    ratios = [w.seconds / a.seconds - 1 for w, a in zip(turns[True], turns[False], strict=True)]
    beside = {watched: statistics.median(turn.beside for turn in of) for watched, of in turns.items()}
    alone = statistics.median(turn.seconds for turn in turns[False])
    return {
        "slower_by": statistics.median(ratios),
        "cpu_beside": (beside[True] - beside[False]) / alone,
        "quartiles": [round(quartile, 4) for quartile in statistics.quantiles(ratios)] if rounds > 1 else ratios,
        "rate_per_stream": size * BATCH / alone,
        "rounds": rounds,
        "turn_s": alone,
        "samples_per_s": 1 / EVERY,
        "verified": True,
        "window": window,
        "algorithm": algorithm,
        "workers": workers,
        "batch": BATCH,
        "machine": machine(),
    }


@dataclass(frozen=True)
class Spent:
    """Seconds of a turn, and CPU seconds of all threads but the pushing one."""

    seconds: float
    beside: float


def _made(sources: list[Source], count: int) -> Pushes:
    """The next batches of both streams."""
    r, s = (source.batch(count * BATCH).combine_chunks().to_batches()[0] for source in sources)
    return [(r.slice(k * BATCH, BATCH), s.slice(k * BATCH, BATCH)) for k in range(count)]


def _pushed(join: Join, pushes: Pushes) -> Iterator[Any]:
    for r, s in pushes:
        join.push_r(r)
        join.push_s(s)
        yield from join.poll()


def _spent(join: Join, pushes: Pushes) -> Spent:
    """What a join takes for them, results handed out and dropped."""
    start, own, whole = time.perf_counter(), time.thread_time(), time.process_time()
    for _ in _pushed(join, pushes):
        pass
    seconds, own = time.perf_counter() - start, time.thread_time() - own
    return Spent(seconds, time.process_time() - whole - own)


@contextmanager
def _page(join: Join) -> Iterator[None]:
    """An open page that receives every sample."""
    with watch(join) as page:
        reader = subprocess.Popen([sys.executable, "-c", READER, page.url], stdout=subprocess.PIPE)
        try:
            assert reader.stdout is not None
            reader.stdout.readline()
            yield
        finally:
            reader.kill()
            reader.communicate()


def _check(found: list[Any], length: int, rate: int) -> None:
    """Raises unless the r tuples in the middle of the first three windows have all their partners."""
    held = int(length / MICROSECONDS * rate)  # by a window
    first = int(1.2 * held)
    sample = tuples("r", first, first + CHECKED, rate)
    pairs = pair_times(found)
    among: Array = np.isin(pairs[:, 0], sample[0])
    verify(pairs[among], expected_pairs(sample, tuples("s", 0, 3 * held, rate), length))
