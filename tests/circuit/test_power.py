"""Where the energy per toggle comes from: a measured chip's multiplier, synthesised and counted as our circuits are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Elaboratable, Module, Signal

from profiles import soak_only
from streamjoin.circuit import power, tools
from streamjoin.circuit.build import CIRCUIT, convert
from streamjoin.circuit.chips import ICE40
from streamjoin.circuit.native import ACTIVITY, GATES, make_program
from streamjoin.circuit.simulate import random_steps
from streamjoin.circuit.spec import Spec

PERIOD = 256  # cycles after which both counters begin anew
MAIN = f"""\
#include "circuit.cc"
#include <cstdio>
#include <vector>
int main() {{
  cxxrtl_design::p_{CIRCUIT} top;
@BEGIN@
  for (int64_t cycle = 0; cycle <= {4 * PERIOD}; cycle++) {{
    top.p_clk.set<bool>(false);
    top.step();
@EACH@
    top.p_clk.set<bool>(true);
    top.step();
  }}
@END@
}}
"""


class Multiplier(Elaboratable):  # type: ignore[misc]  # which has no types
    """The measured design: every cycle one counter goes on by 3, another by 5, and their product is formed."""

    def __init__(self) -> None:
        self.out = Signal(16, name="out")

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        a, b = Signal(8), Signal(8)
        m.d.sync += [a.eq(a + 3), b.eq(b + 5)]
        m.d.comb += self.out.eq(a * b)
        return m


@soak_only
@pytest.mark.skipif(tools.compiler() is None, reason="no C++ compiler")
def test_the_measured_multiplier_has_the_toggles_that_its_energy_is_divided_by(tmp_path: Path) -> None:
    part, driver = Multiplier(), MAIN
    for name, text in {**ACTIVITY, "FROM": "0"}.items():
        driver = driver.replace(f"@{name}@", text)
    script = GATES.format(top=CIRCUIT, command=ICE40.synthesis, models=ICE40.models)
    make_program(convert(part, CIRCUIT, {"out": part.out}), script, driver, tmp_path, 300, quick=False)
    told = re.search(r"(\d+) nets, (\d+) toggles", tools.limited(["./circuit"], tmp_path, 60, "it").output)
    assert told is not None
    assert int(told[2]) / (4 * PERIOD) == pytest.approx(power.MULTIPLIER_TOGGLES, rel=0.02)


@soak_only
@pytest.mark.skipif(tools.compiler() is None, reason="no C++ compiler")
def test_a_chain_that_waits_changes_less_than_one_that_works() -> None:
    from streamjoin.circuit.chips import ECP5
    from streamjoin.circuit.native import activity

    design = Spec("r.x = s.x", cores=1, segment=3, r="x:int8", s="x:int8", payload=4).design()
    steps = random_steps(design, 60, 200, 1)
    busy = activity(design, steps, 30, 170, ECP5)
    idle = activity(design, steps, 250, 350, ECP5)
    assert idle < 1 < 20 < busy


def test_power_is_of_the_order_that_was_published_for_another_chip() -> None:
    """5.9 pJ per CLB of eight LUTs and cycle in typical designs (Virtex-II, 150 nm, 1.5 V) are 0.11 pJ per LUT here."""
    typical = 5.9 / 8 * (40 / 150) * (1.1 / 1.5) ** 2
    assert 0.1 < typical / power.ENERGY_PJ < 0.5, "so that one net in four would change per cycle"
    assert power.CLOCK_PJ < power.ENERGY_PJ / 10
