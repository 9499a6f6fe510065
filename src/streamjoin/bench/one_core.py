"""The benchmarks of the sequential join. Each checks its result before it returns a figure."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from streamjoin.access.band.index import BandStore
from streamjoin.access.tuples import Tuples
from streamjoin.algorithms.kang import Kang
from streamjoin.bench.yardsticks import reference_scan
from streamjoin.errors import OptionError, StreamjoinError
from streamjoin.intake.prepare import Intake
from streamjoin.machine import machine
from streamjoin.options import Options
from streamjoin.papers import BAND, EQUALITY, MICROSECONDS, Array, Source, partners, schema
from streamjoin.plan.plan import SIDES, Plan, make_plan
from streamjoin.predicate.tree import OTHER
from streamjoin.windows.duration import parse_duration

CHECKED = 24
SCAN_PROBES = 2048
DEFAULTS = {  # access: predicate, window, rate to sustain, batch, largest key
    "band": (BAND, "15 minutes", 40_000, 16_384, 10_000),
    "scan": (BAND, "15 minutes", 2_000, 1_024, 10_000),
    "hash": (EQUALITY, "1 minute", 500_000, 65_536, 30_000_000),
}


class Scan:
    """The 2-D band scan of one window by one batch of probes, its pairs verified."""

    def __init__(self, tuples: int = 1_000_000) -> None:
        _, intake = _plan(BAND, "1 day", "scan")
        r, s = Source("r", 1_000_000), Source("s", 1_000_000)
        window, batch = s.batch(tuples), r.batch(SCAN_PROBES)
        self._store = intake.store(1)
        self._store.insert(_prepared(intake, 1, window, 0))
        self._probes = _prepared(intake, 0, batch, 0)
        found = _collected(self._store.probe(self._probes))
        sample = range(0, SCAN_PROBES, SCAN_PROBES // CHECKED)
        _check(found, r, s, sample, tuples, 86_400 * MICROSECONDS, equality=False)
        self.sent = r.sent(), s.sent()
        self.pairs = len(found[0])

    def run(self, seconds: float) -> float:
        """Comparisons/s on one core, with pairs emitted."""
        rounds, start = 0, time.perf_counter()
        self._store.comparisons = 0
        while (elapsed := time.perf_counter() - start) < seconds or not rounds:
            for _ in self._store.probe(self._probes):
                pass
            rounds += 1
        return self._store.comparisons / elapsed


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
    if access not in DEFAULTS:
        raise OptionError(f'access="{access}" is not one of {", ".join(DEFAULTS)}')
    on, usual, usual_rate, size, highest = DEFAULTS[access]
    length, rate = window or usual, rate or usual_rate
    ticks = parse_duration(length) // 1000
    plan, intake = _plan(on, length, access)
    sources = {side: Source(side, rate, highest) for side in "rs"}
    algorithm = Kang({name: intake.store(side) for side, name in enumerate(SIDES)})
    filled = ticks // MICROSECONDS * rate
    _prefill(algorithm, intake, sources, filled, size)
    results, spent, rounds, kept = 0, 0.0, 0, []
    before = sum(store.comparisons for store in algorithm.stores.values())
    while spent < seconds or rounds < 2:
        for number, side in enumerate(SIDES):
            first = sources[side].count
            table = sources[side].batch(size)
            start = time.perf_counter()
            batch = _prepared(intake, number, table, first)
            for r, s in algorithm.arrive(side, batch):
                results += len(r)
                if rounds == 0:
                    kept.append((r, s))
            algorithm.expire(OTHER[side], plan.window.horizon(side, int(batch.at[0]), 0))
            spent += time.perf_counter() - start
        rounds += 1
    numbers = range(filled, filled + size, max(1, size // CHECKED))
    _check(_collected(kept), sources["r"], sources["s"], numbers, filled + size, ticks, equality=on == EQUALITY)
    stores = algorithm.stores.values()
    compared = sum(store.comparisons for store in stores) - before
    figure = rounds * size / spent
    return {
        "rate_per_stream": figure,
        "window_tuples": len(algorithm.stores["r"]),
        "access": access,
        "results_per_s": results / spent,
        "verified": True,
        "asked_rate": rate,
        "sustained": figure >= rate,
        "window": length,
        "predicate": on,
        "comparisons_per_s": compared / spent,
        "batch": size,
        "memory_per_raw_byte": sum(store.nbytes for store in stores) / sum(store.raw_bytes for store in stores),
        "machine": machine(),
    }


def _plan(on: str, within: str, access: str) -> tuple[Plan, Intake]:
    plan = make_plan(schema("r"), schema("s"), Options(on=on, within=within, time="ts", access=access))
    return plan, Intake(plan, plan.program())


def _prepared(intake: Intake, side: int, table: Any, first: int) -> Tuples:
    batch, kept = intake.prepare(side, table, intake.times(side, table), 0, first)
    assert kept is None
    return batch


def _prefill(algorithm: Kang, intake: Intake, sources: dict[str, Source], tuples: int, size: int) -> None:
    """Fills both windows without joining them."""
    samples = {name: _prepared(intake, side, Source(name, 1000).batch(1000), 0) for side, name in enumerate(SIDES)}
    for number, (side, store) in enumerate(algorithm.stores.items()):
        if isinstance(store, BandStore):
            store.expect(samples[OTHER[side]])
        while sources[side].count < tuples:
            first = sources[side].count
            store.insert(_prepared(intake, number, sources[side].batch(min(size, tuples - first)), first))


def _collected(chunks: Iterable[tuple[Array, Array]]) -> tuple[Array, Array]:
    found = list(chunks)
    if not found:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate([a for a, _ in found]), np.concatenate([b for _, b in found])


def _check(
    found: tuple[Array, Array], r: Source, s: Source, numbers: range, upto: int, window: int, equality: bool
) -> None:
    """Compares the partners of some r tuples among the first s tuples with those that a look at every s tuple finds."""
    sample = [column[numbers.start : numbers.stop : numbers.step] for column in r.sent()]
    stored = [column[:upto] for column in s.sent()]
    expected = partners((sample[0], sample[1], sample[2]), (stored[0], stored[1], stored[2]), window, equality)
    for number, wanted in zip(numbers, expected, strict=True):
        got = np.sort(found[1][found[0] == number])
        if not np.array_equal(got, wanted):
            raise StreamjoinError(
                f"wrong result: r tuple {number} has {len(wanted)} partners, the join found {len(got)}"
            )
