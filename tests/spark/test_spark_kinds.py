"""Kinds of joins on Spark DataFrames: tables and streams against the oracle and Spark's own, restarts, refusals."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import streamjoin as sj
from feeds import Feed, R, S, seconds, timed
from profiles import soak_only
from streamjoin.errors import OptionError, StreamjoinError
from streamjoin.testing import cases, oracle, verdict
from streamjoin.testing.kinds import AGGREGATES, BY_TIME, BY_VALUE, HOWS, Kind
from streamjoin.testing.oracle import Interval, Last, Valid, Validity
from streamjoin.testing.rows import to_table

pytestmark = pytest.mark.spark

WINDOW = Interval(-5, 9)
BAND, EQUALITY = cases.BY_NAME["band"], cases.BY_NAME["equality_band"]
END = 100_000  # the streams go on with one more row each, so much later, which closes all windows


def rows_of(side: str, seed: int, size: int, disorder: bool = True) -> list[oracle.Row]:
    """Rows of different times, so that the oracle and Spark, where nothing arrives in an order, take the same."""
    found = cases.long_stream(side, seed, 2 * size, 1, disorder)
    return list({row["t"]: row for row in found}.values())[:size]


LONG = {side: rows_of(side, 11, 120) for side in "rs"}


@pytest.fixture
def feed(spark: Any, tmp_path: Path) -> Feed:
    return Feed(spark, tmp_path)


def check(out: Any, kind: Kind, case: cases.Case, window: Any, r: list[oracle.Row], s: list[oracle.Row]) -> None:
    arrivals = oracle.arrivals_of_tables(r, s, ("t", "t"))
    verdict.same([out], kind.results(arrivals, case, window, ("t", "t")), kind)


@pytest.mark.parametrize(
    ("case", "kinds"),
    [(BAND, [*HOWS, BY_TIME[5], BY_VALUE[1]]), (EQUALITY, [HOWS[2], BY_TIME[1], AGGREGATES[2]])],
    ids=["band", "equality"],
)
def test_tables(spark: Any, case: cases.Case, kinds: list[Kind]) -> None:
    frames = [spark.createDataFrame(to_table(timed(LONG[side]), schema)) for side, schema in (("r", R), ("s", S))]
    for kind in kinds:
        out = sj.join(*frames, on=case.on, within=seconds(WINDOW), time="t", **kind.options)
        check(out.toArrow(), kind, case, WINDOW, LONG["r"], LONG["s"])


def test_windows_of_rows_of_tables(spark: Any) -> None:
    frames = [spark.createDataFrame(to_table(timed(LONG[side]), schema)) for side, schema in (("r", R), ("s", S))]
    out = sj.join(*frames, on=BAND.on, within=sj.last(7), time="t", how="left", cells=3)
    check(out.toArrow(), Kind("left"), BAND, Last(7, 7), LONG["r"], LONG["s"])


def test_spark_agrees_and_columns_are_chosen(spark: Any) -> None:
    from pyspark.sql.functions import expr

    frames = [spark.createDataFrame(to_table(timed(LONG[side]), schema)) for side, schema in (("r", R), ("s", S))]
    select = "r.rid, s.sid AS other, coalesce(s.a, 0) - r.x AS apart, r.note"
    out = sj.join(*frames, on=EQUALITY.on, within="5 seconds", time="t", how="full", select=select)
    assert out.columns == ["rid", "other", "apart", "note"]
    on = f"({EQUALITY.on}) AND s.t BETWEEN r.t - INTERVAL 5 SECONDS AND r.t + INTERVAL 5 SECONDS"
    asked = ["r.rid", "s.sid AS other", "coalesce(s.a, 0) - r.x AS apart", "r.note"]
    theirs = frames[0].alias("r").join(frames[1].alias("s"), expr(on), "full").selectExpr(*asked)
    assert Counter(map(str, out.collect())) == Counter(map(str, theirs.collect()))
    assert out.schema["apart"].dataType == theirs.schema["apart"].dataType


STREAMED = {
    "left": (Kind("left"), BAND),
    "right": (Kind("right"), EQUALITY),
    "full": (Kind("full"), EQUALITY),
    "full of a band": (Kind("full"), BAND),
    "semi": (Kind("semi"), BAND),
    "anti": (Kind("anti"), EQUALITY),
    "backward": (Kind("left", "backward"), EQUALITY),
    "nearest": (Kind("inner", "nearest"), BAND),
    "min_by": (BY_VALUE[1], BAND),
    "aggregate": (AGGREGATES[2], EQUALITY),
}


IN_THE_SUITE = ("left", "full of a band", "backward", "aggregate")  # tests/spark/test_cells_kinds.py has all


@pytest.mark.parametrize("name", STREAMED)
def test_streams(feed: Feed, name: str, soak: bool) -> None:
    """Three micro-batches, a restart with a wiped cache, and the end: each row once, nothing contradicted."""
    from streamjoin.spark.chunk_files import cache_root

    if not soak and name not in IN_THE_SUITE:
        pytest.skip("in make soak")
    kind, case = STREAMED[name]
    rows = {side: [*LONG[side][:90], {**LONG[side][0], f"{side}id": 999, "t": END}] for side in "rs"}

    def run() -> None:
        out = sj.join(
            feed.read("r"), feed.read("s"), on=case.on, within=seconds(WINDOW), time="t", cells=2, **kind.options
        )
        query = feed.run(out)
        assert query.exception() is None
        shutil.rmtree(cache_root() / str(query.id))

    feed.add(rows["r"][:45], rows["s"][:45])
    run()
    early = feed.spark.read.parquet(str(feed.folder / "out")).toArrow()
    feed.add(rows["r"][45:90], rows["s"][45:90])
    feed.add(rows["r"][90:], rows["s"][90:])
    run()
    out = (
        feed.spark.read.parquet(str(feed.folder / "out"))
        .filter("coalesce(rid, sid) <> 999" if not kind.of_r_alone else "rid <> 999")
        .toArrow()
    )
    check(out, kind, case, WINDOW, rows["r"][:90], rows["s"][:90])
    assert early.num_rows < out.num_rows


def until(frame: Any) -> Any:
    """The frame with a column: rows are valid from their time on for `w` or `tol` times two seconds, or for ever."""
    wide = "w" if "w" in frame.columns else "tol"
    return frame.selectExpr("*", f"IF({wide} >= 0, t + make_dt_interval(0, 0, 0, 2 * {wide}), NULL) AS until")


VALID = Valid(None, Validity("t", "until", most=5))
KEYED = cases.BY_NAME["equality"]


def test_tables_without_a_window_and_of_rows_that_are_valid_for_a_while(spark: Any) -> None:
    rows = {side: cases.lasting(side, LONG[side]) for side in "rs"}
    r, s = (spark.createDataFrame(to_table(timed(LONG[side]), schema)) for side, schema in (("r", R), ("s", S)))
    for how in ("inner", "full"):
        out = sj.join(r, until(s), on=KEYED.on, time=cases.time(VALID, "seconds"), how=how, cells=3)
        check(out.toArrow(), Kind(how), KEYED, VALID, rows["r"], rows["s"])
    out = sj.join(r, s, on=BAND.on, how="left", cells=3)
    check(out.toArrow(), Kind("left"), BAND, oracle.Everything(), LONG["r"], LONG["s"])


@pytest.mark.parametrize("window", [VALID, oracle.Everything()], ids=["valid", "versions"])
def test_streams_beyond_windows(feed: Feed, window: Any) -> None:
    """Rows that are valid for a while, and the latest version of a key, however old; with a restart between."""
    kind = Kind("left") if window == VALID else Kind("left", "backward")
    rows = {side: [*LONG[side][:60], {**LONG[side][0], f"{side}id": 999, "t": END}] for side in "rs"}
    for start, stop in ((0, 30), (30, 60), (60, 61)):
        feed.add(rows["r"][start:stop], rows["s"][start:stop])
        r, s = feed.read("r"), feed.read("s")
        s = until(s) if window == VALID else s
        feed.run(sj.join(r, s, on=KEYED.on, time=cases.time(window, "seconds"), cells=2, **kind.options))
    out = feed.spark.read.parquet(str(feed.folder / "out")).filter("rid <> 999").toArrow()
    known = {side: cases.lasting(side, rows[side][:60]) for side in "rs"}
    check(out, kind, KEYED, window, known["r"], known["s"])


def test_what_is_decided_keeps_up_with_the_watermark(feed: Feed) -> None:
    """An aggregation behind a left join loses nothing: the times of unmatched rows are not below the watermark."""
    from pyspark.sql import functions as F

    rows = {side: [*LONG[side][:60], {**LONG[side][0], f"{side}id": 999, "t": END}] for side in "rs"}
    for start in range(0, 61, 20):
        feed.add(rows["r"][start : start + 20], rows["s"][start : start + 20])
    feed.add([{**rows["r"][-1], "t": 2 * END}], [{**rows["s"][-1], "t": 2 * END}])
    left = sj.join(
        feed.read("r"), feed.read("s"), on=BAND.on, within=seconds(WINDOW), time="t", how="left", result_time="at"
    )
    assert "spark.watermarkDelayMs" in left.schema["at"].metadata
    counts = left.where("rid <> 999").groupBy(F.window("at", "10 seconds")).count().select("window.start", "count")
    feed.run(counts)
    total = sum(row["count"] for row in feed.spark.read.parquet(str(feed.folder / "out")).collect())
    arrivals = oracle.arrivals_of_tables(rows["r"][:60], rows["s"][:60], ("t", "t"))
    assert total == len(Kind("left").results(arrivals, BAND, WINDOW, ("t", "t")))


def chosen(feed: Feed) -> list[tuple[int, int | None]]:
    rows = feed.spark.read.parquet(str(feed.folder / "out")).select("rid", "sid").collect()
    return sorted((row.rid, row.sid) for row in rows)


@pytest.mark.parametrize("take", [pytest.param("forward", marks=soak_only), "nearest", "semi"])
def test_a_row_comes_out_before_its_window_has_passed(feed: Feed, take: str) -> None:
    """A window of days, and an aggregation behind the join, which loses nothing: result times keep up."""
    from pyspark.sql import functions as F

    kind: dict[str, Any] = {"how": "semi"} if take == "semi" else {"how": "left", "take": take}
    at = {"r": [0, 30, 60, 90], "s": [2, 31, 67, 120]}
    for k in range(4):
        feed.add(*([{**LONG[side][0], f"{side}id": k, "t": at[side][k], "k": 1}] for side in "rs"))
    joined = sj.join(
        feed.read("r"), feed.read("s"), on="r.k = s.k", within="2 days", time="t", cells=2, result_time="at", **kind
    )
    if take == "semi":
        feed.run(joined.select("rid", F.lit(None).cast("long").alias("sid")))
        assert chosen(feed) == [(0, None), (1, None), (2, None), (3, None)]
        return
    feed.run(joined)
    assert chosen(feed) == [(0, 0), (1, 1), (2, 2)], "the watermark is at 84"
    shutil.rmtree(feed.folder / "checkpoint")
    feed.add(*([{**LONG[side][0], f"{side}id": 9, "t": END, "k": 2}] for side in "rs"))
    counts = joined.groupBy(F.window("at", "1 second")).agg(F.min("rid").alias("rid"), F.count("*").alias("n"))
    feed.run(counts.select("rid", "n"), "counts")
    rows = feed.spark.read.parquet(str(feed.folder / "counts")).collect()
    assert sorted((row.rid, row.n) for row in rows) == [(0, 1), (1, 1), (2, 1), (3, 1)]


def test_refusals_and_explain(feed: Feed) -> None:
    feed.add(LONG["r"][:2], LONG["s"][:2])
    r, s = feed.read("r"), feed.read("s")
    common: dict[str, Any] = {"on": "abs(r.x - s.a) <= 5", "within": "5 seconds", "time": "t", "cells": 8}
    with pytest.raises(OptionError, match="bucket=3 needs a two-sided band"):
        sj.join(r, s, **common | {"on": "r.x < s.a"}, how="left", bucket=3)
    with pytest.raises(StreamjoinError, match="take"):
        sj.join(r, s, **common, how="right", take="nearest")
    left = sj.explain(r, s, **common, how="left").to_dict()
    assert left["replication"] == {"r": 1.0, "s": 2.5}
    assert sj.explain(r, s, **common, how="left", split=8).to_dict()["replication"] == {"r": 1.0, "s": 8.0}
    assert left["final"][:2] == [
        "a pair at once",
        "an r without a partner when the watermark has passed the end of its window",
    ]
    full = sj.explain(r, s, **common, how="full")
    assert "a second one decides about s" in str(full)
    keyed = sj.explain(r, s, **(common | {"on": "r.k = s.k"}), how="full").to_dict()
    assert keyed["replication"] == {"r": 1.0, "s": 1.0}
    with pytest.raises(StreamjoinError, match=r"window of rows needs an order of arrival.*join static DataFrames"):
        sj.join(r, s, **common | {"within": sj.last(5)})
    with pytest.raises(StreamjoinError, match=r'streams need a window.*only take="backward" with an equality'):
        sj.join(r, s, **common | {"within": None})
    with pytest.raises(StreamjoinError, match="most"):
        sj.join(r, until(s), on="TRUE", time=("t", sj.valid("t", "until")), cells=2)
    for take, end in (
        ("backward", "passed r.time"),
        ("forward", "passed the time of the partner that was found"),
        ("nearest", "passed r.time, and no closer partner can follow"),
        ("min_by(s.a)", "passed the end of its window"),
    ):
        choice = sj.explain(r, s, **common, take=take, how="left").to_dict()["final"]
        assert choice[0] == f"a choice of an r when the watermark has {end}"
        assert any("an r without a partner" in line for line in choice) == (take in ("forward", "nearest"))
