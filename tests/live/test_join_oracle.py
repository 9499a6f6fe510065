"""Joins of tables and pushed streams against the nested loop: windows, ties, disorder, access, expiry."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamjoin as sj
from counts import check_counts
from profiles import SOAK
from streamjoin.errors import LateError, StreamjoinError
from streamjoin.testing import oracle
from streamjoin.testing.cases import BY_NAME, CASES, Case, R, S, schemas, swapped, within
from streamjoin.testing.conformance import TIME, StreamJoin
from streamjoin.testing.oracle import Interval, Last, Row, TumblingRows, TumblingTime
from streamjoin.testing.rows import pairs_of, to_batch, to_table
from streamjoin.testing.strategies import count_windows, stream, stream_joins, table_joins, time_windows

each_case = pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
# Every predicate is tested on tables. On streams the suite leaves out those that are compiled as others there are.
ALIKE = () if SOAK else ("band_3d", "asymmetric", "float_equality", "variable", "either")
each_live_case = pytest.mark.parametrize("case", [c for c in CASES if c.name not in ALIKE], ids=lambda c: c.name)


@each_case
@given(data=st.data())
def test_tables(case: Case, data: st.DataObject) -> None:
    join = data.draw(table_joins([case]))
    out = sj.join(join.r, join.s, **join.options, access=data.draw(st.sampled_from(case.access)))
    join.verify(out)
    join.verify_rows(out)


@each_live_case
@given(data=st.data())
def test_pushed_streams(case: Case, data: st.DataObject) -> None:
    """Time windows: disorder within max_delay changes nothing, what is later is dropped and counted."""
    join = data.draw(stream_joins([case]))
    live = sj.Join(**join.options, access=data.draw(st.sampled_from(case.access)))
    join.verify(join.feed(live))
    check_counts(join, live.stats())


@pytest.mark.parametrize("name", ["band", "equality", "string", "opaque"])
@given(data=st.data())
def test_pushed_streams_under_count_windows(name: str, data: st.DataObject) -> None:
    """The order of the push calls decides, not the time."""
    case = BY_NAME[name]
    join = data.draw(stream_joins([case], count_windows, delays=[1_000], timed=data.draw(st.booleans())))
    live = sj.Join(**join.options, access=data.draw(st.sampled_from(case.access)))
    join.verify(join.feed(live))


@given(join=stream_joins([BY_NAME["band"]], st.just(Interval(-5, 5)), delays=[1]))
def test_late_tuples_are_kept_for_the_caller(join: StreamJoin) -> None:
    live = sj.Join(**join.options, late="keep")
    join.verify(join.feed(live))
    handed = [(side, n) for side, b in live.late() for n in b.column(f"{side}id").to_pylist()]
    assert sorted(handed) == sorted((side, row[f"{side}id"]) for side, row in join.split()[1])


@given(rs=stream("r"), ss=stream("s"))
def test_late_tuples_are_an_error_if_asked_for(rs: list[Row], ss: list[Row]) -> None:
    _, late = oracle.split_late([("r", row) for row in rs] + [("s", row) for row in ss], TIME, 2)
    join = sj.Join(r=R, s=S, on=BY_NAME["band"].on, within=5, time="t", max_delay=2, late="error")

    def push() -> None:
        join.push_r(to_batch(rs, R))
        join.push_s(to_batch(ss, S))

    if late:
        side, row = late[0]
        with pytest.raises(LateError) as caught:
            push()
        message = str(caught.value)
        assert str(row["t"]) in message
        assert "max_delay" in message
        assert f"{side}." in message or f"{side} " in message or f'"{side}"' in message
    else:
        push()
    join.close()


@pytest.mark.parametrize("name", ["asymmetric", "equality_band", *["variable", "one_sided"] * SOAK])
@given(data=st.data())
def test_mirror(name: str, data: st.DataObject) -> None:
    """Swapping sides and bounds swaps the pairs."""
    case = BY_NAME[name]
    other = swapped(case)
    join = data.draw(table_joins([case], time_windows | st.integers(1, 6).map(TumblingRows), [False]))
    forth = sj.join(join.r, join.s, **join.options)
    back = sj.join(join.s, join.r, on=other.on, within=within(join.window.mirrored()), time="t")
    assert sorted(pairs_of(forth)) == sorted(pairs_of(back))


def in_unit(rows: list[Row], per_second: int) -> list[Row]:
    return [{**row, "t": row["t"] * per_second} for row in rows]


UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


@pytest.mark.parametrize(("unit_r", "unit_s", "zone"), [("ms", "ns", None), ("us", "us", "UTC"), ("s", "us", None)])
@given(data=st.data())
def test_timestamps_of_mixed_units(unit_r: str, unit_s: str, zone: str | None, data: st.DataObject) -> None:
    """The units of the two time columns may differ; bounds are durations."""
    case = BY_NAME["band"]
    rs, ss = data.draw(stream("r", disorder=False)), data.draw(stream("s", disorder=False))
    window = data.draw(time_windows)
    want = oracle.pairs(oracle.arrivals_of_tables(rs, ss, TIME), case.holds, window, TIME)
    zone_s = "Europe/Zurich" if zone else None  # the same instants, shown elsewhere
    one, two = schemas(pa.timestamp(unit_r, zone), pa.timestamp(unit_s, zone_s))
    left, right = to_table(in_unit(rs, UNITS[unit_r]), one), to_table(in_unit(ss, UNITS[unit_s]), two)
    out = sj.join(left, right, on=case.on, within=within(window, "seconds"), time="t")
    assert sorted(pairs_of(out)) == want
    assert out["t_r"].type == one.field("t").type
    assert out["t_s"].type == two.field("t").type


def test_one_nanosecond_counts() -> None:
    left = pa.table({"rid": [0], "t": pa.array([1_700_000_000_000_000_000], pa.timestamp("ns"))})
    right = pa.table(
        {"sid": [0, 1], "t": pa.array([1_700_000_000_000_000_005 + d for d in (0, 1)], pa.timestamp("ns"))}
    )
    out = sj.join(left, right, on="rid <= sid", within="5 ns", time="t")
    assert pairs_of(out) == [(0, 0)]


def test_different_time_columns() -> None:
    left = pa.table({"rid": [0, 1], "sold": [10, 20]})
    right = pa.table({"sid": [0, 1], "asked": [12, 40]})
    out = sj.join(left, right, on="rid >= 0 AND sid >= 0", within=5, time=("sold", "asked"))
    assert pairs_of(out) == [(0, 0)]


def access_error(case: str, access: str) -> str:
    with pytest.raises(StreamjoinError) as caught:
        sj.Join(r=R, s=S, on=BY_NAME[case].on, within=5, time="t", access=access)
    return str(caught.value)


def test_access_that_the_predicate_cannot_serve() -> None:
    assert "equality" in access_error("band", "hash")
    assert "hash" in access_error("band", "hash")
    assert "band" in access_error("opaque", "band")
    assert "equality" in access_error("opaque", "hash")
    unknown = access_error("band", "btree")
    assert "btree" in unknown
    assert all(word in unknown for word in ("auto", "scan", "band", "hash"))


# What is left in the stores.

NARROW = pa.schema([("id", pa.int64()), ("t", pa.int64()), ("x", pa.int64())])


def ramp(start: int, n: int, side: str) -> pa.RecordBatch:
    ids = np.arange(start, start + n)
    schema = pa.schema([(f"{side}id", pa.int64()), ("t", pa.int64()), ("x", pa.int64())])
    return pa.RecordBatch.from_arrays([pa.array(ids), pa.array(ids), pa.array(ids * 7919 % 1000)], schema=schema)


ACCESS = [
    ("r.x BETWEEN s.x - 1 AND s.x + 1", "scan"),
    ("r.x BETWEEN s.x - 1 AND s.x + 1", "band"),
    ("r.x = s.x", "hash"),
]
TREE = ("r.x BETWEEN s.x - 1 AND s.x + 1", "tree")  # whose index is larger than what it indexes


@pytest.mark.parametrize(("on", "access"), [*ACCESS, TREE], ids=lambda a: a if len(a) < 5 else "")
@pytest.mark.parametrize(
    "window",
    [Interval(-200, 200), Interval(-300, -100), TumblingTime(200), Last(200, 200), TumblingRows(200)],
)
def test_expiry(on: str, access: str, window: Any) -> None:
    """Tuples that no later arrival can meet leave the store; an advance past everything empties it."""
    n, size = 10_000, 250
    timed = isinstance(window, (Interval, TumblingTime))
    with sj.Join(
        r=ramp(0, 0, "r").schema,
        s=ramp(0, 0, "s").schema,
        on=on,
        within=within(window),
        time="t",
        access=access,
    ) as j:
        results, most = 0, 0
        for start in range(0, n, size):
            j.push_r(ramp(start, size, "r"))
            j.push_s(ramp(start, size, "s"))
            results += sum(b.num_rows for b in j.poll())
            stats = j.stats()
            most = max(most, stats["r"]["window"], stats["s"]["window"])
        assert most < n // 4, f"{most} tuples in the store, of a window of some hundred"
        if timed:
            j.advance(r=n + 10_000, s=n + 10_000)
            results += sum(b.num_rows for b in j.poll())
            stats = j.stats()
            assert stats["r"]["window"] == stats["s"]["window"] == 0
    results += sum(b.num_rows for b in j.poll())
    assert j.stats()["results"] == results
    assert results > 0 or window == Interval(-300, -100), "only this window excludes tuples of the same number"


def test_a_silent_side_keeps_the_other_until_it_advances() -> None:
    """Without news from s nothing of r may go: an s may still come. advance(s=...) is that news."""
    j = sj.Join(r=ramp(0, 0, "r").schema, s=ramp(0, 0, "s").schema, on="r.x = s.x", within=10, time="t")
    j.push_r(ramp(0, 1_000, "r"))
    list(j.poll())
    assert j.stats()["r"]["window"] == 1_000
    j.advance(s=100_000)
    list(j.poll())
    assert j.stats()["r"]["window"] == 0
    j.close()


def test_a_tuple_below_the_promise_is_late() -> None:
    j = sj.Join(r=ramp(0, 0, "r").schema, s=ramp(0, 0, "s").schema, on="r.x = s.x", within=10, time="t", max_delay=50)
    j.advance(r=500)
    j.push_r(ramp(499, 3, "r"))
    j.close()
    assert j.stats()["r"]["late"] == 1


@pytest.mark.parametrize(("on", "access"), ACCESS, ids=lambda a: a if len(a) < 5 else "")
def test_memory_of_the_stores(on: str, access: str) -> None:
    """At most 2.5 times the raw bytes of the columns that the stores hold."""
    n = 120_000
    j = sj.Join(
        r=ramp(0, 0, "r").schema,
        s=ramp(0, 0, "s").schema,
        on=on,
        within=10 * n,
        time="t",
        access=access,
    )
    for start in range(0, n, 4_000):
        j.push_r(ramp(start, 4_000, "r"))
    stats = j.stats()["r"]
    assert stats["window"] == n
    assert stats["raw_bytes"] >= 16 * n
    assert stats["store_bytes"] <= 2.5 * stats["raw_bytes"]
    j.close()


# Output of the live join.


def test_ordered_output_does_not_wait_for_the_window() -> None:
    """ordered=True holds back what may still be overtaken, not a whole window."""
    j = sj.Join(
        r=ramp(0, 0, "r").schema,
        s=ramp(0, 0, "s").schema,
        on="r.x = s.x",
        within=100_000,
        time="t",
        ordered=True,
    )
    seen = 0
    for start in range(0, 2_000, 100):
        j.push_r(ramp(start, 100, "r"))
        j.push_s(ramp(start, 100, "s"))
        seen += sum(b.num_rows for b in j.poll())
    assert seen > 1_500, "results were held back until the window closed"
    j.close()
    assert seen + sum(b.num_rows for b in j.poll()) == j.stats()["results"]


def test_every_kind_of_batch() -> None:
    """Arrow batches and tables, dicts of lists or arrays, pandas and Polars frames mean the same."""
    import pandas as pd
    import polars as pl

    rows = ramp(0, 5, "s")
    plain = rows.to_pydict()
    kinds = [rows, pa.Table.from_batches([rows]), plain, {k: np.array(v) for k, v in plain.items()}]
    kinds += [pd.DataFrame(plain), pl.DataFrame(plain)]
    for kind in kinds:
        with sj.Join(r=ramp(0, 0, "r").schema, s=rows.schema, on="r.x = s.x", within=0, time="t") as j:
            j.push_r(ramp(0, 5, "r"))
            j.push_s(kind)
        assert sorted(p for b in j.poll() for p in pairs_of(b)) == [(i, i) for i in range(5)], type(kind)


def test_same_kind_of_table_comes_back() -> None:
    import pandas as pd
    import polars as pl

    left, right = pa.Table.from_batches([ramp(0, 50, "r")]), pa.Table.from_batches([ramp(0, 50, "s")])
    want = sorted(pairs_of(sj.join(left, right, on="r.x = s.x", within=3, time="t")))
    frames: list[tuple[Any, Any]] = [
        (left.to_pandas(), right.to_pandas()),
        (pl.from_arrow(left), pl.from_arrow(right)),
    ]
    kinds: list[type[Any]] = [pd.DataFrame, pl.DataFrame]
    for kind, (one, two) in zip(kinds, frames, strict=True):
        out: Any = sj.join(one, two, on="r.x = s.x", within=3, time="t")
        assert isinstance(out, kind)
        assert sorted(zip(list(out["rid"]), list(out["sid"]), strict=True)) == want
