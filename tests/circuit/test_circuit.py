"""The circuit: its predicate against the Numba one, and the whole chain against the model, cycle by cycle."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from amaranth.hdl import Module, Shape, Signal
from amaranth.sim import Simulator
from hypothesis import given
from hypothesis import strategies as st

from chains import Feed, chains, feeds
from streamjoin.algorithms.lockstep import Chain
from streamjoin.circuit.core import Column, Design, Layout
from streamjoin.circuit.cycles import NOTHING, OUT_R, OUT_S, OUT_VALID, STILL
from streamjoin.circuit.simulate import Steps, circuit_trace, difference, model_trace
from streamjoin.circuit.spec import bits_of
from streamjoin.codegen.circuit import Gates
from streamjoin.errors import DataError, PredicateError
from streamjoin.predicate import as_tree
from streamjoin.predicate.resolve import resolve
from streamjoin.testing.truth import evaluate_all

R = pa.schema(
    {
        "a": pa.int32(),
        "b": pa.int64(),
        "c": pa.int8(),
        "d": pa.decimal128(9, 2),
        "f": pa.bool_(),
        "t": pa.timestamp("us"),
    }
)
S = pa.schema(
    {
        "a": pa.int32(),
        "b": pa.int64(),
        "c": pa.int16(),
        "d": pa.decimal128(7, 4),
        "f": pa.bool_(),
        "t": pa.timestamp("us"),
    }
)
PREDICATES = [
    "r.a = s.a",
    "abs(r.a - s.a) <= 10",
    "r.a BETWEEN s.a - 10 AND s.a + 10 AND abs(r.c - s.c) < 3",
    "r.b < s.b",
    "r.b - s.b > 100 OR NOT (r.c >= s.c)",
    "abs(r.b) > abs(s.c)",
    "-r.c <> s.c + 1",
    "r.d <= s.d",
    "r.d + 0.5 > s.d - 1.25 AND r.f = s.f",
    "r.a IN (1, 2, 3) AND s.c = r.c",
    "r.f AND NOT s.f",
    "r.t > s.t - INTERVAL '1' SECOND AND r.t <= s.t",
    "r.c + r.a - s.c <= s.a AND (r.b = s.b OR r.a > 0)",
    "CAST(r.c AS bigint) = s.b",
    "NOT (s.c IS NULL) AND r.c < 1000 AND r.c < s.c OR r.a = 5000000000",
]
EDGES = {8: 2**7, 16: 2**15, 32: 2**31, 64: 2**63}


def values(rng: Random, t: pa.DataType) -> Any:
    """A value of a type: near others, or at the type's limits."""
    if pa.types.is_boolean(t):
        return rng.random() < 0.5
    if pa.types.is_decimal(t):
        edge = 10**t.precision - 1
        return Decimal(rng.choice([edge, -edge, 0, rng.randint(-300, 300)])).scaleb(-t.scale)
    if pa.types.is_timestamp(t):
        return rng.choice([0, 1, -1, 10**6, 999_999, rng.randint(-(2**50), 2**50)])
    edge = EDGES[t.bit_width]
    return rng.choice(
        [edge - 1, -edge, 0, 1, -1, 2, 3, *(rng.randint(-15, 15) for _ in range(5)), rng.randint(-edge, edge - 1)]
    )


def table(rng: Random, schema: pa.Schema, n: int) -> pa.Table:
    return pa.table({field.name: pa.array([values(rng, field.type) for _ in range(n)], field.type) for field in schema})


def words(array: pa.ChunkedArray) -> list[int]:
    """The values as whole numbers, as kernels store them."""
    t = array.type
    if pa.types.is_decimal(t):
        return [int(value.scaleb(t.scale)) for value in array.to_pylist()]
    return [int(value) for value in array.cast(pa.int64() if not pa.types.is_boolean(t) else pa.int8()).to_pylist()]


def in_gates(text: str, r: pa.Table, s: pa.Table) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """The predicate's truth for all pairs, one pair per cycle through its pipeline."""
    gates = Gates(resolve(as_tree(text), R, S))
    m, slots = Module(), dict[tuple[str, str], Signal]()
    for side, name, t in gates.columns:
        bits, signed = bits_of(t)
        slots[side, name] = Signal(Shape(bits, signed), name=f"{side}_{name}")
    answer = gates.emit(m, slots)
    out = Signal()
    m.d.comb += out.eq(answer)
    columns = {(side, name): words((r if side == "r" else s)[name]) for side, name in slots}
    pairs = [(i, j) for i in range(r.num_rows) for j in range(s.num_rows)]
    found = np.zeros((r.num_rows, s.num_rows), np.bool_)

    async def bench(ctx: Any) -> None:
        for k in range(len(pairs) + gates.stages):
            if k < len(pairs):
                for (side, name), slot in slots.items():
                    ctx.set(slot, columns[side, name][pairs[k][side == "s"]])
            if k >= gates.stages:
                found[pairs[k - gates.stages]] = ctx.get(out)
            await ctx.tick()

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return found


def test_the_predicate_is_that_of_the_other_kernels(soak: bool) -> None:
    rng = Random(5)
    n = 60 if soak else 12
    r, s = table(rng, R, n), table(rng, S, n)
    wanted = evaluate_all([as_tree(text) for text in PREDICATES], R, S, r, s)
    hits = 0
    for text, want in zip(PREDICATES, wanted, strict=True):
        got = in_gates(text, r, s)
        wrong = np.argwhere(got != want)
        assert not len(wrong), f"{text}: {r.slice(wrong[0][0], 1).to_pylist()}, {s.slice(wrong[0][1], 1).to_pylist()}"
        hits += bool(want.any()) and not want.all()
    assert hits > len(PREDICATES) // 2, "the test is idle"


def number(rng: Random, depth: int) -> str:
    """A random sum; columns of 64 bits are left out, since the other kernels refuse what overflows."""
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(["r.a", "s.a", "r.c", "s.c", "r.d", "s.d", str(rng.randint(-9, 300)), "0.25"])
    kind, one = rng.choice(["+", "-", "-", "abs", "neg"]), number(rng, depth - 1)
    if kind in "+-":
        return f"({one} {kind} {number(rng, depth - 1)})"
    return f"abs({one})" if kind == "abs" else f"-({one})"


def truth(rng: Random, depth: int) -> str:
    """A random predicate."""
    if depth == 0:
        a, b = number(rng, 2), number(rng, 2)
        if rng.random() < 0.3:
            return f"{a} BETWEEN {b} - 10 AND {b} + 10"
        return f"{a} {rng.choice(['=', '<>', '<', '<=', '>', '>='])} {b}"
    kind = rng.choice(["AND", "OR", "NOT"])
    if kind == "NOT":
        return f"NOT ({truth(rng, depth - 1)})"
    return f"({truth(rng, depth - 1)}) {kind} ({truth(rng, depth - 1)})"


def test_random_predicates_are_those_of_the_other_kernels(soak: bool) -> None:
    rng = Random(6)
    count, n = (40, 30) if soak else (3, 8)
    texts = list[str]()
    while len(texts) < count:
        text = truth(rng, rng.randint(0, 2))
        if "r." in text and "s." in text:
            texts.append(text)
    r, s = table(rng, R, n), table(rng, S, n)
    wanted = evaluate_all([as_tree(text) for text in texts], R, S, r, s)
    for text, want in zip(texts, wanted, strict=True):
        assert (in_gates(text, r, s) == want).all(), text
    assert sum(bool(want.any()) and not want.all() for want in wanted) >= count // 3, "the test is idle"


def test_what_overflows_elsewhere_is_right_here() -> None:
    """Sums have the bits they need: a circuit answers where the kernels of 64 bits refuse."""
    r = pa.table({"b": pa.array([2**63 - 1])})
    s = pa.table({"b": pa.array([2**63 - 1])})
    text, schema = "r.b + s.b - r.b = s.b", pa.schema({"b": pa.int64()})
    with pytest.raises(DataError, match="overflow"):
        evaluate_all([as_tree(text)], schema, schema, r, s)
    gates = Gates(resolve(as_tree(text), schema, schema))
    assert gates.stages == 3


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("r.a * s.a = 4", "mul in r.a"),
        ("r.a / 2 > s.a", "r.a.*double"),
        ("r.a % 3 = s.a", "mod in"),
        ("sqrt(r.a) < s.a", "double"),
        ("CAST(r.b AS int) = s.a", "only widen"),
        ("least(r.a, s.a) = 3", "least in"),
        ("CASE WHEN r.a = 1 THEN s.a = 1 ELSE s.a = 2 END", "case in"),
        ("r.a = s.a AND NULL", "NULL"),
    ],
)
def test_what_cannot_become_a_circuit_is_refused_by_name(text: str, part: str) -> None:
    with pytest.raises(PredicateError, match=part):
        Gates(resolve(as_tree(text), R, S))


def test_a_function_cannot_become_a_circuit() -> None:
    with pytest.raises(PredicateError, match="function"):
        Gates(resolve(as_tree(lambda r, s: r.a == s.a), R, S))


GATES = {
    text: Gates(resolve(as_tree(text), pa.schema({"x": pa.int32()}), pa.schema({"x": pa.int32()})))
    for text in ("r.x = s.x", "abs(r.x - s.x) <= 1")
}


def design_of(chain: Chain, text: str, memory: str = "lutram") -> Design:
    """A chain of 16-bit tuples."""
    layout = Layout((Column("x", 16),), 8)
    least = replace(chain, stages=GATES[text].stages, entries=0)
    entries = chain.entries and max(least.margin(0), least.margin(least.leaves - 1)) + chain.entries % 2
    return Design(replace(least, entries=entries), GATES[text], layout, layout, memory)


def compared(design: Design, feed: Feed, text: str, cycles: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Circuit and model with the same steps: every cycle the same. Returns what they showed."""
    rng = np.random.default_rng(len(feed.r))
    most = 1 if feed.matches.all() else 3
    x, y = rng.integers(0, most, 64), rng.integers(0, most, 64)
    matches = np.equal.outer(x, y) if text == "r.x = s.x" else np.abs(np.subtract.outer(x, y)) <= 1
    steps = Steps({"x": x.tolist()}, {"x": y.tolist()}, feed.r, feed.s, feed.pause, feed.ready)
    shown = circuit_trace(design, steps, cycles)
    assert difference(model_trace(design, steps, matches, cycles), shown) == ""
    expected = Counter(replace(feed, matches=matches).expected(design.chain))
    assert taken(shown, feed) <= expected, "by a nested loop over the windows"
    return shown


def taken(shown: np.ndarray[Any, np.dtype[np.int64]], feed: Feed) -> Counter[tuple[int, int]]:
    """The results that the circuit handed over."""
    ready = np.resize(feed.ready, len(shown))
    return Counter((int(row[OUT_R]), int(row[OUT_S])) for row in shown[(shown[:, OUT_VALID] == 1) & ready])


@given(chain=chains(most_cores=5), feed=feeds(most=25), text=st.sampled_from(sorted(GATES)))
def test_the_circuit_is_the_model_in_every_cycle(chain: Chain, feed: Feed, text: str, soak: bool) -> None:
    compared(design_of(chain, text), feed, text, 400 if soak else 90)


@given(chain=chains(most_cores=3), feed=feeds(most=12))
def test_every_pair_comes_out_of_the_circuit_once(chain: Chain, feed: Feed) -> None:
    """The circuit alone, against a nested loop: r moves on until it has passed every s, and all results are taken."""
    count = chain.rows[0]
    tail = np.full(count, NOTHING), np.full(count, STILL), np.zeros(count, np.int64)
    r, s, pause = (np.concatenate(parts) for parts in zip((feed.r, feed.s, feed.pause), tail, strict=True))
    whole = replace(feed, r=r, s=s, pause=pause)
    design = design_of(chain, "r.x = s.x")
    results = len(replace(whole, matches=np.ones((64, 64), np.bool_)).expected(chain))
    cycles = len(r) * (chain.step(True, True) + 6) + 4 * results + 60
    x = np.random.default_rng(len(r)).integers(0, 2, (2, 64))
    steps = Steps({"x": x[0].tolist()}, {"x": x[1].tolist()}, r, s, pause, feed.ready)
    shown = circuit_trace(design, steps, cycles)
    wanted = replace(whole, matches=np.equal.outer(x[0], x[1])).expected(design.chain)
    assert taken(shown, feed) == Counter(wanted)


@pytest.mark.parametrize("expedited", [False, True])
@pytest.mark.parametrize("scanners", [1, 2])
def test_a_throttled_circuit_is_the_model(scanners: int, expedited: bool) -> None:
    """All pairs match and results are taken slowly: FIFOs are full, steps wait, nothing is lost."""
    n = 40
    feed = Feed(np.arange(n), np.arange(n), np.zeros(n, np.int64), np.arange(8) < 3, np.ones((64, 64), np.bool_))
    design = design_of(Chain(cores=2, rows=(6, 6), scanners=scanners, entries=1, expedited=expedited), "r.x = s.x")
    shown = compared(design, feed, "r.x = s.x", 300)
    assert shown[:, 1].sum() > 100, "it was never throttled"
