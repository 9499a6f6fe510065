"""Bounded proofs about small chains: for all inputs of some cycles no result is lost, and every pair is output once.

The circuit itself is checked, not its model. One r and one s of the solver's choice are marked; a checker beside the
circuit follows the windows by counting and says `bad` when

    a result finds its FIFO full,
    the marked pair comes out twice, or although it was never in the window,
    it does not come out although one of the two has left the chain and the chain is empty.

yosys unrolls circuit and checker cycle by cycle and looks for an input that makes `bad` true (`sat`, MiniSat inside).
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal

from streamjoin.algorithms.lockstep import Chain
from streamjoin.circuit.build import convert
from streamjoin.circuit.chain import Circuit
from streamjoin.circuit.core import Design, Layout
from streamjoin.circuit.tools import YOSYS, run
from streamjoin.codegen.circuit import Gates
from streamjoin.errors import CircuitError
from streamjoin.predicate import as_tree
from streamjoin.predicate.resolve import resolve

SAT = """\
read_rtlil proof.il
hierarchy -top proof -check
proc
flatten
opt -full
memory
opt -full
techmap
opt -full
sat -tempinduct-baseonly -maxsteps {cycles} -set-init-zero -prove bad 0 -timeout {limit} -show-inputs
"""


class Checker(Elaboratable):
    """A chain of tuples without columns, all of which match, and the checker beside it."""

    _MustUse__silence = True

    def __init__(self, design: Design, once: bool) -> None:
        """`once`: checks that pairs are output once, too; else only that no result is lost."""
        self.circuit, self._once = Circuit(design), once
        self.names = ("r_valid", "s_valid", "mark_r", "mark_s", "out_ready")
        self.inputs = {name: Signal(name=name) for name in self.names}
        self.bad = Signal(name="bad")

    def elaborate(self, platform: Any) -> Module:
        m, circuit, given = Module(), self.circuit, self.inputs
        m.submodules.circuit = circuit
        rows, down = circuit.design.chain.rows, circuit.design.chain
        m.d.comb += [getattr(circuit, name).eq(given[name]) for name in ("r_valid", "s_valid", "out_ready")]
        steps, marks, left, seen = [], [], [], []
        for k, name in enumerate("rs"):
            step, mark, known = Signal(name=f"step_{name}"), Signal(name=f"marked_{name}"), Signal(name=f"seen_{name}")
            age = Signal(range(rows[k] + 1), name=f"age_{name}")
            m.d.comb += [step.eq(circuit.ready & given[f"{name}_valid"]), mark.eq(given[f"mark_{name}"] & ~known)]
            m.d.comb += getattr(circuit, name).eq(Cat(1, mark))
            with m.If(step & mark):
                m.d.sync += known.eq(1)
            with m.If(step & known & (age != rows[k])):
                m.d.sync += age.eq(age + 1)
            steps.append(step)
            marks.append(mark)
            left.append(age)
            seen.append(known)
        # The pair is in the window if the earlier one has not left when the later one comes; r moves first.
        age_r = Mux(steps[0] & seen[0] & (left[0] != rows[0]), left[0] + 1, left[0])
        wanted, hits = Signal(), Signal(2)
        with m.If(steps[0] & marks[0] & seen[1] & (left[1] != rows[1])):
            m.d.sync += wanted.eq(1)
        with m.If(steps[1] & marks[1] & ((seen[0] & (age_r != rows[0])) | (steps[0] & marks[0]))):
            m.d.sync += wanted.eq(1)
        with m.If(circuit.out_valid & given["out_ready"] & (circuit.out == 3) & (hits != 2)):
            m.d.sync += hits.eq(hits + 1)
        rest = down.down + down.step(True, True) + down.found_after + 2
        quiet = Signal(range(rest + 1))
        with m.If(steps[0] | steps[1]):
            m.d.sync += quiet.eq(0)
        with m.Elif(quiet != rest):
            m.d.sync += quiet.eq(quiet + 1)
        empty = (quiet == rest) & ~Cat(*circuit.counts).any()
        gone = (left[0] == rows[0]) | (left[1] == rows[1])
        wrong = (hits == 2) | ((hits != 0) & ~wanted) | (wanted & gone & empty & (hits == 0))
        m.d.comb += self.bad.eq(circuit.lost | wrong if self._once else circuit.lost)
        return m


@dataclass(frozen=True)
class Proof:
    """A claim that was examined, and the outcome."""

    chain: Chain
    cycles: int
    holds: bool
    seconds: float
    trace: str = ""  # the input that breaks it, by cycle


def tiny(chain: Chain, crossing: bool = True) -> Design:
    """A chain of tuples that are nothing but a mark; every pair of them matches."""
    gates = Gates(resolve(as_tree("TRUE"), pa.schema([]), pa.schema([])))
    layout = Layout((), 1)
    return Design(replace(chain, stages=gates.stages), gates, layout, layout, "registers", crossing)


def prove(design: Design, cycles: int, once: bool = True, limit: float = 600.0) -> Proof:
    """Examines all inputs of some cycles. `once`: checks that pairs come out once, too; else only that none is lost."""
    checker = Checker(design, once)
    with tempfile.TemporaryDirectory(prefix="streamjoin-circuit-") as name:
        folder = Path(name)
        (folder / "proof.il").write_text(convert(checker, "proof", {**checker.inputs, "bad": checker.bad}))
        (folder / "proof.ys").write_text(SAT.format(cycles=cycles, limit=int(limit)))
        done = run(YOSYS, ["proof.ys"], folder, limit)
    if f"proved base case for {cycles} steps: SUCCESS!" in done.output:
        return Proof(design.chain, cycles, True, done.seconds)
    if "model found for base case: FAIL!" not in done.output:
        raise CircuitError(f"the solver gave up within {limit:g} s: look at fewer cycles, or give it more with --limit")
    return Proof(design.chain, cycles, False, done.seconds, _trace(done.output))


def _trace(output: str) -> str:
    """The inputs of a counterexample: one line per cycle, what is 1 in it."""
    found: dict[int, list[str]] = {}
    for cycle, name, value in re.findall(r"^\s+(\d+) \\(\w+)\s+([01])\s", output, re.M):
        found.setdefault(int(cycle), []).extend([name] * (value == "1" and name != "clk"))
    return "\n".join(f"cycle {cycle}: {', '.join(names) or '-'}" for cycle, names in sorted(found.items()))


@dataclass(frozen=True)
class Claim:
    """What is to be proved of a small chain, or a fault that must be found there."""

    name: str
    once: bool  # pairs, or only that no result is lost
    fault: bool = False
    spare: int = 0
    crossing: bool = True


CLAIMS = (
    Claim("no result is lost", once=False),
    Claim("every pair comes out once", once=True),
    Claim("fault: the margin is one entry too small", once=False, fault=True, spare=-1),
    Claim("fault: an r forgets the s that leaves its core", once=True, fault=True, crossing=False),
)
DEEPEST = 40  # cycles in which a fault must be found


def design_of(claim: Claim, cores: int, segment: int, scanners: int = 2) -> Design:
    """The chain of a claim, with FIFOs that just hold their margin.

    One scanner fills its FIFO without a pause under full load. If the FIFO had to be empty for a step, none would be
    admitted then, and a margin that is too small would not show: there it has one entry more.
    """
    chain = Chain(cores, (cores * segment, cores * segment), scanners, spare=claim.spare)
    design = tiny(chain, claim.crossing)
    return replace(design, chain=replace(design.chain, entries=design.chain.margin(0) + (scanners == 1)))


def prove_all(cores: int, segment: int, cycles: int, limit: float, scanners: int = 2) -> list[dict[str, Any]]:
    """All claims about the chain as it is, for this many cycles; and all faults, which must be found."""
    found = []
    for claim in CLAIMS:
        design = design_of(claim, cores, segment, scanners)
        proof = prove(design, DEEPEST if claim.fault else cycles, claim.once, limit)
        found.append(
            {
                "claim": claim.name,
                "fault": claim.fault,
                "holds": proof.holds,
                "cycles": proof.cycles if proof.holds else proof.trace.count("\n") + 1,
                "margin": design.chain.margin(0),
                "seconds": proof.seconds,
                "trace": proof.trace,
            }
        )
    return found
