"""The expression tree that every spelling of a predicate becomes, and small tools to look at one."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from streamjoin.core.types import Type, sql_name

OTHER = {"r": "s", "s": "r"}
"""The other side."""

LEAVES = frozenset({"column", "literal"})
ARITHMETIC = frozenset({"add", "sub", "mul", "div", "intdiv", "mod", "neg", "abs"})
COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "eq_null_safe"})
LOGIC = frozenset({"and", "or", "not", "is_null"})
FUNCTIONS = frozenset({"least", "greatest", "floor", "ceil", "sqrt", "case", "coalesce", "cast", "function"})
OPS = LEAVES | ARITHMETIC | COMPARISONS | LOGIC | FUNCTIONS


@dataclass(frozen=True)
class Node:
    """One node. Before `resolve` only literals that say their type (`1L`) have one; after it every node has.

    What `value` holds: for a column (side, name), where side is "r", "s" or "" (not said, resolve finds it);
    for a literal a Python value (None, bool, int, float, Decimal, str, bytes, datetime, date, timedelta);
    for a cast the target Type; for a function the Python callable.

    `case` has args cond1, value1, cond2, value2, ..., else; `and` and `or` take any number of args.
    """

    op: str
    args: tuple[Node, ...] = ()
    value: Any = None
    type: Type | None = None


def column(side: str, name: str) -> Node:
    """The column `name` of side "r" or "s" ("" if the text does not say)."""
    return Node("column", value=(side, name))


def literal(value: Any, type: Type | None = None) -> Node:
    """A constant; `type` only where the spelling fixes it."""
    return Node("literal", value=value, type=type)


def junction(op: str, parts: list[Node]) -> Node:
    """`and` or `or` of the parts, with nested ones of the same kind flattened.

    >>> a, b, c = (column("r", name) for name in "abc")
    >>> to_sql(junction("and", [a, junction("and", [b, c])]))
    'r.a AND r.b AND r.c'
    """
    flat: list[Node] = []
    for part in parts:
        flat.extend(part.args if part.op == op else (part,))
    return flat[0] if len(flat) == 1 else Node(op, tuple(flat))


def walk(node: Node) -> Iterator[Node]:
    """Every node of the tree, parents before children, without recursion."""
    stack = [node]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(reversed(top.args))


def columns(node: Node) -> set[tuple[str, str]]:
    """The (side, name) of every column that the tree reads."""
    return {part.value for part in walk(node) if part.op == "column"}


def sides(node: Node) -> frozenset[str]:
    """The sides that the tree reads: a subset of {"r", "s"}."""
    return frozenset(side for side, _ in columns(node) if side)


_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_WIDE = Context(prec=80)


def physical(node: Node) -> Any:
    """A resolved literal as kernels store it: the count since 1970 in its unit, days, the scaled integer.

    >>> from streamjoin.core import types
    >>> physical(literal(dt.timedelta(seconds=2), types.interval("ns")))
    2000000000
    >>> physical(literal(Decimal("1.5"), types.decimal(10, 3)))
    1500
    """
    value, t = node.value, node.type
    if node.op != "literal" or t is None:
        raise ValueError(f"not a resolved literal: {to_sql(node)}")
    if value is None:
        return None
    if t.kind == "timestamp":
        utc = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo is not None else value
        return (utc - _EPOCH) // _MICROSECOND * (1000 if t.unit == "ns" else 1)
    if t.kind == "date":
        return (value - _EPOCH.date()).days
    if t.kind == "interval":
        return value // _MICROSECOND * (1000 if t.unit == "ns" else 1)
    if t.kind == "decimal":
        return int(Decimal(value).scaleb(t.scale, _WIDE).to_integral_value(ROUND_HALF_UP))
    return value


_BINARY = {
    "or": ("OR", 1),
    "and": ("AND", 2),
    "eq": ("=", 4),
    "ne": ("<>", 4),
    "lt": ("<", 4),
    "le": ("<=", 4),
    "gt": (">", 4),
    "ge": (">=", 4),
    "eq_null_safe": ("<=>", 4),
    "add": ("+", 5),
    "sub": ("-", 5),
    "mul": ("*", 6),
    "div": ("/", 6),
    "intdiv": ("DIV", 6),
    "mod": ("%", 6),
}
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z_0-9]*\Z")


def to_sql(node: Node) -> str:
    """The node as Spark SQL text, for explain() and error messages.

    >>> x, a = column("r", "x"), column("s", "odd name")
    >>> to_sql(Node("le", (Node("abs", (Node("sub", (x, a)),)), literal(10))))
    'abs(r.x - s.`odd name`) <= 10'
    """
    return _text(node, 0)


def _text(node: Node, outer: int) -> str:
    """`outer` is the binding strength of the surroundings; weaker text gets parentheses."""
    op, args = node.op, node.args
    if op in _BINARY:
        sign, strength = _BINARY[op]
        # A right operand of equal strength needs parentheses: a - (b - c), and comparisons do not chain.
        first = strength + 1 if strength == 4 else strength
        rest = strength if op in ("and", "or") else strength + 1
        texts = [_text(arg, rest if k else first) for k, arg in enumerate(args)]
        return _wrap(f" {sign} ".join(texts), strength, outer)
    if op == "column":
        side, name = node.value
        quoted = name if _PLAIN.match(name) else "`" + name.replace("`", "``") + "`"
        return f"{side}.{quoted}" if side else quoted
    if op == "literal":
        text = literal_sql(node.value, node.type)
        return f"({text})" if text.startswith("-") and outer > 5 else text
    if op == "cast":
        return f"CAST({_text(args[0], 0)} AS {sql_name(node.value)})"
    if op == "not":
        if args[0].op == "is_null":
            return _wrap(f"{_text(args[0].args[0], 5)} IS NOT NULL", 4, outer)
        return _wrap(f"NOT {_text(args[0], 3)}", 3, outer)
    if op == "is_null":
        return _wrap(f"{_text(args[0], 5)} IS NULL", 4, outer)
    if op == "neg":
        return f"-({_text(args[0], 0)})" if args[0].op == "literal" else f"-{_text(args[0], 8)}"
    if op == "case":
        whens = "".join(f" WHEN {_text(args[k], 0)} THEN {_text(args[k + 1], 0)}" for k in range(0, len(args) - 1, 2))
        return f"CASE{whens} ELSE {_text(args[-1], 0)} END"
    if op == "in":  # only before resolve, which turns it into an `or` of equalities
        listed = ", ".join(_text(arg, 0) for arg in args[1:])
        return _wrap(f"{_text(args[0], 5)} IN ({listed})", 4, outer)
    if op == "function":
        name = getattr(node.value, "__name__", "function").strip("<>")
        return f"python {name}({', '.join(_text(arg, 0) for arg in args)})"
    return f"{op}({', '.join(_text(arg, 0) for arg in args)})"


def _wrap(text: str, strength: int, outer: int) -> str:
    return f"({text})" if strength < outer else text


def literal_sql(value: Any, type: Type | None = None) -> str:
    """A constant as Spark SQL text that reads back as the same value and kind.

    >>> literal_sql(1.5), literal_sql(Decimal("1.5")), literal_sql("a"), literal_sql(dt.timedelta(seconds=90))
    ('1.5D', '1.5', "'a'", "INTERVAL '90' SECOND")
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        name = "float" if type is not None and type.bits == 32 else "double"
        if not math.isfinite(value):
            text = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
            return f"CAST('{text}' AS {name})"
        return f"{value!r}D" if name == "double" else f"{_shortest_float32(value)}F"
    if isinstance(value, Decimal):
        text = format(value, "f")
        return text if "." in text else text + "BD"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if isinstance(value, dt.datetime):
        wall_clock = type is not None and not type.aware
        return f"TIMESTAMP{'_NTZ' if wall_clock else ''} '{value.isoformat(sep=' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, dt.timedelta):
        return _interval_sql(value // _MICROSECOND)
    return str(value)


def _interval_sql(micros: int) -> str:
    """In the longest unit that needs no fraction, or else in seconds."""
    for unit, length in (("DAY", 86_400), ("HOUR", 3_600), ("MINUTE", 60)):
        if micros and micros % (length * 1_000_000) == 0:
            return f"INTERVAL '{micros // (length * 1_000_000)}' {unit}"
    whole, part = divmod(abs(micros), 1_000_000)
    digits = f"{whole}.{part:06d}".rstrip("0").rstrip(".")
    return f"INTERVAL '{'-' if micros < 0 else ''}{digits}' SECOND"


def _shortest_float32(value: float) -> str:
    import numpy as np

    return str(np.float32(value))
