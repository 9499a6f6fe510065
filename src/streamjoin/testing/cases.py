"""Test cases of joins: two small schemas, predicates over them, and rows.

Side r has the columns rid, t, k, x, y, z, w, nm, note; side s has sid, t, k, a, b, c, tol, nm, note. `rid` and `sid`
number the rows, `t` is their time. Values are few, so that many pairs match: nulls, NaN, infinities and both zeros
among them. `note` is a list, which no predicate reads and every result carries.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

import streamjoin as sj
from streamjoin.testing.expressions import F32, F64, I32, I64, STRING, E, T, col, lit, mirror, op, to_sql
from streamjoin.testing.meaning import predicate, value
from streamjoin.testing.oracle import (
    Everything,
    Interval,
    Last,
    Row,
    RowInterval,
    TumblingRows,
    TumblingTime,
    Valid,
    Validity,
    Window,
)

R_TYPES: dict[str, T] = {"k": I32, "x": I64, "y": F64, "z": F32, "w": I32, "nm": STRING}
S_TYPES: dict[str, T] = {"k": I32, "a": I64, "b": F64, "c": F32, "tol": I64, "nm": STRING}
ARROW = {I32: pa.int32(), I64: pa.int64(), F64: pa.float64(), F32: pa.float32(), STRING: pa.string()}


def _schema(side: str, types: dict[str, T], time: pa.DataType) -> pa.Schema:
    own = [(name, ARROW[t]) for name, t in types.items()]
    return pa.schema([(f"{side}id", pa.int64()), ("t", time), *own, ("note", pa.list_(pa.string()))])


def schemas(time_r: pa.DataType | None = None, time_s: pa.DataType | None = None) -> tuple[pa.Schema, pa.Schema]:
    """The schemas of r and s; times are integers unless told otherwise."""
    return _schema("r", R_TYPES, time_r or pa.int64()), _schema("s", S_TYPES, time_s or pa.int64())


R, S = schemas()
SCHEMAS = {"r": R, "s": S}


def r(name: str) -> E:
    """A column of r, for an expression."""
    return col("r", name, R_TYPES[name])


def s(name: str) -> E:
    """A column of s, for an expression."""
    return col("s", name, S_TYPES[name])


def band(x: E, y: E, below: Any, above: Any) -> E:
    """x BETWEEN y - below AND y + above."""
    return op("between", x, op("sub", y, lit(below)), op("add", y, lit(above)))


def near(x: E, y: E, width: E) -> E:
    """abs(x - y) <= width."""
    return op("le", op("abs", op("sub", x, y)), width)


@dataclass(frozen=True, repr=False)
class Case:
    """A predicate in every form that an engine may want it in.

    >>> case = BY_NAME["band"]
    >>> case.on, case.holds({"x": 1}, {"a": 3})
    ('r.x BETWEEN s.a - 2 AND s.a + 2', True)
    """

    name: str
    on: Any  # as streamjoin takes it: SQL text, or a Python function
    holds: Callable[[Row, Row], bool]  # as a function of two rows
    access: tuple[str, ...]  # streamjoin's access paths that can serve it
    tree: E | None = None  # as an expression, unless it is a Python function

    def __repr__(self) -> str:
        return f"Case({self.name}: {self.on})"


def case_of(name: str, tree: E, *access: str) -> Case:
    """The case of an expression."""
    return Case(name, to_sql(tree), predicate(tree), access, tree)


def _case(name: str, tree: E, *access: str) -> Case:
    return case_of(name, tree, "auto", "scan", *access)


def _function(row_r: Any, row_s: Any) -> Any:
    return abs(row_r.x - row_s.a) <= 2 and row_r.k == row_s.k


def _function_holds(row_r: Row, row_s: Row) -> bool:
    used = (row_r["x"], row_r["k"], row_s["a"], row_s["k"])
    return None not in used and bool(_function(SimpleNamespace(**row_r), SimpleNamespace(**row_s)))


CASES = [
    _case("band", band(r("x"), s("a"), 2, 2), "tree", "band"),
    _case("band_2d", op("and", near(r("x"), s("a"), lit(3)), band(r("y"), s("b"), 0.3, 0.3)), "tree", "band"),
    _case(
        "band_3d",
        op("and", near(r("x"), s("a"), lit(4)), band(r("y"), s("b"), 0.5, 0.5), near(r("z"), s("c"), lit(1))),
        "tree",
        "band",
    ),
    _case(
        "asymmetric",
        op("and", op("ge", r("x"), op("sub", s("a"), lit(1))), op("lt", r("x"), op("add", s("a"), lit(4)))),
        "tree",
        "band",
    ),
    _case("one_sided", op("le", r("x"), s("a")), "tree", "band"),
    _case("equality", op("eq", r("k"), s("k")), "hash"),
    _case("equality_band", op("and", op("eq", r("k"), s("k")), near(r("y"), s("b"), lit(0.5))), "hash", "tree", "band"),
    _case("float_equality", op("eq", r("y"), s("b")), "hash"),
    _case("string", op("eq", r("nm"), s("nm")), "hash"),
    _case("variable", near(r("x"), s("a"), s("tol")), "tree"),
    _case(
        "overlap",
        op("and", op("le", r("x"), op("add", s("a"), s("tol"))), op("le", s("a"), op("add", r("x"), r("w")))),
        "tree",
    ),
    _case("opaque", op("eq", op("mod", op("mul", r("x"), s("a")), lit(7)), lit(3))),
    _case("either", op("or", op("eq", r("k"), s("k")), op("gt", r("y"), op("add", s("b"), lit(1))))),
    _case("nulls", op("and", op("is_null", r("y")), op("not", op("gt", s("b"), lit(1))))),
    Case("function", lambda r, s: abs(r.x - s.a) <= 2 and r.k == s.k, _function_holds, ("auto", "scan")),
]
BY_NAME = {case.name: case for case in CASES}

_FLOATS = [0.0, 0.1, 0.2, 0.3, 0.1 + 0.2, 0.5, 1.0, 1.3, 2.0, -0.0, math.nan, math.inf, -math.inf, None, None, 0.8]
_GAPS = [1, 0, 0, 2, 0, 1, 5, 0, 3, 30]
_NAMES = ["a", "b", "", "ab", None]
CODES = 10**8


def _row(side: str, n: int, code: int) -> Row:
    """A row from one number below CODES: Hypothesis then draws, and shrinks, one integer per row."""

    def pick(options: list[Any]) -> Any:
        nonlocal code
        code, i = divmod(code, len(options))
        return options[i]

    gap, back = pick(_GAPS), pick([0, 0, 0, 1, 2, 3, 6])
    k = pick([0, 1, 2, None, 1])
    x = pick([*range(6), *range(-6, 0), None])
    y = pick(_FLOATS)
    z = pick(_FLOATS)
    wide = pick([1, 0, 2, 3, -1, None])
    nm = pick(_NAMES)
    z = None if z is None else np.float32(z)
    row = {f"{side}id": n, "gap": gap, "back": back, "k": k, "nm": nm, "note": [f"{side}{n}", None]}
    own = {"x": x, "y": y, "z": z, "w": wide} if side == "r" else {"a": x, "b": y, "c": z, "tol": wide}
    return {**row, **own}


def long_stream(side: str, seed: int, size: int, speed: int, disorder: bool) -> list[Row]:
    """Rows from a seed: long enough to fill batches and to go round all workers, too long to be shrunk."""
    codes = np.random.default_rng([seed, side == "r"]).integers(0, CODES, size)
    return stream_of(side, [int(code) for code in codes], speed, 0, disorder)


def stream_of(side: str, codes: list[int], speed: int, now: int, disorder: bool) -> list[Row]:
    """Rows from numbers, in order of arrival from the time `now` on; with `disorder`, steps back of up to 6.

    >>> [row["t"] for row in stream_of("r", [0, 3, 6], speed=2, now=10, disorder=False)]
    [12, 16, 26]
    """
    out = []
    for n, code in enumerate(codes):
        row = _row(side, n, code)
        now += speed * row.pop("gap")
        back = row.pop("back")
        out.append({**row, "t": now - (back if disorder else 0)})
    return out


@dataclass(frozen=True, repr=False)
class Bound:
    """A bound of a window that depends on the row of one side.

    >>> Bound(op("neg", r("w")))({"w": 3}, {})
    -3
    """

    e: E

    def __call__(self, row_r: Row, row_s: Row) -> Any:
        return value(self.e)(row_r, row_s)

    def __repr__(self) -> str:
        return f"Bound({to_sql(self.e)})"


def within(window: Window, unit: str = "") -> Any:
    """The oracle's window as streamjoin spells it; `unit` turns its integers into durations. None is no window.

    >>> within(Interval(-5, 5)), within(Interval(-5, 5), "seconds"), within(Last(3, 4))
    (5, '5 seconds', Last(r=3, s=4))
    """

    def size(n: int) -> Any:
        return f"{n} {unit}" if unit else n

    def bound(b: Any) -> Any:
        return to_sql(b.e) if isinstance(b, Bound) else size(b)

    match window:
        case Everything() | Valid():
            return None
        case RowInterval(lower, upper, most):
            limit = {} if most is None else {"most": size(most)}
            return sj.interval(bound(lower), bound(upper), **limit)
        case Interval(lower, upper, "both") if lower == -upper:
            return size(upper)
        case Interval(lower, upper, closed):
            return sj.interval(size(lower), size(upper), closed=closed)
        case Last(n, m) if n == m:
            return sj.last(n)
        case Last(n, m):
            return sj.last(r=n, s=m)
        case TumblingTime(width):
            return sj.tumbling(size(width))
        case TumblingRows(n):
            return sj.tumbling(rows=n)
    raise TypeError(window)


def lasting(side: str, rows: list[Row]) -> list[Row]:
    """The rows with a column `until`: from their time on they are valid for a while, or without an end.

    >>> lasting("r", [{"t": 5, "w": 2}, {"t": 5, "w": None}])
    [{'t': 5, 'w': 2, 'until': 9}, {'t': 5, 'w': None, 'until': None}]
    """
    wide = "w" if side == "r" else "tol"
    return [{**row, "until": None if (w := row[wide]) is None or w < 0 else row["t"] + 2 * w} for row in rows]


LASTING = {side: schema.append(pa.field("until", pa.int64())) for side, schema in SCHEMAS.items()}


def time(window: Window, unit: str = "") -> Any:
    """The time columns of rows, or what they have instead under the oracle's window of validity."""
    if not isinstance(window, Valid):
        return "t"

    def asked(validity: Validity | None) -> Any:
        if validity is None:
            return "t"
        most = f"{validity.most} {unit}" if unit and validity.most is not None else validity.most
        return sj.valid(validity.start, validity.stop, closed=validity.closed, most=most)

    return asked(window.r), asked(window.s)


def swapped(case: Case) -> Case:
    """The mirrored predicate over schemas whose sides (and column names with them) have changed places."""
    assert case.tree is not None
    return case_of(case.name, mirror(case.tree), *case.access)
