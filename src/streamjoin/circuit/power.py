"""An estimate of power, as in tables 1 and 2 of the paper: four chains that sustain 500,000 tuples/s on windows of 100.

Dynamic power is switching activity times clock times energy per toggle. The activity is counted in the compiled
circuit, bit by bit of all registers, with full windows and random values. Static power goes by area, as Kuon and Rose
suggest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from streamjoin.circuit.build import built
from streamjoin.circuit.chips import Target
from streamjoin.circuit.native import activity
from streamjoin.circuit.simulate import random_steps
from streamjoin.circuit.spec import Spec

RATE = 500_000  # tuples/s per stream
ROWS = 100
CORES = (1, 2, 5, 10)

# Shang, Kaviani, Bathala: Dynamic power consumption in Virtex-II FPGA family (FPGA 2002): 5.9 uW per MHz and CLB in a
# typical design, at 150 nm and 1.5 V. Sutter and Boemo (Experiments in low power FPGA design, Latin American Applied
# Research 37, 2007) quote it as 1.5 uW per MHz and slice, of which a CLB has four. A CLB has eight LUTs; that one
# output in eight toggles per cycle is our guess.
TYPICAL_PJ = 5.9 / 8 / 0.125
ENERGY_PJ = TYPICAL_PJ * (40 / 150) * (1.1 / 1.5) ** 2  # capacitance goes with the feature size, energy with V squared
STATIC_MW = 212 * 1.1  # assumed standby current of an LFE5U-85F's core, mA times V; not checked against its data sheet
LUTS = 83_640  # of that chip
ASSUMPTIONS = (
    f"{ENERGY_PJ:.2f} pJ per toggle of a net: 5.9 pJ per CLB and cycle (Virtex-II, 150 nm, 1.5 V; Shang et al. 2002), "
    "eight LUTs per CLB, one output in eight toggling, scaled to 40 nm and 1.1 V; clock and wires are part of it",
    "outputs of LUTs toggle as often as registers do; registers are counted bit by bit in the simulated circuit",
    f"{STATIC_MW:.0f} mW of static power, by the part of LUTs used: 212 mA at 1.1 V are assumed for the idle core of "
    "an ECP5-85F, neither measured here nor checked against its data sheet",
    "memory cells and pins are left out",
)
PUBLISHED = [  # tables 1 and 2: cores, clock, dynamic, static by area; a Virtex-6 XC6VLX760T
    {"cores": 1, "clock_mhz": 50, "dynamic_mw": 100, "static_mw": 68, "total_mw": 168},
    {"cores": 2, "clock_mhz": 25, "dynamic_mw": 64, "static_mw": 69, "total_mw": 133},
    {"cores": 5, "clock_mhz": 10, "dynamic_mw": 62, "static_mw": 88, "total_mw": 150},
    {"cores": 10, "clock_mhz": 5, "dynamic_mw": 68, "static_mw": 120, "total_mw": 188},
]


@dataclass(frozen=True)
class Load:
    """What is simulated."""

    steps: int = 260  # with windows of 100: full after the first 100
    values: int = 1 << 31
    seed: int = 1


def power(spec: Spec, limit: float, tell: Callable[[str], None], load: Load | None = None) -> dict[str, Any]:
    """The four chains of the paper, with our circuit."""
    given, points, target = load or Load(), [], Target(limit=limit)
    for cores in CORES:
        own = replace(spec, cores=cores, segment=-(-ROWS // cores), window=(ROWS, ROWS))
        step = own.chain.step(True, True)
        made = built(own, target, tell, route=False)["synthesis"]
        tell(f"{cores} cores: switching activity")
        steps = random_steps(own.design(), given.steps, given.values, given.seed)
        toggles = activity(own.design(), steps, 120 * step, (given.steps - 1) * step, target.limit)
        clock = RATE * step / 1e6
        nets = (made["luts"] + made["registers"]) / made["registers"]
        dynamic = toggles * nets * ENERGY_PJ * clock * 1e-3  # pJ times MHz: a thousandth of a mW
        share = made["luts"] / LUTS
        points.append(
            {
                "cores": cores,
                "clock_mhz": clock,
                "toggles_per_cycle": toggles,
                "luts": made["luts"],
                "area": share,
                "dynamic_mw": dynamic,
                "static_mw": STATIC_MW * share,
                "total_mw": dynamic + STATIC_MW * share,
            }
        )
    return {"points": points, "published": PUBLISHED, "assumptions": list(ASSUMPTIONS)}
