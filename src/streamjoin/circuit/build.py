"""From a design to a chip: RTLIL and Verilog, synthesis, place and route; measured, and cached by content."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import Cat, ClockDomain, Elaboratable, Module, Signal

from streamjoin.circuit.chain import Circuit
from streamjoin.circuit.chips import Target
from streamjoin.circuit.core import Design
from streamjoin.circuit.spec import Spec
from streamjoin.circuit.tools import YOSYS, Run, run, version
from streamjoin.errors import CircuitError
from streamjoin.folders import kept

FORMAT = 2  # of what is kept: of older ones nothing is read
CIRCUIT, SHELL = "chain", "shell"
SYNTHESIS = """\
read_rtlil circuit.il
hierarchy -top {top} -check
{command} -top {top} -noflatten
tee -q -o parts.json stat -json
flatten
opt_clean -purge
tee -q -o cells.json stat -json
write_json netlist.json
"""
VERILOG = """\
read_rtlil circuit.il
hierarchy -top chain -check
proc
memory_collect
write_verilog -noattr circuit.v
"""

Tell = Callable[[str], None]


class Shell(Elaboratable):
    """Registers around a circuit, so that three pins are enough and every path begins and ends at a register."""

    _MustUse__silence = True

    def __init__(self, circuit: Circuit) -> None:
        self.circuit = circuit
        self.into, self.out = Signal(name="into"), Signal(name="out")

    def elaborate(self, platform: Any) -> Module:
        m, inner = Module(), self.circuit
        m.submodules.circuit = inner
        inputs = Cat(inner.r_valid, inner.s_valid, inner.r, inner.s, inner.out_ready)
        shifted = Signal(len(inputs))
        m.d.sync += shifted.eq(Cat(self.into, shifted[:-1]))
        m.d.comb += inputs.eq(shifted)
        row = Signal(len(inner.out) + 2)
        m.d.sync += row.eq(Cat(inner.out, inner.out_valid, inner.ready))
        while len(row) > 1:
            folded = Signal(-(-len(row) // 4))
            m.d.sync += folded.eq(Cat(*(row[k : k + 4].xor() for k in range(0, len(row), 4))))
            row = folded
        m.d.comb += self.out.eq(row)
        return m


def text_of(design: Design, shell: bool) -> str:
    """The circuit as RTLIL, every kind of part once; inside its shell or not."""
    circuit = Circuit(design, linked=True)
    if shell:
        outer = Shell(circuit)
        top = convert(outer, SHELL, {"into": outer.into, "out": outer.out})
    else:
        top = convert(circuit, CIRCUIT, circuit.named)
    parts = [convert(part, key, _bare(part)) for key, part in circuit.modules.items()]
    return "\n".join([*parts, top])


def flat_text(design: Design) -> str:
    """The circuit as RTLIL of separate parts, with the counts of its FIFOs as outputs: for simulation and proofs."""
    circuit = Circuit(design)
    return convert(circuit, CIRCUIT, {**circuit.named, **circuit.inside})


def _bare(part: Any) -> dict[str, Any]:
    return {name[2:]: signal for name, signal in part.ports.items()}


def convert(part: Any, name: str, ports: dict[str, Any]) -> str:
    """A part as RTLIL, in a module of this name with these ports."""

    def without_reset(domain: str) -> ClockDomain:
        """Registers have initial values in the chip's configuration and need no reset."""
        return ClockDomain(domain, reset_less=True)

    named = {port: (signal, None) for port, signal in ports.items()}
    return str(rtlil.convert(part, name=name, ports=named, missing_domain=without_reset, emit_src=False))


def sources(spec: Spec, folder: Path, limit: float) -> list[Path]:
    """Writes the circuit as RTLIL and as Verilog."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "circuit.il").write_text(text_of(spec.design(), shell=False))
    (folder / "verilog.ys").write_text(VERILOG)
    run(YOSYS, ["-q", "verilog.ys"], folder, limit)
    return [folder / "circuit.il", folder / "circuit.v"]


def built(spec: Spec, target: Target, tell: Tell = lambda text: None, route: bool = True) -> dict[str, Any]:
    """The results of synthesis and, by default, of place and route. Cached results are read."""
    target.family.check(spec.memory)
    text = text_of(spec.design(), shell=True)
    tools = {name: version(name) for name in (YOSYS, target.family.nextpnr)}
    made = [text, target.family.synthesis, tools[YOSYS]]
    tell(f"{spec.cores} cores: synthesis")
    synthesis = known("synthesis", made, lambda: _synthesised(text, target))
    found: dict[str, Any] = {"spec": spec.to_dict(), **figures(spec), "tools": tools}
    found["synthesis"] = {name: value for name, value in synthesis.items() if name != "netlist"}
    if route:
        tell(f"{spec.cores} cores: place and route on {target.part}, {synthesis['luts']:,} LUTs")
        words = [*made, *target.words(), tools[target.family.nextpnr]]
        routed = known("route", words, lambda: _routed(synthesis["netlist"], target))
        found["route"] = routed
        found["clock_mhz"] = routed["clock_mhz"]
        found["tuples_per_s"] = routed["clock_mhz"] * 1e6 / spec.chain.step(True, True)
    return found


def figures(spec: Spec) -> dict[str, Any]:
    """The figures that follow from the shape alone."""
    chain = spec.chain
    return {
        "cores": chain.cores,
        "rows": list(chain.rows),
        "cycles_per_step": chain.step(True, True),
        "stages": chain.stages,
        "fifo_entries": chain.depth,
        "fifo_margin": max(chain.margin(0), chain.margin(chain.leaves - 1)),
        "selectivity_limit": chain.bottleneck,
    }


def known(kind: str, parts: list[str], make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A result, cached by its content: read if it exists, otherwise made and kept."""
    content = hashlib.sha256("\0".join([str(FORMAT), kind, *parts]).encode()).hexdigest()
    folder, name = kept("circuits"), f"{kind}-{content[:32]}.json"
    if (data := folder.read(name)) is not None:
        try:
            return {**json.loads(data), "cached": True}
        except ValueError:
            pass  # it is made anew
    found = make()
    folder.keep(name, json.dumps(found).encode())
    return {**found, "cached": False}


def _synthesised(text: str, target: Target) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="streamjoin-circuit-") as name:
        folder = Path(name)
        (folder / "circuit.il").write_text(text)
        (folder / "synthesis.ys").write_text(SYNTHESIS.format(command=target.family.synthesis, top=SHELL))
        done = run(YOSYS, ["-q", "synthesis.ys"], folder, target.limit)
        whole = _cells(folder / "cells.json", target)
        shell = _cells(folder / "parts.json", target)
        netlist = (folder / "netlist.json").read_text()
    own = {figure: count - shell[figure] for figure, count in whole.items()}
    return {**own, "shell_registers": shell["registers"], **_cost(done), "netlist": netlist}


def _cells(file: Path, target: Target) -> dict[str, int]:
    """The cells of the shell's module, alone or with everything that was flattened into it."""
    modules = json.loads(file.read_text())["modules"]
    cells: dict[str, int] = modules.get(SHELL, modules.get(f"\\{SHELL}"))["num_cells_by_type"]
    return {
        figure: sum(
            count * each for kind, count in cells.items() for start, each in starts.items() if kind.startswith(start)
        )
        for figure, starts in target.family.cells.items()
    }


def _routed(netlist: str, target: Target) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="streamjoin-circuit-") as name:
        folder = Path(name)
        (folder / "netlist.json").write_text(netlist)
        words = ["--json", "netlist.json", "--report", "report.json", "--timing-allow-fail", "-q"]
        done = run(target.family.nextpnr, [*target.words(), *words], folder, target.limit)
        report = json.loads((folder / "report.json").read_text())
    clocks = [clock["achieved"] for clock in report["fmax"].values()]
    if not clocks:
        raise CircuitError("nextpnr reports no clock")
    used = {kind: part for kind, part in report["utilization"].items() if part["used"]}
    return {
        "device": target.part,
        "grade": target.speed,
        "clock_mhz": min(clocks),
        "longest_path": _longest(report["critical_paths"]),
        "used": used,
        **_cost(done),
    }


def _longest(paths: list[dict[str, Any]]) -> dict[str, Any]:
    """The path that limits the clock: where it begins and ends, and what takes how many nanoseconds."""
    between = [path["path"] for path in paths if "<async>" not in (path["from"], path["to"])]
    if not between:
        return {}
    longest = max(between, key=lambda path: sum(part["delay"] for part in path))
    wires = sum(part["delay"] for part in longest if part["type"] == "routing")
    return {
        "from": longest[0]["from"]["cell"],
        "to": longest[-1]["to"]["cell"],
        "levels": sum(part["type"] == "logic" for part in longest),
        "wires_ns": wires,
        "cells_ns": sum(part["delay"] for part in longest) - wires,
    }


def _cost(done: Run) -> dict[str, float]:
    return {"seconds": done.seconds, "cpu_seconds": done.cpu_seconds, "peak_mb": done.peak_mb}
