"""The meaning of an expression: a tree of `expressions.py` as a function of two rows, as in Spark (ANSI off).

It shares no code with the package. Integers are mathematically exact. What leaves Spark's type, 64 bits, or the range
of a cast is noted, because there Spark and streamjoin part: Spark wraps, streamjoin answers rightly or raises.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_DOWN, Context, Decimal
from typing import Any

import numpy as np

from streamjoin.testing.expressions import DAY, F64, I64, NULL, E, T, common, common_of_all
from streamjoin.testing.oracle import Row

EXACT = Context(prec=200)


@dataclass
class Notes:
    """What happened to the integers while one pair was evaluated."""

    wraps: bool = False  # beyond Spark's type: Spark's answer is wrong, ours must not be
    beyond: bool = False  # beyond 64 bits: the right answer or an error
    narrows: bool = False  # a cast to an integer that cannot hold the value: Spark wraps, so an error is in order

    def clear(self) -> None:
        self.wraps = self.beyond = self.narrows = False


Value = Callable[[Row, Row, Notes], Any]


def _int(v: int, bits: int, notes: Notes) -> int:
    if not -(1 << (bits - 1)) <= v < 1 << (bits - 1):
        notes.wraps = True
        if not -(1 << 63) <= v < 1 << 63:
            notes.beyond = True
    return v


def _float(v: Any, frm: T, to: T, notes: Notes) -> Any:
    if frm.kind == "decimal":
        v = float(int(v.scaleb(frm.s, EXACT))) / 10.0**frm.s
    if to.bits == 64:
        return float(v)
    if isinstance(v, int):  # one rounding, from the integer
        return np.int64(v).astype(np.float32) if -(1 << 63) <= v < 1 << 63 else np.float32(v)
    with np.errstate(over="ignore"):
        return np.float32(v)


def _to_int(v: Any, bits: int, notes: Notes) -> int:
    """Java's conversion of a float: truncation, NaN to 0, saturation at int's or long's edge."""
    if math.isnan(v):
        return 0
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    if math.isinf(v) or not low <= int(v) <= high:
        if bits < 32:  # by way of int, and there Spark wraps
            notes.narrows = notes.wraps = True
        return low if v < 0 else high
    return int(v)


def convert(v: Any, frm: T, to: T, notes: Notes) -> Any:
    """CAST, explicit or implied."""
    if v is None or frm == to:
        return v
    match frm.kind, to.kind:
        case "bool", "int":
            return int(v)
        case "bool", "float":
            return _float(int(v), I64, to, notes)
        case "int", "bool":
            return v != 0
        case "float", "bool":
            return bool(v != 0.0)
        case "int", "int":
            if not -(1 << (to.bits - 1)) <= v < 1 << (to.bits - 1):
                notes.narrows = notes.wraps = True
            return v
        case "float", "int":
            return _to_int(v, to.bits, notes)
        case "decimal", "int":
            out = int(v.to_integral_value(ROUND_DOWN))
            if not -(1 << (to.bits - 1)) <= out < 1 << (to.bits - 1):
                notes.narrows = notes.wraps = True
            return out
        case "int" | "decimal", "decimal":  # exact, or refused once the scaled integer needs more than 64 bits
            exact = Decimal(v)
            if abs(int(exact.scaleb(to.s, EXACT))) >= 1 << 63:
                notes.beyond = True
            return exact
        case _, "float":
            return _float(v, frm, to, notes)
        case "date", "ts":
            return v * DAY
        case "ts", "date":
            return v // DAY
        case "ts", "int":
            return v // 1_000_000
        case "int", "ts":
            return _int(v * 1_000_000, 64, notes)
    raise TypeError(f"{frm} to {to}")


def _nan(v: Any) -> bool:
    return isinstance(v, (float, np.floating)) and bool(np.isnan(v))


def compare(a: Any, b: Any) -> int:
    """Spark's order: NaN equals NaN and lies above everything; the two zeros are equal."""
    if _nan(a) or _nan(b):
        return int(_nan(a)) - int(_nan(b))
    return int(a > b) - int(a < b)


VERDICT: dict[str, Callable[[int], bool]] = {
    "eq": lambda c: c == 0,
    "ne": lambda c: c != 0,
    "lt": lambda c: c < 0,
    "le": lambda c: c <= 0,
    "gt": lambda c: c > 0,
    "ge": lambda c: c >= 0,
}


def _and(values: Iterable[bool | None]) -> bool | None:
    seen = list(values)
    return False if False in seen else None if None in seen else True


def _not(v: bool | None) -> bool | None:
    return None if v is None else not v


def _trunc_div(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def _arith(name: str, a: Any, b: Any, t: T, notes: Notes) -> Any:
    """Both operands are of the common type `t` already, or counts of microseconds or days."""
    if name in ("div", "mod", "intdiv") and b == 0:
        return None
    if t.kind == "float":
        if name == "mod":
            x, y = float(a), float(b)
            bad = math.isnan(x) or math.isnan(y) or math.isinf(x)
            rest = math.nan if bad else math.fmod(x, y)
            return rest if t.bits == 64 else np.float32(rest)
        with np.errstate(all="ignore"):
            compute = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv}[name]
            if t.bits == 32:
                return compute(np.float32(a), np.float32(b))
            return float(compute(np.float64(a), np.float64(b)))
    if t.kind == "decimal":
        exact = {"add": EXACT.add, "sub": EXACT.subtract, "mul": EXACT.multiply}[name](a, b)
        if not -(1 << 63) <= int(exact.scaleb(t.s, EXACT)) < 1 << 63:
            notes.beyond = True
        return exact
    if name == "mod":
        return a - b * _trunc_div(a, b)
    out = {"add": a + b, "sub": a - b, "mul": a * b}[name] if name != "intdiv" else _trunc_div(a, b)
    return _int(out, t.bits or 64, notes)


def compile_value(e: E) -> Value:
    args = [compile_value(a) for a in e.args]
    types = [a.type for a in e.args]
    name, t = e.op, e.type

    def all_as(to: T, r: Row, s: Row, n: Notes) -> list[Any]:
        return [convert(f(r, s, n), frm, to, n) for f, frm in zip(args, types, strict=True)]

    def comparison(i: int, j: int, verdict: Callable[[int], bool], to: T | None = None) -> Value:
        to = to or common(e.args[i], e.args[j])

        def run(r: Row, s: Row, n: Notes) -> bool | None:
            a, b = convert(args[i](r, s, n), types[i], to, n), convert(args[j](r, s, n), types[j], to, n)
            return None if a is None or b is None else verdict(compare(a, b))

        return run

    if name == "col":
        side, column = e.value
        return (lambda r, s, n: r[column]) if side == "r" else (lambda r, s, n: s[column])
    if name == "lit":
        value = np.float32(e.value) if t.kind == "float" and t.bits == 32 else e.value
        return lambda r, s, n: value
    if name == "cast":
        return lambda r, s, n: convert(args[0](r, s, n), types[0], t, n)
    if name in ("add", "sub", "mul", "div", "mod", "intdiv"):
        numeric = types[0].kind in ("int", "float", "decimal") and types[1].kind != "interval"
        to = F64 if name == "div" else common(e.args[0], e.args[1]) if numeric else None
        work = t if t.kind == "decimal" else to if to is not None and name != "intdiv" else I64 if to is not None else t

        def arithmetic(r: Row, s: Row, n: Notes) -> Any:
            a, b = args[0](r, s, n), args[1](r, s, n)
            if a is None or b is None:
                return None
            if to is not None:
                a, b = convert(a, types[0], to, n), convert(b, types[1], to, n)
            elif types[0].kind == "date" and t.kind == "interval":
                a, b = a * DAY, b * DAY
            return _arith(name, a, b, work, n)

        return arithmetic
    if name in VERDICT:
        return comparison(0, 1, VERDICT[name])
    if name == "nseq":
        both = common(e.args[0], e.args[1])

        def null_safe(r: Row, s: Row, n: Notes) -> bool:
            a, b = all_as(both, r, s, n)
            return (a is None and b is None) if a is None or b is None else compare(a, b) == 0

        return null_safe
    if name == "and":
        return lambda r, s, n: _and([f(r, s, n) for f in args])
    if name == "or":
        return lambda r, s, n: _not(_and([_not(f(r, s, n)) for f in args]))
    if name == "not":
        return lambda r, s, n: _not(args[0](r, s, n))
    if name == "is_null":
        return lambda r, s, n: args[0](r, s, n) is None
    if name == "is_not_null":
        return lambda r, s, n: args[0](r, s, n) is not None
    if name in ("between", "not_between"):
        low, high = comparison(0, 1, VERDICT["ge"]), comparison(0, 2, VERDICT["le"])
        inside: Value = lambda r, s, n: _and([low(r, s, n), high(r, s, n)])  # noqa: E731
        return inside if name == "between" else lambda r, s, n: _not(inside(r, s, n))
    if name in ("in", "not_in"):
        to = common_of_all(e.args)  # one type for the whole list
        tests = [comparison(0, i, VERDICT["ne"], to) for i in range(1, len(args))]
        outside: Value = lambda r, s, n: _and([f(r, s, n) for f in tests])  # noqa: E731
        return outside if name == "not_in" else lambda r, s, n: _not(outside(r, s, n))
    if name in ("neg", "abs"):

        def sign(r: Row, s: Row, n: Notes) -> Any:
            v = args[0](r, s, n)
            if v is None:
                return None
            if t.kind == "decimal":
                return v.copy_negate() if name == "neg" else v.copy_abs()
            out = -v if name == "neg" else abs(v)
            return out if t.kind == "float" else _int(out, t.bits or 64, n)

        return sign
    if name in ("floor", "ceil"):

        def rounded(r: Row, s: Row, n: Notes) -> Any:
            v = args[0](r, s, n)
            if v is None or types[0].kind == "int":
                return v
            v = float(v)
            if math.isfinite(v):
                v = math.floor(v) if name == "floor" else math.ceil(v)
            return _to_int(v, 64, n)

        return rounded
    if name == "sqrt":

        def root(r: Row, s: Row, n: Notes) -> Any:
            v = args[0](r, s, n)
            if v is None:
                return None
            v = convert(v, types[0], F64, n)
            return v if math.isnan(v) else math.nan if v < 0 else math.sqrt(v)

        return root
    if name in ("least", "greatest"):
        factor = 1 if name == "greatest" else -1

        def extreme(r: Row, s: Row, n: Notes) -> Any:
            best = None
            for v in all_as(t, r, s, n):
                if v is not None and (best is None or compare(v, best) == factor):
                    best = v
            return best

        return extreme
    if name == "coalesce":
        return lambda r, s, n: next((v for v in all_as(t, r, s, n) if v is not None), None)
    if name == "nullif":
        same = comparison(0, 1, VERDICT["eq"])
        return lambda r, s, n: None if same(r, s, n) else args[0](r, s, n)
    if name == "case":

        def choose(r: Row, s: Row, n: Notes) -> Any:
            values = [f(r, s, n) for f in args]  # all of them: what overflows in any arm is noted
            for i in range(0, len(values) - 1, 2):
                if values[i]:
                    return convert(values[i + 1], types[i + 1], t, n)
            return None if types[-1] == NULL else convert(values[-1], types[-1], t, n)

        return choose
    raise TypeError(name)


def predicate(e: E) -> Callable[[Row, Row], bool]:
    """The expression as a function of two rows that says whether they match.

    >>> from streamjoin.testing.expressions import I32, col, op
    >>> less = predicate(op("lt", col("r", "x", I32), col("s", "a", I32)))
    >>> less({"x": 1}, {"a": 2}), less({"x": 1}, {"a": None})
    (True, False)
    """
    f, notes = compile_value(e), Notes()
    return lambda r, s: f(r, s, notes) is True


def value(e: E) -> Callable[[Row, Row], Any]:
    """The expression as a function of two rows; null is None.

    >>> from streamjoin.testing.expressions import I32, col, op
    >>> value(op("sub", col("r", "x", I32), col("s", "a", I32)))({"x": 5}, {"a": 2})
    3
    """
    f, notes = compile_value(e), Notes()
    return lambda r, s: f(r, s, notes)


@dataclass
class Verdicts:
    """A predicate on every pair: the answer and what was noted."""

    truth: np.ndarray
    wraps: np.ndarray
    beyond: np.ndarray
    narrows: np.ndarray


def matrix(e: E, rs: Sequence[Row], ss: Sequence[Row]) -> Verdicts:
    """The expression on every pair of two lists of rows."""
    f, notes = compile_value(e), Notes()
    out = [np.zeros((len(rs), len(ss)), np.bool_) for _ in range(4)]
    for i, r in enumerate(rs):
        for j, s in enumerate(ss):
            notes.clear()
            out[0][i, j] = f(r, s, notes) is True
            out[1][i, j], out[2][i, j], out[3][i, j] = notes.wraps, notes.beyond, notes.narrows
    return Verdicts(*out)
