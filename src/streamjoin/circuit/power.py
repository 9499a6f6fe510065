"""An estimate of power, as in tables 1 and 2 of the paper: four chains that sustain 500,000 tuples/s on windows of 100.

Dynamic power is switching activity times clock times energy per toggle. The activity is that of every net between the
cells that synthesis makes of the circuit, simulated with full windows and random values. Static power goes by area, as
Kuon and Rose suggest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streamjoin.circuit.build import built, known, text_of
from streamjoin.circuit.chips import Target
from streamjoin.circuit.native import activity
from streamjoin.circuit.simulate import random_steps
from streamjoin.circuit.spec import Spec
from streamjoin.circuit.tools import YOSYS, version

RATE = 500_000  # tuples/s per stream
ROWS = 100
CORES = (1, 2, 5, 10)

# Measured on another 40 nm chip of the same vendor, an iCE40 UltraPlus (github.com/tinyvision-ai-inc/ice40_power): the
# current of the core at 1.219 V and 12 MHz. A multiplier of two counters of 8 bits (180 cells: 208 with what is around
# it, 28 without) adds 996 - 645 uA. Synthesised here it has 180 LUTs as well, and 69.0 of its nets change per cycle
# when they have settled (tests/circuit/test_power.py). 196 registers that never change, of a counter of 224 bits
# instead of 28, add 641.3 - 613.5 uA: the energy of their clock.
MEASURED_V, MEASURED_MHZ = 1.219, 12.0
MULTIPLIER_UA, MULTIPLIER_TOGGLES, MULTIPLIER_REGISTERS = 996 - 645, 69.0, 16
IDLE_UA, IDLE_REGISTERS = 641.3 - 613.5, 196
CORE_V = 1.1  # of an ECP5; energy goes with the square of the voltage
_SCALED = MEASURED_V / MEASURED_MHZ * (CORE_V / MEASURED_V) ** 2  # from uA to pJ per cycle
CLOCK_PJ = IDLE_UA / IDLE_REGISTERS * _SCALED
ENERGY_PJ = (MULTIPLIER_UA * _SCALED - MULTIPLIER_REGISTERS * CLOCK_PJ) / MULTIPLIER_TOGGLES
STATIC_MW = 212 * CORE_V  # assumed standby current of an LFE5U-85F's core, mA times V: no source was found for it
LUTS = 83_640  # of that chip
ASSUMPTIONS = (
    f"{ENERGY_PJ:.2f} pJ per toggle of a net and {CLOCK_PJ:.3f} pJ per register and cycle for its clock: as measured "
    "on an iCE40 UltraPlus, 40 nm (tinyvision-ai-inc/ice40_power), scaled from 1.219 V to 1.1 V",
    "every net between the cells is counted when it has settled; earlier changes are part of the energy, as far as "
    "that multiplier has them, too",
    f"{STATIC_MW:.0f} mW of static power, by the part of LUTs used: 212 mA at 1.1 V are assumed for the idle core of "
    "an ECP5-85F, neither measured here nor checked against its data sheet, of which no copy was found",
    "what happens inside memory cells, and pins, are left out",
)
PUBLISHED = [  # tables 1 and 2: cores, clock, part of the LUTs, dynamic, static by area; a Virtex-6 XC6VLX760T
    {"cores": 1, "clock_mhz": 50, "area": 0.0154, "dynamic_mw": 100, "static_mw": 68, "total_mw": 168},
    {"cores": 2, "clock_mhz": 25, "area": 0.0159, "dynamic_mw": 64, "static_mw": 69, "total_mw": 133},
    {"cores": 5, "clock_mhz": 10, "area": 0.0201, "dynamic_mw": 62, "static_mw": 88, "total_mw": 150},
    {"cores": 10, "clock_mhz": 5, "area": 0.0278, "dynamic_mw": 68, "static_mw": 120, "total_mw": 188},
]


@dataclass(frozen=True)
class Load:
    """What is simulated."""

    steps: int = 170  # with windows of 100: full after the first 100
    values: int = 1 << 31
    seed: int = 1


def _toggles(spec: Spec, load: Load, target: Target) -> float:
    """How many nets change per cycle, from when the windows are full. What is known is read."""
    design, step = spec.design(), spec.chain.step(True, True)

    def count() -> dict[str, Any]:
        steps = random_steps(design, load.steps, load.values, load.seed)
        first, cycles = 120 * step, (load.steps - 1) * step
        return {"toggles": activity(design, steps, first, cycles, target.family, target.limit)}

    words = [text_of(design, shell=False), target.family.synthesis, version(YOSYS), repr(load)]
    return float(known("activity", words, count)["toggles"])


def power(spec: Spec, limit: float, tell: Callable[[str], None]) -> dict[str, Any]:
    """The four chains of the paper, with our circuit."""
    given, points, target = Load(), [], Target(limit=limit)
    for cores in CORES:
        own = spec.with_cores(cores, (ROWS, ROWS))
        step = own.chain.step(True, True)
        made = built(own, target, tell, route=False)["synthesis"]
        tell(f"{cores} cores: switching activity")
        toggles = _toggles(own, given, target)
        clock = RATE * step / 1e6
        energy = toggles * ENERGY_PJ + made["registers"] * CLOCK_PJ
        dynamic = energy * clock * 1e-3  # pJ times MHz: a thousandth of a mW
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
