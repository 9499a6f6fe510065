"""A tree of `expressions.py` in the package's other spellings: over `sj.r` and `sj.s`, and as a Python function."""

from __future__ import annotations

import datetime as dt
import operator
from typing import Any

import streamjoin as sj
from streamjoin.testing.expressions import ARITH, COMPARE, EPOCH, I32, I64, E, Refused


def to_expression(e: E) -> Any:
    """The same tree over `sj.r` and `sj.s`."""

    def literal(x: E) -> Any:
        v, t = x.value, x.type
        if v is None:
            return sj.lit(None)
        match t.kind:
            case "ts":
                return EPOCH + dt.timedelta(microseconds=v)
            case "date":
                return (EPOCH + dt.timedelta(days=v)).date()
            case "interval":
                return dt.timedelta(microseconds=v)
            case "float":
                return float(v) if t.bits == 64 else sj.lit(float(v)).cast("float")
            case "int":
                fits = I32 if -(2**31) <= v < 2**31 else I64
                return v if t == fits else sj.lit(v).cast(t.sql.lower())
        return v

    if e.op == "col":
        return (sj.r if e.value[0] == "r" else sj.s)[e.value[1]]
    if e.op == "lit":
        return literal(e)
    a = [to_expression(x) for x in e.args]
    if not any(hasattr(x, "cast") for x in a):  # nothing but Python values: Python would fold them by its own rules
        a[0] = sj.lit(a[0])
    binary = {
        "add": operator.add,
        "sub": operator.sub,
        "mul": operator.mul,
        "div": operator.truediv,
        "mod": operator.mod,
        "eq": operator.eq,
        "ne": operator.ne,
        "lt": operator.lt,
        "le": operator.le,
        "gt": operator.gt,
        "ge": operator.ge,
    }
    first = a[0] if hasattr(a[0], "cast") else sj.lit(a[0])
    match e.op:
        case "cast":
            return first.cast(e.type.sql.lower())
        case name if name in binary:
            return binary[name](a[0], a[1])
        case "intdiv":
            return sj.div(first, a[1])
        case "nseq":
            return first.eq_null_safe(a[1])
        case "and" | "or":
            out = first
            for x in a[1:]:
                out = out & x if e.op == "and" else out | x
            return out
        case "not":
            return ~first
        case "neg":
            return -first
        case "abs":
            return abs(first)
        case "is_null":
            return first.is_null()
        case "is_not_null":
            return first.is_not_null()
        case "between":
            return first.between(a[1], a[2])
        case "not_between":
            return ~first.between(a[1], a[2])
        case "in":
            return first.isin([literal(x) if x.value is not None else None for x in e.args[1:]])
        case "not_in":
            return ~first.isin([literal(x) if x.value is not None else None for x in e.args[1:]])
        case "case":
            out = sj.when(a[0], a[1])
            for c, v in zip(a[2:-1:2], a[3:-1:2], strict=True):
                out = out.when(c, v)
            return out.otherwise(a[-1])
        case "nullif":
            return sj.when(first == a[1], sj.lit(None)).otherwise(first)
    return getattr(sj, e.op)(first, *a[1:])


PYTHON_COMPARE = {**COMPARE, "eq": "==", "ne": "!="}


def to_python(e: E) -> str:
    """The source of a lambda's body; Refused where Python has no such operator or means another thing."""
    a = [to_python(x) for x in e.args]
    if e.op == "col":
        return f"{e.value[0]}.{e.value[1]}"
    if e.op == "lit" and e.type.kind in ("int", "float", "bool"):
        return f"({e.value!r})"
    if e.op in ("add", "sub", "mul"):
        return f"({a[0]} {ARITH[e.op]} {a[1]})"
    if e.op in PYTHON_COMPARE and e.op != "nseq":
        return f"({a[0]} {PYTHON_COMPARE[e.op]} {a[1]})"
    if e.op in ("and", "or"):
        return "(" + f" {e.op} ".join(a) + ")"
    if e.op == "not":
        return f"(not {a[0]})"
    if e.op == "neg":
        return f"(-{a[0]})"
    if e.op == "abs":
        return f"abs({a[0]})"
    if e.op == "between":
        return f"({a[1]} <= {a[0]} <= {a[2]})"
    raise Refused(f"{e.op} in Python")
