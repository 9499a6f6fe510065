"""Whole tables by every shape there is: each finds what a nested loop finds, on any number of threads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import streamjoin as sj
from profiles import SOAK
from streamjoin.plan import shape as planned
from streamjoin.tables import crew, search, sort, tasks, whole
from streamjoin.tables import join as joining
from streamjoin.testing.cases import BY_NAME, CASES, Case
from streamjoin.testing.rows import pairs_of
from streamjoin.testing.strategies import table_joins

SOME = 3  # shapes that are tried of a join


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts, buffers and samples so small that a few rows go through several of them."""
    monkeypatch.setattr(joining, "SMALL", 0)
    monkeypatch.setattr(sort, "FEW", 20)
    monkeypatch.setattr(crew, "PART", 5)
    monkeypatch.setattr(crew.Crew.cut, "__defaults__", (5,))
    monkeypatch.setattr(tasks, "LEAST", 3)
    monkeypatch.setattr(search, "PAIRS", 33)
    monkeypatch.setattr(search, "RANGES", 3)
    monkeypatch.setattr(tasks, "TILE", (7, 5))


def by_shapes(join: Callable[[], pa.Table], first: int = 0) -> Iterator[tuple[str, pa.Table]]:
    """The result of a join by some of the shapes that it may take, from one of them on."""
    for k in range(first, first + SOME):
        seen: list[planned.Shape] = []

        def nth(tables: planned.Tables, k: int = k, seen: list[planned.Shape] = seen) -> list[planned.Shape]:
            found = planned.shapes(tables, every=True)
            seen.extend(found)
            return found[k % len(found) :] + found

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(whole, "shapes", nth)
            out = join()
        yield f"{seen[k % len(seen)] if seen else None}", out


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@given(data=st.data())
def test_every_shape(case: Case, data: st.DataObject) -> None:
    join = data.draw(table_joins([case], orders=[False]))
    workers = data.draw(st.sampled_from([1, 2, 3, 7]))
    left, right, first = join.r, join.s, data.draw(st.integers(0, 20))
    for shape, out in by_shapes(lambda: sj.join(left, right, **join.options, workers=workers), first):
        note(shape)
        join.verify(out)


COUNTED = [BY_NAME[name] for name in ("band", "band_2d", "equality_band", "overlap", "nulls")]


@pytest.mark.parametrize("case", COUNTED, ids=lambda case: case.name)
@given(data=st.data())
def test_every_shape_counts_what_it_finds(case: Case, data: st.DataObject) -> None:
    """Partners are counted where they are found, without pairs: by sums for each r, or by marks from each s."""
    join = data.draw(table_joins([case], orders=[False]))
    workers = data.draw(st.sampled_from([1, 2, 3]))
    left, right, first = join.r, join.s, data.draw(st.integers(0, 20))
    want = Counter(row for row, _ in pairs_of(sj.join(left, right, **join.options, workers=workers)))
    counted: dict[str, Any] = {"aggregate": {"n": "count(*)"}, "select": "r.rid", "workers": workers}
    for shape, out in by_shapes(lambda: sj.join(left, right, **join.options, **counted), first):
        assert dict(zip(out["rid"].to_pylist(), out["n"].to_pylist(), strict=True)) == want, shape


SIGNS = ["<", "<=", ">", ">=", "="]
# Each two are another predicate to compile, once per type.
PAIRS_OF_SIGNS = list(product(SIGNS, SIGNS)) if SOAK else [("<", ">="), ("<=", "<="), (">", "="), (">=", "<")]
LIMITS: dict[pa.DataType, list[Any]] = {
    pa.int64(): [0, 1, -1, 2**63 - 1, -(2**63), 2**53 + 1, 2**53, None, 5, 5],
    pa.int32(): [0, 1, -1, 2**31 - 1, -(2**31), None, 7, 7],
    pa.float64(): [0.0, -0.0, 1.5, float("nan"), float("inf"), float("-inf"), 1e300, -1e300, 5e-324, None, 2.0],
    pa.float32(): [0.0, 1.5, float("nan"), float("inf"), float("-inf"), 3e38, None, 2.0, 16777217.0],
}


def holds(sign: str, a: Any, b: Any) -> bool:
    """Spark's comparison: NaN equals NaN and lies above every number; null is never true."""
    if a is None or b is None:
        return False
    x, y = (((v != v), 0 if v != v else v) for v in (a, b))
    return {"<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y, "=": x == y}[sign]


@pytest.mark.parametrize("kind", list(LIMITS), ids=str)
@given(data=st.data())
def test_two_comparisons_at_the_limits_of_types(kind: pa.DataType, data: st.DataObject) -> None:
    """All operators on extreme values, ties, NaN and nulls, from either side."""
    first, second = data.draw(st.sampled_from(PAIRS_OF_SIGNS))
    values = st.sampled_from(LIMITS[kind])
    rows = st.lists(st.tuples(values, values), max_size=14)
    left, right = data.draw(rows), data.draw(rows)
    want = sorted(
        (i, j)
        for i, (a, b) in enumerate(left)
        for j, (c, d) in enumerate(right)
        if holds(first, a, c) and holds(second, b, d)
    )

    def made(rows: list[tuple[Any, Any]], names: tuple[str, str, str]) -> pa.Table:
        columns = [pa.array([row[k] for row in rows], kind) for k in (0, 1)]
        return pa.table([pa.array(range(len(rows))), *columns, pa.array([0] * len(rows), pa.int64())], [*names, "t"])

    one, two = made(left, ("rid", "a", "b")), made(right, ("sid", "c", "d"))

    def join() -> pa.Table:
        return sj.join(one, two, on=f"r.a {first} s.c AND r.b {second} s.d", within=0, time="t", workers=2)

    for shape, out in by_shapes(join, data.draw(st.integers(0, 20))):
        assert sorted(pairs_of(out)) == want, shape


@pytest.mark.parametrize("how", ["all", "one key", "filtered", "none"])
def test_rows_that_are_alike_or_missing(how: str) -> None:
    n = 40 if how != "none" else 0
    keys = [1 if how == "one key" else k % 3 for k in range(n)]
    left = pa.table({"rid": range(n), "t": pa.array([5] * n, pa.int64()), "k": pa.array(keys, pa.int64())})
    right = left.rename_columns(["sid", "t", "k"])
    on = "r.k = s.k AND r.k > 1" if how == "filtered" else "r.k = s.k"
    want = sorted(
        (i, j) for i in range(n) for j in range(n) if keys[i] == keys[j] and (how != "filtered" or keys[i] > 1)
    )
    for shape, out in by_shapes(lambda: sj.join(left, right, on=on, within=1, time="t", workers=3)):
        assert sorted(pairs_of(out)) == want, shape


def test_a_side_without_rows() -> None:
    some = pa.table({"rid": [1], "t": [1], "x": [1.0]})
    none = some.slice(0, 0).rename_columns(["sid", "t", "x"])
    out = sj.join(some, none, on="r.x <= s.x", within=1, time="t", ordered=True)
    assert out.num_rows == 0
    assert out.schema.names == ["rid", "t_r", "x_r", "sid", "t_s", "x_s"]


def test_what_fails_in_a_thread_is_told_once() -> None:
    big = 2**62
    left = pa.table({"t": [1] * 100, "x": [big] * 100})
    with pytest.raises(sj.DataError, match=r"overflow.*r\.x = 4611686018427387904"):
        sj.join(left, left, on="r.x * s.x - 1 > 5", within=1, time="t", workers=3)


def test_text_and_lists_beside_the_pairs() -> None:
    """Payload of any type goes along, in parts and in order."""
    n = 60
    left = pa.table(
        {
            "rid": range(n),
            "t": range(n),
            "name": pa.array([f"name {k}" if k % 7 else None for k in range(n)]).dictionary_encode(),
            "list": [[k, None] for k in range(n)],
            "view": pa.array([f"a longer text {k}" for k in range(n)], pa.string_view()),
        }
    )
    right = pa.table({"sid": range(n), "t": range(n), "text": [f"{k}" * (k % 5) for k in range(n)]})
    for ordered in (False, True):
        out = sj.join(left, right, on="r.t + 1 >= s.t", within=2, time="t", ordered=ordered, workers=3)
        for side, names in ((left, ("name", "list", "view")), (right, ("text",))):
            rows = out["rid" if side is left else "sid"].to_pylist()
            for name in names:
                assert out[name].type == side[name].type
                assert out[name].to_pylist() == [side[name].to_pylist()[row] for row in rows]
        if ordered:
            times = np.maximum(out["t_r"].to_numpy(), out["t_s"].to_numpy())
            assert (np.diff(times) >= 0).all()
