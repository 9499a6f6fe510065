"""Simulates the circuit beside its model: the same steps through both, every cycle compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamjoin.access.records import FAULT_WORDS
from streamjoin.circuit.cycles import COUNTS, NOTHING, OUT_R, OUT_S, OUT_VALID, READY, STILL, THROTTLE
from streamjoin.circuit.model import Model
from streamjoin.codegen.cache import load_module
from streamjoin.codegen.program import Program, head
from streamjoin.codegen.records import Array
from streamjoin.predicate.analysis import analyse, conjuncts
from streamjoin.predicate.tree import Node

Rows = Mapping[str, Sequence[int]]  # by column: values of whole numbers


@dataclass(frozen=True)
class Steps:
    """The input of a chain: tuples in steps, the pauses before them, and the cycles in which results are taken."""

    rows_r: Rows
    rows_s: Rows
    r: Array  # int64: row of r that enters, NOTHING or STILL
    s: Array
    pause: Array
    ready: Array  # bool, by cycle, again from the beginning

    def words(self, side: int, layout: Any) -> list[int]:
        """The tuples that enter, as the circuit reads them."""
        rows, places = (self.rows_r, self.r) if side == 0 else (self.rows_s, self.s)
        return [
            layout.pack(k, {name: int(values[k]) for name, values in rows.items()}) if k >= 0 else 0
            for k in places.tolist()
        ]


def circuit_trace(design: Any, steps: Steps, cycles: int) -> Array:
    """What the circuit shows in each cycle, in Amaranth's simulator."""
    from amaranth.sim import Simulator

    from streamjoin.circuit.chain import Circuit

    circuit = Circuit(design)
    simulator = Simulator(circuit)
    simulator.add_clock(1e-6)
    trace = np.zeros((cycles, COUNTS + len(circuit.counts)), np.int64)
    words = steps.words(0, design.r), steps.words(1, design.s)
    moves = [(r != STILL, s != STILL) for r, s in zip(steps.r.tolist(), steps.s.tolist(), strict=True)]

    async def bench(ctx: Any) -> None:
        taken, pause = 0, None
        for cycle in range(cycles):
            offered = False
            if taken < len(moves):
                pause = int(steps.pause[taken]) if pause is None else pause
                offered, pause = pause == 0, max(pause - 1, 0)
            ctx.set(circuit.r_valid, offered and moves[taken][0])
            ctx.set(circuit.s_valid, offered and moves[taken][1])
            if offered:
                ctx.set(circuit.r, words[0][taken])
                ctx.set(circuit.s, words[1][taken])
            ctx.set(circuit.out_ready, bool(steps.ready[cycle % len(steps.ready)]))
            row = trace[cycle]
            row[READY], row[THROTTLE] = ctx.get(circuit.ready), ctx.get(circuit.throttle)
            row[OUT_VALID], row[OUT_R], row[OUT_S] = ctx.get(circuit.out_valid), NOTHING, NOTHING
            if row[OUT_VALID]:
                out = ctx.get(circuit.out)
                row[OUT_R], row[OUT_S] = out & (1 << design.r.payload) - 1, out >> design.r.payload
            row[COUNTS:] = [ctx.get(count) for count in circuit.counts]
            if offered and row[READY]:
                taken, pause = taken + 1, None
            await ctx.tick()

    simulator.add_testbench(bench)
    simulator.run()
    return trace


def difference(model: Array, circuit: Array) -> str:
    """Where two traces differ first, in words; nothing if they do not."""
    wrong = np.argwhere(model != circuit)
    if not len(wrong):
        return ""
    cycle, column = (int(k) for k in wrong[0])
    names = {READY: "ready", THROTTLE: "throttle", OUT_VALID: "out_valid", OUT_R: "r of out", OUT_S: "s of out"}
    name = names.get(column, f"entries of FIFO {column - COUNTS}")
    return f"cycle {cycle}: {name} is {circuit[cycle, column]} in the circuit, {model[cycle, column]} in the model"


def model_trace(design: Any, steps: Steps, matches: Array, cycles: int) -> Array:
    """What the circuit must show in each cycle."""
    return Model(design.chain).trace(steps.r, steps.s, matches, steps.pause, steps.ready, cycles)


_TRUTH = """
@njit(nogil=True, error_model="numpy")
def truth(p, w, found, fault):
    for i in range(found.shape[0]):
        for j in range(found.shape[1]):
            found[i, j] = matches(p, i, w, j, fault)
"""


def matches_of(tree: Node, rows_r: Rows, rows_s: Rows) -> Array:
    """Which rows match, by the Numba code of the same tree; places beyond the rows match nothing."""
    whole: dict[str, Any] = {"filters": {"r": (), "s": ()}, "exact": tuple(conjuncts(tree))}
    program = Program(replace(analyse(tree), **whole, equalities=(), dimensions=(), strict=frozenset()))
    sides = []
    for side, rows in (("r", rows_r), ("s", rows_s)):
        count = len(next(iter(rows.values()), ()))
        sides.append(
            tuple(
                np.array(rows[part.column], part.dtype) if part.role == "value" else np.ones(count, np.bool_)
                for part in program.stored[side]
            )
            or (np.zeros(count, np.bool_),)
        )
    counts = [len(columns[0]) for columns in sides]
    found = np.zeros(counts, np.bool_)
    load_module(head() + program.match_text("r") + _TRUTH).truth(*sides, found, np.zeros(FAULT_WORDS, np.int64))
    rooms = [1 << max(count - 1, 1).bit_length() for count in counts]
    return np.pad(found, [(0, room - count) for room, count in zip(rooms, counts, strict=True)])


def random_steps(design: Any, count: int, values: int, seed: int, speed: float = 1.0) -> Steps:
    """Steps of both streams, with values from a range around zero; `speed`: part of all cycles that takes a result."""
    rng = np.random.default_rng(seed)

    def rows(layout: Any) -> Rows:
        found = {}
        for column in layout.columns:
            edge = min(values, 1 << (column.bits - column.signed))
            found[column.name] = rng.integers(-(edge // 2) if column.signed else 0, edge - edge // 2, count).tolist()
        return found

    ready = rng.random(997) < speed
    ready[0] = True
    places = np.arange(count, dtype=np.int64)
    return Steps(rows(design.r), rows(design.s), places, places, np.zeros(count, np.int64), ready)
