"""The whole circuit: cores in a chain, the trees of their start and throttle signals, admission, merging network."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, ClockSignal, Elaboratable, Instance, Module, Mux, Signal

from streamjoin.algorithms.lockstep import FAN
from streamjoin.circuit.core import Core, Design
from streamjoin.circuit.merging import Merger


class Relay(Elaboratable):
    """A register on the way of a step to the cores; with tuples where all cores get them."""

    _MustUse__silence = True  # a linked circuit makes one module of many equal parts

    def __init__(self, design: Design) -> None:
        self.key, self._whole = "relay", design.chain.expedited
        self.names = ["start_r", "start_s"]
        bits = max(1, (design.chain.cores - 1).bit_length())
        widths = {"start_r": 1, "start_s": 1}
        if self._whole:
            widths |= {"in_r": design.r.width, "in_s": design.s.width, "home_r": bits, "home_s": bits}
        self.into = {name: Signal(width, name=f"{name}_in") for name, width in widths.items()}
        self.out = {name: Signal(width, name=f"{name}_out") for name, width in widths.items()}

    @property
    def ports(self) -> dict[str, Any]:
        into = {f"i_{signal.name}": signal for signal in self.into.values()}
        return into | {f"o_{signal.name}": signal for signal in self.out.values()}

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        for name, signal in self.into.items():
            m.d.sync += self.out[name].eq(signal)
        return m


class Circuit(Elaboratable):
    """The chain between two streams and the receiver of the results.

    r_valid, s_valid, r, s   the step that is offered: a tuple of r, of s, or of both, of which r is the earlier one
    ready                    it is taken in this cycle
    out_valid, out           the next result: the numbers of r and of s
    out_ready                it is taken in this cycle
    """

    _MustUse__silence = True  # a linked circuit makes one module of many equal parts

    def __init__(self, design: Design, linked: bool = False) -> None:
        """`linked`: equal parts are instances of one module, which `modules` has, so that tools see each part once."""
        self.design, self._linked = design, linked
        self.modules: dict[str, Elaboratable] = {}
        self.r_valid, self.s_valid, self.ready = Signal(), Signal(), Signal()
        self.r, self.s = Signal(design.r.width), Signal(design.s.width)
        self.out_valid, self.out_ready = Signal(), Signal()
        self.out = Signal(design.result)
        self.throttle, self.lost = Signal(), Signal()
        chain = design.chain
        lengths = zip(chain.segments(0), chain.segments(1), strict=True)
        self.cores = [Core(design, length) for length in lengths]
        self.mergers = [Merger(len(group), design.result, chain.merger) for group in chain.mergers]

    @property
    def named(self) -> dict[str, Any]:
        """The ports, by name."""
        names = ("r_valid", "s_valid", "r", "s", "out_ready", "ready", "out_valid", "out")
        return {name: getattr(self, name) for name in names}

    @property
    def inside(self) -> dict[str, Any]:
        """Further signals that can be observed in a circuit that is not linked."""
        counts = {f"count_{k}": count for k, count in enumerate(self.counts)}
        return {"throttle": self.throttle, "lost": self.lost, **counts}

    def _add(self, m: Module, name: str, part: Any) -> None:
        if not self._linked:
            m.submodules[name] = part
            return
        self.modules.setdefault(part.key, part)
        m.submodules[name] = Instance(part.key, i_clk=ClockSignal(), **part.ports)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        for k, core in enumerate(self.cores):
            self._add(m, f"core_{k}", core)
            m.d.comb += core.number.eq(k)
        launch_r, launch_s = self._admission(m)
        flags = {"start_r": launch_r, "start_s": launch_s}
        if self.design.chain.expedited:
            flags |= {"in_r": self.r, "in_s": self.s, **self._homes(m, launch_r, launch_s)}
        self._starts(m, flags)
        if not self.design.chain.expedited:
            self._entries(m, launch_r, launch_s)
        self._throttles(m)
        self._network(m)
        if not self._linked:
            m.d.comb += self.lost.eq(Cat(*(core.lost for core in self.cores)).any())
        return m

    def _admission(self, m: Module) -> tuple[Any, Any]:
        """Takes a step that is offered, if the last one is over and no core throttles."""
        chain = self.design.chain
        timer = Signal(range(chain.step(True, True)))
        launch_r, launch_s = Signal(), Signal()
        m.d.comb += [
            self.ready.eq((timer == 0) & ~self.throttle),
            launch_r.eq(self.ready & self.r_valid),
            launch_s.eq(self.ready & self.s_valid),
        ]
        both, of_r, of_s = chain.step(True, True) - 1, chain.step(True, False) - 1, chain.step(False, True) - 1
        with m.If(launch_r | launch_s):
            m.d.sync += timer.eq(Mux(self.r_valid & self.s_valid, both, Mux(self.r_valid, of_r, of_s)))
        with m.Elif(timer != 0):
            m.d.sync += timer.eq(timer - 1)
        return launch_r, launch_s

    def _homes(self, m: Module, launch_r: Any, launch_s: Any) -> dict[str, Any]:
        """Where tuples are stored: round robin; when the window is full, each replaces the oldest."""
        found, n = {}, self.design.chain.cores
        for side, launch, rows in (
            ("r", launch_r, self.design.chain.rows[0]),
            ("s", launch_s, self.design.chain.rows[1]),
        ):
            home, turn = Signal(range(max(2, n)), name=f"home_{side}"), Signal(range(max(2, rows)), name=f"turn_{side}")
            with m.If(launch):
                m.d.sync += [turn.eq(turn + 1), home.eq(Mux(home == n - 1, 0, home + 1))]
                with m.If(turn == rows - 1):
                    m.d.sync += [turn.eq(0), home.eq(0)]
            found[f"home_{side}"] = home
        return found

    def _starts(self, m: Module, flags: dict[str, Any]) -> None:
        """A tree of registers to all cores. The last register is the core's own."""
        chain, row = self.design.chain, [flags]
        for level in range(1, chain.down):
            count = -(-chain.cores // FAN ** (chain.down - level))
            relays = [Relay(self.design) for _ in range(count)]
            for k, relay in enumerate(relays):
                self._add(m, f"relay_{level}_{k}", relay)
                m.d.comb += [signal.eq(row[k // FAN if level > 1 else 0][name]) for name, signal in relay.into.items()]
            row = [relay.out for relay in relays]
        for k, core in enumerate(self.cores):
            source = row[k // FAN] if chain.down > 1 else row[0]
            m.d.comb += [getattr(core, name).eq(signal) for name, signal in source.items()]

    def _entries(self, m: Module, launch_r: Any, launch_s: Any) -> None:
        """The tuples that enter reach the ends of the chain with the start signal, and stay there until the next."""
        cores, down = self.cores, self.design.chain.down
        for side, word, launch in (("r", self.r, launch_r), ("s", self.s, launch_s)):
            flag: Any = launch
            for level in range(down):
                kept = Signal.like(word, name=f"entry_{side}_{level}", reset_less=True)
                passed = Signal(name=f"entering_{side}_{level}")
                m.d.sync += passed.eq(flag)
                with m.If(flag):
                    m.d.sync += kept.eq(word)
                word, flag = kept, passed
            ends = [*(core.out_r for core in cores), word] if side == "r" else [*(core.out_s for core in cores), word]
            for k, core in enumerate(cores):
                if side == "r":
                    m.d.comb += core.in_r.eq(ends[k - 1])  # core 0 has none to its left: the last one, the entry
                else:
                    m.d.comb += core.in_s.eq(ends[k + 1])

    def _throttles(self, m: Module) -> None:
        """A tree of registers from all cores."""
        row: list[Any] = [core.throttle for core in self.cores]
        for level in range(self.design.chain.up):
            gathered = []
            for k in range(0, len(row), FAN):
                node = Signal(name=f"throttle_{level}_{k}")
                m.d.sync += node.eq(Cat(*row[k : k + FAN]).any())
                gathered.append(node)
            row = gathered
        m.d.comb += self.throttle.eq(row[0])

    def _network(self, m: Module) -> None:
        chain = self.design.chain
        fifos = [(core.valids[k], core.outs[k], core.pops[k]) for core in self.cores for k in range(chain.scanners)]
        fifos += [(merger.valid, merger.out, merger.pop) for merger in self.mergers]
        for number, (merger, group) in enumerate(zip(self.mergers, chain.mergers, strict=True)):
            self._add(m, f"merger_{number}", merger)
            for k, source in enumerate(group):
                valid, out, pop = fifos[source]
                m.d.comb += [merger.valids[k].eq(valid), merger.intos[k].eq(out), pop.eq(merger.pops[k])]
        valid, out, pop = fifos[-1] if self.mergers else fifos[0]
        m.d.comb += [self.out_valid.eq(valid), self.out.eq(out), pop.eq(self.out_ready)]

    @property
    def counts(self) -> list[Any]:
        """How full the FIFOs are, as the model numbers them; not of a linked circuit."""
        return [fifo.count for core in self.cores for fifo in core.fifos] + [merger.count for merger in self.mergers]
