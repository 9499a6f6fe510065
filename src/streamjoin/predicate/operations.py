"""Every operation that a predicate may contain, one row each. All other files read this table and list no names.

The table knows nothing of trees or of generated code. A type rule is a key of `resolve.RULES`, and code is text, so
that the parser, the expressions, the type rules and the code generators can all stand above it. To add a SQL function,
add a row here and a test. Only if a template cannot say it, `codegen/emit.py` or `codegen/emit_numbers.py` gets a
method that is named after the operation.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from itertools import chain
from typing import Any, Literal

Rule = Literal[
    "logic", "comparison", "arithmetic", "signed", "whole", "round", "double", "choice", "case", "cast", "in", "is_null"
]
Null = Literal["any", "all", "own"]
MANY = 2**31  # arguments, if the number is not limited


@dataclass(frozen=True, kw_only=True)
class Operation:
    """What the whole package needs to know about one kind of node.

    `rule` finds its type. `null` says which arguments make the result null: any null one, only all of them together, or
    the operation has rules of its own. `undefined` is a further condition for null, a template over the arguments.

    `code` is a template in the Python that Numba compiles; for an infix operation it is Python's sign. A template
    may call what NumPy and OpenCL C name alike. `exact` says that IEEE 754 fixes every bit of the result. What is not
    exact comes from the C library, may differ from Java's in the last bit, and is refused on OpenCL devices.

    `fold` computes the result for constants. `python` names the functions of `math` and `numpy` that give the same
    result for every number.
    """

    op: str
    rule: Rule
    names: tuple[str, ...] = ()  # of the SQL function
    arity: tuple[int, int] = (1, 1)
    null: Null = "any"
    undefined: str = ""
    code: str = ""
    exact: bool = True
    fold: Callable[..., Any] | None = None
    python: tuple[str, ...] = ()
    sign: str = ""  # between the operands of SQL text
    strength: int = 0  # of the sign: the higher, the tighter it binds
    syntax: str = ""  # sqlglot's class for the sign
    negated: str = ""  # of a comparison: what holds if it does not
    mirrored: str = ""  # of a comparison: the same with its operands exchanged
    help: str = ""


@dataclass(frozen=True, kw_only=True)
class Definition:
    """A SQL function that is short for other SQL, over the parameters a, b and c."""

    name: str
    parameters: str
    text: str
    help: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def arity(self) -> tuple[int, int]:
        return len(self.parameters), len(self.parameters)


_comparison = partial(Operation, rule="comparison", arity=(2, 2), strength=4)
_infix = partial(Operation, rule="arithmetic", arity=(2, 2))
_library = partial(Operation, rule="double", exact=False)


def _quotient(a: Any, b: Any) -> Any:
    return None if b == 0 else a / b


def _truncated(a: int, b: int) -> int | None:
    if b == 0:
        return None
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: Any, b: Any) -> Any:
    """With the sign of the dividend."""
    if b == 0:
        return None
    if isinstance(a, int):
        return a - b * (_truncated(a, b) or 0)
    if isinstance(a, float):
        return math.nan if math.isinf(a) else math.fmod(a, b)
    return a % b


def _negative(a: Any) -> Any:
    return a.copy_negate() if isinstance(a, Decimal) else -a  # Python's minus rounds a Decimal


def _magnitude(a: Any) -> Any:
    return a.copy_abs() if isinstance(a, Decimal) else abs(a)


def _above(asymptote: float, fold: Callable[[float], float]) -> Callable[[float], float | None]:
    """A logarithm: null up to its asymptote."""
    return lambda a: None if a <= asymptote else fold(a)


ROWS: tuple[Operation, ...] = (
    # logic
    Operation(op="or", rule="logic", arity=(2, MANY), null="own", sign="OR", strength=1),
    Operation(op="and", rule="logic", arity=(2, MANY), null="own", sign="AND", strength=2),
    Operation(op="not", rule="logic"),
    Operation(op="is_null", rule="is_null", null="own"),
    Operation(op="in", rule="in", arity=(2, MANY), null="own"),  # resolve makes it an `or` of equalities
    # comparisons
    _comparison(op="eq", sign="=", code="==", syntax="EQ", negated="ne", mirrored="eq"),
    _comparison(op="ne", sign="<>", code="!=", syntax="NEQ", negated="eq", mirrored="ne"),
    _comparison(op="lt", sign="<", code="<", syntax="LT", negated="ge", mirrored="gt"),
    _comparison(op="le", sign="<=", code="<=", syntax="LTE", negated="gt", mirrored="ge"),
    _comparison(op="gt", sign=">", code=">", syntax="GT", negated="le", mirrored="lt"),
    _comparison(op="ge", sign=">=", code=">=", syntax="GTE", negated="lt", mirrored="le"),
    _comparison(op="eq_null_safe", sign="<=>", code="==", syntax="NullSafeEQ", mirrored="eq_null_safe", null="own"),
    # arithmetic
    _infix(op="add", sign="+", strength=5, syntax="Add", code="+", fold=operator.add),
    _infix(op="sub", sign="-", strength=5, syntax="Sub", code="-", fold=operator.sub),
    _infix(op="mul", sign="*", strength=6, syntax="Mul", code="*", fold=operator.mul),
    _infix(op="div", sign="/", strength=6, syntax="Div", code="{0} / {1}", undefined="{1} == 0.0", fold=_quotient),
    _infix(op="intdiv", sign="DIV", strength=6, syntax="IntDiv", fold=_truncated),
    _infix(op="mod", sign="%", strength=6, syntax="Mod", names=("mod",), fold=_remainder),
    Operation(op="neg", rule="signed", names=("negative",), fold=_negative),
    Operation(op="abs", rule="signed", names=("abs",), fold=_magnitude),
    # choices
    Operation(
        op="least", rule="choice", names=("least",), arity=(2, MANY), null="all",
        help="The smallest of the values; nulls are skipped, NaN counts as the largest number.",
    ),
    Operation(
        op="greatest", rule="choice", names=("greatest",), arity=(2, MANY), null="all",
        help="The largest of the values; nulls are skipped, NaN counts as the largest number.",
    ),
    Operation(
        op="coalesce", rule="choice", names=("coalesce", "nvl", "ifnull"), arity=(1, MANY), null="own",
        help="The first value that is not null.",
    ),
    Operation(op="case", rule="case", arity=(3, MANY), null="own"),
    Operation(op="cast", rule="cast"),
    # whole numbers
    Operation(op="floor", rule="whole", names=("floor",), help="Rounded down, as a bigint."),
    Operation(op="ceil", rule="whole", names=("ceil", "ceiling"), help="Rounded up, as a bigint."),
    Operation(  # what is added is the largest number below a half; and Spark's zero has no sign
        op="round", rule="round", names=("round",),
        code="np.trunc({0} + np.copysign(0.49999999999999994, {0})) + 0.0",
        help="The nearest whole number, halves away from zero, in the type of the value.",
    ),
    Operation(
        op="rint", rule="double", names=("rint",), code="np.rint({0})", python=("rint",),
        help="The nearest whole number as a double, halves to the even one.",
    ),
    Operation(
        op="sign", rule="double", names=("sign", "signum"),
        code="{0} if ({0} == 0.0) | ({0} != {0}) else np.copysign(1.0, {0})",
        help="-1.0, 0.0 or 1.0; NaN of NaN.",
    ),
    # functions of doubles
    Operation(
        op="sqrt", rule="double", names=("sqrt",), code="np.sqrt({0})", python=("sqrt",),
        help="The square root, as a double; NaN of a negative number.",
    ),
    Operation(
        op="radians", rule="double", names=("radians",), code="{0} * 0.017453292519943295",
        fold=lambda a: a * 0.017453292519943295, python=("radians", "deg2rad"), help="Degrees as radians.",
    ),
    Operation(
        op="degrees", rule="double", names=("degrees",), code="{0} * 57.29577951308232",
        fold=lambda a: a * 57.29577951308232, python=("degrees", "rad2deg"), help="Radians as degrees.",
    ),
    _library(  # Java answers NaN where C answers 1: the exponent is NaN, or the base is 1 or -1 and it is infinite
        op="power", names=("power", "pow"), arity=(2, 2),
        code="np.nan if ({1} != {1}) | ((abs({0}) == 1.0) & (abs({1}) == np.inf)) else np.power({0}, {1})",
        help="a to the power of b.",
    ),
    _library(
        op="hypot", names=("hypot",), arity=(2, 2), code="np.hypot({0}, {1})", python=("hypot",),
        help="The square root of a * a + b * b, without overflow.",
    ),
    _library(
        op="exp", names=("exp",), code="np.exp({0})", fold=math.exp, python=("exp",), help="e to the power of a.",
    ),
    _library(
        op="expm1", names=("expm1",), code="np.expm1({0})", fold=math.expm1, python=("expm1",),
        help="exp(a) - 1, precise for small a.",
    ),
    _library(
        op="ln", names=("ln", "log"), code="np.log({0})", undefined="{0} <= 0.0", fold=_above(0.0, math.log),
        help="The natural logarithm; null up to zero.",
    ),
    _library(
        op="log", names=("log",), arity=(2, 2), code="np.log({1}) / np.log({0})",
        undefined="({0} <= 0.0) | ({1} <= 0.0)", help="The logarithm of b to the base a; null up to zero.",
    ),
    _library(
        op="log10", names=("log10",), code="np.log10({0})", undefined="{0} <= 0.0", fold=_above(0.0, math.log10),
        help="The logarithm to the base 10; null up to zero.",
    ),
    _library(
        op="log2", names=("log2",), code="np.log({0}) / 0.6931471805599453", undefined="{0} <= 0.0",
        fold=_above(0.0, lambda a: math.log(a) / 0.6931471805599453),
        help="The logarithm to the base 2; null up to zero.",
    ),
    _library(
        op="log1p", names=("log1p",), code="np.log1p({0})", undefined="{0} <= -1.0", fold=_above(-1.0, math.log1p),
        help="ln(1 + a), precise for small a; null up to -1.",
    ),
    _library(
        op="sin", names=("sin",), code="np.sin({0})", fold=math.sin, python=("sin",),
        help="The sine of an angle in radians.",
    ),
    _library(
        op="cos", names=("cos",), code="np.cos({0})", fold=math.cos, python=("cos",),
        help="The cosine of an angle in radians.",
    ),
    _library(
        op="tan", names=("tan",), code="np.tan({0})", fold=math.tan, python=("tan",),
        help="The tangent of an angle in radians.",
    ),
    _library(
        op="asin", names=("asin",), code="np.arcsin({0})", fold=math.asin, python=("asin", "arcsin"),
        help="The arc sine; NaN outside of -1 to 1.",
    ),
    _library(
        op="acos", names=("acos",), code="np.arccos({0})", fold=math.acos, python=("acos", "arccos"),
        help="The arc cosine; NaN outside of -1 to 1.",
    ),
    _library(
        op="atan", names=("atan",), code="np.arctan({0})", fold=math.atan, python=("atan", "arctan"),
        help="The arc tangent.",
    ),
    _library(  # as Spark: -0.0 counts as 0.0
        op="atan2", names=("atan2",), arity=(2, 2), code="np.arctan2({0} + 0.0, {1} + 0.0)",
        fold=lambda a, b: math.atan2(a + 0.0, b + 0.0), help="The angle of the point with y = a and x = b.",
    ),
    _library(
        op="sinh", names=("sinh",), code="np.sinh({0})", fold=math.sinh, python=("sinh",),
        help="The hyperbolic sine.",
    ),
    _library(
        op="cosh", names=("cosh",), code="np.cosh({0})", fold=math.cosh, python=("cosh",),
        help="The hyperbolic cosine.",
    ),
    _library(
        op="tanh", names=("tanh",), code="np.tanh({0})", fold=math.tanh, python=("tanh",),
        help="The hyperbolic tangent.",
    ),
)  # fmt: skip

DEFINITIONS: tuple[Definition, ...] = (
    Definition(name="if", parameters="abc", text="CASE WHEN a THEN b ELSE c END"),
    Definition(name="if", parameters="ab", text="CASE WHEN a THEN b END"),
    Definition(name="nullif", parameters="ab", text="CASE WHEN a = b THEN NULL ELSE a END", help="Null if a equals b."),
    Definition(name="nvl2", parameters="abc", text="CASE WHEN a IS NOT NULL THEN b ELSE c END"),
    Definition(name="isnull", parameters="a", text="a IS NULL"),
    Definition(name="isnotnull", parameters="a", text="a IS NOT NULL"),
    Definition(name="equal_null", parameters="ab", text="a <=> b"),
    Definition(name="isnan", parameters="a", text="a <=> CAST('NaN' AS double)", help="Is it NaN? False of null."),
    Definition(name="positive", parameters="a", text="a"),
    Definition(
        name="pmod",
        parameters="ab",
        text="CASE WHEN a % b < 0 THEN (a % b + b) % b ELSE a % b END",
        help="The rest of a division, never negative if b is positive.",
    ),
    Definition(name="pi", parameters="", text="3.141592653589793D"),
)

Function = Operation | Definition
_ALL: tuple[Function, ...] = (*ROWS, *DEFINITIONS)

OPERATIONS: dict[str, Operation] = {row.op: row for row in ROWS}
"""By the name that nodes have."""


def is_exact(op: str) -> bool:
    """Are all bits of the node's result the same on every machine? Of its own operation, whatever its arguments are."""
    return op not in OPERATIONS or OPERATIONS[op].exact


FUNCTIONS: dict[str, list[Function]] = {
    name: [row for row in _ALL if name in row.names] for name in chain.from_iterable(row.names for row in _ALL)
}
"""By SQL name: one row for every number of arguments that has a meaning of its own."""

PUBLIC: tuple[str, ...] = tuple(row.names[0] for row in _ALL if row.help and not hasattr(builtins, row.names[0]))
"""The functions of expressions: `streamjoin.least(...)`. Python's own abs, round and pow work by themselves."""
