"""The prices of this machine: measured once with the real kernels, and kept."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from streamjoin.access.prices import BATCH, Costs, Price
from streamjoin.folders import kept
from streamjoin.machine import processor

if TYPE_CHECKING:
    from streamjoin.access.segment import Search, Segment
    from streamjoin.access.tuples import Tuples

LARGEST = 10_000  # attribute of the papers' workload
ASSUMED = ("merge", "hop")  # not measured, so not kept
ROUNDS = 15  # of a measurement; the first one loads kernels
FORMAT = 1  # of the measurement; one that was kept in another format is not used


def calibrated() -> Costs:
    """The prices of this machine: measured once with the real kernels, in a quarter of a second, and kept.

    They are kept as JSON in the cache folder, under a hash of the processor's name and Numba's version. A damaged file
    is replaced by a new measurement. If no file can be written, every process measures again.
    """
    return _calibrated(kept().path, _name())


def remembered() -> Costs | None:
    """The kept prices, if there are any: `calibrated` without measuring."""
    return _read(_name())


def _name() -> str:
    return f"costs-{_machine()}.json"


@lru_cache
def _calibrated(folder: str, name: str) -> Costs:
    known = _read(name)
    if known is None:
        known = _measure()
        told = {what: cost for what, cost in asdict(known).items() if what not in ASSUMED}
        kept().keep(name, json.dumps(told, indent=2).encode())
    return known


def _machine() -> str:
    try:
        numba = version("numba")
    except PackageNotFoundError:
        numba = ""
    return hashlib.sha256(repr((FORMAT, processor(), numba)).encode()).hexdigest()[:16]


def _read(name: str) -> Costs | None:
    """The kept measurement, if there is a valid one."""
    try:
        told = json.loads(kept().read(name) or b"")
        costs = Costs(**{**told, "band": Price(**told["band"]), "hash": Price(**told["hash"])})
        indexes = (*asdict(costs.band).values(), *asdict(costs.hash).values())
        scans = (costs.scan, costs.exact, costs.merge, costs.hop)
        return costs if all(0 < x < 1 for x in scans) and all(0 <= x < 1 for x in indexes) else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _measure() -> Costs:
    """The papers' band in two dimensions, on segments of each kind.

    Two windows, one with few results per probe and one with many, separate the price of a probe from that of a result.
    """
    import pyarrow as pa

    from streamjoin.access import ACCESSES
    from streamjoin.access.segment import Search
    from streamjoin.access.tuples import Shape
    from streamjoin.options import Options
    from streamjoin.plan.plan import make_plan
    from streamjoin.predicate.expressions import r, s

    schemas = [
        pa.schema({"ts": pa.int64(), number: pa.int32(), real: pa.float32()})
        for number, real in (("x", "y"), ("a", "b"))
    ]
    on = r.x.between(s.a - 10, s.a + 10) & r.y.between(s.b - 10, s.b + 10)
    program = make_plan(
        schemas[0], schemas[1], Options(on=on, within=1, time="ts", access="scan", algorithm="kang")
    ).program()
    columns = tuple(part.dtype for part in program.stored["s"])

    def window(access: str, dims: int) -> Segment:
        return ACCESSES[access].segment(Shape(columns, dims, keyed=ACCESSES[access].by_key and not dims))

    def search(wide: bool = False) -> Search:
        return Search(program.refine("r", wide), lambda *_: ArithmeticError())

    def scanned(segment: Segment, size: int, wide: bool = False) -> float:
        segment.insert(_tuples(size, LARGEST, 10))
        return _probing(search(wide), segment, BATCH, LARGEST)[0] / size

    def index(access: str, dims: int, thin: tuple[int, int], dense: tuple[int, int]) -> Price:
        windows = [window(access, dims), window(access, dims)]
        for segment, (size, highest) in zip(windows, (thin, dense), strict=True):
            segment.expect(_tuples(1000, highest, 0))
            segment.insert(_tuples(size, highest, 10))
        (probe, few), (longer, many) = (
            _probing(search(), segment, 1024, highest)
            for segment, (_, highest) in zip(windows, (thin, dense), strict=True)
        )
        result = max(longer - probe, 0.0) / max(many - few, 1.0)
        arrivals = [_tuples(1024, thin[1], 10, thin[0] + 1024 * k) for k in range(16)]
        start = time.perf_counter()
        for batch in arrivals:
            windows[0].insert(batch)
        insert = (time.perf_counter() - start) / 16 / 1024
        return Price(0.0, max(probe - few * result, 0.0), insert, result)

    return Costs(
        scanned(window("scan", 2), 100_000),
        scanned(window("scan", 0), 10_000, wide=True),
        index("band", 2, (1 << 18, LARGEST), (1 << 18, LARGEST // 5)),
        index("hash", 0, (1 << 20, 1 << 24), (1 << 18, 1 << 14)),
    )


def _probing(search: Search, segment: Segment, count: int, highest: int) -> tuple[float, float]:
    """Seconds and results per probe, for new probes: a low quantile of the rounds.

    Other work on the machine can only add to the time. The very fastest rounds found more in the cache than is usual.
    """
    seconds, found = [], 0
    for k in range(ROUNDS):
        probes = _tuples(count, highest, 0, k * count)
        start = time.perf_counter()
        found += sum(len(numbers) for numbers, _ in search.probe(segment, probes))
        seconds.append(time.perf_counter() - start)
    return sorted(seconds)[ROUNDS // 4] / count, found / ROUNDS / count


def _tuples(count: int, highest: int, half: int, first: int = 0) -> Tuples:
    """Tuples (int, float) for a segment: uniform over 1..highest, with a box, the int as key, and an unlimited window.

    Beyond LARGEST, where only keys matter, all floats are alike.
    """
    import numpy as np

    from streamjoin.access.tuples import Tuples

    random = np.random.default_rng([first, half])
    number = random.integers(1, highest + 1, count, dtype=np.int32)
    real = random.uniform(1, highest if highest <= LARGEST else 1, count).astype(np.float32)
    corner = np.stack([number.astype(np.float32), real])
    at = np.arange(first, first + count)
    return Tuples(
        columns=(number, real),
        lo=corner - half,
        hi=corner + half,
        coord=corner - half,
        width=np.full(2, 2 * half, np.float32),
        key=number.astype(np.uint32) * np.uint32(2654435769),
        at=at,
        since=np.zeros_like(at),
        until=np.full_like(at, 1 << 40),
        number=at,
    )
