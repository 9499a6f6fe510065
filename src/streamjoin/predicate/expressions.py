"""Predicates as Python expressions over the two sides: `(abs(r.x - s.a) <= 10) & (r.k == s.k)`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NoReturn

from streamjoin.errors import PredicateError, shown
from streamjoin.predicate.calls import call
from streamjoin.predicate.operations import FUNCTIONS, PUBLIC
from streamjoin.predicate.tree import Node, between, brief, column, junction, literal, negate, to_sql
from streamjoin.predicate.types import CASTABLE, FLOAT32, parse_name, timestamp


class Expression:
    """A column, constant or computation that a predicate is built from, with Spark SQL's meaning of its text.

    >>> (abs(r.x - s.a) <= 10) & r.k.isin(["a", "b"])
    <abs(r.x - s.a) <= 10 AND r.k IN ('a', 'b')>
    """

    __slots__ = ("_node",)
    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None  # numpy numbers on the left hand the operation over to us

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def node(self) -> Node:
        """The tree behind the expression."""
        return self._node

    def __repr__(self) -> str:
        return f"<{to_sql(self._node, 10_000)}>"

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"the truth of {brief(self._node)} is not known before the join. Combine conditions with & | ~ "
            "instead of and, or, not, with parentheses around each: (r.x > 1) & (s.y > 2). "
            "Write a < b < c as (a < b) & (b < c) or b.between(a, c)"
        )

    def __iter__(self) -> NoReturn:
        raise TypeError(f"{brief(self._node)} is a single value per pair; it cannot be iterated over")

    def __add__(self, other: Any) -> Expression:
        return _binary("add", self, other)

    def __radd__(self, other: Any) -> Expression:
        return _binary("add", other, self)

    def __sub__(self, other: Any) -> Expression:
        return _binary("sub", self, other)

    def __rsub__(self, other: Any) -> Expression:
        return _binary("sub", other, self)

    def __mul__(self, other: Any) -> Expression:
        return _binary("mul", self, other)

    def __rmul__(self, other: Any) -> Expression:
        return _binary("mul", other, self)

    def __truediv__(self, other: Any) -> Expression:
        return _binary("div", self, other)

    def __rtruediv__(self, other: Any) -> Expression:
        return _binary("div", other, self)

    def __mod__(self, other: Any) -> Expression:
        return _binary("mod", self, other)

    def __rmod__(self, other: Any) -> Expression:
        return _binary("mod", other, self)

    def __floordiv__(self, other: Any) -> NoReturn:
        raise TypeError(
            "// is not supported, because Python rounds down and SQL's DIV toward zero; "
            "write div(a, b) for DIV or floor(a / b) to round down"
        )

    __rfloordiv__ = __floordiv__

    def __neg__(self) -> Expression:
        return Expression(negate(self._node))

    def __pos__(self) -> Expression:
        return self

    def __abs__(self) -> Expression:
        return Expression(Node("abs", (self._node,)))

    def __pow__(self, other: Any) -> Expression:
        return _binary("power", self, other)

    def __rpow__(self, other: Any) -> Expression:
        return _binary("power", other, self)

    def __floor__(self) -> Expression:
        return Expression(Node("floor", (self._node,)))

    def __ceil__(self) -> Expression:
        return Expression(Node("ceil", (self._node,)))

    def __round__(self, digits: int | None = None) -> Expression:
        if digits is not None:
            raise TypeError("round() takes no number of digits here; write round(x * 100) / 100")
        return Expression(Node("round", (self._node,)))

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return _binary("eq", self, other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return _binary("ne", self, other)

    def __lt__(self, other: Any) -> Expression:
        return _binary("lt", self, other)

    def __le__(self, other: Any) -> Expression:
        return _binary("le", self, other)

    def __gt__(self, other: Any) -> Expression:
        return _binary("gt", self, other)

    def __ge__(self, other: Any) -> Expression:
        return _binary("ge", self, other)

    def __and__(self, other: Any) -> Expression:
        return _junction("and", self, other)

    def __rand__(self, other: Any) -> Expression:
        return _junction("and", other, self)

    def __or__(self, other: Any) -> Expression:
        return _junction("or", self, other)

    def __ror__(self, other: Any) -> Expression:
        return _junction("or", other, self)

    def __invert__(self) -> Expression:
        return Expression(Node("not", (self._node,)))

    def between(self, low: Any, high: Any) -> Expression:
        """low <= self <= high, both ends included.

        >>> r.x.between(s.a - 10, s.a + 10)
        <r.x >= s.a - 10 AND r.x <= s.a + 10>
        """
        return Expression(between(self._node, as_node(low), as_node(high)))

    def isin(self, values: Any) -> Expression:
        """Is it equal to one of the values?

        >>> r.k.isin([1, 2])
        <r.k IN (1, 2)>
        """
        if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
            raise TypeError(f"isin takes a list of values, not {shown(values)}; write isin([{shown(values)}])")
        options = tuple(as_node(value) for value in values)
        if not options:
            raise PredicateError(f"{brief(self._node)}.isin([]): the list is empty, so nothing could match")
        return Expression(Node("in", (self._node, *options)))

    def is_null(self) -> Expression:
        """Is it null?

        >>> r.x.is_null()
        <r.x IS NULL>
        """
        return Expression(Node("is_null", (self._node,)))

    def is_not_null(self) -> Expression:
        """Is it anything but null?

        >>> r.x.is_not_null()
        <r.x IS NOT NULL>
        """
        return Expression(Node("not", (Node("is_null", (self._node,)),)))

    def eq_null_safe(self, other: Any) -> Expression:
        """Equality in which two nulls are equal, SQL's <=>.

        >>> r.x.eq_null_safe(s.x)
        <r.x <=> s.x>
        """
        return _binary("eq_null_safe", self, other)

    def cast(self, to: str) -> Expression:
        """The value as another type, by Spark's name for it.

        >>> r.x.cast("bigint")
        <CAST(r.x AS bigint)>
        """
        return cast(self, to)


class Side:
    """One of the two streams: `r.x` or `r["odd name"]` is a column of it.

    >>> r.price - s["best bid"]
    <r.price - s.`best bid`>
    """

    __slots__ = ("_side",)

    def __init__(self, side: str) -> None:
        self._side = side

    def __getattr__(self, name: str) -> Expression:
        # Notebooks and copy look for methods by such names; a column called so is reached with r["..."].
        if name.startswith(("__", "_repr_", "_ipython_")):
            raise AttributeError(name)
        return Expression(column(self._side, name))

    def __getitem__(self, name: str) -> Expression:
        if not isinstance(name, str):
            raise TypeError(f"a column's name is a string: {self._side}[{shown(name)}]")
        return Expression(column(self._side, name))

    def __repr__(self) -> str:
        return self._side

    def __reduce__(self) -> tuple[type[Side], tuple[str]]:
        return Side, (self._side,)


r = Side("r")
"""The left stream."""
s = Side("s")
"""The right stream."""


def as_node(value: Any) -> Node:
    """The tree of an expression or of a Python constant."""
    if isinstance(value, Expression):
        return value.node
    if isinstance(value, Side):
        raise TypeError(f"{value!r} is a whole side; name a column of it, as in {value!r}.x")
    if isinstance(value, When):
        return value.otherwise(None).node
    if value is None or isinstance(value, (bool, int, float, Decimal, str, bytes)):
        return literal(value)
    # Only pandas' subclasses of datetime and timedelta have these.
    if any(getattr(value, finer, None) for finer in ("nanosecond", "nanoseconds")):
        raise PredicateError(f"{shown(value)} is finer than a microsecond, the unit of constants; round it")
    if isinstance(value, dt.datetime):
        # Unlike TIMESTAMP '...' in SQL text, a datetime without tzinfo is not silently taken for UTC.
        return literal(value, None if value.tzinfo is not None else timestamp())
    if isinstance(value, (dt.date, dt.timedelta)):
        return literal(value)
    return _from_numpy(value)


def _from_numpy(value: Any) -> Node:
    import numpy as np

    if isinstance(value, (np.datetime64, np.timedelta64)):
        unit = "datetime64[us]" if isinstance(value, np.datetime64) else "timedelta64[us]"
        rounded = value.astype(unit)
        if np.isnat(value) or rounded != value:
            raise PredicateError(f"{shown(value)} is not a time that is exact to the microsecond")
        return as_node(rounded.item())
    if isinstance(value, np.float32):
        return literal(float(value), FLOAT32)
    if isinstance(value, np.generic):
        return as_node(value.item())
    raise TypeError(
        f"{shown(value)} ({type(value).__name__}) cannot be used in a predicate; "
        "constants are numbers, bools, strings, bytes, Decimal, datetime, date, timedelta or None"
    )


def _binary(op: str, a: Any, b: Any) -> Expression:
    return Expression(Node(op, (as_node(a), as_node(b))))


def _junction(op: str, a: Any, b: Any) -> Expression:
    for part in (a, b):
        if not isinstance(part, (Expression, bool)):
            raise TypeError(
                f"{'&' if op == 'and' else '|'} combines conditions, and {shown(part)} is none; "
                "put parentheses around comparisons: (r.x > 1) & (s.y > 2)"
            )
    return Expression(junction(op, [as_node(a), as_node(b)]))


def lit(value: Any) -> Expression:
    """A constant as an expression, where Python would compute too early.

    >>> lit(1) / 2 + r.x
    <1 / 2 + r.x>
    """
    return Expression(as_node(value))


def div(a: Any, b: Any) -> Expression:
    """Integer division that rounds toward zero, SQL's DIV; null if b is zero.

    >>> div(r.x, 10) == s.bucket
    <r.x DIV 10 = s.bucket>
    """
    return _binary("intdiv", a, b)


def cast(value: Any, to: str) -> Expression:
    """The value as another type, by Spark's name for it.

    >>> cast(r.x, "double") / 3
    <CAST(r.x AS double) / 3>
    """
    target = parse_name(to) if isinstance(to, str) else None
    if target is None:
        raise PredicateError(f"cannot cast to {shown(to)}; supported: {CASTABLE}")
    return Expression(Node("cast", (as_node(value),), target))


class When:
    """A CASE under construction: add branches with `when`, end it with `otherwise` (or leave null)."""

    __slots__ = ("_args",)

    def __init__(self, args: tuple[Node, ...]) -> None:
        self._args = args

    def when(self, condition: Any, value: Any) -> When:
        """One more branch, tried if none before it was taken."""
        return When((*self._args, as_node(condition), as_node(value)))

    def otherwise(self, value: Any) -> Expression:
        """The value if no branch was taken."""
        return Expression(Node("case", (*self._args, as_node(value))))

    def __repr__(self) -> str:
        return f"{self.otherwise(None)!r}, waiting for .otherwise(value)"


def when(condition: Any, value: Any) -> When:
    """SQL's CASE: the value of the first condition that holds.

    >>> r.x <= when(s.kind == "wide", 100).when(s.kind == "narrow", 1).otherwise(10)
    <r.x <= CASE WHEN s.kind = 'wide' THEN 100 WHEN s.kind = 'narrow' THEN 1 ELSE 10 END>
    """
    return When((as_node(condition), as_node(value)))


def __getattr__(name: str) -> Callable[..., Expression]:
    """The SQL functions of `operations.PUBLIC`, each by its name.

    >>> from streamjoin.predicate.expressions import atan2, floor, least
    >>> least(r.x, s.a, 10) < floor(r.y / 10)
    <least(r.x, s.a, 10) < floor(r.y / 10)>
    >>> atan2.__doc__
    'The angle of the point with y = a and x = b.'
    """
    if name not in PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def function(*values: Any) -> Expression:
        try:
            return Expression(call(name, tuple(as_node(value) for value in values)))
        except PredicateError as error:
            raise TypeError(str(error)) from None

    function.__name__ = function.__qualname__ = name
    function.__doc__ = " ".join(row.help for row in FUNCTIONS[name])
    globals()[name] = function
    return function
