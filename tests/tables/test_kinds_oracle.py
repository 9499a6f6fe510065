"""Kinds of joins of two tables: against the oracle, by their laws, and against Spark, pandas, Polars and DuckDB."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.errors import StreamjoinError
from streamjoin.testing import laws, oracle, results, verdict
from streamjoin.testing.cases import BY_NAME, Case, R, S, long_stream, stream_of
from streamjoin.testing.conformance import TIME, TableJoin
from streamjoin.testing.kinds import AGGREGATES, BY_TIME, BY_VALUE, HOWS, KINDS, TAKES
from streamjoin.testing.oracle import Everything, Interval, Row, TumblingRows, Valid, Validity
from streamjoin.testing.rows import pairs_of, to_table
from streamjoin.testing.strategies import count_windows, no_window, row_windows, table_joins, time_windows

# Few predicates, because each is compiled; "nulls" has conditions on one side alone.
CASES = [BY_NAME[name] for name in ("band", "equality_band", "opaque", "nulls")]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
GROUPS = {"hows": HOWS, "by_time": BY_TIME, "by_value": BY_VALUE, "aggregates": AGGREGATES}


def check(join: TableJoin, **options: Any) -> None:
    out = sj.join(join.r, join.s, **join.options, **options)
    join.verify(out)
    join.verify_rows(out)


@each_case
@pytest.mark.parametrize("group", GROUPS)
@given(data=st.data())
def test_kinds(case: Case, group: str, data: st.DataObject) -> None:
    check(data.draw(table_joins([case], time_windows | no_window, kinds=GROUPS[group])))


@given(join=table_joins(CASES, count_windows, kinds=KINDS))
def test_under_count_windows(join: TableJoin) -> None:
    check(join)


@given(join=table_joins([BY_NAME["equality"]], row_windows(), kinds=KINDS))
def test_bounds_from_the_row(join: TableJoin) -> None:
    check(join)


@pytest.mark.parametrize("algorithm", ["kang", "low_latency", "grid"])
@given(join=table_joins([BY_NAME["equality_band"]], time_windows | count_windows, kinds=KINDS))
def test_replayed_through_an_algorithm(algorithm: str, join: TableJoin) -> None:
    workers = {} if algorithm == "kang" else {"workers": 3}
    check(join, algorithm=algorithm, access="scan", **workers)


@pytest.mark.parametrize("law", laws.LAWS, ids=lambda law: law.__name__)
@given(data=st.data())
def test_laws(law: Any, data: st.DataObject) -> None:
    windows = time_windows | no_window | st.integers(1, 6).map(TumblingRows)
    law(sj.join, data.draw(table_joins([BY_NAME["equality_band"]], windows, [False])))


@given(join=table_joins([BY_NAME["equality_band"]], time_windows | no_window, [False]), kind=st.sampled_from(TAKES))
def test_what_is_taken_is_a_pair(join: TableJoin, kind: Any) -> None:
    laws.take_is_among_all(sj.join, join, kind.take)


# Without a time, and validity.


@given(join=table_joins([BY_NAME["band"]], no_window, [False], kinds=[*HOWS, *BY_VALUE, *AGGREGATES]))
def test_neither_window_nor_time(join: TableJoin) -> None:
    """The order of the rows decides between ties."""
    options = {name: value for name, value in join.options.items() if name not in ("time", "ordered")}
    out = sj.join(join.r, join.s, **options)
    rows = [("r", row) for row in join.rows_r] + [("s", row) for row in join.rows_s]
    found = join.kind.results(rows, join.case, Everything(), None)
    verdict.same([out], found, join.kind)


SPANS = {side: pa.schema([(name, pa.int64()) for name in (f"{side}id", "t", "k", "lo", "hi")]) for side in "rs"}
spans = st.tuples(st.none() | st.integers(0, 9), st.none() | st.integers(0, 4), st.integers(0, 9), st.integers(0, 1))


def valid_rows(side: str, drawn: list[tuple[int | None, int | None, int, int]]) -> list[Row]:
    return [
        {f"{side}id": n, "t": t, "k": k, "lo": lo, "hi": None if wide is None else (lo or 0) + wide}
        for n, (lo, wide, t, k) in enumerate(drawn)
    ]


@pytest.mark.parametrize("how", ["inner", "left", "full", "semi", "anti"])
@given(data=st.data())
def test_validity(how: str, data: st.DataObject) -> None:
    """A point in an interval, and two intervals that overlap."""
    rs, ss = (valid_rows(side, data.draw(st.lists(spans, max_size=12))) for side in "rs")
    closed = st.sampled_from(["left", "right", "both", "neither"])
    both = data.draw(st.booleans())
    ends: list[Any] = [data.draw(closed) if both or side else None for side in (0, 1)]
    time = tuple(sj.valid("lo", "hi", closed=end) if end else "t" for end in ends)
    window = Valid(*(Validity("lo", "hi", end) if end else None for end in ends))
    arrivals = [("r", row) for row in rs] + [("s", row) for row in ss]
    found = results.results(arrivals, lambda r, s: r["k"] == s["k"], window, ("t", "t"), how=how)
    out = sj.join(to_table(rs, SPANS["r"]), to_table(ss, SPANS["s"]), on="r.k = s.k", time=time, how=how)
    wanted = Counter((one.row("r", "rid"), one.row("s", "sid")) for one in found)
    sids = out["sid"].to_pylist() if "sid" in out.schema.names else [None] * out.num_rows
    assert Counter(zip(out["rid"].to_pylist(), sids, strict=True)) == wanted


def test_a_validity_that_ends_before_it_starts() -> None:
    left, right = pa.table({"t": [1], "k": [1]}), pa.table({"k": [1, 1], "lo": [0, 7], "hi": [5, 6]})
    with pytest.raises(StreamjoinError) as caught:
        sj.join(left, right, on="r.k = s.k", time=("t", sj.valid("lo", "hi")))
    assert all(part in str(caught.value) for part in ("lo", "hi", "7", "6"))


# What the result has.

ROWS = {side: long_stream(side, 5, 40, 1, False) for side in "rs"}
LEFT, RIGHT = to_table(ROWS["r"], R), to_table(ROWS["s"], S)


def test_selected_columns_and_unmatched_rows() -> None:
    """Expressions see nulls for a missing side, as in SQL."""
    options: dict[str, Any] = {"on": BY_NAME["equality"].on, "within": 3, "time": "t"}
    out = sj.join(LEFT, RIGHT, **options, how="full", select="r.rid, s.sid AS other, coalesce(s.a, 0) - 1 AS v, r.note")
    assert out.schema.names == ["rid", "other", "v", "note"]
    arrivals = oracle.arrivals_of_tables(ROWS["r"], ROWS["s"], TIME)
    found = results.results(arrivals, BY_NAME["equality"].holds, Interval(-3, 3), TIME, how="full")
    wanted = Counter(
        (one.row("r", "rid"), one.row("s", "sid"), (one.row("s", "a") or 0) - 1, str(one.row("r", "note")))
        for one in found
    )
    rows = zip(*(out[name].to_pylist() for name in ("rid", "other", "v", "note")), strict=True)
    assert Counter((rid, sid, v, str(note)) for rid, sid, v, note in rows) == wanted
    assert None in out["rid"].to_pylist() + out["other"].to_pylist()


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_empty_tables(kind: Any) -> None:
    """Columns and types do not depend on the rows."""
    full = TableJoin(BY_NAME["equality"], Interval(-3, 3), ROWS["r"], ROWS["s"], kind=kind)
    schema = sj.join(full.r, full.s, **full.options).schema
    for rs, ss in (([], []), (ROWS["r"], []), ([], ROWS["s"])):
        join = TableJoin(BY_NAME["equality"], Interval(-3, 3), rs, ss, kind=kind)
        out = sj.join(join.r, join.s, **join.options)
        join.verify(out)
        assert out.schema.equals(schema)


REFUSED = [
    ({"how": "semi", "select": "r.rid, s.sid"}, ["semi", "s.sid"]),
    ({"how": "right", "take": "backward"}, ["right", "take"]),
    ({"how": "full", "take": "nearest"}, ["full", "take"]),
    ({"how": "anti", "aggregate": {"n": "count(*)"}}, ["anti", "aggregate"]),
    ({"take": "nearest", "aggregate": {"n": "count(*)"}}, ["take", "aggregate"]),
    ({"aggregate": {"x": "count(*)"}}, ["x"]),
    ({"how": "sideways"}, ["sideways", "left", "anti"]),
    ({"take": "best"}, ["best", "nearest"]),
    ({"aggregate": {"n": "median(s.a)"}}, ["median"]),
    ({"tolerance": 5}, ["tolerance", "within"]),
    ({"direction": "backward"}, ["direction", "take"]),
    ({"strategy": "backward"}, ["strategy", "take"]),
    ({"by": "k"}, ["by", "on"]),
]


@pytest.mark.parametrize(("options", "named"), REFUSED, ids=lambda part: str(part)[:40])
def test_refused_by_name(options: dict[str, Any], named: list[str]) -> None:
    with pytest.raises((StreamjoinError, TypeError)) as caught:
        sj.join(LEFT, RIGHT, on="r.k = s.k", within=3, time="t", **options)
    assert all(part in str(caught.value) for part in named), str(caught.value)


def test_a_sum_beyond_bigint_is_an_error() -> None:
    left, right = pa.table({"k": [1]}), pa.table({"k": [1, 1], "v": [2**62, 2**62]})
    with pytest.raises(StreamjoinError, match="v"):
        sj.join(left, right, on="r.k = s.k", aggregate={"v": "sum(s.v)"})


# Outside judges.

HOW_MANY = 60
LONG = {side: stream_of(side, [n * 8_765_432 % 10**8 for n in range(HOW_MANY)], 1, 0, False) for side in "rs"}
QUESTIONS = ["r.k = s.k", "r.x BETWEEN s.a - 2 AND s.a + 2", "r.k = s.k AND r.w > 0 AND s.a < 3"]


def found(out: pa.Table) -> Counter[Any]:
    if "sid" in out.schema.names:
        return Counter(pairs_of(out))
    return Counter((rid, None) for rid in out["rid"].to_pylist())


def test_spark_agrees(spark: Any) -> None:
    from spark_rows import spark_rows

    left, right = to_table(LONG["r"], R), to_table(LONG["s"], S)
    one, two = spark_rows(spark, left).alias("r"), spark_rows(spark, right).alias("s")
    from pyspark.sql.functions import expr

    for on in QUESTIONS:
        for kind in HOWS:
            ours = sj.join(left, right, on=on, within=9, time="t", **kind.options)
            theirs = one.join(two, expr(f"({on}) AND s.t - r.t BETWEEN -9 AND 9"), kind.how)
            ids = theirs.selectExpr("r.rid", "NULL" if kind.of_r_alone else "s.sid").collect()
            assert found(ours) == Counter(tuple(row) for row in ids), (on, kind.how)


AGGREGATED = "count(*), count(s.a), sum(s.a), avg(s.b), min(s.b), max(s.a - r.x), sum(s.c), min_by(s.a, s.sid)"


def test_spark_agrees_on_aggregates(spark: Any) -> None:
    """Types and values; count(*) of a left join counts the partner's column there."""
    from pyspark.sql.functions import expr

    from spark_rows import spark_rows

    left, right = to_table(LONG["r"], R), to_table(LONG["s"], S)
    texts = AGGREGATED.split(", ")
    texts[-2:] = [", ".join(texts[-2:])]
    ours = sj.join(
        left, right, on="r.k = s.k", within=9, time="t", how="left", aggregate={f"v{n}": t for n, t in enumerate(texts)}
    )
    joined = (
        spark_rows(spark, left)
        .alias("r")
        .join(spark_rows(spark, right).alias("s"), expr("r.k = s.k AND s.t - r.t BETWEEN -9 AND 9"), "left")
    )
    asked = [expr(text.replace("count(*)", "count(s.sid)")).alias(f"v{n}") for n, text in enumerate(texts)]
    theirs = {row["rid"]: row for row in joined.groupBy("r.rid").agg(*asked).collect()}
    types = dict(joined.groupBy("r.rid").agg(*asked).dtypes)
    spelled = {pa.int64(): "bigint", pa.int32(): "int", pa.float64(): "double", pa.float32(): "float"}
    for row in ours.to_pylist():
        for n, text in enumerate(texts):
            a, b = row[f"v{n}"], theirs[row["rid"]][f"v{n}"]
            assert verdict.alike(a, b), (text, row["rid"], a, b)
            assert spelled[ours.schema.field(f"v{n}").type] == types[f"v{n}"], text
    assert len(theirs) == ours.num_rows == HOW_MANY


def test_duckdb_agrees() -> None:
    import duckdb

    left, right = to_table(LONG["r"], R), to_table(LONG["s"], S)
    with duckdb.connect() as db:
        db.register("tr", left)
        db.register("ts", right)
        for on in QUESTIONS:
            for kind in HOWS:
                ours = sj.join(left, right, on=on, **kind.options)
                selected = "r.rid, NULL" if kind.of_r_alone else "r.rid, s.sid"
                theirs = db.sql(f"SELECT {selected} FROM tr r {kind.how} JOIN ts s ON {on}").fetchall()
                assert found(ours) == Counter(theirs), (on, kind.how)


@pytest.mark.parametrize("take", ["backward", "forward", "nearest"])
@pytest.mark.parametrize("tolerance", [None, 4])
def test_as_of_joins_agree(take: Any, tolerance: int | None) -> None:
    """pandas in all three, Polars and DuckDB where they mean the same."""
    import duckdb
    import pandas as pd
    import polars as pl

    rows = {side: [row for row in LONG[side] if row["k"] is not None] for side in "rs"}
    left, right = (
        to_table(rows[side], schema).select([f"{side}id", "t", "k"]) for side, schema in (("r", R), ("s", S))
    )
    within: dict[str, Any] = {} if tolerance is None else {"within": tolerance}
    ours = found(sj.join(left, right, on="r.k = s.k", time="t", take=take, how="left", **within))
    frames = left.to_pandas(), right.to_pandas()
    out = pd.merge_asof(*frames, on="t", by="k", direction=take, tolerance=tolerance)
    assert ours == Counter((a, None if pd.isna(b) else int(b)) for a, b in zip(out["rid"], out["sid"], strict=True))
    if take == "nearest":
        return
    one, two = pl.DataFrame(left), pl.DataFrame(right)
    polars = one.join_asof(two, on="t", by="k", strategy=take, tolerance=tolerance, check_sortedness=False)
    assert ours == Counter(zip(polars["rid"].to_list(), polars["sid"].to_list(), strict=True))
    if tolerance is None and take == "backward":
        once = pa.Table.from_pylist(
            list({(row["k"], row["t"]): row for row in right.to_pylist()}.values()), right.schema
        )
        with duckdb.connect() as db:
            db.register("tr", left)
            db.register("ts", once)
            text = "SELECT r.rid, s.sid FROM tr r ASOF LEFT JOIN ts s ON r.k = s.k AND r.t >= s.t"
            assert ours == Counter(db.sql(text).fetchall())
