"""Python functions: the signature, the columns that they read, and what a trace finds necessary."""

from __future__ import annotations

import math
import random
from enum import IntEnum
from math import sqrt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.errors import PredicateError, SchemaError
from streamjoin.predicate import as_tree
from streamjoin.predicate.function import from_callable, trace
from streamjoin.predicate.resolve import resolve
from streamjoin.predicate.tree import to_sql
from streamjoin.predicate.types import BOOL

R = pa.schema(
    [
        ("x", pa.int32()),
        ("y", pa.float32()),
        ("k", pa.int64()),
        ("name", pa.string()),
        ("d", pa.decimal128(9, 2)),
        ("sqrt", pa.string()),
    ]
)
S = pa.schema([("a", pa.int32()), ("b", pa.float32()), ("k", pa.int64()), ("ts", pa.timestamp("ns"))])

WIDTH = 10
TABLE = {"k": 1}


def read(fn: Any) -> set[Any]:
    resolved = resolve(from_callable(fn), R, S)
    assert resolved.type == BOOL
    assert all(arg.type is not None for arg in resolved.args)
    return {arg.value for arg in resolved.args}


def test_columns_are_known_exactly() -> None:
    assert read(lambda r, s: abs(r.x - s.a) <= 10 and r.k == s.k) == {
        ("r", "x"),
        ("s", "a"),
        ("r", "k"),
        ("s", "k"),
    }
    assert read(lambda r, s: r.k > 5) == {("r", "k")}
    assert read(lambda left, right: left.x < right.a) == {("r", "x"), ("s", "a")}
    assert read(lambda r, s: True) == set()


def test_an_alias_counts_for_both_sides() -> None:
    def either(r: Any, s: Any) -> bool:
        t = r if r.x > 1 else s
        return bool(t.k > 0)

    assert read(either) == {("r", "x"), ("r", "k"), ("s", "k")}

    def swapped(r: Any, s: Any) -> bool:
        r, s = s, r
        return bool(r.a < s.x)

    assert read(swapped) == {("r", "x"), ("s", "a")}


def test_names_of_modules_are_not_columns() -> None:
    assert read(lambda r, s: math.sqrt(r.x) < s.a) == {("r", "x"), ("s", "a")}


def test_a_column_named_as_what_a_module_offers() -> None:
    """Its nulls must not keep tuples from matching."""
    left = pa.table({"t": [0, 0], "x": [1.5, 2.5], "floor": pa.array([None, 7], pa.int64())})
    right = pa.table({"t": [0, 0], "k": [1, 2], "pi": pa.array([None, None], pa.float64())})
    out = sj.join(left, right, on=lambda r, s: math.floor(r.x) == s.k and r.x < math.pi, within=1, time="t")
    assert sorted(zip(out["x"].to_pylist(), out["k"].to_pylist(), strict=True)) == [(1.5, 1), (2.5, 2)]


BOUNDS = (-math.inf, math.nan, np.float64(0.5), (True, "a"))


class Kind(IntEnum):
    NEAR = 2


def _near(kind: Any) -> Any:
    return lambda r, s: abs(r.x - s.a) <= kind


def test_constants_of_every_kind() -> None:
    left, right = pa.table({"t": [0, 0], "x": [1, 5]}), pa.table({"t": [0, 0], "a": [2, 9]})
    between, root = lambda r, s: BOUNDS[0] < abs(r.x - s.a) - BOUNDS[2] < 2, lambda r, s: sqrt(s.a - r.x) <= 1
    for on in (between, root, _near(Kind.NEAR)):
        for workers in (1, 2):
            options: dict[str, Any] = {} if workers == 1 else {"algorithm": "biclique", "workers": 2}
            assert sj.join(left, right, on=on, within=1, time="t", **options).num_rows == 1


def test_the_unit_follows_the_columns() -> None:
    (arg,) = resolve(from_callable(lambda r, s: s.ts > 0), R, S).args
    assert arg.type is not None
    assert arg.type.unit == "ns"


@pytest.mark.parametrize(
    ("fn", "error", "why"),
    [
        (lambda r: True, PredicateError, "exactly two parameters.*takes: r"),
        (lambda: True, PredicateError, "takes: none"),
        (lambda r, s, t: True, PredicateError, "takes: r, s, t"),
        (lambda *rs: True, PredicateError, "exactly two"),
        (lambda r, s, **kw: True, PredicateError, "exactly two"),
        (lambda r, s, *, k=1: True, PredicateError, "exactly two"),
        (max, PredicateError, "not a plain Python function"),
        (lambda r, s: (yield), PredicateError, "generator"),
        (lambda r, s: r.xx < s.a, SchemaError, 'r has no column "xx".*did you mean "x"'),
        (lambda r, s: s.x < r.x, SchemaError, 's has no column "x"'),
        (lambda r, s: r.name == s.a, PredicateError, 'column "name" of r .string. cannot be used'),
        (lambda r, s: r.d < s.a, PredicateError, 'column "d" of r .decimal'),
    ],
)
def test_refused(fn: Any, error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        resolve(as_tree(fn), R, S)


def hints(fn: Any) -> list[str]:
    return [to_sql(node) for node in trace(fn)]


def nested(r: Any, s: Any) -> bool:
    if r.k != s.k:
        return False
    if abs(r.x - s.a) > 10:
        return False
    return bool(r.y < s.b)


def guarded(r: Any, s: Any) -> bool:
    if r.k == s.k:
        distance = r.x - s.a
        if -WIDTH <= distance <= WIDTH:
            return True
    return False


def looping(r: Any, s: Any) -> bool:
    while r.x < s.a:
        pass
    return True


def catching(r: Any, s: Any) -> bool:
    try:
        return bool(r.x.nothing < s.a)
    except AttributeError:
        return bool(r.k == s.k)


def test_necessary_conjuncts() -> None:
    half = 2.5
    assert hints(lambda r, s: abs(r.x - s.a) <= 10 and abs(r.y - s.b) <= 10) == [
        "abs(r.x - s.a) <= 10",
        "abs(r.y - s.b) <= 10",
    ]
    assert hints(lambda r, s: s.a - 1 <= r.x < s.a + half) == ["s.a - 1 <= r.x", "r.x < s.a + 2.5D"]
    assert hints(lambda r, s: (r.k == s.k) & (r.x > s.a)) == ["r.k = s.k", "r.x > s.a"]
    assert hints(lambda r, s: r.k == s.k and (r.x > 1 or s.a > 2)) == ["r.k = s.k"]
    assert hints(lambda r, s: (r.k == s.k and r.x > 1) or (r.x > 1 and s.a > 2)) == ["r.x > 1"]
    assert hints(lambda r, s: 10 >= -r.x * 2) == ["-r.x * 2 <= 10"]  # noqa: SIM300
    assert hints(lambda r, s: r.x % 2 == 0 and r.k == s.k) == ["r.k = s.k"]
    assert hints(guarded) == ["r.k = s.k", "r.x - s.a >= -10", "r.x - s.a <= 10"]


def test_a_negation_promises_nothing() -> None:
    # NaN makes "not (a > b)" differ from "a <= b", so only what came out true counts.
    assert hints(lambda r, s: not (r.x > s.a)) == []
    assert hints(nested) == ["r.y < s.b"]
    assert hints(lambda r, s: r.x != s.a) == []
    assert hints(lambda r, s: r.x < s.a or True) == []


@pytest.mark.parametrize(
    "fn",
    [
        lambda r, s: random.random() < 0.5 and r.k == s.k,
        lambda r, s: TABLE["k"] == r.k,
        lambda r, s: np.random.default_rng().random() < 0.5 and r.k == s.k,
        lambda r, s: math.nothing(r.x) < 2 and r.k == s.k,  # type: ignore[attr-defined]
        lambda r, s: [r.x, s.a][0] < 3 and float(r.x) < 1,
        lambda r, s: any(r.x < k for k in (1, 2)),
        looping,
        catching,
        lambda r, s: False,
    ],
)
def test_what_cannot_be_followed_gives_no_hint(fn: Any) -> None:
    assert trace(fn) == []


def test_mathematics_is_followed() -> None:
    """What SQL means by the same name becomes part of a hint; other functions do not hide the rest."""
    turn = math.cos
    assert hints(lambda r, s: abs(r.x - s.a) <= math.degrees(2)) == [f"abs(r.x - s.a) <= {math.degrees(2)}D"]
    assert hints(lambda r, s: np.sin(r.x) <= turn(s.a) and r.k == s.k) == ["sin(r.x) <= cos(s.a)", "r.k = s.k"]
    assert hints(lambda r, s: math.erf(r.x) < 1 and math.log(r.x) < s.a < math.pi) == [f"s.a < {math.pi}D"]


def test_too_many_paths_give_no_hint() -> None:
    def wide(r: Any, s: Any) -> bool:
        n = 0
        n = n + 1 if r.x > 1 else n
        n = n + 1 if r.x > 2 else n
        n = n + 1 if r.x > 3 else n
        n = n + 1 if r.x > 4 else n
        n = n + 1 if r.x > 5 else n
        n = n + 1 if r.x > 6 else n
        n = n + 1 if r.x > 7 else n
        return bool(r.k == s.k and n > 3)

    assert trace(wide) == []
