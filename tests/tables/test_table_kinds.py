"""Every kind of join of two tables: laws that tie the kinds to each other, and judges from outside."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.errors import DataError
from streamjoin.tables import by_key, crew, search, tasks
from streamjoin.tables import join as joining
from streamjoin.testing import cases

BAND, EQUI = cases.BY_NAME["band"].on, "r.k = s.k"


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts and buffers so small that a few rows go through several of them."""
    monkeypatch.setattr(joining, "SMALL", 0)
    monkeypatch.setattr(crew.Crew.cut, "__defaults__", (5,))
    monkeypatch.setattr(by_key, "PART", 7)
    monkeypatch.setattr(tasks, "LEAST", 3)
    monkeypatch.setattr(search, "PAIRS", 33)
    monkeypatch.setattr(search, "RANGES", 3)
    monkeypatch.setattr(tasks, "TILE", (7, 5))


def table(side: str, seed: int, n: int = 80) -> pa.Table:
    return pa.Table.from_pylist(cases.long_stream(side, seed, n, 1, True), schema=cases.SCHEMAS[side])


R, S = table("r", 1), table("s", 2)


def join(r: Any = R, s: Any = S, **options: Any) -> Any:
    return sj.join(r, s, **({"on": BAND, "within": 10, "time": "t", "workers": 3} | options))


def ids(out: pa.Table) -> list[tuple[Any, ...]]:
    names = [name for name in ("rid", "sid") if name in out.column_names]
    return sorted(zip(*(out[name].to_pylist() for name in names), strict=True), key=str)


@pytest.mark.parametrize("options", [{}, {"algorithm": "grid", "workers": 2}, {"within": sj.last(9)}], ids=str)
@pytest.mark.parametrize("on", [BAND, EQUI, f"{BAND} AND r.x > 0 AND s.a > 0"])
def test_laws(on: str, options: dict[str, Any]) -> None:
    def pairs(**more: Any) -> list[tuple[Any, ...]]:
        return ids(join(on=on, **options, **more))

    inner, every_r, every_s = pairs(), set(R["rid"].to_pylist()), set(S["sid"].to_pylist())
    semi, anti = pairs(how="semi"), pairs(how="anti")
    assert semi == sorted({(r,) for r, _ in inner}, key=str)
    assert sorted([*semi, *anti], key=str) == sorted(((r,) for r in every_r), key=str)
    left = [(r, None) for r in every_r - {r for r, _ in inner}]
    right = [(None, s) for s in every_s - {s for _, s in inner}]
    assert pairs(how="left") == sorted([*inner, *left], key=str)
    assert pairs(how="right") == sorted([*inner, *right], key=str)
    assert pairs(how="full") == sorted([*inner, *left, *right], key=str)
    for take in ("backward", "forward", "nearest", sj.min_by("s.a - r.x", k=2)):
        taken = pairs(take=take)
        assert set(taken) <= set(inner)
        assert pairs(take=take, how="left") == sorted(
            [*taken, *((r, None) for r in every_r - {r for r, _ in taken})], key=str
        )
    counted = join(on=on, **options, aggregate={"n": "count(*)"}, how="left")
    assert {row["rid"]: row["n"] for row in counted.to_pylist()} == {
        r: sum(pair[0] == r for pair in inner) for r in every_r
    }


KEYS = {
    "near": np.arange(3),
    "far": np.arange(3) * 10**12,
    "text": np.array(["a", "b", "c"]),
    "float": np.array([0.5, -0.0, 2]),
}


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("within", [None, 4, sj.interval(-9, -2), sj.interval(1, 5)], ids=str)
@pytest.mark.parametrize("take", ["backward", "forward", "nearest"])
def test_as_of_by_equalities_is_what_the_search_finds(take: Any, within: Any, keys: str) -> None:
    """A condition that always holds, but is no equality, leads to the search of all pairs.

    Divided into ranges for several threads, as-of joins find the same, whether the rows are in order or not.
    """
    rng = np.random.default_rng(3)
    r = pa.table({"t": rng.integers(0, 60, 40), "k": KEYS[keys][rng.integers(0, 3, 40)], "rid": np.arange(40)})
    s = pa.table({"t": rng.integers(0, 60, 60), "k": KEYS[keys][rng.integers(0, 2, 60)], "sid": np.arange(60)})
    options: dict[str, Any] = {"within": within, "take": take, "how": "left", "ordered": True}
    stats: dict[str, Any] = {}
    found = ids(join(r, s, on="r.k = s.k AND s.t < 55", stats=stats, **options))
    assert stats["shape"] == "as-of"
    assert found == ids(join(r, s, on="r.k = s.k AND s.t < 55 AND r.rid + s.sid >= 0", stats=stats, **options))
    assert stats["shape"] != "as-of"
    for left, right in ((r, s), (r.sort_by("t"), s.sort_by("t"))):
        whole_pairs = ids(join(left, right, on="r.k = s.k AND s.t < 55", workers=1, **options))
        in_parts = ids(join(left, right, on="r.k = s.k AND s.t < 55", workers=3, **options))
        assert in_parts == whole_pairs and (left is not r or whole_pairs == found)


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("within", [None, 4, sj.interval(-9, -2), sj.interval(1, 5), sj.tumbling(7)], ids=str)
def test_running_counts_are_what_the_search_finds(within: Any, keys: str) -> None:
    """Where the rows stand in the order of time, partners by equal keys are counted in one pass."""
    rng = np.random.default_rng(4)

    def side(name: str, n: int, known: int) -> pa.Table:
        key = pa.array(KEYS[keys][rng.integers(0, known, n)], mask=rng.integers(0, 9, n) == 0)
        return pa.table({"t": np.sort(rng.integers(0, 60, n)), "k": key, name: np.arange(n)})

    r, s = side("rid", 45, 3), side("sid", 60, 2)
    on = "r.k = s.k AND s.t < 55 AND r.rid > 2"
    want = Counter(pair[0] for pair in ids(join(r, s, on=on, within=within)))
    assert want
    shuffled = r.take(rng.permutation(45))
    for left, right, shape in ((r, s, "running count"), (shuffled, s, "sweep"), (r, s.slice(0, 0), "running count")):
        partners = want if right.num_rows else Counter()
        for workers in (1, 3):
            stats: dict[str, Any] = {}
            options: dict[str, Any] = {"on": on, "within": within, "workers": workers, "stats": stats}
            out = join(left, right, how="left", aggregate={"n": "count(*)"}, **options)
            assert stats["shape"] == shape
            assert {row["rid"]: row["n"] for row in out.to_pylist()} == {rid: partners[rid] for rid in range(45)}
            assert {rid for (rid,) in ids(join(left, right, how="semi", **options))} == set(partners)
            assert {rid for (rid,) in ids(join(left, right, how="anti", **options))} == set(range(45)) - set(partners)
            inner = join(left, right, aggregate={"n": "count(*)", "m": "count(*)"}, **options)
            assert dict(zip(inner["rid"].to_pylist(), inner["m"].to_pylist(), strict=True)) == partners
    assert sj.explain(r, s, on=on, within=within, time="t", how="semi").to_dict()["shape"] == "running count"
    first = ids(join(r, s, on=on, within=within, how="semi", ordered=True, stats=stats))  # needs the earliest partner
    assert stats["shape"] != "running count" and {rid for (rid,) in first} == set(want)


@pytest.mark.parametrize("on", [EQUI, f"{EQUI} AND r.rid + s.sid >= 0"])
@pytest.mark.parametrize("take", ["backward", "forward", "nearest"])
def test_ties_are_those_of_merge_asof(take: Any, on: str) -> None:
    rng = np.random.default_rng(5)
    r = pd.DataFrame({"t": np.sort(rng.integers(0, 60, 50)), "k": rng.integers(0, 3, 50), "rid": np.arange(50)})
    s = pd.DataFrame({"t": np.sort(rng.integers(0, 60, 80)), "k": rng.integers(0, 3, 80), "sid": np.arange(80)})
    r, s = r.astype({"k": "int32"}), s.astype({"k": "int32"})
    out = join(r, s, on=on, within=4, take=take, how="left")
    assert isinstance(out, pd.DataFrame)
    judged = pd.merge_asof(r, s, on="t", by="k", direction=take, tolerance=4)
    assert out.sort_values("rid")["sid"].tolist() == pytest.approx(judged["sid"].tolist(), nan_ok=True)


def test_aggregates_are_those_of_polars() -> None:
    wanted = {
        "n": "count(*)", "m": "count(s.b)", "total": "sum(s.a)", "mean": "avg(s.a)", "low": "min(s.c)",
        "high": "max(s.c)", "b": "sum(s.b)", "name": "max_by(s.nm, s.a)", "gap": "min(abs(s.a - r.x))",
    }  # fmt: skip
    out = join(aggregate=wanted, select="r.rid").sort_by("rid")
    inner = pl.from_arrow(join(select="r.rid, s.a, s.b, s.c, r.x, s.t, s.sid, s.nm, r.t AS tr"))
    assert isinstance(inner, pl.DataFrame)
    judged = (
        inner.group_by("rid")
        .agg(
            n=pl.len(), m=pl.col("b").count(), total=pl.col("a").sum(), mean=pl.col("a").mean(),
            low=pl.col("c").fill_nan(np.inf).min(), gap=(pl.col("a") - pl.col("x")).abs().min(),
        )
        .sort("rid")
    )  # fmt: skip
    for name in ("rid", "n", "m", "total", "mean", "gap"):
        assert out[name].to_pylist() == judged[name].to_list(), name
    low = [None if x is None else np.inf if x != x else x for x in out["low"].to_pylist()]
    assert low == judged["low"].to_list()
    assert out.schema.field("total").type == pa.int64()


def test_sums_are_exact_or_an_error() -> None:
    big = 2**62
    r = pa.table({"t": [1, 2], "k": pa.array([1, 2], pa.int32())})
    s = pa.table({"t": [1] * 5, "k": pa.array([1, 1, 1, 2, 2], pa.int32()), "v": [big, big, -big, 1, 2]})
    s = s.append_column("d", pa.array([Decimal("0.05"), Decimal("1.00"), None, Decimal("0.01"), Decimal("0.02")]))
    found = join(r, s, on=EQUI, aggregate="sum(s.v) AS v, avg(s.d) AS d, sum(s.d) AS e, avg(s.v) AS m").to_pylist()
    assert [row["v"] for row in found] == [big, 3]
    assert [row["d"] for row in found] == [Decimal("0.525000"), Decimal("0.015000")]
    assert [row["e"] for row in found] == [Decimal("1.05"), Decimal("0.03")]
    assert [row["m"] for row in found] == [big / 3, 1.5]
    with pytest.raises(DataError, match="sum"):
        join(r, s.slice(0, 2), on=EQUI, aggregate="sum(s.v) AS v")
    with pytest.raises(DataError, match="overflow"):
        join(r, s, on=EQUI, select="s.v + s.v AS twice")


def test_computed_columns_have_their_types() -> None:
    r = pa.table({"t": [1], "k": pa.array([1], pa.int32()), "w": pa.array([7], pa.timestamp("us", "UTC"))})
    out = join(r, r, on=EQUI, select="r.w - s.w AS gap, r.k = s.k AS same, r.k + 1 AS next, r.w", how="left")
    assert out.to_pylist() == [
        {"gap": dt.timedelta(0), "same": True, "next": 2, "w": dt.datetime.fromtimestamp(7e-6, dt.UTC)}
    ]
    assert out.schema.field("gap").type == pa.duration("us")


@pytest.mark.parametrize(
    "kind",
    [
        {"how": "full"},
        {"how": "anti"},
        {"take": "nearest", "how": "left"},
        {"aggregate": {"n": "max(s.a)"}, "how": "left"},
        {"select": "s.sid AS q, r.x + 1 AS y"},
    ],
    ids=str,
)
def test_frames_of_other_libraries(kind: dict[str, Any]) -> None:
    r, s = R.drop_columns("note"), S.drop_columns("note")
    plain = join(r, s, **kind)
    frame = join(pl.from_arrow(r), pl.from_arrow(s), **kind)
    assert isinstance(frame, pl.DataFrame)
    assert sorted(map(str, frame.to_arrow().to_pylist())) == sorted(map(str, plain.to_pylist()))
    assert list(join(r.to_pandas(), s.to_pandas(), **kind).columns) == plain.column_names


def test_ordered() -> None:
    out = join(how="left", ordered=True).to_pylist()
    times = [row["t_r"] + 10 if row["t_s"] is None else max(row["t_r"], row["t_s"]) for row in out]
    assert times == sorted(times)
    assert join(take="backward", ordered=True)["t_r"].to_pylist() == sorted(join(take="backward")["t_r"].to_pylist())


def test_empty_tables() -> None:
    for r, s in ((R.slice(0, 0), S), (R, S.slice(0, 0)), (R.slice(0, 0), S.slice(0, 0))):
        assert join(r, s, how="full").num_rows == r.num_rows + s.num_rows
        assert join(r, s, how="semi").num_rows == 0
        assert join(r, s, take="nearest", how="left").num_rows == r.num_rows
        assert join(r, s, aggregate={"n": "sum(s.a)"}, how="left")["n"].null_count == r.num_rows
