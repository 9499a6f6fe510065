"""Types comparisons as Spark does, on operands that are already resolved."""

from __future__ import annotations

from decimal import Decimal

from streamjoin.errors import PredicateError
from streamjoin.predicate.coerce import cast_to, common, decimal_of, mismatch, round_to_scale, show, wider
from streamjoin.predicate.fold import WIDE, int_range
from streamjoin.predicate.operations import OPERATIONS
from streamjoin.predicate.tree import Node, brief, literal
from streamjoin.predicate.types import BOOL, INT32, INT64, NULL, STRING, decimal, is_number

_EQUALITY = ("eq", "ne", "eq_null_safe")
_TEXT = ("string", "binary")


def compare(op: str, a: Node, b: Node) -> Node:
    """`a op b` with both operands in one type, or an equivalent that needs no rounding."""
    if a.typed == NULL and b.typed == NULL:
        return literal(True if op == "eq_null_safe" else None, BOOL)
    kinds = {a.typed.kind, b.typed.kind}
    if kinds & {"string", "binary"}:
        return _text(op, a, b)
    if kinds != {"bool"} and "bool" in kinds and "null" not in kinds:
        return _bool_and_number(op, a, b)
    if kinds == {"decimal", "int"} or kinds == {"decimal"}:
        return _exact(op, a, b)
    target = wider(a.typed, b.typed)
    if target is None:
        raise mismatch(_shown(op, a, b), a, b)
    return Node(op, (cast_to(a, target), cast_to(b, target)), type=BOOL)


def is_in(value: Node, options: list[Node]) -> Node:
    """`value IN (options)` as an `or` of equalities, all in the one type that Spark compares them in."""
    nodes = [value, *options]
    shown = f"{brief(value)} IN (...)"
    kinds = {node.typed.kind for node in nodes}
    if kinds & set(_TEXT):
        equalities = [compare("eq", value, option) for option in options]
    else:
        target = common(nodes, shown)
        if target.kind in ("decimal", "int"):
            # Exact either way; pairwise keeps integers integers.
            equalities = [compare("eq", value, option) for option in options]
        else:
            value = cast_to(value, target)
            equalities = [compare("eq", value, cast_to(option, target)) for option in options]
    return equalities[0] if len(equalities) == 1 else Node("or", tuple(equalities), type=BOOL)


def _shown(op: str, a: Node, b: Node) -> str:
    return brief(Node(op, (a, b)))


def _text(op: str, a: Node, b: Node) -> Node:
    """Strings and bytes: equality only, of columns and literals of one kind."""
    for text, other in ((a, b), (b, a)):
        written = text.op == "literal" and text.typed == STRING
        if written and other.typed.kind in ("timestamp", "date"):
            first, second = (cast_to(n, other.typed) if n is text else n for n in (a, b))
            return Node(op, (first, second), type=BOOL)
    target = wider(a.typed, b.typed)
    if target is None:
        raise mismatch(_shown(op, a, b), a, b)
    if op not in _EQUALITY:
        raise PredicateError(
            f"{_shown(op, a, b)}: text can only be compared with =, <>, <=>, IN and IS NULL; "
            f"{show(a if a.op == 'column' else b)} has no order here"
        )
    return Node(op, (cast_to(a, target), cast_to(b, target)), type=BOOL)


def _bool_and_number(op: str, a: Node, b: Node) -> Node:
    flag, number = (a, b) if a.typed == BOOL else (b, a)
    if op not in _EQUALITY or not is_number(number.typed):
        raise PredicateError(
            f"{_shown(op, a, b)}: {show(flag)} cannot be compared with {show(number)}; compare it with TRUE or FALSE"
        )
    counted = cast_to(flag, INT32 if number.typed.kind == "decimal" else number.typed)
    return compare(op, counted, b) if flag is a else compare(op, a, counted)


def _exact(op: str, a: Node, b: Node) -> Node:
    """Decimals and integers: compared exactly, against a literal in the units of the other operand."""
    if a.op == "literal" and b.op != "literal":
        return _exact(OPERATIONS[op].mirrored, b, a)
    if b.op == "literal" and b.constant is not None and a.op != "literal":
        return _against_literal(op, a, Decimal(b.constant))
    x, y = decimal_of(a), decimal_of(b)
    target = wider(x, y)
    if target is None:
        raise mismatch(_shown(op, a, b), a, b)
    return Node(op, (cast_to(a, target), cast_to(b, target)), type=BOOL)


def _against_literal(op: str, a: Node, value: Decimal) -> Node:
    """As Spark's optimiser does: x < 1.5 over integers is x <= 1, and x = 1.5 never holds."""
    scale = a.typed.scale if a.typed.kind == "decimal" else 0
    below, exact = round_to_scale(value, scale)
    if not exact:
        if op in _EQUALITY:
            return _constant(a, op)
        op, below = ("le", below) if op in ("lt", "le") else ("ge", below + 1)
    low, high = int_range(64)
    if not low <= below <= high:
        if op in _EQUALITY:
            return _constant(a, op)
        return _constant(a, "ne" if (below > high) == (op in ("lt", "le")) else "eq")
    if a.typed.kind == "int":
        bound = literal(below, INT32 if int_range(32)[0] <= below <= int_range(32)[1] else INT64)
        target = wider(a.typed, bound.typed)
    else:
        target = decimal(max(a.typed.precision, len(str(abs(below)))), scale)
        bound = literal(Decimal(below).scaleb(-scale, WIDE), target)
    assert target is not None
    return Node(op, (cast_to(a, target), cast_to(bound, target)), type=BOOL)


def _constant(a: Node, op: str) -> Node:
    """What `a op x` answers for an x that a never equals: a plain answer unless a is null."""
    if op == "eq_null_safe":
        return literal(False, BOOL)
    missing = Node("is_null", (a,), type=BOOL)
    unknown = literal(None, BOOL)
    if op == "eq":
        return Node("and", (missing, unknown), type=BOOL)
    return Node("or", (Node("not", (missing,), type=BOOL), unknown), type=BOOL)
