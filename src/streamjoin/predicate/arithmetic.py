"""Types arithmetic as Spark does, on operands that are already resolved."""

from __future__ import annotations

from streamjoin.errors import PredicateError, cut
from streamjoin.predicate.coerce import FLOATING, cast_to, decimal_of, mismatch, show, wider
from streamjoin.predicate.fold import fold
from streamjoin.predicate.operations import OPERATIONS
from streamjoin.predicate.tree import Node, brief
from streamjoin.predicate.types import FLOAT64, INT64, NULL, Type, decimal, interval, is_number, sql_name

_TIMES = ("timestamp", "date")


def binary(op: str, a: Node, b: Node, unit: str) -> Node:
    """`a op b` for + - * / DIV %; `unit` is the predicate's unit of time."""
    kinds = (a.typed.kind, b.typed.kind)
    if "interval" in kinds or any(kind in _TIMES for kind in kinds):
        return fold(_temporal(op, a, b, unit))
    if "null" in kinds:
        a, b = _typed_nulls(a, b)
    if not (_is_number(a) and _is_number(b)):
        wrong = b if _is_number(a) else a
        raise PredicateError(
            f"{brief(Node(op, (a, b)))}: arithmetic needs numbers, but {show(wrong)} is none"
            + ("; write CAST(... AS int) to count it as 0 or 1" if wrong.typed.kind == "bool" else "")
        )
    if op == "div":
        return fold(_divide(a, b))
    if op == "intdiv":
        return fold(_integer_divide(a, b))
    if "decimal" in (a.typed.kind, b.typed.kind) and "float" not in (a.typed.kind, b.typed.kind):
        result = fold(_decimal(op, a, b))
        if result.op in ("div", "mod"):
            raise _inexact(op, a, b)
        return result
    target = wider(a.typed, b.typed)
    assert target is not None
    return fold(Node(op, (cast_to(a, target), cast_to(b, target)), type=target))


def signed(op: str, a: Node) -> Node:
    """`-a` or `abs(a)`."""
    if a.typed == NULL:
        a = cast_to(a, FLOAT64)
    if not _is_number(a) and a.typed.kind != "interval":
        raise PredicateError(f"{brief(Node(op, (a,)))}: needs a number or an interval, not {show(a)}")
    return fold(Node(op, (a,), type=a.typed))


def whole(op: str, a: Node) -> Node:
    """floor or ceil: bigint from integers and floats, a decimal without fraction from decimals."""
    t = a.typed
    if t.kind == "int":
        return cast_to(a, INT64)
    if t.kind in ("float", "null"):
        return Node(op, (cast_to(a, FLOAT64),), type=INT64)
    if t.kind == "decimal":
        return Node(op, (a,), type=decimal(max(t.precision - t.scale + 1, 1), 0))
    raise PredicateError(f"{op}({brief(a)}): needs a number, not {show(a)}")


def rounded(op: str, a: Node) -> Node:
    """round: of the value's own type, but a decimal may need one digit more before the point."""
    t = a.typed
    if t.kind == "int":
        return a
    if t.kind == "decimal":
        whole = decimal(t.precision - t.scale + 1, 0)
        return Node(op, (a,), type=whole) if t.scale else cast_to(a, whole)
    return cast_to(double(op, [a]), FLOAT64 if t == NULL else t)


def double(op: str, args: list[Node]) -> Node:
    """A function of doubles: always double."""
    for a in args:
        if not _is_number(a) and a.typed != NULL:
            raise PredicateError(f"{brief(Node(op, tuple(args)))}: needs a number, not {show(a)}")
    return fold(Node(op, tuple(cast_to(a, FLOAT64) for a in args), type=FLOAT64))


def _is_number(node: Node) -> bool:
    return is_number(node.typed)


def _typed_nulls(a: Node, b: Node) -> tuple[Node, Node]:
    if a.typed == NULL:
        a = cast_to(a, FLOAT64 if b.typed == NULL else b.typed)
    if b.typed == NULL:
        b = cast_to(b, a.typed)
    return a, b


def _divide(a: Node, b: Node) -> Node:
    kinds = {a.typed.kind, b.typed.kind}
    if "decimal" in kinds and "float" not in kinds:
        result = fold(_decimal("div", a, b)) if a.op == b.op == "literal" else None
        if result is None or result.op != "literal":
            raise _inexact("div", a, b)
        return result
    return Node("div", (cast_to(a, FLOAT64), cast_to(b, FLOAT64)), type=FLOAT64)


def _integer_divide(a: Node, b: Node) -> Node:
    for operand in (a, b):
        if operand.typed.kind != "int":
            raise PredicateError(
                f"{brief(Node('intdiv', (a, b)))}: DIV needs integers, not {show(operand)}; "
                "write floor(a / b), or cast to bigint first"
            )
    return Node("intdiv", (cast_to(a, INT64), cast_to(b, INT64)), type=INT64)


def _decimal(op: str, a: Node, b: Node) -> Node:
    """Decimal with decimal or integer: exact, or refused."""
    x, y = decimal_of(a), decimal_of(b)
    if op in ("div", "mod") and not a.op == b.op == "literal":
        raise _inexact(op, a, b)
    exact = _exact_type(op, x, y)
    target = bounded(exact)
    if target.scale < exact.scale and op != "div":
        raise PredicateError(
            f"{brief(Node(op, (a, b)))}: the exact result needs {exact.precision} digits, Spark keeps 38: "
            "it would be rounded; cast the operands to double or to shorter decimals before joining"
        )
    if op in ("add", "sub"):
        return Node(op, (cast_to(a, target), cast_to(b, target)), type=target)
    return Node(op, (cast_to(a, x), cast_to(b, y)), type=target)


def _exact_type(op: str, x: Type, y: Type) -> Type:
    """The type of the result before Spark bounds it to 38 digits."""
    if op == "mul":
        return decimal(x.precision + y.precision + 1, x.scale + y.scale)
    if op == "div":
        scale = max(6, x.scale + y.precision + 1)
        return decimal(x.precision - x.scale + y.scale + scale, scale)
    scale = max(x.scale, y.scale)
    if op == "mod":
        return decimal(min(x.precision - x.scale, y.precision - y.scale) + scale, scale)
    return decimal(max(x.precision - x.scale, y.precision - y.scale) + scale + 1, scale)


def bounded(t: Type) -> Type:
    """Spark's adjustment to 38 digits: the fraction shrinks first, but not below six digits.

    >>> str(bounded(decimal(56, 18)))
    'decimal(38,6)'
    """
    if t.precision <= 38:
        return t
    whole = t.precision - t.scale
    return decimal(38, max(38 - whole, min(t.scale, 6)))


def _inexact(op: str, a: Node, b: Node) -> PredicateError:
    sign = OPERATIONS[op].sign
    exact = a if a.typed.kind == "decimal" else b
    if exact.op == "literal":
        remedy = f"write the constant as a double, {cut(str(exact.value))}D"
    else:
        remedy = f"write CAST({brief(exact)} AS double), or divide before joining"
    return PredicateError(
        f"{brief(a)} {sign} {brief(b)}: decimal {sign} rounds, and {show(exact)} would make it decimal; " + remedy
    )


def _temporal(op: str, a: Node, b: Node, unit: str) -> Node:
    """Arithmetic with timestamps, dates and intervals. The result has the time first, then the amount."""
    span = interval(unit)
    x, y = a.typed.kind, b.typed.kind
    if op == "add" and y in _TIMES and x not in _TIMES:
        a, b, x, y = b, a, y, x
    if op in ("add", "sub") and x in _TIMES:
        if y == "int" and x == "date":
            return _shift_date(op, a, b)
        if y == "interval" or (y == "null" and op == "add"):
            time = cast_to(a, FLOATING) if x == "date" else a
            return Node(op, (time, cast_to(b, span)), type=time.typed)
        if op == "sub" and (y in _TIMES or y == "null"):
            return _difference(a, b, span)
    if op == "sub" and x == "null" and y in _TIMES:
        return _difference(a, b, span)
    if op in ("add", "sub") and {x, y} <= {"interval", "null"}:
        return Node(op, (cast_to(a, span), cast_to(b, span)), type=span)
    if op == "mul" and "interval" in (x, y):
        if x != "interval":
            a, b, x, y = b, a, y, x
        if y in ("int", "null"):
            return Node(op, (a, cast_to(b, INT64)), type=span)
        if is_number(b.typed):
            raise PredicateError(
                f"{brief(Node(op, (a, b)))}: an interval can be multiplied by an integer only, "
                f"not by {show(b)}; use a smaller unit, such as milliseconds"
            )
    raise _no_such(op, a, b)


def _shift_date(op: str, a: Node, b: Node) -> Node:
    if b.typed.bits == 64:
        raise PredicateError(
            f"{brief(Node(op, (a, b)))}: a date takes an int of days, not {show(b)}; write CAST({brief(b)} AS int)"
        )
    return Node(op, (a, b), type=a.typed)


def _difference(a: Node, b: Node, span: Type) -> Node:
    target = wider(a.typed, b.typed)
    if target is None:
        raise mismatch(brief(Node("sub", (a, b))), a, b)
    if target.kind == "date":
        target = FLOATING
    return Node("sub", (cast_to(a, target), cast_to(b, target)), type=span)


def _no_such(op: str, a: Node, b: Node) -> PredicateError:
    kinds = {a.typed.kind, b.typed.kind}
    if "timestamp" in kinds and kinds & {"int", "float", "decimal"}:
        remedy = "add an interval: INTERVAL 5 SECONDS, or timedelta(seconds=5)"
    elif "interval" in kinds:
        remedy = "intervals can be added, subtracted, compared, and multiplied by an integer"
    else:
        remedy = "times can be subtracted from each other and shifted by an interval"
    return PredicateError(
        f"{brief(Node(op, (a, b)))}: {OPERATIONS[op].sign} is not defined for {sql_name(a.typed)} and "
        f"{sql_name(b.typed)}; {remedy}"
    )
