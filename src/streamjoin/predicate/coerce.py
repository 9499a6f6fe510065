"""Spark's rules (ANSI off) for the type that operands meet in, and which casts a predicate may contain.

Every rule here was read off Spark's analyser and is compared with it in tests/test_resolve.py.
"""

from __future__ import annotations

from decimal import Decimal

from streamjoin.errors import PredicateError, cut
from streamjoin.predicate.fold import fold_cast
from streamjoin.predicate.tree import Node, brief
from streamjoin.predicate.types import (
    CASTABLE,
    FLOAT64,
    FLOATS,
    INT64,
    INTS,
    NULL,
    Type,
    decimal,
    is_number,
    sql_name,
    timestamp,
)

FLOATING = timestamp("floating")
"""While resolving: a timestamp from a date or from text without a zone; it fits naive and aware ones."""

EXACT_DIGITS = 15
"""Decimals of up to this many digits become the nearest double by one division of exact numbers."""

_INT_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}


def show(node: Node) -> str:
    """An operand as errors name it: column, side, type, or the text of the expression."""
    kind = f" ({sql_name(node.type)})" if node.type is not None else ""
    if node.op == "column":
        side, name = node.column
        return f'column "{cut(name)}" of {side}{kind}' if side else f'column "{cut(name)}"{kind}'
    return f"{brief(node)}{kind}"


def decimal_of(node: Node) -> Type:
    """The decimal type that Spark gives an integer or decimal operand: a literal only its own digits."""
    if node.typed.kind == "decimal":
        return node.typed
    if node.op == "literal" and node.constant is not None:
        return decimal(len(str(abs(node.constant))), 0)
    return decimal(_INT_DIGITS[node.typed.bits], 0)


def wider_decimal(a: Type, b: Type) -> Type | None:
    """The decimal that holds every value of both; None if that takes more than 38 digits."""
    scale = max(a.scale, b.scale)
    precision = max(a.precision - a.scale, b.precision - b.scale) + scale
    return decimal(precision, scale) if precision <= 38 else None


def wider(a: Type, b: Type) -> Type | None:
    """The type that two operands of a comparison, CASE, IN, least, ... meet in; None if they do not.

    >>> from streamjoin.predicate.types import FLOAT32, INT64
    >>> str(wider(INT64, FLOAT32)), str(wider(FLOAT32, decimal(2, 1)))
    ('float', 'double')
    """
    if a == b or b == NULL:
        return a
    if a == NULL:
        return b
    if is_number(a) and is_number(b):
        return _wider_number(a, b)
    if a.kind == b.kind == "timestamp":
        return b if a == FLOATING else a if b == FLOATING else None
    if {a.kind, b.kind} == {"date", "timestamp"}:
        return a if a.kind == "timestamp" else b
    return None


def _wider_number(a: Type, b: Type) -> Type | None:
    if a.kind == b.kind == "int":
        return INTS[max(a.bits, b.bits)]
    if "float" in (a.kind, b.kind):
        if "decimal" in (a.kind, b.kind):
            return FLOAT64
        return FLOATS[max(t.bits for t in (a, b) if t.kind == "float")]
    exact = [t if t.kind == "decimal" else decimal(_INT_DIGITS[t.bits], 0) for t in (a, b)]
    return wider_decimal(*exact)


def common(nodes: list[Node], what: str) -> Type:
    """The one type for all values of an IN, CASE, coalesce, least or greatest."""
    result = NULL
    for node in nodes:
        met = wider(result, node.typed)
        if met is None:
            raise mismatch(what, nodes[0], node)
        result = met
    return result


def mismatch(what: str, a: Node, b: Node) -> PredicateError:
    """The error for two operands that have no common type, with the remedy that fits them."""
    kinds = {node.typed.kind for node in (a, b)}
    if kinds == {"timestamp"}:
        naive, aware = (a, b) if b.typed.aware else (b, a)
        return PredicateError(
            f"{what}: {show(naive)} has no time zone, {show(aware)} has one; give both a time zone before "
            f"joining, or write CAST({brief(naive)} AS timestamp) to read it as UTC"
        )
    if kinds & {"string", "binary"}:
        text = a if a.typed.kind in ("string", "binary") else b
        other = b if text is a else a
        remedy = (
            "write the number without quotes"
            if text.op == "literal" and is_number(other.typed)
            else f"cast {brief(text)} before joining"
        )
        return PredicateError(f"{what}: {show(a)} and {show(b)} cannot be mixed; {remedy}")
    if "interval" in kinds:
        remedy = "an interval is written INTERVAL 5 SECONDS, or timedelta(seconds=5)"
    elif kinds & {"date", "timestamp"}:
        remedy = "compare times with times; CAST(... AS timestamp) reads an integer as seconds since 1970"
    elif kinds == {"decimal"} or kinds == {"decimal", "int"}:
        remedy = "no decimal of 38 digits holds both; cast one of them to a shorter decimal before joining"
    else:
        remedy = "cast one of them, as in CAST(... AS double)"
    return PredicateError(f"{what}: {show(a)} and {show(b)} have no common type; {remedy}")


def cast_to(node: Node, target: Type) -> Node:
    """The node as `target`: itself, a folded literal, or a cast; refused where the answer could differ."""
    source = node.typed
    assert source is not None
    if source == target:
        return node
    if node.op == "literal":
        return Node("literal", value=fold_cast(node, target), type=target)
    reason = _refusal(node, source, target)
    if reason:
        raise PredicateError(f"cannot cast {show(node)} to {sql_name(target)}: {reason}")
    return Node("cast", (node,), target, target)


def _refusal(node: Node, source: Type, target: Type) -> str:
    """Why this cast is refused; empty if it is not."""
    kinds = (source.kind, target.kind)
    if kinds in _FREE_CASTS:
        return ""
    if kinds == ("int", "decimal"):
        return _narrower(decimal(_INT_DIGITS[source.bits], 0), target)
    if kinds == ("bool", "decimal"):
        return _narrower(decimal(1, 0), target)
    if kinds == ("decimal", "decimal"):
        return _narrower(source, target)
    if kinds == ("decimal", "float"):
        digits = EXACT_DIGITS if target.bits == 64 else 7
        if source.precision <= digits and source.scale <= digits:
            return ""
        if node.op == "column":
            remedy = f"compare it with a decimal or an integer, or cast it to {digits} digits before joining"
        else:
            remedy = "write its decimal constants as doubles, 0.5D instead of 0.5"
        return f"{source.precision} digits do not always survive it (at most {digits} do); {remedy}"
    if kinds == ("timestamp", "int"):
        if not source.aware and source != FLOATING:
            return "it has no time zone; write CAST(CAST(... AS timestamp) AS bigint)"
        return "" if target == INT64 else "seconds since 1970 need a bigint"
    if kinds == ("int", "timestamp"):
        return "" if target.aware else "seconds since 1970 are an instant; cast to timestamp instead"
    if target.kind in ("string", "binary", "interval"):
        return f"supported targets are {CASTABLE}"
    if source.kind in ("string", "binary"):
        return "a text column cannot be cast in a predicate; cast it before joining"
    if kinds == ("float", "decimal"):
        return "it would have to be rounded; compare as double instead"
    return f"Spark has no such cast or none that is exact; supported targets are {CASTABLE}"


_FREE_CASTS = frozenset(
    [(a, b) for a in ("bool", "int", "float") for b in ("bool", "int", "float")]
    + [("decimal", "bool"), ("decimal", "int")]
    + [("date", "timestamp"), ("timestamp", "date"), ("timestamp", "timestamp"), ("interval", "interval")]
)


def _narrower(source: Type, target: Type) -> str:
    if target.scale >= source.scale and target.precision - target.scale >= source.precision - source.scale:
        return ""
    needed = wider_decimal(source, target)
    enough = f"; {sql_name(needed)} is wide enough" if needed is not None else ""
    return f"digits could be lost{enough}"


def round_to_scale(value: Decimal, scale: int) -> tuple[int, bool]:
    """The value counted in units of 10**-scale, rounded down, and whether that was exact."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    shift = exponent + scale
    if shift >= 0:
        return number * 10**shift, True
    whole, rest = divmod(number, 10**-shift)
    return whole, rest == 0
