"""Random rows with nasty values and random predicates over them, from a seeded Random."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.testing.expressions import (
    BOOL,
    COMPARE,
    DATE,
    DAY,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    INTERVAL,
    STRING,
    TS,
    E,
    Refused,
    T,
    cast,
    col,
    columns,
    dec,
    lit,
    op,
)

# Both sides have these columns, so every mixture of types meets. Unsigned ones are the next wider signed.
TYPES: dict[str, T] = {
    "i8": I8,
    "i16": I16,
    "i32": I32,
    "i64": I64,
    "u8": I16,
    "u32": I64,
    "f32": F32,
    "f64": F64,
    "flag": BOOL,
    "amt": dec(10, 2),
    "ts": TS,
    "dd": DATE,
    "nm": STRING,
}
ARROW: dict[str, pa.DataType] = {
    "i8": pa.int8(),
    "i16": pa.int16(),
    "i32": pa.int32(),
    "i64": pa.int64(),
    "u8": pa.uint8(),
    "u32": pa.uint32(),
    "f32": pa.float32(),
    "f64": pa.float64(),
    "flag": pa.bool_(),
    "amt": pa.decimal128(10, 2),
    "ts": pa.timestamp("us", tz="UTC"),
    "dd": pa.date32(),
    "nm": pa.string(),
}
INTS = ("i8", "i16", "i32", "i64", "u8", "u32")
FLOATS = ("f32", "f64")
BASE = 19_723 * DAY  # 2024-01-01
EDGES = {name: (0, 2**bits - 1) for name, bits in (("u8", 8), ("u32", 32))}
EDGES |= {f"i{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)}
TENTHS = [0.1, 0.2, 0.3, 0.1 + 0.2, 0.7, 0.8, 1.1, 0.1 * 3, 9.9, 10.1, 10.0, 20.0, 1.0, 2.0, 2.5, -0.5]
NASTY = [
    0.0,
    -0.0,
    math.nan,
    math.inf,
    -math.inf,
    5e-324,
    1e-40,
    16_777_216.0,
    16_777_217.0,
    3.4e38,
    1e300,
    -1e300,
    2.0**63,
]
NASTY += [float(np.nextafter(x, math.inf)) for x in (0.1, 10.0, 0.3)] + [float(np.nextafter(10.0, 0))]


def value(rng: Random, name: str, edges: bool) -> Any:
    """A value of one column, null in one case of ten; with `edges`, often at the type's edge."""
    if rng.random() < 0.1:
        return None
    t = TYPES[name]
    if t.kind == "int":
        low, high = EDGES[name]
        if edges and rng.random() < 0.4:
            return rng.choice((low, high)) if rng.random() < 0.6 else rng.choice((min(low + 1, 0), high - 1, high // 2))
        return rng.randint(max(low, -4), 12)
    if t.kind == "float":
        x = rng.choice(TENTHS) if rng.random() < 0.7 else rng.choice(NASTY)
        if t.bits == 64:
            return x
        with np.errstate(over="ignore"):
            return np.float32(x)
    match t.kind:
        case "bool":
            return rng.random() < 0.5
        case "decimal":
            return Decimal(rng.choice((0, 1, 10, 20, 30, 110, 250, -50, 9_999_999_999))).scaleb(-2)
        case "ts":
            return BASE + rng.choice((0, 1, -1, 1_000_000, 5_000_000, DAY, -DAY, 4_999_999))
        case "date":
            return BASE // DAY + rng.randint(-2, 2)
    return rng.choice(("a", "b", "ab", "", "é", "A"))


def rows(rng: Random, n: int, side: str, edges: bool = False) -> list[dict[str, Any]]:
    out = []
    for i in range(n):
        row = {name: value(rng, name, edges) for name in TYPES}
        out.append({f"{side}id": i, "t": rng.randint(0, 50), **row})
    return out


def schema(side: str) -> pa.Schema:
    return pa.schema([(f"{side}id", pa.int64()), ("t", pa.int64()), *ARROW.items()])


class Predicates:
    """Random typed trees. Every tree mentions both sides."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def tree(self, depth: int = 3) -> E:
        return self._until(lambda: self.boolean(depth), lambda e: {s for s, _ in columns(e)} == {"r", "s"})

    def shape(self) -> E:
        """A conjunction of equalities and bands in odd spellings, with an optional residual."""

        def draw() -> E:
            parts = [self.key() for _ in range(self.rng.choice((1, 1, 2, 2, 3)))]
            if self.rng.random() < 0.4:
                parts.append(self.boolean(1))
            self.rng.shuffle(parts)
            return parts[0] if len(parts) == 1 else op("and", *parts)

        return self._until(draw, lambda e: {s for s, _ in columns(e)} == {"r", "s"})

    def _until(self, draw: Callable[[], E], good: Callable[[E], bool] = lambda e: True) -> E:
        while True:
            try:
                e = draw()
            except Refused:
                continue
            if good(e):
                return e

    def _try(self, draw: Callable[[], E]) -> E:
        return self._until(draw)

    def column(self, *names: str, side: str = "") -> E:
        name = self.rng.choice(names)
        return col(side or self.rng.choice("rs"), name, TYPES[name])

    def number_literal(self) -> E:
        rng = self.rng
        match rng.randrange(10):
            case 0 | 1 | 2 | 3:
                return lit(rng.choice((0, 1, 2, 3, 5, 7, 10, -1, -3, 127, 128)))
            case 4:
                return lit(rng.choice((3_000_000_000, 16_777_217, 9_007_199_254_740_993)))
            case 5 | 6:
                return lit(rng.choice((0.1, 0.5, 2.0, -1.5, 10.0, 1e3)))
            case 7 | 8:
                return lit(Decimal(rng.choice(("0.1", "0.5", "1.0", "10.0", "-2.5", "0.25"))))
        return lit(rng.choice((0.1, 0.5, 2.0)), F32) if rng.random() < 0.5 else lit(5, I8)

    def number(self, depth: int) -> E:
        return self._try(lambda: self._number(depth))

    def _number(self, depth: int) -> E:
        rng = self.rng
        if depth == 0 or rng.random() < 0.25:
            if rng.random() < 0.75:
                return self.column(*INTS, *FLOATS, *FLOATS, "amt")
            return self.number_literal()
        sub = partial(self.number, depth - 1)
        name = rng.choice(
            ["add", "sub"] * 4
            + ["mul", "div", "mod", "intdiv", "abs", "neg", "least", "greatest", "cast"] * 2
            + ["floor", "ceil", "sqrt", "case", "coalesce", "nullif"]
        )
        if name in ("abs", "neg", "floor", "ceil", "sqrt"):
            inner = sub()
            if name == "neg" and inner.op in ("lit", "neg"):
                raise Refused("folded by every parser")
            return op(name, inner)
        if name == "cast":
            return cast(sub(), rng.choice((I8, I16, I32, I64, F32, F64, F64, F32, I64)))
        if name == "case":
            otherwise = lit(None) if rng.random() < 0.3 else sub()
            return op("case", self.boolean(depth - 1), sub(), otherwise)
        if name in ("least", "greatest", "coalesce"):
            return op(name, *(sub() for _ in range(rng.choice((2, 2, 3)))))
        return op(name, sub(), sub())

    def temporal(self) -> E:
        """A comparison of timestamps, dates or the intervals between them."""
        rng = self.rng
        r, s = self.column("ts", side="r"), self.column("ts", side="s")
        width = lit(rng.choice((0, 1, 1_000_000, 5_000_000, DAY, -1_500_000)), INTERVAL)
        compare = rng.choice(("le", "lt", "ge", "gt", "eq", "ne"))
        match rng.randrange(9):
            case 0:
                return op(compare, op("sub", r, s), width)
            case 1:
                return op(compare, op("abs", op("sub", s, r)), width)
            case 2:
                return op("between", r, op("sub", s, width), op("add", s, lit(5_000_000, INTERVAL)))
            case 3:
                return op(compare, r, op("add", s, width))
            case 4:
                return op(compare, self.column("dd"), self.column("ts", "dd"))
            case 5:
                return op(
                    compare, op("sub", self.column("dd", side="r"), self.column("dd", side="s")), lit(DAY, INTERVAL)
                )
            case 6:
                return op(compare, op(rng.choice(("add", "sub")), self.column("dd"), lit(1)), self.column("dd"))
            case 7:
                return op(compare, self.column("ts"), lit(BASE, TS))
        return op(compare, op("mul", op("sub", r, s), lit(2)), width)

    def boolean(self, depth: int) -> E:
        return self._try(lambda: self._boolean(depth))

    def _boolean(self, depth: int) -> E:
        rng = self.rng
        if depth > 0 and rng.random() < 0.55:
            sub = partial(self.boolean, depth - 1)
            name = rng.choice(("and", "or", "and", "or", "not", "eq", "case"))
            if name == "not":
                return op("not", sub())
            if name == "case":
                return op("case", sub(), sub(), sub())
            if name == "eq":
                return op(rng.choice(("eq", "ne", "nseq")), self.column("flag"), sub())
            return op(name, *(sub() for _ in range(rng.choice((2, 2, 3)))))
        inner = max(depth - 1, 0) if rng.random() < 0.7 else depth
        number = partial(self.number, min(inner, 2))
        match rng.randrange(14):
            case 0 | 1 | 2 | 3 | 4:
                return op(rng.choice(list(COMPARE)), number(), number())
            case 5:
                return op(rng.choice(("between", "not_between")), number(), number(), number())
            case 6:
                options = [self.number_literal() for _ in range(3)] + ([lit(None)] if rng.random() < 0.2 else [])
                return op(rng.choice(("in", "not_in")), number(), *options)
            case 7:
                return op(
                    rng.choice(("is_null", "is_not_null")), rng.choice((number, lambda: self.column("nm", "flag")))()
                )
            case 8 | 9:
                return self.temporal()
            case 10:
                other = self.column("nm") if rng.random() < 0.7 else lit("ab")
                return op(rng.choice(("eq", "ne", "nseq")), self.column("nm"), other)
            case 11:
                return op("in", self.column("nm"), lit("a"), lit("é"))
            case 12:
                return op(rng.choice(list(COMPARE)), number(), lit(None))
        return self.column("flag")

    def key(self) -> E:
        return self._try(self._key)

    def _key(self) -> E:
        """One equality or band between the sides, as people write them."""
        rng = self.rng
        x = self.column(*INTS, *FLOATS, *FLOATS, "amt", side="r")
        y = (
            self.column(*INTS, *FLOATS, *FLOATS, "amt", side="s")
            if rng.random() < 0.5
            else col("s", x.value[1], x.type)
        )
        if rng.random() < 0.5:
            x, y = y, x
        c, d = self.number_literal(), self.number_literal()
        less, more = rng.choice((("le", "ge"), ("lt", "gt"), ("le", "gt")))
        match rng.randrange(16):
            case 0:
                return op("eq", x, y)
            case 1:
                return op("eq", op("sub", x, y), c)
            case 2:
                return op("eq", op("add", x, c), op("sub", y, d))
            case 3:
                return op("nseq", x, y)
            case 4:
                name = rng.choice(("nm", "ts", "dd", "flag"))
                return op("eq", self.column(name, side="s"), self.column(name, side="r"))
            case 5 | 6:
                return op("between", x, op("sub", y, c), op("add", y, d))
            case 7 | 8:
                return op(less, op("abs", op("sub", x, y)), c)
            case 9:
                return op("and", op(less, op("sub", x, y), c), op(less, op("sub", y, x), d))
            case 10:
                return op("and", op(more, x, op("sub", y, c)), op(less, x, op("add", y, d)))
            case 11:
                return op("not", op(more, x, op("add", y, c)))
            case 12:
                return op(less, op("abs", op("sub", x, y)), self.column("i8", "u8", "f64", side=y.value[0]))
            case 13:
                return op("between", op("mul", x, c), y, op("add", y, d))
            case 14:
                return op("and", op(more, op("neg", x), op("neg", op("add", y, c))), op(more, y, op("sub", x, d)))
        return op(less, x, y) if rng.random() < 0.5 else self.temporal()
