"""The oracle's own expressions: a small typed tree with Spark's typing rules (ANSI off), and its SQL text.

Nothing here is shared with the package. A tree is built with `col`, `lit`, `cast` and `op`; `op` types it as
Spark 4 would and raises `Refused` for a combination that Spark, or streamjoin by its documentation, does not
serve. `to_sql` prints it for streamjoin, Spark and DuckDB; `spellings.py` has the other ways to write it.

>>> to_sql(op("le", op("abs", op("sub", col("r", "x", I32), col("s", "a", I32))), lit(2)))
'abs(r.x - s.a) <= 2'
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
DAY = 86_400_000_000  # microseconds


class Refused(Exception):
    """This combination of operator and types is not part of the language under test."""


@dataclass(frozen=True)
class T:
    """A type, in Spark's sense. Timestamps and intervals count microseconds, dates count days."""

    kind: str  # bool int float decimal ts date interval string null
    bits: int = 0
    p: int = 0
    s: int = 0

    @property
    def sql(self) -> str:
        if self.kind == "int":
            return {8: "TINYINT", 16: "SMALLINT", 32: "INT", 64: "BIGINT"}[self.bits]
        if self.kind == "float":
            return {32: "FLOAT", 64: "DOUBLE"}[self.bits]
        if self.kind == "decimal":
            return f"DECIMAL({self.p},{self.s})"
        return {"bool": "BOOLEAN", "ts": "TIMESTAMP", "date": "DATE", "string": "STRING"}[self.kind]


BOOL, STRING, TS, DATE, INTERVAL, NULL = (T(k) for k in ("bool", "string", "ts", "date", "interval", "null"))
I8, I16, I32, I64 = (T("int", b) for b in (8, 16, 32, 64))
F32, F64 = T("float", 32), T("float", 64)


def dec(p: int, s: int) -> T:
    if p > 38 or s > p:
        raise Refused(f"decimal({p},{s})")
    return T("decimal", p=p, s=s)


@dataclass(frozen=True)
class E:
    """One node. `value`: ("r"|"s", name) of a column, the value of a literal, the options of an operator."""

    op: str
    args: tuple[E, ...] = ()
    value: Any = None
    type: T = NULL


NUMBERS = ("int", "float", "decimal")
COMPARE = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "nseq": "<=>"}
ARITH = {"add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%", "intdiv": "DIV"}


def col(side: str, name: str, type: T) -> E:
    return E("col", (), (side, name), type)


def lit(value: Any, type: T | None = None) -> E:
    if type is None:
        match value:
            case None:
                type = NULL
            case bool():
                type = BOOL
            case int():
                type = I32 if -(2**31) <= value < 2**31 else I64
            case float():
                type = F64
            case str():
                type = STRING
            case Decimal():
                _sign, digits, exponent = value.as_tuple()
                assert isinstance(exponent, int)
                assert exponent <= 0
                type = dec(max(len(digits), -exponent, 1), -exponent)
            case _:
                raise TypeError(value)
    return E("lit", (), value, type)


def _as_decimal(e: E | T, t: T) -> T:
    if t.kind == "decimal":
        return t
    if isinstance(e, E) and e.op == "lit" and e.value is not None:
        return dec(max(len(str(abs(e.value))), 1), 0)
    return dec({8: 3, 16: 5, 32: 10, 64: 20}[t.bits], 0)


def common(a: E, b: E) -> T:
    """The type to which Spark brings two operands, of a comparison, an operator, CASE or COALESCE."""
    x, y = a.type, b.type
    if x.kind == "null" or y.kind == "null":
        return y if x.kind == "null" else x
    if x == y:
        return x
    if x.kind == y.kind == "int":
        return T("int", max(x.bits, y.bits))
    if x.kind in NUMBERS and y.kind in NUMBERS:
        if "decimal" in (x.kind, y.kind):
            if "float" in (x.kind, y.kind):
                if max(x.p, y.p) > 15:
                    raise Refused("wide decimal with float")
                return F64
            u, v = _as_decimal(a, x), _as_decimal(b, y)
            scale = max(u.s, v.s)
            return dec(max(u.p - u.s, v.p - v.s) + scale, scale)
        return T("float", max(t.bits if t.kind == "float" else 32 for t in (x, y)))
    if {x.kind, y.kind} == {"ts", "date"}:
        return TS
    raise Refused(f"{x.kind} with {y.kind}")


def common_of_all(args: tuple[E, ...]) -> T:
    """One type for all of CASE, COALESCE, LEAST or IN; here an integer literal is as wide as its type."""
    anonymous = [E("any", (), None, a.type) for a in args]
    out = anonymous[0]
    for other in anonymous[1:]:
        out = E("any", (), None, common(out, other))
    return out.type


def cast(e: E, to: T) -> E:
    a, b = e.type.kind, to.kind
    plain = ("bool", "int", "float")
    ok = (a in plain and b in plain) or (
        a == "decimal" and b in ("int", "float") and e.type.p <= (7 if to == F32 else 15)
    )
    ok = ok or (a, b) in (("int", "ts"), ("ts", "int"), ("date", "ts"), ("ts", "date"))
    if (a, b) in (("int", "ts"), ("ts", "int")):
        ok = max(e.type.bits, to.bits) == 64
    if e.op == "lit" and b == "int":
        ok = ok and abs(e.value) < 2 ** (to.bits - 1)
    if not ok:
        raise Refused(f"cast {a} to {b}")
    return E("cast", (e,), None, to)


def _numeric_result(name: str, a: E, b: E) -> T:
    x, y = a.type, b.type
    if name == "div":
        if "decimal" in (x.kind, y.kind):
            literal = a if x.kind == "decimal" else b
            other = b if literal is a else a
            if literal.op != "lit" or other.type.kind != "float":
                raise Refused("decimal division")
        return F64
    if name == "intdiv":
        if x.kind != "int" or y.kind != "int":
            raise Refused("DIV is for integers")
        return I64
    t = common(a, b)
    if t.kind != "decimal":
        return t
    if name == "mod":
        raise Refused("decimal %")
    u, v = _as_decimal(a, x), _as_decimal(b, y)
    if name == "mul":
        return dec(u.p + v.p + 1, u.s + v.s)
    scale = max(u.s, v.s)
    return dec(max(u.p - u.s, v.p - v.s) + scale + 1, scale)


def _type_of(name: str, args: tuple[E, ...]) -> T:
    kinds = tuple(a.type.kind for a in args)
    if name in ARITH:
        a, b = args
        if set(kinds) <= set(NUMBERS):
            return _numeric_result(name, a, b)
        match name, kinds:
            case "sub", ("ts", "ts") | ("date", "date"):
                return INTERVAL
            case "add" | "sub", ("ts" | "interval", "interval"):
                return a.type
            case "add" | "sub", ("date", "int") if b.type.bits <= 32:
                return DATE
            case "mul", ("interval", "int"):
                return INTERVAL
        raise Refused(f"{name} {kinds}")
    if name in COMPARE:
        t = common(*args)
        if t.kind == "string" and name not in ("eq", "ne", "nseq"):
            raise Refused("strings are compared for equality only")
        return BOOL
    if name in ("and", "or", "not"):
        if set(kinds) - {"bool", "null"}:
            raise Refused(name)
        return BOOL
    if name in ("is_null", "is_not_null"):
        return BOOL
    if name in ("between", "not_between"):
        for other in args[1:]:
            _type_of("le", (args[0], other))
        return BOOL
    if name in ("in", "not_in"):
        common_of_all(args)
        return BOOL
    if name in ("neg", "abs"):
        if kinds[0] not in (*NUMBERS, "interval"):
            raise Refused(name)
        return args[0].type
    if name in ("floor", "ceil"):
        if kinds[0] not in ("int", "float"):
            raise Refused(name)
        return I64
    if name == "sqrt":
        if kinds[0] not in ("int", "float"):
            raise Refused(name)
        return F64
    if name in ("least", "greatest", "coalesce"):
        t = common_of_all(args)
        if t.kind not in (*NUMBERS, "ts", "date", *(("bool",) if name == "coalesce" else ())):
            raise Refused(f"{name} of {t.kind}")
        return t
    if name == "nullif":
        common(*args)
        return args[0].type
    if name == "case":
        if any(c.type.kind != "bool" for c in args[:-1:2]):
            raise Refused("CASE condition")
        t = common_of_all((*args[1:-1:2], args[-1]))
        if t.kind in ("string", "null", "interval"):
            raise Refused(f"CASE of {t.kind}")
        return t
    raise Refused(name)


def op(name: str, *args: E) -> E:
    if any(a.type == NULL and a.op != "lit" for a in args):
        raise Refused("untyped null")
    if name in (*ARITH, "neg", "abs", "floor", "ceil", "sqrt", "least", "greatest", "nullif", "not") and any(
        a.type == NULL for a in args
    ):
        raise Refused("null literal as an operand")
    return E(name, args, None, _type_of(name, args))


def columns(e: E) -> set[tuple[str, str]]:
    if e.op == "col":
        return {e.value}
    return set().union(*(columns(a) for a in e.args)) if e.args else set()


def nodes(e: E) -> list[E]:
    return [e, *(n for a in e.args for n in nodes(a))]


def mirror(e: E) -> E:
    """The same expression with the sides swapped."""
    if e.op == "col":
        return E("col", (), ("s" if e.value[0] == "r" else "r", e.value[1]), e.type)
    return E(e.op, tuple(mirror(a) for a in e.args), e.value, e.type)


# SQL text, with as few parentheses as Spark's grammar allows: the package's parser has to know precedence.
PRECEDENCE = {"or": 1, "and": 2, "not": 3, "add": 6, "sub": 6, "mul": 7, "div": 7, "mod": 7, "intdiv": 7, "neg": 8}
PRECEDENCE |= dict.fromkeys(("between", "not_between", "in", "not_in", "is_null", "is_not_null"), 4)
PRECEDENCE |= dict.fromkeys(COMPARE, 5)


def sql_literal(e: E) -> str:
    v, t = e.value, e.type
    if v is None:
        return "NULL"
    match t.kind:
        case "bool":
            return "TRUE" if v else "FALSE"
        case "int":
            fits = I32 if -(2**31) <= v < 2**31 else I64
            return f"{v}" + ("" if t == fits else {8: "Y", 16: "S", 64: "L"}[t.bits])
        case "float":
            text = repr(float(v))
            if t.bits == 32:
                return text + "F"
            return text if "e" in text else text + "D"
        case "decimal":
            return f"{v:f}" if t.s else f"{v:f}BD"
        case "string":
            return f"'{v}'"
        case "ts":
            return f"TIMESTAMP '{(EPOCH + dt.timedelta(microseconds=v)).strftime('%Y-%m-%d %H:%M:%S.%f')}'"
        case "date":
            return f"DATE '{(EPOCH + dt.timedelta(days=v)).date().isoformat()}'"
        case "interval":
            seconds, rest = divmod(abs(v), 1_000_000)
            sign = "-" if v < 0 else ""
            return f"INTERVAL '{sign}{seconds}" + (f".{rest:06}" if rest else "") + "' SECOND"
    raise TypeError(e)


def to_sql(e: E) -> str:
    def show(a: E, least: int) -> str:
        text = to_sql(a)
        negative = a.op == "lit" and text.startswith("-")
        strength = 8 if negative else PRECEDENCE.get(a.op, 9)
        return f"({text})" if strength < least else text

    def listed(args: tuple[E, ...]) -> str:
        return ", ".join(to_sql(a) for a in args)

    name, args = e.op, e.args
    mine = PRECEDENCE.get(name, 9)
    if name == "col":
        return f"{e.value[0]}.{e.value[1]}"
    if name == "lit":
        return sql_literal(e)
    if name == "cast":
        return f"CAST({to_sql(args[0])} AS {e.type.sql})"
    if name in ARITH:  # left-associative
        return f"{show(args[0], mine)} {ARITH[name]} {show(args[1], mine + 1)}"
    if name in COMPARE:
        return f"{show(args[0], 6)} {COMPARE[name]} {show(args[1], 6)}"
    if name in ("and", "or"):
        return f" {name.upper()} ".join(show(a, mine + (i > 0)) for i, a in enumerate(args))
    if name == "not":
        return f"NOT {show(args[0], 4)}"
    if name == "neg":
        return f"-{show(args[0], 9)}"
    if name in ("is_null", "is_not_null"):
        return f"{show(args[0], 6)} IS {'NOT ' if name == 'is_not_null' else ''}NULL"
    if name in ("between", "not_between"):
        word = "BETWEEN" if name == "between" else "NOT BETWEEN"
        return f"{show(args[0], 6)} {word} {show(args[1], 6)} AND {show(args[2], 6)}"
    if name in ("in", "not_in"):
        return f"{show(args[0], 6)} {'IN' if name == 'in' else 'NOT IN'} ({listed(args[1:])})"
    if name == "case":
        arms = " ".join(f"WHEN {to_sql(c)} THEN {to_sql(v)}" for c, v in zip(args[:-1:2], args[1:-1:2], strict=True))
        last = "" if args[-1].type == NULL else f" ELSE {to_sql(args[-1])}"
        return f"CASE {arms}{last} END"
    return f"{name}({listed(args)})"
