"""Figures of circuits: clock and tuples/s by number of cores, latency, and published figures of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from streamjoin.algorithms.lockstep import Chain
from streamjoin.circuit.build import built
from streamjoin.circuit.chips import Target
from streamjoin.circuit.model import Model
from streamjoin.circuit.spec import Spec

TUPLES_2016, SPEEDUP_2012 = 7e6, 16.3  # as their abstracts have it
PUBLISHED = [
    {
        "what": "handshake join, Virtex-6 XC6VLX760T (40 nm), vendor tools, 32-bit keys, equality, segments of 8",
        "source": "Teubner, Mueller: SIGMOD 2011, section 6.4, figure 18",
        "cores": "up to 200",
        "clock_mhz": "150 to 170",
    },
    {
        "what": "the same circuit, windows of 1,000 divided among the cores",
        "source": "Teubner, Mueller: report, appendix A.5, figure 13",
        "cores": "1 to 200",
        "clock_mhz": "highest with 100 cores",
        "tuples_per_s": "less with 150 cores than with 100",
    },
    {
        "what": "the same circuit, windows of 100 divided among the cores",
        "source": "Teubner, Mueller: SIGMOD 2011, table 1",
        "cores": "1, 2, 5, 10",
        "luts": "1.54, 1.59, 2.01, 2.78 % of the chip",
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
    spec: Spec,
    cores: Sequence[int],
    target: Target,
    tell: Callable[[str], None],
    route: bool = True,
    window: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """Circuits of the same core in different numbers: size, clock, tuples/s, latency.

    `window`: rows that are divided among the cores; None: each core adds a segment.
    """
    points = []
    for count in cores:
        own = spec.with_cores(count, window)
        point = built(own, target, tell, route)
        waits = {"plain": replace(own.chain, expedited=False), "low_latency": replace(own.chain, expedited=True)}
        point["latency_cycles"] = {name: latency(chain) for name, chain in waits.items()}
        point["network_load"] = [network_load(own.chain, part) for part in LOADS]
        points.append(point)
    found: dict[str, Any] = {"points": points, "published": PUBLISHED, "why_otherwise": WHY_OTHERWISE}
    if route:
        clocks = {point["cores"]: point["clock_mhz"] for point in points}
        first = 4 if 4 in clocks else min(clocks)
        found["flatness"] = {"from": first, "to": max(clocks), "ratio": clocks[max(clocks)] / clocks[first]}
        found["standing"] = [standing(point) for point in points]
        for point in points:
            cycle = 1e3 / point["clock_mhz"]
            for name, wait in point["latency_cycles"].items():
                point.setdefault("latency_ns", {})[name] = {kind: cycles * cycle for kind, cycles in wait.items()}
    return found


def standing(point: dict[str, Any]) -> dict[str, Any]:
    """Where a routed chain stands against the two circuits that were published later.

    A nested-loops circuit is one core with the whole window, at the same clock.
    """
    return {
        "cores": point["cores"],
        "rows": point["rows"],
        "tuples_per_s_against_2016": point["tuples_per_s"] / TUPLES_2016,
        "low_latency_ns": point["latency_cycles"]["low_latency"]["max"] * 1e3 / point["clock_mhz"],
        "below_1_us_as_2016": point["latency_cycles"]["low_latency"]["max"] < point["clock_mhz"],
        "speedup_over_nested_loops": point["rows"][0]
        / point["cycles_per_step"],  # one core, the whole window, same clock
        "speedup_2012": SPEEDUP_2012,
    }


LOADS = (0.5, 0.9, 1.0, 1.25, 2.0)  # parts of the selectivity at which the network must begin to limit the chain


def network_load(chain: Chain, part: float) -> dict[str, float]:
    """What the model does at a part of that selectivity: how fast the chain is against one without any results."""
    selectivity = chain.bottleneck * part
    count = 20 * max(chain.rows)
    room = 1 << (2 * max(chain.rows) + 1).bit_length()  # places by which tuples in the chain are told apart
    matches = np.random.default_rng(1).random((room, room)) < selectivity
    model, places = Model(chain), np.arange(count)
    model.feed(places, places, matches)
    figures = model.figures()
    return {
        "selectivity": selectivity,
        "speed": count * chain.step(True, True) / (figures["cycles"]),
        "throttled": figures["throttled_cycles"] / figures["cycles"],
        "fifo_high_water": float(max(figures["fifo_high_water"])),
    }


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
