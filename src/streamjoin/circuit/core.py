"""A join core: a segment of each window, one scanner or two, and their result FIFOs.

Cycle 0 is the one in which the start has come to the core; docs/algorithms/lockstep.md tells what happens then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal
from amaranth.lib.memory import Memory

from streamjoin.algorithms.lockstep import Chain
from streamjoin.circuit.chips import BLOCK_RAM, LUT_RAM
from streamjoin.circuit.merging import Fifo, following
from streamjoin.codegen.circuit import Gates
from streamjoin.errors import OptionError

MEMORIES = {LUT_RAM: "distributed", "registers": "registers", BLOCK_RAM: "block"}  # what yosys calls them


@dataclass(frozen=True)
class Column:
    """A column of a tuple: an integer of a number of bits."""

    name: str
    bits: int
    signed: bool = True


@dataclass(frozen=True)
class Layout:
    """The bits of a tuple: is there one, its number, its columns."""

    columns: tuple[Column, ...]
    payload: int  # bits of its number, by which the driver finds the row

    @property
    def width(self) -> int:
        return 1 + self.payload + sum(column.bits for column in self.columns)

    def number(self, word: Any) -> Any:
        return word[1 : 1 + self.payload]

    def slots(self, side: str, word: Any) -> dict[tuple[str, str], Any]:
        """The columns, as a predicate asks for them."""
        found, at = {}, 1 + self.payload
        for column in self.columns:
            bits = word[at : at + column.bits]
            found[side, column.name] = bits.as_signed() if column.signed else bits
            at += column.bits
        return found

    def pack(self, number: int, values: dict[str, int]) -> int:
        """A tuple as a word."""
        word, at = 1 | number << 1, 1 + self.payload
        for column in self.columns:
            word |= (values[column.name] & (1 << column.bits) - 1) << at
            at += column.bits
        return word


@dataclass(frozen=True)
class Design:
    """All that makes up a circuit."""

    chain: Chain
    gates: Gates
    r: Layout
    s: Layout
    memory: str = "lutram"
    crossing: bool = True  # False: an s is written a cycle early, over the one that leaves; for proofs

    def __post_init__(self) -> None:
        if self.memory not in MEMORIES:
            raise OptionError(f'memory "{self.memory}" is not one of {", ".join(MEMORIES)}')
        assert self.chain.stages == self.gates.stages

    @property
    def result(self) -> int:
        """Bits of a result."""
        return self.r.payload + self.s.payload


class Core(Elaboratable):
    """One join core. Cores with segments of the same length are the same circuit."""

    _MustUse__silence = True  # a linked circuit makes one module of many equal parts

    def __init__(self, design: Design, lengths: tuple[int, int]) -> None:
        self.design, self.lengths = design, lengths
        self.key = f"core_{lengths[0]}_{lengths[1]}"
        chain, bits = design.chain, max(1, (design.chain.cores - 1).bit_length())
        self.start_r, self.start_s = Signal(), Signal()  # one cycle ahead
        self.in_r, self.in_s = Signal(design.r.width), Signal(design.s.width)
        self.out_r, self.out_s = Signal(design.r.width), Signal(design.s.width)
        self.home_r, self.home_s, self.number = Signal(bits), Signal(bits), Signal(bits)
        self.throttle = Signal()
        self.fifos = [Fifo(design.result, chain.depth) for _ in range(chain.scanners)]
        self.valids = [Signal(name=f"valid_{k}") for k in range(chain.scanners)]
        self.pops = [Signal(name=f"pop_{k}") for k in range(chain.scanners)]
        self.outs = [Signal(design.result, name=f"result_{k}") for k in range(chain.scanners)]
        self.lost = Signal()  # a result found its FIFO full: never

    @property
    def ports(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in ("start_r", "start_s", "in_r", "in_s"):
            found[f"i_{name}"] = getattr(self, name)
        if self.design.chain.expedited:
            found |= {"i_home_r": self.home_r, "i_home_s": self.home_s, "i_number": self.number}
        else:
            found |= {"o_out_r": self.out_r, "o_out_s": self.out_s}
        found["o_throttle"] = self.throttle
        for k, (valid, pop, out) in enumerate(zip(self.valids, self.pops, self.outs, strict=True)):
            found |= {f"o_valid_{k}": valid, f"i_pop_{k}": pop, f"o_result_{k}": out}
        return found

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        chain, (length_r, length_s) = self.design.chain, self.lengths
        go_r, go_s, went = Signal(), Signal(), Signal()
        m.d.sync += [go_r.eq(self.start_r), go_s.eq(self.start_s), went.eq(go_r | go_s)]
        enter_r, enter_s, store_r, store_s = self._entering(m, go_r, go_s)
        go = go_r | go_s
        # The step under way: address cycles so far, which streams move in it.
        longest_r, longest_s = chain.longest
        busy, moves_r, moves_s = Signal(), Signal(), Signal()
        c = Signal(range(longest_r + longest_s + 1))
        last = Signal.like(c)
        if chain.scanners == 1:
            m.d.comb += last.eq(Mux(moves_r, longest_s, 0) + Mux(moves_s, longest_r, 0) - 1)
        else:
            m.d.comb += last.eq(max(longest_r, longest_s) - 1)
        with m.If(go):
            m.d.sync += [busy.eq(1), c.eq(0), moves_r.eq(go_r), moves_s.eq(go_s)]
        with m.Elif(busy):
            m.d.sync += [c.eq(c + 1), busy.eq(c != last)]
        second = Signal()  # with one scanner: now the s that entered is compared
        turn = c
        if chain.scanners == 1:
            m.d.comb += second.eq(moves_s & (~moves_r | (c >= longest_s)))
            turn = Mux(moves_r & second, c - longest_s, c)
        # Segments. An s is written when the one whose place it takes is read: the r that enters meets that one.
        later = Signal()
        m.d.sync += later.eq(store_s)
        read_r, _, next_r = self._segment(m, "r", self.design.r.width, length_r, store_r, enter_r)
        write_s = later if self.design.crossing else store_s
        read_s, at_s, _ = self._segment(m, "s", self.design.s.width, length_s, write_s, enter_s)
        address_r, address_s = Signal.like(next_r), Signal.like(at_s)
        m.d.comb += [read_r.addr.eq(address_r), read_s.addr.eq(address_s)]
        with m.If(go):
            m.d.sync += [address_r.eq(next_r), address_s.eq(at_s)]
        with m.Elif(busy):
            moving = second if chain.scanners == 1 else Const(1)
            m.d.sync += address_r.eq(following(address_r, length_r, moving))
            m.d.sync += address_s.eq(following(address_s, length_s))
        # A cycle later: tuples. What leaves next is the oldest: of r read first; of s second, if one came in.
        first, then, of_r, of_s = Signal(), Signal(), Signal(), Signal()
        m.d.sync += [
            first.eq(busy & (c == 0)),
            then.eq(first & moves_s),
            of_r.eq(busy & moves_r & ~second & (turn < length_s)),
            of_s.eq(busy & moves_s & (second if chain.scanners == 1 else 1) & (turn < length_r)),
        ]
        probe_r, probe_s = Signal(self.design.r.width), Signal(self.design.s.width)
        oldest_r, oldest_s = Signal(self.design.r.width), Signal(self.design.s.width)
        with m.If(went):
            m.d.sync += [probe_r.eq(enter_r), probe_s.eq(enter_s)]
        with m.If(first):
            m.d.sync += oldest_r.eq(read_r.data)
        with m.If(then):
            m.d.sync += oldest_s.eq(read_s.data)
        m.d.comb += [self.out_r.eq(oldest_r), self.out_s.eq(oldest_s)]
        if chain.scanners == 1:
            turned = Signal()
            m.d.sync += turned.eq(second)
            pair = Mux(turned, read_r.data, probe_r), Mux(turned, probe_s, read_s.data)
            self._scanner(m, 0, *pair, of_r | of_s)
        else:
            self._scanner(m, 0, probe_r, read_s.data, of_r)
            self._scanner(m, 1, read_r.data, probe_s, of_s)
        margins = [chain.margin(k) for k in range(chain.scanners)]
        full = [fifo.count > chain.depth - margin for fifo, margin in zip(self.fifos, margins, strict=True)]
        m.d.sync += self.throttle.eq(Cat(*full).any())
        return m

    def _entering(self, m: Module, go_r: Any, go_s: Any) -> tuple[Any, Any, Any, Any]:
        """The tuple that enters, and whether it stays: a neighbour's oldest or, with expedition, that of all cores."""
        if not self.design.chain.expedited:
            return self.in_r, self.in_s, go_r, go_s
        enter_r, enter_s = Signal.like(self.in_r), Signal.like(self.in_s)
        store_r, store_s = Signal(), Signal()
        with m.If(self.start_r):
            m.d.sync += enter_r.eq(self.in_r)
        with m.If(self.start_s):
            m.d.sync += enter_s.eq(self.in_s)
        m.d.sync += store_r.eq(self.start_r & (self.home_r == self.number))
        m.d.sync += store_s.eq(self.start_s & (self.home_s == self.number))
        return enter_r, enter_s, store_r, store_s

    def _segment(self, m: Module, side: str, width: int, length: int, store: Any, enter: Any) -> tuple[Any, Any, Any]:
        """A ring of tuples: its read port, the place of its oldest, and that place after this cycle."""
        style = MEMORIES[self.design.memory]
        ring = Memory(shape=width, depth=length, init=[], attrs={"ram_style": style})
        m.submodules[f"segment_{side}"] = ring
        write, read = ring.write_port(), ring.read_port()
        at = Signal(range(max(length, 2)), name=f"at_{side}")
        after = Signal.like(at, name=f"after_{side}")
        m.d.comb += [
            write.addr.eq(at),
            write.data.eq(enter),
            write.en.eq(store),
            after.eq(following(at, length, store)),
        ]
        m.d.sync += at.eq(after)
        return read, at, after

    def _scanner(self, m: Module, k: int, r: Any, s: Any, valid: Any) -> None:
        """Compares a pair per cycle; what matches goes into the FIFO."""
        design, fifo = self.design, self.fifos[k]
        m.submodules[f"fifo_{k}"] = fifo
        answer = design.gates.emit(m, {**design.r.slots("r", r), **design.s.slots("s", s)})
        there: Any = valid & r[0] & s[0]
        numbers: Any = Cat(design.r.number(r), design.s.number(s))
        for stage in range(design.gates.stages):
            later = Signal(name=f"there_{k}_{stage}")
            carried = Signal(design.result, reset_less=True, name=f"numbers_{k}_{stage}")
            m.d.sync += [later.eq(there), carried.eq(numbers)]
            there, numbers = later, carried
        m.d.sync += [fifo.push.eq(there & answer), fifo.into.eq(numbers)]
        m.d.comb += [self.valids[k].eq(fifo.valid), self.outs[k].eq(fifo.out), fifo.pop.eq(self.pops[k])]
        with m.If(fifo.push & (fifo.count == fifo.depth)):
            m.d.comb += self.lost.eq(1)
