"""Computes with constants while the predicate is resolved, with Spark's answers."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation, localcontext
from fractions import Fraction
from typing import Any

from streamjoin.errors import PredicateError
from streamjoin.predicate.literals import parse_date, parse_timestamp
from streamjoin.predicate.operations import OPERATIONS
from streamjoin.predicate.tree import Node, brief
from streamjoin.predicate.types import INT64, Type, sql_name

WIDE = Context(prec=80)
"""For all computing with decimals: the thread's own context is the user's, and rounds to 28 digits."""

_EPOCH = dt.datetime(1970, 1, 1)


def int_range(bits: int) -> tuple[int, int]:
    """The smallest and largest signed integer of this many bits."""
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def to_float32(value: int | float | Decimal) -> float:
    """The float32 nearest to the exact value, ties to even, in one rounding.

    >>> to_float32(16777217), to_float32(Decimal("0.1"))
    (16777216.0, 0.10000000149011612)
    """
    import numpy as np

    if isinstance(value, float):
        with np.errstate(over="ignore"):
            return float(np.float32(value))
    exact = Fraction(value)
    with np.errstate(over="ignore"):
        near = np.float32(float(value))
    if not np.isfinite(near):
        return float(near)
    neighbours = [near, np.nextafter(near, np.float32(-np.inf)), np.nextafter(near, np.float32(np.inf))]
    finite = [f for f in neighbours if np.isfinite(f)]
    # The even one of two equally near has a zero in the last place of its bit pattern.
    best = min(finite, key=lambda f: (abs(Fraction(float(f)) - exact), int(f.view(np.uint32)) & 1))
    return float(best)


def fold_cast(node: Node, target: Type) -> Any:
    """The value of CAST(literal AS target), or an error where Spark would wrap, round away or answer NULL."""
    value, source = node.constant, node.typed
    if value is None:
        return None
    try:
        result = _cast(value, source, target)
    except (ValueError, InvalidOperation, OverflowError) as error:
        if isinstance(error, PredicateError):
            raise
        result = None
    if result is None:
        raise PredicateError(f"{brief(node)} is not a valid {sql_name(target)}; correct the constant or its type")
    return result


def _cast(value: Any, source: Type, target: Type) -> Any:
    if source.kind == "string":
        return _from_text(value.strip(), target)
    if target.kind == "timestamp":
        return _to_timestamp(value, source, target)
    if source.kind == "timestamp":
        utc = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo is not None else value
        if target.kind == "date":
            return utc.date()
        return (utc - _EPOCH) // dt.timedelta(seconds=1) if target == INT64 else None
    if source.kind == target.kind and target.kind in ("interval", "string", "binary", "date"):
        return value
    if source.kind not in ("bool", "int", "float", "decimal"):
        return None
    if target.kind == "bool":
        return value != 0
    if target.kind == "float":
        return to_float32(value) if target.bits == 32 else float(value)
    if target.kind == "int":
        return _to_int(value, target)
    if target.kind == "decimal":
        return _to_decimal(Decimal(repr(value)) if isinstance(value, float) else Decimal(value), target)
    return None


def _to_timestamp(value: Any, source: Type, target: Type) -> dt.datetime | None:
    if source.kind == "timestamp":
        return value  # type: ignore[no-any-return]
    if source.kind == "date":
        return dt.datetime(value.year, value.month, value.day)
    if source.kind == "int" and target.aware:
        return _EPOCH + dt.timedelta(seconds=value)
    return None


def _to_int(value: Any, target: Type) -> int | None:
    low, high = int_range(target.bits)
    if isinstance(value, float):
        if math.isnan(value):
            return 0
        if target.bits >= 32:  # Spark saturates here and wraps below, which is why the rest is range-checked
            return max(low, min(high, int(value) if math.isfinite(value) else (high if value > 0 else low)))
    whole = int(value)
    return whole if low <= whole <= high else None


def _to_decimal(value: Decimal, target: Type) -> Decimal | None:
    if not value.is_finite():
        return None
    rounded = value.quantize(Decimal(1).scaleb(-target.scale), ROUND_HALF_UP, WIDE)
    return rounded if rounded.adjusted() < target.precision - target.scale or not rounded else None


def _from_text(text: str, target: Type) -> Any:
    if target.kind == "float":
        number = float(text)
        if math.isfinite(number) and number and target.bits == 32:
            return to_float32(Decimal(text))
        return number
    if target.kind == "int":
        return _to_int(int(text), target)
    if target.kind == "decimal":
        return _to_decimal(Decimal(text), target)
    if target.kind == "date":
        return parse_date(text)
    if target.kind == "timestamp":
        return parse_timestamp(text)
    if target.kind == "bool":
        return {"true": True, "false": False}.get(text.lower())
    return text if target.kind == "string" else None


def fold(node: Node) -> Node:
    """The node as a literal if it computes with literals, and the answer fits its type; else unchanged."""
    row = OPERATIONS.get(node.op)
    compute = row.fold if row else None
    if compute is None or any(arg.op != "literal" for arg in node.args):
        return node
    target = node.typed
    if any(arg.constant is None for arg in node.args):
        return Node("literal", value=None, type=target)
    try:
        result = _fitted(compute, [arg.constant for arg in node.args], target)
    except (ValueError, OverflowError, InvalidOperation):  # left to run time, which has an answer
        return node
    if target.kind == "int" and result is not None:
        low, high = int_range(target.bits)
        if not low <= result <= high:
            return node  # left to run time, where integers are computed in 64 checked bits
    return Node("literal", value=result, type=target)


def _fitted(compute: Callable[..., Any], values: list[Any], target: Type) -> Any:
    """The result as a value of its type."""
    if target.kind == "decimal":
        with localcontext(WIDE):
            exact = compute(*map(Decimal, values))
        if exact is None or len(values) == 1:
            return exact
        rounded = _to_decimal(exact, target)
        if rounded is None:
            raise OverflowError
        return rounded
    if target.kind == "date":
        day, days = values
        return compute(day, dt.timedelta(days=days))
    if target.kind == "interval":
        values = [_naive(value) if isinstance(value, dt.datetime) else value for value in values]
    result = compute(*values)
    single = target.kind == "float" and target.bits == 32 and result is not None
    return to_float32(result) if single else result


def _naive(value: dt.datetime) -> dt.datetime:
    return value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo is not None else value
