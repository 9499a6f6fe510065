"""The benchmarks of the sequential join. Each checks its result before it returns a figure."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from streamjoin.bench.harness import BareJoin, check, joined, papers_plan
from streamjoin.bench.yardsticks import reference_scan
from streamjoin.errors import OptionError
from streamjoin.machine import machine
from streamjoin.papers import BAND, EQUALITY, MICROSECONDS, Array, Source
from streamjoin.predicate.tree import SIDES
from streamjoin.windows import FOREVER, SINCE_EVER
from streamjoin.windows.duration import parse_duration

CHECKED = 24
SCAN_PROBES = 2048
DEFAULTS = {  # access: predicate, window, rate to sustain, batch, largest key
    "band": (BAND, "15 minutes", 40_000, 16_384, 10_000),
    "scan": (BAND, "15 minutes", 2_000, 1_024, 10_000),
    "hash": (EQUALITY, "1 minute", 500_000, 65_536, 30_000_000),
}


@dataclass(frozen=True)
class Workload:
    """What a benchmark of one core joins."""

    on: str
    window: str
    rate: int  # tuples/s of stream time, per stream
    batch: int
    highest: int  # key

    @property
    def ticks(self) -> int:
        return parse_duration(self.window) // 1000

    @property
    def filled(self) -> int:
        """Tuples of a full window."""
        return self.ticks // MICROSECONDS * self.rate


def workload(access: str, window: str | None, rate: int | None) -> Workload:
    """The one for an access path, with a window and a rate of the caller's, if given."""
    if access not in DEFAULTS:
        raise OptionError(f'access="{access}" is not one of {", ".join(DEFAULTS)}')
    on, usual, usual_rate, batch, highest = DEFAULTS[access]
    return Workload(on, window or usual, rate or usual_rate, batch, highest)


class Kept(BareJoin):
    """Keeps pairs for a check, while it is enabled."""

    def __init__(self, on: str, within: str, access: str) -> None:
        super().__init__(papers_plan(on=on, within=within, access=access, algorithm="kang"))
        self.keeping = False
        self.kept: list[tuple[Array, Array]] = []

    def pairs(self, r: Array, s: Array) -> None:
        super().pairs(r, s)
        if self.keeping:
            self.kept.append((r.copy(), s.copy()))

    def check(self, sources: list[Source], numbers: range, window: int, equality: bool) -> None:
        """Raises unless the pairs that were kept are all that some r tuples have so far."""
        check(*joined(self.kept), sources, numbers, window, equality)


class Scan:
    """The 2-D band scan of one window by one batch of probes, its pairs verified."""

    def __init__(self, tuples: int = 1_000_000) -> None:
        self._join = Kept(BAND, "1 day", "scan")
        sources = [Source(name, 1_000_000) for name in SIDES]
        with self._join.engine.prefill():
            self._join.arrive(1, self._join.prepared(1, sources[1].batch(tuples)))
        self._probes = self._join.prepared(0, sources[0].batch(SCAN_PROBES))
        self._join.keeping = True
        self._probe()
        self._join.keeping = False
        sample = range(0, SCAN_PROBES, SCAN_PROBES // CHECKED)
        self._join.check(sources, sample, 86_400 * MICROSECONDS, equality=False)
        self.sent = sources[0].sent(), sources[1].sent()
        self.pairs = self._join.results

    def _probe(self) -> None:
        """The probes arrive and are dropped."""
        self._join.arrive(0, self._probes)
        self._join.engine.expire((FOREVER, SINCE_EVER), (0, 0))

    def run(self, seconds: float) -> float:
        """Comparisons/s on one core, with pairs emitted."""
        before, start, elapsed = self._join.engine.comparisons(), time.perf_counter(), 0.0
        while not elapsed or elapsed < seconds:
            self._probe()
            elapsed = time.perf_counter() - start
        return (self._join.engine.comparisons() - before) / elapsed


def scan(tuples: int = 1_000_000, seconds: float = 5.0) -> dict[str, Any]:
    """The 2-D band scan of one window on one core, with pairs emitted; beside it the same in C, if it can be built."""
    bare = Scan(tuples)
    per_second = bare.run(seconds)
    reference = reference_scan(*bare.sent, bare.pairs)
    return {
        "comparisons_per_s": per_second,
        "pairs": bare.pairs,
        "verified": True,
        "window_tuples": tuples,
        "c_comparisons_per_s": reference,
        "ratio_to_c": per_second / reference if reference else None,
        "machine": machine(),
    }


def join(
    access: str = "band", window: str | None = None, rate: int | None = None, seconds: float = 20.0
) -> dict[str, Any]:
    """The papers' join on one core: windows filled as at the given rate, then as many tuples as it can take.

    The rate is sustained if the figure is not below it. Results are pairs of tuple numbers.
    """
    work = workload(access, window, rate)
    size = work.batch
    join = Kept(work.on, work.window, access)
    sources = [Source(name, work.rate, work.highest) for name in SIDES]
    join.fill(sources, work.filled, most=size)
    join.results, before = 0, join.engine.comparisons()
    spent, rounds, join.keeping = 0.0, 0, True
    while spent < seconds or rounds < 2:
        for side, source in enumerate(sources):
            first, table = source.count, source.batch(size)
            start = time.perf_counter()
            join.take(side, table, first)
            spent += time.perf_counter() - start
        if join.keeping:
            join.keeping = False
            numbers = range(work.filled, work.filled + size, max(1, size // CHECKED))
            join.check(sources, numbers, work.ticks, equality=work.on == EQUALITY)
        rounds += 1
    stats = join.engine.stats()
    sides = [stats[name] for name in SIDES]
    figure = rounds * size / spent
    return {
        "rate_per_stream": figure,
        "window_tuples": sides[0]["window"],
        "access": access,
        "results_per_s": join.results / spent,
        "verified": True,
        "asked_rate": work.rate,
        "sustained": figure >= work.rate,
        "window": work.window,
        "predicate": work.on,
        "comparisons_per_s": (stats["comparisons"] - before) / spent,
        "batch": size,
        "memory_per_raw_byte": sum(side["store_bytes"] for side in sides) / sum(side["raw_bytes"] for side in sides),
        "machine": machine(),
    }
