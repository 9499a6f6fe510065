"""Result FIFOs, and the mergers between them and the output. Whether a FIFO accepts depends on its registers alone."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Array, Elaboratable, Module, Mux, Signal
from amaranth.lib.memory import Memory

SHALLOW = 2  # entries of a FIFO that is made of registers


class Fifo(Elaboratable):
    """First in, first out. What is pushed can be popped from the next cycle on; a push into a full one is lost."""

    _MustUse__silence = True  # a linked circuit makes one module of many equal parts

    def __init__(self, width: int, depth: int) -> None:
        self.width, self.depth = width, depth
        self.push, self.pop = Signal(), Signal()
        self.valid, self.room = Signal(), Signal(init=1)  # registers: is there an entry, is there room for one
        self.into, self.out = Signal(width), Signal(width)
        self.count = Signal(range(depth + 1))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        enters, leaves = Signal(), Signal()
        m.d.comb += [leaves.eq(self.pop & self.valid), enters.eq(self.push & self.room)]
        # Push and pop are known late in a cycle: everything else is computed for both cases before.
        with m.If(enters & ~leaves):
            m.d.sync += [self.count.eq(self.count + 1), self.valid.eq(1), self.room.eq(self.count != self.depth - 1)]
        with m.Elif(leaves & ~enters):
            m.d.sync += [self.count.eq(self.count - 1), self.valid.eq(self.count != 1), self.room.eq(1)]
        if self.depth == SHALLOW:
            self._registers(m, enters, leaves)
        else:
            self._memory(m, enters, leaves)
        return m

    def _registers(self, m: Module, enters: Any, leaves: Any) -> None:
        """Both entries take what comes, in turns: what is known late in a cycle decides on no data."""
        entries = [Signal(self.width, reset_less=True, name=f"entry_{k}") for k in (0, 1)]
        head, tail = Signal(), Signal()
        m.d.sync += [head.eq(head ^ leaves), tail.eq(tail ^ enters)]
        for k, entry in enumerate(entries):
            with m.If(self.room & (tail == k)):  # free: what is written without a push is never read
                m.d.sync += entry.eq(self.into)
        m.d.comb += self.out.eq(Mux(head, entries[1], entries[0]))

    def _memory(self, m: Module, enters: Any, leaves: Any) -> None:
        m.submodules.entries = entries = Memory(shape=self.width, depth=self.depth, init=[])
        write, read = entries.write_port(), entries.read_port(domain="comb")
        head, tail = Signal(range(self.depth)), Signal(range(self.depth))
        m.d.comb += [write.addr.eq(tail), write.data.eq(self.into), write.en.eq(enters)]
        m.d.comb += [read.addr.eq(head), self.out.eq(read.data)]
        m.d.sync += [tail.eq(following(tail, self.depth, enters)), head.eq(following(head, self.depth, leaves))]


class Merger(Elaboratable):
    """Takes a result per cycle from one of its inputs, round robin, into a FIFO of its own."""

    _MustUse__silence = True  # a linked circuit makes one module of many equal parts

    def __init__(self, inputs: int, width: int, depth: int) -> None:
        self.key = f"merger_{inputs}_{width}_{depth}"
        self.valids = [Signal(name=f"valid_{k}") for k in range(inputs)]
        self.intos = [Signal(width, name=f"into_{k}") for k in range(inputs)]
        self.pops = [Signal(name=f"pop_{k}") for k in range(inputs)]
        self.fifo = Fifo(width, depth)
        self.valid, self.pop, self.out = Signal(), Signal(), Signal(width)
        self.count = self.fifo.count

    @property
    def ports(self) -> dict[str, Any]:
        """By name: those that are driven from outside, as "i_", and the others, as "o_"."""
        found: dict[str, Any] = {"i_pop": self.pop, "o_valid": self.valid, "o_out": self.out}
        for k, (valid, into, pop) in enumerate(zip(self.valids, self.intos, self.pops, strict=True)):
            found |= {f"i_valid_{k}": valid, f"i_into_{k}": into, f"o_pop_{k}": pop}
        return found

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.fifo = fifo = self.fifo
        n = len(self.valids)
        token = Signal(range(n))
        m.d.comb += [self.valid.eq(fifo.valid), self.out.eq(fifo.out), fifo.pop.eq(self.pop)]
        chosen = Signal(range(n))
        late, early = Signal(n), Signal(n)  # who has something, from the token on, and before it
        for k, valid in enumerate(self.valids):
            m.d.comb += [late[k].eq(valid & (token <= k)), early[k].eq(valid)]
        for group in (early, late):  # the last assignment counts
            for k in reversed(range(n)):
                with m.If(group[k]):
                    m.d.comb += chosen.eq(k)
        with m.If(fifo.room & early.any()):
            m.d.comb += fifo.push.eq(1)
            m.d.sync += token.eq(Mux(chosen == n - 1, 0, chosen + 1))
        m.d.comb += fifo.into.eq(Array(self.intos)[chosen])
        m.d.comb += [pop.eq(fifo.push & (chosen == k)) for k, pop in enumerate(self.pops)]
        return m


def following(pointer: Any, length: int, moves: Any = 1) -> Any:
    """The next place of a ring, if it moves."""
    if length == 1:
        return pointer
    if length & (length - 1) == 0:
        return (pointer + moves)[: len(pointer)]
    return Mux(moves, Mux(pointer == length - 1, 0, pointer + 1), pointer)
