"""Figures of circuits: clock and tuples/s against cores, latency, and what others published."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from streamjoin.algorithms.lockstep import Chain
from streamjoin.circuit.build import Target, built
from streamjoin.circuit.model import Model
from streamjoin.circuit.spec import Spec

PUBLISHED = [
    {
        "what": "handshake join, Virtex-6 XC6VLX760T (40 nm), vendor tools, 32-bit keys, equality, segments of 8",
        "source": "Teubner, Mueller: SIGMOD 2011, section 6.4, figure 18",
        "cores": "up to 200",
        "clock_mhz": "150 to 170",
    },
    {
        "what": "low-latency handshake join as a circuit",
        "source": "2016, abstract",
        "tuples_per_s": "nearly 7 M",
        "latency": "below 1 us",
        "window": "not stated",
    },
    {
        "what": "handshake circuit with a redone merging network",
        "source": "2012",
        "speedup": "16.3 times a nested-loops circuit",
    },
]
WHY_OTHERWISE = (
    "An absolute clock depends on chip and tools: theirs is a Virtex-6 with the vendor's tools, ours an ECP5 (40 nm as "
    "well, but LUTs of 4 inputs instead of 6) with yosys and nextpnr. What compares is whether more cores lower it."
)


def scaling(
    spec: Spec, cores: Sequence[int], target: Target, tell: Callable[[str], None], route: bool = True
) -> dict[str, Any]:
    """Circuits of the same core in different numbers: size, clock, tuples/s, latency."""
    points = []
    for count in cores:
        own = spec.with_cores(count)
        point = built(own, target, tell, route)
        waits = {"plain": replace(own.chain, expedited=False), "low_latency": replace(own.chain, expedited=True)}
        point["latency_cycles"] = {name: latency(chain) for name, chain in waits.items()}
        points.append(point)
    found: dict[str, Any] = {"points": points, "published": PUBLISHED, "why_otherwise": WHY_OTHERWISE}
    if route:
        clocks = {point["cores"]: point["clock_mhz"] for point in points}
        first = 4 if 4 in clocks else min(clocks)
        found["flatness"] = {"from": first, "to": max(clocks), "ratio": clocks[max(clocks)] / clocks[first]}
        for point in points:
            cycle = 1e3 / point["clock_mhz"]
            for name, wait in point["latency_cycles"].items():
                point.setdefault("latency_ns", {})[name] = {kind: cycles * cycle for kind, cycles in wait.items()}
    return found


def latency(chain: Chain, selectivity: float = 0.001) -> dict[str, float]:
    """Cycles from the admission of the later tuple to the result, by the model, at full rate and full windows."""
    count = 3 * max(chain.rows) + 64
    rng = np.random.default_rng(1)
    room = 1 << (count - 1).bit_length()
    matches = rng.random((room, room)) < max(selectivity, 20 / sum(chain.rows) / count)
    places = np.arange(count)
    _, _, cycles = Model(chain).feed(places, places, matches)
    known = cycles[cycles >= 0]
    return {"median": float(np.median(known)), "mean": float(known.mean()), "max": float(known.max())}
