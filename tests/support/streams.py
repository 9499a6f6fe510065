"""Two small schemas, the predicates of the join tests, and Hypothesis strategies for streams and windows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.testing import oracle
from streamjoin.testing.expressions import F32, F64, I32, I64, STRING, E, T, col, lit, mirror, op, to_sql
from streamjoin.testing.oracle import Interval, Last, TumblingRows, TumblingTime, Window

R_TYPES: dict[str, T] = {"k": I32, "x": I64, "y": F64, "z": F32, "w": I32, "nm": STRING}
S_TYPES: dict[str, T] = {"k": I32, "a": I64, "b": F64, "c": F32, "tol": I64, "nm": STRING}
_ARROW = {I32: pa.int32(), I64: pa.int64(), F64: pa.float64(), F32: pa.float32(), STRING: pa.string()}


def _schema(side: str, types: dict[str, T], time: pa.DataType) -> pa.Schema:
    own = [(name, _ARROW[t]) for name, t in types.items()]
    return pa.schema([(f"{side}id", pa.int64()), ("t", time), *own, ("note", pa.list_(pa.string()))])


def schemas(time_r: pa.DataType | None = None, time_s: pa.DataType | None = None) -> tuple[pa.Schema, pa.Schema]:
    return _schema("r", R_TYPES, time_r or pa.int64()), _schema("s", S_TYPES, time_s or pa.int64())


R, S = schemas()


def r(name: str) -> E:
    return col("r", name, R_TYPES[name])


def s(name: str) -> E:
    return col("s", name, S_TYPES[name])


def band(x: E, y: E, below: Any, above: Any) -> E:
    return op("between", x, op("sub", y, lit(below)), op("add", y, lit(above)))


def near(x: E, y: E, width: E) -> E:
    return op("le", op("abs", op("sub", x, y)), width)


@dataclass(frozen=True, repr=False)
class Case:
    """A predicate, how it is given to the package, and the access paths that can serve it."""

    name: str
    on: Any
    holds: Callable[[oracle.Row, oracle.Row], bool]
    access: tuple[str, ...]
    tree: E | None = None

    def __repr__(self) -> str:
        return f"Case({self.name}: {self.on})"


def _case(name: str, tree: E, *access: str) -> Case:
    return Case(name, to_sql(tree), oracle.predicate(tree), ("auto", "scan", *access), tree)


def _function(row_r: Any, row_s: Any) -> Any:
    return abs(row_r.x - row_s.a) <= 2 and row_r.k == row_s.k


def _function_holds(row_r: oracle.Row, row_s: oracle.Row) -> bool:
    used = (row_r["x"], row_r["k"], row_s["a"], row_s["k"])
    return None not in used and bool(_function(SimpleNamespace(**row_r), SimpleNamespace(**row_s)))


CASES = [
    _case("band", band(r("x"), s("a"), 2, 2), "band"),
    _case("band_2d", op("and", near(r("x"), s("a"), lit(3)), band(r("y"), s("b"), 0.3, 0.3)), "band"),
    _case(
        "band_3d",
        op("and", near(r("x"), s("a"), lit(4)), band(r("y"), s("b"), 0.5, 0.5), near(r("z"), s("c"), lit(1))),
        "band",
    ),
    _case(
        "asymmetric",
        op("and", op("ge", r("x"), op("sub", s("a"), lit(1))), op("lt", r("x"), op("add", s("a"), lit(4)))),
        "band",
    ),
    _case("one_sided", op("le", r("x"), s("a")), "band"),
    _case("equality", op("eq", r("k"), s("k")), "hash"),
    _case("equality_band", op("and", op("eq", r("k"), s("k")), near(r("y"), s("b"), lit(0.5))), "hash", "band"),
    _case("float_equality", op("eq", r("y"), s("b")), "hash"),
    _case("string", op("eq", r("nm"), s("nm")), "hash"),
    _case("variable", near(r("x"), s("a"), s("tol"))),
    _case(
        "overlap",
        op("and", op("le", r("x"), op("add", s("a"), s("tol"))), op("le", s("a"), op("add", r("x"), r("w")))),
    ),
    _case("opaque", op("eq", op("mod", op("mul", r("x"), s("a")), lit(7)), lit(3))),
    _case("either", op("or", op("eq", r("k"), s("k")), op("gt", r("y"), op("add", s("b"), lit(1))))),
    _case("nulls", op("and", op("is_null", r("y")), op("not", op("gt", s("b"), lit(1))))),
    Case("function", lambda r, s: abs(r.x - s.a) <= 2 and r.k == s.k, _function_holds, ("auto", "scan")),
]
BY_NAME = {case.name: case for case in CASES}

FLOATS = [
    0.0,
    0.1,
    0.2,
    0.3,
    0.1 + 0.2,
    0.5,
    1.0,
    1.3,
    2.0,
    -0.0,
    math.nan,
    math.inf,
    -math.inf,
    None,
    None,
    0.8,
]
GAPS = [1, 0, 0, 2, 0, 1, 5, 0, 3, 30]
NAMES = ["a", "b", "", "ab", None]


def _decode(side: str, n: int, code: int) -> oracle.Row:
    """A row from one number: Hypothesis then draws, and shrinks, one integer per row."""

    def pick(options: list[Any]) -> Any:
        nonlocal code
        code, i = divmod(code, len(options))
        return options[i]

    gap, back = pick(GAPS), pick([0, 0, 0, 1, 2, 3, 6])
    k = pick([0, 1, 2, None, 1])
    x = pick([*range(6), *range(-6, 0), None])
    y = pick(FLOATS)
    z = pick(FLOATS)
    wide = pick([1, 0, 2, 3, -1, None])
    nm = pick(NAMES)
    z = None if z is None else np.float32(z)
    row = {f"{side}id": n, "gap": gap, "back": back, "k": k, "nm": nm, "note": [f"{side}{n}", None]}
    own = {"x": x, "y": y, "z": z, "w": wide} if side == "r" else {"a": x, "b": y, "c": z, "tol": wide}
    return {**row, **own}


@st.composite
def stream(draw: Any, side: str, disorder: bool, max_size: int = 24) -> list[oracle.Row]:
    """Rows in order of arrival: bursts of equal times, pauses, and with `disorder` steps back of up to 6."""
    codes = draw(st.lists(st.integers(0, 10**8 - 1), max_size=max_size))
    speed = draw(st.sampled_from([1, 1, 0, 3]))
    return _timed(side, codes, speed, draw(st.integers(-5, 5)), disorder)


def long_stream(side: str, seed: int, size: int, speed: int, disorder: bool) -> list[oracle.Row]:
    """As `stream`, from a seed: long enough to fill batches and to go round all workers, too long to be shrunk."""
    codes = np.random.default_rng([seed, side == "r"]).integers(0, 10**8, size)
    return _timed(side, [int(code) for code in codes], speed, 0, disorder)


def _timed(side: str, codes: list[int], speed: int, now: int, disorder: bool) -> list[oracle.Row]:
    out = []
    for n, code in enumerate(codes):
        row = _decode(side, n, code)
        now += speed * row.pop("gap")
        row["t"] = now - (row["back"] if disorder else 0)
        del row["back"]
        out.append(row)
    return out


@st.composite
def intervals(draw: Any) -> Interval:
    lower = draw(st.integers(-8, 8))
    width = draw(st.integers(0, 10))
    closed = draw(st.sampled_from(["both", "both", "left", "right", "neither"]))
    return Interval(lower, lower + width, closed if width >= 2 else "both")


symmetric = st.integers(0, 12).map(lambda w: Interval(-w, w))
lasts = st.builds(Last, st.integers(1, 6), st.integers(1, 6))
time_windows = st.one_of(symmetric, intervals(), st.integers(1, 15).map(TumblingTime))
count_windows = st.one_of(lasts, st.integers(1, 6).map(TumblingRows))


def within(window: Window, unit: str = "") -> Any:
    """The window as the package spells it; `unit` turns its integers into durations."""

    def size(n: int) -> Any:
        return f"{n} {unit}" if unit else n

    match window:
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


def table(rows: list[oracle.Row], schema: pa.Schema) -> pa.Table:
    columns = []
    for field in schema:
        values = [float(v) if isinstance(v := row[field.name], np.floating) else v for row in rows]
        columns.append(pa.array(values, field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def batch(rows: list[oracle.Row], schema: pa.Schema) -> pa.RecordBatch:
    whole = table(rows, schema).combine_chunks()
    return whole.to_batches()[0] if rows else pa.RecordBatch.from_pylist([], schema)


def pairs_of(out: pa.Table | pa.RecordBatch) -> list[tuple[int, int]]:
    return list(zip(out["rid"].to_pylist(), out["sid"].to_pylist(), strict=True))


def swapped(case: Case) -> Case:
    """The mirrored predicate over schemas whose sides (and column names with them) have changed places."""
    assert case.tree is not None
    tree = mirror(case.tree)
    return Case(case.name, to_sql(tree), oracle.predicate(tree), case.access, tree)
