"""The questions of a device's test: predicates, rows, and the answers that NumPy gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.codegen.program import Program
from streamjoin.codegen.records import Array
from streamjoin.predicate import as_tree
from streamjoin.predicate.analysis import analyse
from streamjoin.predicate.resolve import resolve

STORED = 75  # rows of s; the last word of a bitmap is not full
SIGNS: dict[str, Callable[[Array, Array], Array]] = {
    "=": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
EDGES: dict[str, list[Any]] = {
    "b": [False, True],
    "i1": [-128, -1, 0, 1, 127],
    "i2": [-(2**15), -129, 0, 1, 2**15 - 1],
    "i4": [-(2**31), -1, 0, 1, 2**16, 2**31 - 1],
    "i8": [-(2**63), -(2**32) - 1, -1, 0, 1, 2**32, 2**53 + 1, 2**63 - 1],
    "f4": [-np.inf, -1.5, -1e-40, -0.0, 0.0, 1e-40, 1.5, 3e38, np.inf, np.nan],
    "f8": [-np.inf, -1.5, -5e-324, -0.0, 0.0, 5e-324, 1.5, 1.5 + 2**-52, 1e308, np.inf, np.nan],
}
_ARROW = {"b": pa.bool_(), "i1": pa.int8(), "i2": pa.int16(), "i4": pa.int32(), "i8": pa.int64()}
_ARROW |= {"f4": pa.float32(), "f8": pa.float64()}
_NUMBERS = {"a": pa.int64(), "n": pa.int64(), "g": pa.float32(), "x": pa.float64()}  # small ones; n is never zero
_PLACES = {"k": pa.int64(), "u": pa.int32(), "v": pa.float32()}

Rows = dict[str, Array]  # values by column, and their validity as "column valid"
Truth = Callable[[Rows, Rows], Array]  # rows of r as a column, rows of s as a line


@dataclass(frozen=True)
class Question:
    """A predicate, the rows it is asked of, and the answer. `code` is what is reported instead of an answer."""

    text: str
    schema: pa.Schema
    rows: dict[str, Rows]
    answer: Truth
    code: int = 0
    cases: tuple[str, ...] = ()  # of which r.op chooses one

    @property
    def program(self) -> Program:
        return Program(analyse(resolve(as_tree(self.text), self.schema, self.schema)))


def questions(doubles: bool, denormals: bool) -> list[Question]:
    """The questions of the test. A device without doubles or subnormal floats is not asked about these."""
    rng = np.random.default_rng(16)
    types = [t for t in EDGES if doubles or t != "f8"]
    cases: list[tuple[str, Truth]] = [
        (f"r.{t} {sign} s.{t}", _compared(t, compute)) for t in types for sign, compute in SIGNS.items()
    ]
    edges = {t: EDGES[t] if denormals or t != "f4" else [v for v in EDGES[t] if not 0 < abs(v) < 1e-30] for t in types}
    schema = {t: _ARROW[t] for t in types}
    found = [_chosen(cases, schema, lambda n: _edge_rows(rng, edges, n))]
    arithmetic = [case for case in _ARITHMETIC if doubles or not case[2]]
    numbers = {name: t for name, t in _NUMBERS.items() if doubles or name != "x"}
    found.append(_chosen([case[:2] for case in arithmetic], numbers, lambda n: _number_rows(rng, n)))
    places = {side: _place_rows(rng, count) for side, count in (("r", 96), ("s", STORED))}
    band = "r.k = s.k AND r.u BETWEEN s.u - 2 AND s.u + 2 AND r.v BETWEEN s.v - 1 AND s.v + 1"
    found.append(Question(band, pa.schema(_fields(_PLACES)), places, _near))
    huge = {side: {"n": np.ones(count, np.int64)} for side, count in (("r", 20), ("s", STORED))}
    huge["r"]["n"][7] = huge["s"]["n"][41] = 2**62
    never: Truth = lambda r, s: np.zeros((20, STORED), np.bool_)  # noqa: E731
    found.append(Question("r.n * s.n % 7 = 3", pa.schema(_fields({"n": pa.int64()})), huge, never, code=1))
    return found


def _fields(types: dict[str, pa.DataType], nullable: bool = False) -> list[pa.Field]:
    return [pa.field(name, t, nullable) for name, t in types.items()]


def _chosen(cases: list[tuple[str, Truth]], types: dict[str, pa.DataType], rows: Callable[[int], Rows]) -> Question:
    """All cases in one kernel: r.op chooses, so each row of r asks one case of every row of s."""
    text = " OR ".join(f"(r.op = {k} AND {case})" for k, (case, _) in enumerate(cases))
    r, s = rows(4 * len(cases)), rows(STORED)
    r["op"], s["op"] = np.repeat(np.arange(len(cases)), 4), np.zeros(STORED, np.int64)

    def answer(r: Rows, s: Rows) -> Array:
        return np.select([r["op"] == k for k in range(len(cases))], [truth(r, s) for _, truth in cases])

    edges = "b" in types
    fields = [pa.field("op", pa.int32(), False), *_fields(types, nullable=edges)]
    return Question(text, pa.schema(fields), {"r": r, "s": s}, answer, cases=tuple(case for case, _ in cases))


def _compared(t: str, compute: Callable[[Array, Array], Array]) -> Truth:
    """SQL's comparison: nothing holds of a null; NaN is itself, and above all others."""

    def truth(r: Rows, s: Rows) -> Array:
        a, b = r[t], s[t]
        if t[0] == "f":
            here, there = np.isnan(a), np.isnan(b)
            a, b = np.where(here | there, here, a), np.where(here | there, there, b)
        return np.asarray(compute(a, b) & r[f"{t} valid"] & s[f"{t} valid"])

    return truth


_ARITHMETIC: list[tuple[str, Truth, bool]] = [  # whether it needs doubles
    ("r.a + s.a > 0", lambda r, s: r["a"] + s["a"] > 0, False),
    ("r.a - s.a <= 17", lambda r, s: r["a"] - s["a"] <= 17, False),
    ("r.a * s.a >= 1000", lambda r, s: r["a"] * s["a"] >= 1000, False),
    ("-r.a < s.a", lambda r, s: -r["a"] < s["a"], False),
    ("abs(r.a) > abs(s.a)", lambda r, s: np.abs(r["a"]) > np.abs(s["a"]), False),
    ("r.a % s.n = 1", lambda r, s: np.fmod(r["a"], s["n"]) == 1, False),
    ("r.a DIV s.n < -3", lambda r, s: np.trunc(r["a"] / s["n"]) < -3, False),
    ("greatest(r.a, s.a) > 500", lambda r, s: np.maximum(r["a"], s["a"]) > 500, False),
    ("least(r.a, s.a) < -500", lambda r, s: np.minimum(r["a"], s["a"]) < -500, False),
    ("if(r.n > s.n, r.a, s.a) > 0", lambda r, s: np.where(r["n"] > s["n"], r["a"], s["a"]) > 0, False),
    ("r.g + s.g > 1", lambda r, s: r["g"] + s["g"] > 1, False),
    ("r.g * s.g < r.g", lambda r, s: r["g"] * s["g"] < r["g"], False),
    ("abs(r.g - s.g) < 3", lambda r, s: np.abs(r["g"] - s["g"]) < 3, False),
    ("r.x - s.x < 0.25", lambda r, s: r["x"] - s["x"] < 0.25, True),
    ("r.x / s.n > s.x", lambda r, s: r["x"] / s["n"] > s["x"], True),
    ("r.x % s.n > 0.5", lambda r, s: np.fmod(r["x"], s["n"]) > 0.5, True),
    ("sqrt(abs(r.x)) > s.x", lambda r, s: np.sqrt(np.abs(r["x"])) > s["x"], True),
    ("floor(r.x) = s.n", lambda r, s: np.floor(r["x"]) == s["n"], True),
    ("ceil(r.x) = s.n", lambda r, s: np.ceil(r["x"]) == s["n"], True),
    ("CAST(r.x AS BIGINT) = s.n", lambda r, s: np.trunc(r["x"]) == s["n"], True),
    ("r.g < s.x", lambda r, s: r["g"].astype(np.float64) < s["x"], True),
    ("r.a < s.x", lambda r, s: r["a"].astype(np.float64) < s["x"], True),
]


def _near(r: Rows, s: Rows) -> Array:
    return np.asarray((r["k"] == s["k"]) & (np.abs(r["u"] - s["u"]) <= 2) & (np.abs(r["v"] - s["v"]) <= 1))


def _edge_rows(rng: np.random.Generator, edges: dict[str, list[Any]], count: int) -> Rows:
    rows: Rows = {}
    for t, values in edges.items():
        dtype = np.bool_ if t == "b" else np.dtype(t)
        rows[t] = np.array(values, dtype)[rng.integers(len(values), size=count)]
        rows[f"{t} valid"] = rng.random(count) < 0.9
    return rows


def _number_rows(rng: np.random.Generator, count: int) -> Rows:
    return {
        "a": rng.integers(-(10**9), 10**9, count) // 10 ** rng.integers(0, 9, count),
        "n": rng.choice([-7, -3, -2, -1, 1, 2, 3, 5, 9], count),
        "g": (rng.integers(-64, 64, count) / 8).astype(np.float32),
        "x": rng.integers(-256, 256, count) / 32,
    }


def _place_rows(rng: np.random.Generator, count: int) -> Rows:
    """Boxes and key hashes are made up: a kernel asks them first, then window and predicate, and each must count."""
    rows: Rows = {"k": rng.integers(0, 3, count), "u": rng.integers(-4, 4, count), "v": rng.integers(-3, 3, count)}
    rows["key"] = rng.choice(np.array([7, 2**32 - 7], np.uint32), count, p=[0.8, 0.2])
    for d in range(2):
        rows[f"lo{d}"] = rng.integers(-8, 4, count).astype(np.float32)
        rows[f"hi{d}"] = rows[f"lo{d}"] + rng.integers(0, 9, count).astype(np.float32)
    return rows
