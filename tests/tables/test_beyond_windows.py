"""Tables without a window, with bounds that depend on the row, and with tuples that are valid for a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.errors import DataError, SchemaError, StreamjoinError, WindowError

TICKS = st.integers(-6, 6)
ROWS = st.lists(st.tuples(TICKS, st.none() | TICKS, st.none() | TICKS), max_size=12)
INT = pa.int64()
Row = dict[str, Any]


def table(rows: list[tuple[Any, ...]], side: str) -> pa.Table:
    schema = pa.schema([(f"{side}id", INT), ("t", INT), ("a", INT), ("b", INT)])
    return pa.Table.from_pylist(
        [{f"{side}id": k, "t": t, "a": a, "b": b} for k, (t, a, b) in enumerate(rows)], schema=schema
    )


def check(r: pa.Table, s: pa.Table, holds: Callable[[Row, Row], bool], **options: Any) -> None:
    """The pairs, and what has none, are those of a nested loop."""
    wanted = [(x["rid"], y["sid"]) for x in r.to_pylist() for y in s.to_pylist() if holds(x, y)]
    out = sj.join(r, s, select="r.rid, s.sid", how="left", **options)
    alone = [(k, None) for k in range(r.num_rows) if k not in {rid for rid, _ in wanted}]
    assert sorted(map(str, out.to_pylist())) == sorted(str({"rid": k, "sid": j}) for k, j in [*wanted, *alone])


@given(ROWS, ROWS)
def test_no_window(left: list[tuple[Any, ...]], right: list[tuple[Any, ...]]) -> None:
    r, s = table(left, "r"), table(right, "s")
    check(r, s, lambda x, y: x["t"] < y["t"], on="r.t < s.t")
    out = sj.join(r, s, on="r.t <= s.t", aggregate={"n": "count(*)"}, how="left", select="r.rid, r.t")
    assert all(row["n"] == sum(row["t"] <= y[0] for y in right) for row in out.to_pylist())


def within(x: Row, y: Row, low: Any, high: Any) -> bool:
    return low is not None and high is not None and low <= y["t"] - x["t"] <= high


@given(ROWS, ROWS)
def test_bounds_that_depend_on_the_row(left: list[tuple[Any, ...]], right: list[tuple[Any, ...]]) -> None:
    r, s = table(left, "r"), table(right, "s")
    options: dict[str, Any] = {"on": "TRUE", "time": "t"}
    check(r, s, lambda x, y: within(x, y, x["a"], 2), within=sj.interval("r.a", 2), **options)
    check(r, s, lambda x, y: within(x, y, y["a"], x["b"]), within=sj.interval(sj.s.a, sj.r.b), **options)
    near = sj.interval("r.a", "r.b", closed="left", most=3)
    check(
        r,
        s,
        lambda x, y: None not in (x["a"], x["b"]) and x["a"] <= y["t"] - x["t"] < x["b"] and abs(y["t"] - x["t"]) <= 3,
        within=near,
        **options,
    )


def lives(row: Row, closed: str) -> list[int]:
    """Twice the instants of a row: odd ones lie between two ticks."""
    low = -100 if row["a"] is None else 2 * row["a"]
    high = 100 if row["b"] is None else 2 * row["b"]
    first = 0 if closed in ("both", "left") or row["a"] is None else 1
    last = 1 if closed in ("both", "right") or row["b"] is None else 0
    return list(range(low + first, high + last))


@given(ROWS, ROWS, *[st.sampled_from(["both", "left", "right", "neither"])] * 2)
def test_validity(left: list[Any], right: list[Any], closed_r: str, closed_s: str) -> None:
    left, right = ([(t, *_in_order(a, b)) for t, a, b in rows] for rows in (left, right))
    r, s = table(left, "r"), table(right, "s")
    valid_r, valid_s = sj.valid("a", "b", closed=closed_r), sj.valid("a", "b", closed=closed_s)
    check(r, s, lambda x, y: 2 * x["t"] in lives(y, closed_s), on="TRUE", time=("t", valid_s))
    check(r, s, lambda x, y: 2 * y["t"] in lives(x, closed_r), on="TRUE", time=(valid_r, "t"))
    check(r, s, lambda x, y: bool({*lives(x, closed_r)} & {*lives(y, closed_s)}), on="TRUE", time=(valid_r, valid_s))


def _in_order(a: int | None, b: int | None) -> tuple[int | None, int | None]:
    return (b, a) if a is not None and b is not None and a > b else (a, b)


def test_by_a_parallel_algorithm() -> None:
    rows = [(k % 7 - 3, k % 5 - 2, k % 3) for k in range(30)]
    r, s = table(rows, "r"), table(rows[::-1], "s")
    by: dict[str, Any] = {"algorithm": "grid", "workers": 2, "on": "TRUE"}
    check(r, s, lambda x, y: x["t"] < y["t"], **by | {"on": "r.t < s.t"})
    check(r, s, lambda x, y: within(x, y, x["a"], 2), within=sj.interval("r.a", 2), time="t", **by)
    s = table([(t, *_in_order(a, b)) for t, a, b in rows], "s")
    check(r, s, lambda x, y: 2 * x["t"] in lives(y, "left"), time=("t", sj.valid("a", "b")), **by)


T = table([(1, 2, 3), (4, 6, 5)], "x")


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"take": "nearest"}, SchemaError, ["take", "time"]),
        ({"ordered": True}, SchemaError, ["ordered", "time"]),
        ({"within": 3}, WindowError, ["needs time columns"]),
        ({"within": sj.interval("r.a", 3)}, WindowError, ["needs time columns"]),
        ({"within": sj.interval("r.a", 3, most=-1), "time": "t"}, WindowError, ["most"]),
        ({"time": sj.valid("a", "b")}, DataError, ["r.a is 6", "r.b is 5", "row 1"]),
        ({"time": sj.valid("a", "c")}, SchemaError, ["no column", "c"]),
        ({"time": ("t", sj.valid("a", "b")), "within": 3}, WindowError, ["within", "valid"]),
        ({"time": ("t", sj.valid("t", "b")), "ordered": True}, SchemaError, ["ordered", "valid"]),
        ({"time": ("t", sj.valid("t", "b")), "take": "backward"}, SchemaError, ["backward", "valid"]),
    ],
)
def test_what_is_refused(options: dict[str, Any], error: type[StreamjoinError], words: list[str]) -> None:
    with pytest.raises(error) as caught:
        sj.join(T, T, on="TRUE", **options)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_streams_need_a_limit() -> None:
    schema = T.schema
    with pytest.raises(WindowError, match="within"):
        sj.Join(r=schema, s=schema, on="r.t < s.t", time="t")
    with pytest.raises(WindowError, match="most"):
        sj.Join(r=schema, s=schema, on="TRUE", time="t", within=sj.interval("r.a", 3))
    with sj.Join(r=schema, s=schema, on="TRUE", time="t", within=sj.interval("r.a", 3, most=5)) as join:
        join.push_r(T)
        join.push_s(T)
    assert sum(batch.num_rows for batch in join.poll()) == 1
    with pytest.raises(WindowError, match="both sides"):
        sj.interval("r.a + s.a", 3)
