"""Expressions over r and s: the same trees as the same SQL text, and errors where Python would mislead."""

from __future__ import annotations

import copy
import datetime as dt
import math
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from streamjoin.errors import PredicateError
from streamjoin.predicate import as_tree
from streamjoin.predicate.expressions import (
    Expression,
    as_node,
    cast,
    ceil,
    coalesce,
    div,
    floor,
    greatest,
    least,
    lit,
    r,
    s,
    sqrt,
    when,
)
from streamjoin.predicate.sql import parse
from streamjoin.predicate.tree import literal, to_sql
from streamjoin.predicate.types import FLOAT32, timestamp

SAME = [
    ((abs(r.x - s.a) <= 10) & (abs(r.y - s.b) <= 10), "abs(r.x - s.a) <= 10 AND abs(r.y - s.b) <= 10"),
    (r.x.between(s.a - 10, s.a + 10), "r.x BETWEEN s.a - 10 AND s.a + 10"),
    ((r.x == 1) | ~(s.a != 2), "r.x = 1 OR NOT (s.a <> 2)"),
    (r.x.isin([1, 2]), "r.x IN (1, 2)"),
    (~r.x.isin((1, 2)), "r.x NOT IN (1, 2)"),
    (r.x.is_null() | s.a.is_not_null(), "r.x IS NULL OR s.a IS NOT NULL"),
    (r.x.eq_null_safe(s.x), "r.x <=> s.x"),
    (r.x.cast("bigint") < cast(s.a, "decimal(10,2)"), "CAST(r.x AS bigint) < CAST(s.a AS decimal(10,2))"),
    (-r.x % 3 == 10 - s.a * 2, "-r.x % 3 = 10 - s.a * 2"),
    (2 * r.x / 3 > 1 / s.a, "2 * r.x / 3 > 1 / s.a"),
    (7 % r.x < 5 + s.a, "7 % r.x < 5 + s.a"),
    (div(r.x, 10) == s.a, "r.x DIV 10 = s.a"),
    (least(r.x, s.a) < greatest(1, s.b), "least(r.x, s.a) < greatest(1, s.b)"),
    (floor(r.x) + ceil(s.a) > sqrt(r.y), "floor(r.x) + ceil(s.a) > sqrt(r.y)"),
    (math.floor(r.x) == math.ceil(s.a), "floor(r.x) = ceil(s.a)"),
    (coalesce(r.x, s.a, 0) >= +r.y, "coalesce(r.x, s.a, 0) >= r.y"),
    (
        when(r.b, 1).when(s.x > 2, 3).otherwise(4) == r.x,
        "CASE WHEN r.b THEN 1 WHEN s.x > 2 THEN 3 ELSE 4 END = r.x",
    ),
    (r.x > when(r.b, 1), "r.x > CASE WHEN r.b THEN 1 END"),
    (r.ts - s.ts <= dt.timedelta(seconds=5), "r.ts - s.ts <= INTERVAL 5 SECONDS"),
    (r["odd name"] == s.k, "r.`odd name` = s.k"),
    (r.x == Decimal("1.5"), "r.x = 1.5"),
    (r.x == 1e3, "r.x = 1e3"),
    (r.name == "it's", "r.name = 'it\\'s'"),
    (r.x == None, "r.x = NULL"),  # noqa: E711
    (10 < r.x, "r.x > 10"),  # noqa: SIM300
    (True & (r.x > 1), "TRUE AND r.x > 1"),
    (lit(1) / 2 < r.x, "1 / 2 < r.x"),
]


@pytest.mark.parametrize(("expression", "text"), SAME, ids=[text for _, text in SAME])
def test_means_what_the_sql_text_means(expression: Expression, text: str) -> None:
    assert as_tree(expression) == parse(text)


def test_conjunctions_are_flat() -> None:
    tree = as_tree((r.a == 1) & (r.b == 2) & ((r.c == 3) & (r.d == 4)))
    assert tree.op == "and"
    assert len(tree.args) == 4


@pytest.mark.parametrize(
    "use",
    [
        lambda: (r.x > 1) and (s.a > 2),
        lambda: (r.x > 1) or (s.a > 2),
        lambda: not (r.x > 1),
        lambda: 1 < r.x < 5,
        lambda: r.x in [1, 2],
        lambda: max(r.x, s.a),
    ],
)
def test_truth_is_not_known_yet(use: Any) -> None:
    with pytest.raises(TypeError, match=r"& \| ~ instead of and, or, not") as caught:
        use()
    assert "between" in str(caught.value)


def test_floor_division_names_both_remedies() -> None:
    for use in (lambda: r.x // 2, lambda: 2 // r.x):
        with pytest.raises(TypeError, match=r"div\(a, b\).*floor\(a / b\)"):
            use()


def test_forgotten_parentheses() -> None:
    with pytest.raises(TypeError, match="put parentheses around comparisons"):
        r.x > 1 & s.y  # noqa: B015


@pytest.mark.parametrize(
    ("value", "node"),
    [
        (np.int64(5), literal(5)),
        (np.float64(0.1), literal(0.1)),
        (np.float32(0.1), literal(float(np.float32(0.1)), FLOAT32)),
        (np.bool_(True), literal(True)),
        (np.datetime64("2020-01-02"), literal(dt.datetime(2020, 1, 2), timestamp())),
        (np.timedelta64(5, "s"), literal(dt.timedelta(seconds=5))),
        (pd.Timestamp("2020-01-02", tz="UTC"), literal(pd.Timestamp("2020-01-02", tz="UTC"))),
        (dt.date(2020, 1, 2), literal(dt.date(2020, 1, 2))),
        (b"\x01", literal(b"\x01")),
    ],
)
def test_constants(value: Any, node: Any) -> None:
    assert as_node(value) == node


def test_numpy_numbers_on_the_left() -> None:
    assert as_tree(np.float64(1.5) + r.x > np.int32(2)) == as_tree(1.5 + r.x > 2)


@pytest.mark.parametrize(
    ("use", "why"),
    [
        (lambda: r.x == object(), "cannot be used in a predicate"),
        (lambda: r.x == [1], "cannot be used in a predicate"),
        (lambda: r.x == s, r"name a column of it, as in s\.x"),
        (lambda: r.x.isin("ab"), r"isin\(\['ab'\]\)"),
        (lambda: r.x.isin(5), "list of values"),
        (lambda: least(r.x), "2 or more"),
        (lambda: r[0], "name is a string"),  # type: ignore[index]
        (lambda: list(r.x), "cannot be iterated"),
        (lambda: {r.x: 1}, "unhashable"),
    ],
)
def test_type_errors(use: Any, why: str) -> None:
    with pytest.raises(TypeError, match=why):
        use()


@pytest.mark.parametrize(
    ("use", "why"),
    [
        (lambda: r.x.cast("map<int,int>"), "supported: boolean"),
        (lambda: r.x.cast(int), "supported: boolean"),  # type: ignore[arg-type]
        (lambda: r.x.isin([]), "empty"),
        (lambda: r.x < pd.Timestamp("2020-01-01T00:00:00.000000001"), "finer than a microsecond"),
        (lambda: r.x < pd.Timedelta(5, "ns"), "finer than a microsecond"),
        (lambda: r.x < np.datetime64("2020-01-01T00:00:00.000000001"), "exact to the microsecond"),
        (lambda: r.x < np.datetime64("NaT"), "exact to the microsecond"),
        (lambda: as_tree(5), "is no predicate; write SQL text"),
        (lambda: as_tree(r), "is no predicate"),
        (lambda: as_tree(None), "is no predicate"),
    ],
)
def test_predicate_errors(use: Any, why: str) -> None:
    with pytest.raises(PredicateError, match=why):
        use()


def test_sides_survive_copying_and_notebooks() -> None:
    assert to_sql(pickle.loads(pickle.dumps(r)).x.node) == "r.x"
    assert to_sql(copy.deepcopy(s).x.node) == "s.x"
    assert not hasattr(r, "_repr_html_")
    assert repr(r) == "r"
    assert repr(r.x + 1) == "<r.x + 1>"
    assert to_sql(r["__class__"].node) == "r.__class__"
