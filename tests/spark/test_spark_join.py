"""Joins of Spark DataFrames: tables and streams against the oracle, restarts, chains, refusals."""

from __future__ import annotations

import datetime as dt
import shutil
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import streamjoin as sj
from feeds import EPOCH, Feed, R, S, seconds, timed
from profiles import SOAK
from streamjoin.errors import OptionError, SchemaError, UnsupportedError, WindowError
from streamjoin.testing import cases, oracle
from streamjoin.testing.rows import to_table

pytestmark = pytest.mark.spark


@pytest.fixture
def feed(spark: Any, tmp_path: Path) -> Feed:
    return Feed(spark, tmp_path)


def frames(spark: Any, r: list[oracle.Row], s: list[oracle.Row]) -> tuple[Any, Any]:
    return tuple(spark.createDataFrame(to_table(timed(rows), schema)) for rows, schema in ((r, R), (s, S)))


def found(df: Any) -> list[tuple[int, int]]:
    return sorted((row.rid, row.sid) for row in df.select("rid", "sid").collect())


def expected(case: cases.Case, window: Any, r: list[oracle.Row], s: list[oracle.Row]) -> list[tuple[int, int]]:
    return oracle.pairs(oracle.arrivals_of_tables(r, s, ("t", "t")), case.holds, window, ("t", "t"))


LONG = {side: cases.long_stream(side, 11, 300, 1, True) for side in "rs"}
WINDOW = oracle.Interval(-5, 9)


@pytest.mark.parametrize(
    "name", ["band_2d", "equality", "string", "opaque", "function", *["one_sided", "overlap"] * SOAK]
)
def test_tables(spark: Any, name: str) -> None:
    case = cases.BY_NAME[name]
    r, s = frames(spark, LONG["r"], LONG["s"])
    out = sj.join(r, s, on=case.on, within=seconds(WINDOW), time="t")
    assert out.columns[:2] == ["rid", "t_r"]
    assert found(out) == expected(case, WINDOW, LONG["r"], LONG["s"])


@pytest.mark.parametrize(
    "window", [oracle.Last(7, 20), oracle.TumblingRows(25), oracle.TumblingTime(13), oracle.Interval(3, 6, "left")]
)
def test_windows_of_tables(spark: Any, window: Any) -> None:
    case = cases.BY_NAME["band"]
    r, s = frames(spark, LONG["r"], LONG["s"])
    out = sj.join(r, s, on=case.on, within=seconds(window), time="t", cells=3)
    assert found(out) == expected(case, window, LONG["r"], LONG["s"])


def test_a_stream_equals_tables_and_oracle_over_restarts_and_a_wiped_cache(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, r, s = cases.BY_NAME["band_2d"], LONG["r"], LONG["s"]
    metrics: list[dict[str, Any]] = []
    from streamjoin.spark.chunk_files import cache_root
    from streamjoin.spark.metrics import JoinListener

    listener = JoinListener(metrics.append)
    feed.spark.streams.addListener(listener)
    try:
        for start in range(0, 300, 50):
            feed.add(r[start : start + 50], s[start : start + 50])
            if start in (100, 250):
                query = feed.run(sj.join(feed.read("r"), feed.read("s"), on=case.on, within=seconds(WINDOW), time="t"))
                assert query.exception() is None
                shutil.rmtree(cache_root() / str(query.id))
        progress = query.lastProgress
        assert progress is not None
        patience = time.monotonic() + 120
        while not metrics or metrics[-1]["batch"] < progress["batchId"]:  # listeners are told a little later
            assert time.monotonic() < patience
            time.sleep(0.05)
    finally:
        feed.spark.streams.removeListener(listener)
    static = sj.join(*frames(feed.spark, r, s), on=case.on, within=seconds(WINDOW), time="t")
    assert feed.pairs() == found(static) == expected(case, WINDOW, r, s)
    assert sum(report["results"] for report in metrics) == len(feed.pairs())
    assert sum(report["late"] for report in metrics) == 0
    visited = [report for report in metrics if report["cells"]]
    assert 0 < visited[-1]["state_rows"] < 450  # of 300 r and twice 300 s, since two cells have each s
    wanted = {"batch", "rows_in", "results", "late", "watermark", "state_rows", "state_bytes", "comparisons", "cells"}
    assert wanted | {"chunks", "cache_hits", "batch_ms"} <= set(metrics[0])
    assert {report["query"] for report in metrics} == {str(query.id)}
    for report in visited:  # what each cell says of itself
        assert len(report["by_cell"]) == report["cells"]
        for name in ("results", "comparisons", "state_bytes"):
            assert sum(cell[name] for cell in report["by_cell"]) == report[name]
        assert sum(cell["window_r"] + cell["window_s"] for cell in report["by_cell"]) == report["state_rows"]
        assert sum(cell["arrived"] for cell in report["by_cell"]) > report["rows_in"]
    # A changed predicate finds the old state and says so.
    feed.add(r[:1], s[:1])
    with pytest.raises(Exception, match="the checkpoint belongs to another join: its predicate was"):
        feed.run(sj.join(feed.read("r"), feed.read("s"), on="r.x = s.a", within=seconds(WINDOW), time="t"))


def test_a_chain_of_joins_and_a_window(feed: Feed, spark: Any) -> None:
    """The second join meets results of the first by their time; a count per window follows downstream."""
    from pyspark.sql import functions as F

    r, s = (cases.long_stream(side, 4, 80, 2, False) for side in "rs")
    for start in range(0, 80, 40):
        feed.add(r[start : start + 40], s[start : start + 40])
    end = max(r[-1]["t"], s[-1]["t"])
    feed.add([{**r[-1], "rid": 999, "t": end + 500}], [{**s[-1], "sid": 999, "t": end + 500}])  # closes all windows

    def chained(read: Callable[[str], Any]) -> Any:
        first = sj.join(
            read("r").select("rid", "t", "x"),
            read("s").select("sid", "t", "a"),
            on="abs(r.x - s.a) <= 1",
            within="3 seconds",
            time="t",
            result_time="at",
        )
        again = read("r").selectExpr("rid as rid2", "t as t2", "x as x2")
        return sj.join(first, again, on="r.x = s.x2", within="2 seconds", time=("at", "t2"), result_time="t3")

    streamed = chained(feed.read)
    assert "spark.watermarkDelayMs" in streamed.schema["t3"].metadata
    counts = streamed.groupBy(F.window("t3", "10 seconds")).count()
    feed.run(counts.select("window.start", "count"))
    static = chained(lambda side: spark.read.parquet(str(feed.folder / side)))
    wanted = static.groupBy(F.window("t3", "10 seconds")).count().select("window.start", "count").collect()
    got = spark.read.parquet(str(feed.folder / "out")).collect()
    assert got
    closed = EPOCH.replace(tzinfo=None) + dt.timedelta(seconds=end + 400)
    assert sorted(map(tuple, got)) == sorted(tuple(row) for row in wanted if row.start < closed)


def test_every_type_travels(spark: Any) -> None:
    columns = """array(id, null) AS list, map('a', id) AS map, named_struct('u', id, 'v', array('x')) AS struct,
        CAST(id AS DECIMAL(20, 3)) AS dec, DATE'2026-01-01' AS day, X'00FF' AS bin, CAST(null AS STRING) AS none,
        true AS flag, CAST(id AS TINYINT) AS tiny, INTERVAL '3' DAY AS gap, TIMESTAMP_NTZ'2026-01-01 00:00:00' AS ntz,
        CAST(id AS FLOAT) AS real, 'ü' AS text"""
    df = spark.sql(f"SELECT id, timestamp_seconds(id) AS t, {columns} FROM range(3)")
    out = sj.join(df, df, on="r.id = s.id", within="0 seconds", time="t", suffixes=("", "_2"))
    row = out.orderBy("id").collect()[2]
    assert row == (*df.orderBy("id").collect()[2], *df.orderBy("id").collect()[2])
    assert row.dec == Decimal("2.000") and row.struct.v == ["x"] and row.map == {"a": 2}
    assert out.schema["gap_2"].dataType == df.schema["gap"].dataType
    years = df.selectExpr("*", "INTERVAL '2' YEAR AS years")
    with pytest.raises(SchemaError, match=r"s\.years has type interval year, which Spark cannot pass to Python"):
        sj.join(df, years, on="r.id = s.id", within="0 seconds", time="t")


@pytest.fixture
def zone(spark: Any) -> Iterator[Callable[[str], None]]:
    before = spark.conf.get("spark.sql.session.timeZone")
    yield lambda name: spark.conf.set("spark.sql.session.timeZone", name)
    spark.conf.set("spark.sql.session.timeZone", before)


def test_time_zone_and_nullability_may_change(spark: Any, feed: Feed, zone: Callable[[str], None]) -> None:
    """Neither is part of the meaning: tables are joined in any zone, and a stream goes on in another."""
    from pyspark.sql import functions as F

    case, r, s = cases.BY_NAME["band_2d"], LONG["r"][:200], LONG["s"][:200]
    for start, name in ((0, "America/New_York"), (100, "Etc/UTC")):
        zone(name)
        feed.add(r[start : start + 100], s[start : start + 100])
        right = feed.read("s").withColumn("note", F.coalesce("note", F.array(F.lit(""))) if start else F.col("note"))
        query = feed.run(sj.join(feed.read("r"), right, on=case.on, within=seconds(WINDOW), time="t", result_time="at"))
        assert query.exception() is None
    static = sj.join(*frames(spark, r, s), on=case.on, within=seconds(WINDOW), time="t", result_time="at")
    assert feed.pairs() == found(static) == expected(case, WINDOW, r, s)
    columns = ["rid", "sid", "at"]
    streamed = spark.read.parquet(str(feed.folder / "out")).select(columns)
    assert sorted(streamed.collect()) == sorted(static.select(columns).collect())


def test_names_that_differ_in_case_only(spark: Any) -> None:
    left = spark.sql("SELECT id AS Id, timestamp_seconds(id) AS t FROM range(3)")
    right = spark.sql("SELECT id AS id, timestamp_seconds(id) AS T FROM range(3)")
    options: dict[str, Any] = {"on": "r.Id = s.id", "within": "0 seconds", "time": ("t", "T")}
    out = sj.join(left, right, **options)
    assert out.columns == ["Id_r", "t_r", "id_s", "T_s"] and out.select("id_r").count() == 3
    with pytest.raises(SchemaError, match='result_time="ID_R" is the name of another column'):
        sj.join(left, right, result_time="ID_R", **options)
    with pytest.raises(SchemaError, match="both sides have columns named id, t"):
        sj.join(left, right, suffixes=None, **options)


def test_the_later_time_of_a_date_and_a_timestamp(spark: Any) -> None:
    left = spark.sql("SELECT DATE'2026-01-02' AS day")
    right = spark.sql("SELECT TIMESTAMP_NTZ'2026-01-02 10:00:00' AS ts")
    out = sj.join(left, right, on="true", within="1 day", time=("day", "ts"), result_time="at")
    assert out.collect()[0].at == dt.datetime(2026, 1, 2, 10)


def test_cells_do_not_follow_a_clusters_cores() -> None:
    from streamjoin.spark.dataframes import default_cells

    def cluster(master: str, cores: int, **settings: str) -> Any:
        conf = SimpleNamespace(get=lambda name, default: settings.get("partitions", default))
        return SimpleNamespace(conf=conf, sparkContext=SimpleNamespace(master=master, defaultParallelism=cores))

    assert default_cells(cluster("local[4]", 4, partitions="8"), streaming=True) == 4
    assert default_cells(cluster("local", 1, partitions="1"), streaming=True) == 1
    for cores in (2, 30):
        assert default_cells(cluster("spark://host:7077", cores, partitions="12"), streaming=True) == 12
    with pytest.warns(UserWarning, match="starts that many tasks, on 30 cores"):
        assert default_cells(cluster("yarn", 30), streaming=True) == 16
    assert default_cells(cluster("yarn", 30), streaming=False) == 60


def test_refusals(spark: Any, feed: Feed) -> None:
    feed.add(LONG["r"][:2], LONG["s"][:2])
    r, s = feed.read("r"), feed.read("s")
    plain = feed.spark.readStream.schema(r.schema).parquet(str(feed.folder / "r"))  # its column has the mark of r's
    common: dict[str, Any] = {"on": "r.x = s.a", "within": "5 seconds", "time": "t"}
    with pytest.raises(SchemaError, match=r'r\.t has no watermark.*withWatermark\("t", "10 seconds"\)'):
        sj.join(plain, s, **common)
    with pytest.raises(SchemaError, match=r"r\.rid is an integer.*timestamp_seconds"):
        sj.join(r, s, **{**common, "within": 5, "time": ("rid", "sid")})
    with pytest.raises(UnsupportedError, match="a window of rows needs an order of arrival"):
        sj.join(r, s, **{**common, "within": sj.last(5)})
    with pytest.raises(UnsupportedError, match="r is a stream and s is not"):
        sj.join(r, feed.spark.read.parquet(str(feed.folder / "s")), **common)
    with pytest.raises(SchemaError, match="make both Spark DataFrames"):
        sj.join(r, pa.table({"t": [1]}), **common)
    with pytest.raises(OptionError, match="workers=2 is not for Spark DataFrames; cells="):
        sj.join(r, s, workers=2, **common)
    with pytest.raises(OptionError, match="cells=0 must be"):
        sj.join(r, s, cells=0, **common)
    with pytest.raises(WindowError, match="timestamps"):
        sj.join(r, s, **{**common, "within": 5})
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", "org.example.Other")
    try:
        with pytest.raises(OptionError, match=r'spark\.conf\.set\("spark\.sql\.streaming\.stateStore\.providerClass"'):
            sj.join(r, s, **common)
    finally:
        from streamjoin.spark.settings import required

        for name, value in required().items():
            spark.conf.set(name, value)


def test_explain(spark: Any, feed: Feed) -> None:
    feed.add(LONG["r"][:2], LONG["s"][:2])
    shown = sj.explain(  # type: ignore[call-arg]  # expected_rate is the former name of rate
        feed.read("r"),
        feed.read("s"),
        on="abs(r.x - s.a) <= 5",
        within="100 seconds",
        time="t",
        cells=8,
        expected_rate=1000,
    )
    facts = shown.to_dict()
    assert (facts["routing"], facts["cells"], facts["bucket"]) == ("range", 8, 40.0)
    assert facts["replication"] == {"r": 2.0, "s": 2.5}
    assert facts["state"]["rows"] == 450_000
    assert "range: 2 groups of 2 x 2, 8 cells" in str(shown)
    static = sj.explain(*frames(spark, LONG["r"], LONG["s"]), on="r.k = s.k", within="5 s", time="t")
    assert static.to_dict()["state"] is None
