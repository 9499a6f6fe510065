"""Routing and cells of the Spark engine, without Spark: every pair exactly once, whatever the cells and batches."""

from __future__ import annotations

import math
import os
import shutil
import sys
from dataclasses import replace
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit, vectorize

from cells import Cluster, contents, expected, spec_of
from streamjoin.codegen.embed import fingerprint
from streamjoin.errors import DataError, OptionError, PredicateError, StateError
from streamjoin.spark import cell as cell_module
from streamjoin.spark import cell_kernels as engine_module
from streamjoin.spark import chunk_files as chunks_module
from streamjoin.spark.cell_kernels import engine_of
from streamjoin.spark.chunk_files import ChunkCache
from streamjoin.spark.routing import Router, cell_keys
from streamjoin.spark.spec import CONTENT
from streamjoin.spark.state import Manifest
from streamjoin.spark.wire import with_integers
from streamjoin.testing import cases, oracle
from streamjoin.testing.oracle import Interval, TumblingTime
from streamjoin.testing.rows import pairs_of, to_table
from streamjoin.testing.strategies import stream, time_windows

coordinates = st.one_of(st.floats(-50, 50, width=32), st.sampled_from([-1e19, 1e19, 0.0, -0.0, 1e10, -1e10, 3.0, 4.0]))
boxes = st.tuples(coordinates, coordinates).map(sorted)
routers = st.builds(
    Router,
    st.sampled_from(["hash", "range", "grid"]),
    st.integers(1, 5),
    st.integers(1, 3),
    st.integers(1, 3),
    st.just(0),
    st.sampled_from([0.5, 4.0, 1e3, 1e-6]),
)


@settings(max_examples=200)
@given(routers, st.lists(boxes, min_size=1, max_size=8), st.lists(boxes, min_size=1, max_size=8), st.data())
def test_every_pair_that_may_match_meets_in_exactly_one_cell(
    router: Router, r: list[Any], s: list[Any], data: st.DataObject
) -> None:
    """Boxes that touch and equal keys are all that a match promises; of these no pair may be lost or doubled."""
    if router.kind == "grid":
        router = Router("grid", 1, router.rows, router.columns)
    sides = {}
    for side, found in (("r", r), ("s", s)):
        lo, hi = (np.array([[box[k] for box in found]], np.float32) for k in (0, 1))
        key = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(found), max_size=len(found))), np.uint32)
        content = np.array([data.draw(st.integers(-(2**63), 2**63 - 1)) for _ in found], np.int64)
        sides[side] = (key, lo, hi, router.route(side, key, lo, hi, content))
    (key_r, lo_r, hi_r, routed_r), (key_s, lo_s, hi_s, routed_s) = sides["r"], sides["s"]
    assert (routed_r.cell < router.cells).all() and (routed_r.cell >= 0).all()
    met = np.zeros((len(r), len(s)), int)
    for a in range(len(routed_r.row)):
        for b in range(len(routed_s.row)):
            if routed_r.cell[a] != routed_s.cell[b]:
                continue
            here = True
            if router.kind == "range":
                assert routed_r.first is not None and routed_s.first is not None
                here = router.counts(int(routed_r.cell[a]), routed_r.first[a : a + 1], routed_s.first[b : b + 1])[0]
            met[routed_r.row[a], routed_s.row[b]] += bool(here)
    for i in range(len(r)):
        for j in range(len(s)):
            touch = lo_r[0, i] <= hi_s[0, j] and lo_s[0, j] <= hi_r[0, i]
            if (touch or router.kind != "range") and (key_r[i] == key_s[j] or router.kind != "hash"):
                assert met[i, j] == 1, (router, r[i], s[j])
            assert met[i, j] <= 1
    for side, rows, routed in (("r", r, routed_r), ("s", s, routed_s)):
        home = np.zeros(len(rows), int)
        for k in range(len(routed.row)):
            first = None if routed.first is None else routed.first[k : k + 1]
            home[routed.row[k]] += router.leads(side, int(routed.cell[k]), first, 1)[0]
        assert (home == 1).all()


AT = st.one_of(st.integers(-9, 9).map(float), st.sampled_from([1e6, -1e6, 123456.7, 1e19, -1e19, 0.1]))


@settings(max_examples=200)
@given(
    home=st.sampled_from("rs"),
    groups=st.integers(2, 5),
    each=st.integers(1, 3),
    width=st.sampled_from([0.5, 4.0, 1e-3]),
    reach=st.sampled_from([0.0, 1e-12, 0.3, 5.0]),
    own=st.lists(AT, min_size=1, max_size=8),
    others=st.lists(boxes, min_size=1, max_size=8),
    seed=st.integers(0, 99),
)
def test_a_home_sees_all_that_its_tuple_touches(
    home: str, groups: int, each: int, width: float, reach: float, own: list[float], others: list[Any], seed: int
) -> None:
    router = Router("range", groups, *((each, 1) if home == "r" else (1, each)), 0, width, home, reach)
    low = np.array([own], np.float32)
    mine = low, np.minimum((low + np.float32(reach)).astype(np.float32), np.float32(1e19))
    lower, upper = (np.array([[box[k] for box in others]], np.float32) for k in (0, 1))
    theirs = lower, upper
    random, other = np.random.default_rng(seed), "s" if home == "r" else "r"
    routed = {
        side: router.route(side, np.zeros(n, np.uint32), lo, hi, random.integers(-(2**63), 2**63 - 1, n))
        for side, (lo, hi), n in ((home, mine, len(own)), (other, theirs, len(others)))
    }
    one, rest = routed[home], routed[other]
    assert one.row.tolist() == list(range(len(own))), "one home"
    assert one.first is None
    for i, cell in enumerate(one.cell):
        for j in range(len(others)):
            met = int(((rest.cell == cell) & (rest.row == j)).sum())
            touch = mine[0][0, i] <= theirs[1][0, j] and theirs[0][0, j] <= mine[1][0, i]
            assert met == 1 if touch else met <= 1
    assert rest.first is not None
    leads = [router.leads(other, int(cell), rest.first[k : k + 1], 1)[0] for k, cell in enumerate(rest.cell)]
    assert np.bincount(rest.row, leads).tolist() == [1] * len(others), "late ones are counted once"


def test_a_tuple_wider_than_its_band_is_refused() -> None:
    """Its partners would not all come to its home; without limits on a moved end it has none."""
    router = Router("range", 4, 2, 1, 0, 4.0, "r", 2.0)
    lo, hi = np.array([[1.0]], np.float32), np.array([[9.0]], np.float32)
    with pytest.raises(DataError, match=r"a tuple of r looks at values from 1 to 9, farther than 2.*split=8"):
        router.route("r", np.zeros(1, np.uint32), lo, hi, np.zeros(1, np.int64))
    nothing = np.array([[-1e19]], np.float32), np.array([[1e19]], np.float32)
    with pytest.raises(DataError):
        router.route("r", np.zeros(1, np.uint32), *nothing, np.zeros(1, np.int64))
    assert (
        len(replace(router, slack=1e-15).route("r", np.zeros(1, np.uint32), *nothing, np.zeros(1, np.int64)).row) == 1
    )


def test_cells_hash_to_distinct_partitions() -> None:
    assert len(set(cell_keys(64))) == 64
    assert cell_keys(8) == cell_keys(64)[:8]


@pytest.mark.parametrize("router", [Router("hash", 4, 2, 2), Router("range", 4, 2, 2, 0, 9.0), Router("grid", 1, 4, 4)])
def test_a_hot_value_is_spread_over_its_group(router: Router) -> None:
    n = 4000
    key, point, content = np.full(n, 7, np.uint32), np.full((1, n), 3.0, np.float32), np.arange(n)
    for side, copies in (("r", router.columns), ("s", router.rows)):
        routed = router.route(side, key, point, point, content)
        counts = np.bincount(routed.cell)[np.unique(routed.cell)]
        assert len(counts) == router.rows * router.columns
        assert len(routed.row) == n * copies
        assert counts.max() < 1.2 * counts.min()


def test_which_router(tmp_path: Path) -> None:
    def kind(on: Any, **options: Any) -> tuple[str, int]:
        router = spec_of(on, 5, **options).router
        return router.kind, router.cells

    assert kind("r.k = s.k") == ("hash", 4)
    assert kind("r.k = s.k", cells=2) == ("grid", 2)
    assert kind("r.k = s.k", cells=2, split=1) == ("hash", 2)
    assert kind("abs(r.x - s.a) <= 2") == ("range", 4)
    assert kind("abs(r.x - s.a) <= s.tol") == ("grid", 4)
    assert kind("abs(r.x - s.a) <= s.tol", bucket=10) == ("range", 4)
    assert kind("r.x * s.a % 7 = 3", cells=6) == ("grid", 6)
    assert kind("r.k = s.k", access="scan") == ("grid", 4)
    assert spec_of("r.x BETWEEN s.a - 3 AND s.a + 5", 5).router.width == 32.0
    with pytest.raises(OptionError, match=r"bucket=3\.0 needs a two-sided band"):
        spec_of("r.x < s.a", 5, bucket=3.0)


@pytest.mark.parametrize("case", cases.CASES, ids=lambda case: case.name)
@given(
    r=stream("r", disorder=True),
    s=stream("s", disorder=True),
    window=time_windows,
    options=st.fixed_dictionaries({"cells": st.sampled_from([1, 2, 6]), "split": st.sampled_from([None, 1, 2])}),
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=6),
    wiped=st.booleans(),
)
@settings(max_examples=12)
def test_cells_give_the_oracles_pairs(
    case: cases.Case, r: Any, s: Any, window: Any, options: Any, sizes: list[int], wiped: bool, tmp_path_factory: Any
) -> None:
    cluster = Cluster(spec_of(case.on, cases.within(window), **options), tmp_path_factory.mktemp("chunks"))
    # Both streams advance together in time, cut anywhere: a batch may hold one side only.
    merged = sorted([(row["t"], "r", row) for row in r] + [(row["t"], "s", row) for row in s], key=lambda e: e[:2])
    start, turn = 0, 0
    while start < len(merged):
        part = merged[start : start + max(1, sizes[turn % len(sizes)])]
        cluster.batch(*([row for _, side, row in part if side == which] for which in "rs"))
        if wiped:
            cluster.cache = type(cluster.cache)(f"other{turn}", cluster.folder)
        start, turn = start + len(part), turn + 1
    assert cluster.late == 0
    assert sorted(cluster.pairs) == expected(case, window, r, s)


def test_long_streams_are_merged_and_expire(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(cell_module, "LARGEST", 64)
    r, s = (cases.long_stream(side, 3, 1500, 1, True) for side in "rs")
    case, window = cases.BY_NAME["band_2d"], Interval(-20, 20)
    cluster = Cluster(spec_of(case.on, 20, cells=2, split=1), tmp_path)
    most = 0
    for start in range(0, 1500, 10):
        cluster.batch(r[start : start + 10], s[start : start + 10])
        most = max(most, *(len(state.chunks) for state in cluster.cells))
    assert most < 30
    assert cluster.late == 0 or cluster.late < 50
    live = sum(row["t"] >= min(r[-1]["t"], s[-1]["t"]) - 60 for row in r + s)
    assert cluster.state_rows < 4 * live + 200
    found = expected(case, window, r, s)
    if not cluster.late:
        assert sorted(cluster.pairs) == found
    assert cluster.cache.hits > 0


EDGES = pa.schema([("id", pa.int64()), ("t", pa.int64()), ("src", pa.int64()), ("dst", pa.int64())])


@pytest.mark.parametrize("wiped", [False, True])
@pytest.mark.parametrize(
    ("on", "holds"),
    [
        ("r.src = s.dst", lambda r, s: r["src"] == s["dst"]),
        ("abs(r.src - s.dst) <= 1", lambda r, s: abs(r["src"] - s["dst"]) <= 1),
        ("abs(r.src - s.src) <= s.dst", lambda r, s: abs(r["src"] - s["src"]) <= s["dst"]),
    ],
)
def test_a_stream_meets_itself(on: str, holds: Any, wiped: bool, tmp_path: Path) -> None:
    """The same rows on both sides of one cell are stored in two ways."""
    random = np.random.default_rng(1)
    rows = [{"id": n, "t": n, "src": int(a), "dst": int(b)} for n, (a, b) in enumerate(random.integers(0, 9, (40, 2)))]
    cluster = Cluster(spec_of(on, 10, r=EDGES, s=EDGES, cells=1), tmp_path)
    for start in range(0, 40, 8):
        cluster.batch(rows[start : start + 8], rows[start : start + 8])
        if wiped:
            cluster.cache = ChunkCache(f"other{start}", tmp_path)
    arrivals = [(side, row) for side in "rs" for row in rows]
    found = oracle.pairs(arrivals, holds, Interval(-10, 10), ("t", "t"), ("id", "id"))
    assert sorted(cluster.pairs) == found and len(found) > 50


def test_a_late_row_is_late_in_all_cells(tmp_path: Path) -> None:
    """Its copies meet windows that were cut at the same time, also where nothing else arrived of late."""
    row_r, row_s = (cases.long_stream(side, 5, 1, 1, False)[0] for side in "rs")
    cluster = Cluster(spec_of("abs(r.x - s.a) <= 2", 5, cells=6, split=1), tmp_path, delay=0)
    assert cluster.engine.spec.router.width == 16
    cluster.batch([{**row_r, "x": 18, "t": 5}], [{**row_s, "a": 100, "t": 5}])
    for now in range(1, 6):
        cluster.batch([{**row_r, "x": 4, "t": 100 * now}], [{**row_s, "a": 12, "t": 100 * now}])
    assert cluster.copies == 12 and not cluster.pairs
    cluster.batch([], [{**row_s, "a": 16, "t": 6}])  # reaches from 14 to 18, over the edge of a bucket
    assert cluster.copies == 14
    assert (cluster.late, cluster.pairs) == (1, [])


def test_every_route_sends_a_sign_of_life_to_every_cell(monkeypatch: Any) -> None:
    pytest.importorskip("pyspark")
    from streamjoin.spark.dataframes import _route

    spec = spec_of("r.k = s.k", 5, cells=6)
    rows = to_table(cases.long_stream("r", 5, 1, 1, False), cases.R)
    batches = with_integers(rows, CONTENT, np.array([7])).to_batches()
    sent = [row for batch in _route(spec, "r")(iter(batches)) for row in batch.to_pylist()]
    assert sorted(row["cell"] for row in sent if row["side"] == 2) == sorted(cell_keys(6))
    assert not list(_route(spec, "r")(iter([])))
    monkeypatch.setattr("streamjoin.spark.dataframes.AT_ONCE", 1)  # the last flush may be the first
    without = rows.set_column(rows.column_names.index("k"), "k", pa.array([None], pa.int32()))
    batches = with_integers(without, CONTENT, np.array([7])).to_batches()
    sent = [row for batch in _route(spec, "r")(iter(batches)) for row in batch.to_pylist()]
    assert sorted((row["cell"], row["side"]) for row in sent) == sorted((key, 2) for key in cell_keys(6))


def test_rows_travel_in_packets(monkeypatch: Any) -> None:
    """Spark may put a thousand values into one batch of at most 2 GiB, so none may be large unless a row is."""
    pytest.importorskip("pyspark")
    from streamjoin.spark.dataframes import _route
    from streamjoin.spark.wire import unpack

    monkeypatch.setattr("streamjoin.spark.wire.PACKET", 2_000)
    rows = cases.long_stream("r", 5, 200, 1, False)
    batches = with_integers(to_table(rows, cases.R), CONTENT, contents(rows, "rid")).to_batches()
    sent = [row for batch in _route(spec_of("r.k = s.k", 5, cells=1), "r")(iter(batches)) for row in batch.to_pylist()]
    tables = [unpack(row["rows"]) for row in sent if row["rows"]]
    assert len(tables) > 3 and max(table.nbytes for table in tables) < 4_000
    arrived = [number for table in tables for number in table.column("rid").to_pylist()]
    assert sorted(arrived) == sorted(row["rid"] for row in rows if row["k"] is not None)


def test_rows_that_are_heavy_stay_in_small_pieces(tmp_path: Path, monkeypatch: Any) -> None:
    """Chunks, merged ones too, and pieces of the result have a limit in bytes."""
    monkeypatch.setattr(cell_module, "HEAVIEST", 2_000)
    monkeypatch.setattr(engine_module, "HEAVIEST", 2_000)
    r, s = (cases.long_stream(side, 3, 120, 1, False) for side in "rs")
    for row in r:
        row["note"] = ["x" * 300]
    case = cases.BY_NAME["band"]
    cluster = Cluster(spec_of(case.on, 500, cells=1), tmp_path)
    for start in range(0, 120, 20):
        cluster.batch(r[start : start + 20], s[start : start + 20])
    kept = Manifest.read(cluster.cells[0].kept or b"", cluster.engine.spec.signature).entries
    lengths = {side: [entry.rows for entry in kept if entry.side == side] for side in "rs"}
    assert max(lengths["r"]) <= 10 and max(entry.size for entry in kept) < 8_000
    assert max(lengths["s"]) > 10
    assert sorted(cluster.pairs) == expected(case, Interval(-500, 500), r, s)


def test_what_another_worker_dropped_is_forgotten(tmp_path: Path) -> None:
    """Cells wander between processes; each has mapped chunks that another one has removed from the state."""
    rows = {side: cases.long_stream(side, 4, 60, 5, False) for side in "rs"}
    cluster = Cluster(spec_of("abs(r.x - s.a) <= 2", 5, cells=1), tmp_path)
    caches = [ChunkCache("test", tmp_path) for _ in range(2)]
    for start in range(0, 60, 5):
        cluster.cache = caches[start // 5 % 2]
        cluster.batch(rows["r"][start : start + 5], rows["s"][start : start + 5])
        assert len(cluster.cache._mapped) <= len(cluster.cells[0].chunks)
    assert sorted(cluster.pairs) == expected(cases.BY_NAME["band"], Interval(-5, 5), rows["r"], rows["s"])


def test_files_of_other_code_are_not_read(tmp_path: Path, monkeypatch: Any) -> None:
    rows = {side: cases.long_stream(side, 4, 20, 1, False) for side in "rs"}
    cluster = Cluster(spec_of("abs(r.x - s.a) <= 2", 50, cells=1), tmp_path)
    cluster.batch(rows["r"][:10], rows["s"][:10])
    for magic, others in ((chunks_module._magic(), False), (b"12345678", True)):
        monkeypatch.setattr(chunks_module, "_magic", lambda magic=magic: magic)
        cache = cluster.cache = ChunkCache("test", tmp_path)
        cluster.batch(rows["r"][10:11], rows["s"][10:11])
        assert bool(cache.misses) is others


def test_late_rows_are_counted_once(tmp_path: Path) -> None:
    rows = {side: cases.long_stream(side, 5, 40, 1, False) for side in "rs"}
    for side in "rs":
        for k, row in enumerate(rows[side]):
            row.update(t=100 * k, k=1)
    cluster = Cluster(spec_of("r.k = s.k", 5, cells=6, split=6), tmp_path, delay=0)
    for start in range(0, 40, 10):
        cluster.batch(rows["r"][start : start + 10], rows["s"][start : start + 10])
    stale = [{**rows["r"][0], "rid": 1000 + k, "t": 7} for k in range(5)]
    cluster.batch(stale, [])
    assert cluster.late == 5


def test_another_join_is_refused(tmp_path: Path) -> None:
    r, s = (cases.long_stream(side, 1, 20, 1, False) for side in "rs")
    cluster = Cluster(spec_of("abs(r.x - s.a) <= 2", 5), tmp_path)
    cluster.batch(r, s)
    for changed, what in (
        (spec_of("abs(r.x - s.a) <= 3", 5), "predicate"),
        (spec_of("abs(r.x - s.a) <= 2", 6), "window"),
        (spec_of("abs(r.x - s.a) <= 2", 5, cells=2), "routing"),
        (spec_of("abs(r.x - s.a) <= 2", 5, r=cases.R.append(cases.R.field("x").with_name("x2"))), "columns of r"),
    ):
        other = Cluster(changed, tmp_path)
        other.cells = cluster.cells
        with pytest.raises(StateError, match=f"its {what} was"):
            other.batch(r, s) if what != "columns of r" else other._visit(0, {"r": [], "s": []}, 0)


def test_a_function_that_does_not_compile_fails_at_once() -> None:
    with pytest.raises(PredicateError, match="does not compile"):
        spec_of(lambda r, s: input(r.x) == s.a, 5)


def test_a_changed_function_is_refused() -> None:
    one, same = (spec_of(lambda r, s: r.x < s.a, 5) for _ in range(2))
    other = spec_of(lambda r, s: r.x > s.a, 5)
    assert one.signature == same.signature
    assert one.signature != other.signature


LIMIT = 5
WEIGHTS = np.arange(2000.0)
HERE = sys.modules[__name__]


class Kind(IntEnum):
    NEAR = 2


@njit
def below(x: Any) -> Any:
    return x < LIMIT


@vectorize
def more(x: Any) -> Any:
    return x + 1


def _closed(called: Any) -> Any:
    return lambda r, s: called(r.x - s.a)


@pytest.mark.parametrize(
    ("name", "other", "predicate"),
    [
        ("LIMIT", 6, lambda r, s: r.x - s.a < LIMIT),
        ("LIMIT", 6, lambda r, s: len([1 for _ in range(2) if r.x < LIMIT]) > 0),
        ("LIMIT", 6, lambda r, s: below(r.x - s.a)),
        ("LIMIT", 6, lambda r, s: r.x < HERE.LIMIT),
        ("LIMIT", 6, _closed(below)),
        ("WEIGHTS", np.where(WEIGHTS == 1000, 7.0, WEIGHTS), lambda r, s: math.hypot(r.y, 1) < WEIGHTS[1000]),
        ("Kind", IntEnum("Kind", {"NEAR": 3}), lambda r, s: r.x < Kind.NEAR),
        ("more", vectorize(lambda x: x + 2), lambda r, s: more(r.x) < s.a),
    ],
)
def test_what_a_function_takes_from_outside_counts(name: str, other: Any, predicate: Any, monkeypatch: Any) -> None:
    from pyspark import cloudpickle

    before = fingerprint(predicate)
    assert before == fingerprint(predicate) == fingerprint(cloudpickle.loads(cloudpickle.dumps(predicate)))
    monkeypatch.setitem(globals(), name, other)
    assert fingerprint(predicate) != before


def test_the_processor_as_spark_calls_it(tmp_path: Path, monkeypatch: Any) -> None:
    """Rows in, results and metrics out; a sign of life after the watermark has moved on empties the state."""
    pytest.importorskip("pyspark")
    from pyspark.sql import Row
    from pyspark.sql.streaming.tws_tester import TwsTester

    from streamjoin.spark.processor import JoinProcessor
    from streamjoin.spark.wire import pack, unpack, with_integers

    monkeypatch.setenv("STREAMJOIN_CHUNKS", str(tmp_path))
    monkeypatch.setattr("streamjoin.spark.wire.PACKET", 500)
    schemas = cases.schemas(pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC"))
    spec = spec_of("abs(r.x - s.a) <= 2", "5 seconds", r=schemas[0], s=schemas[1], cells=1)
    rows = {side: cases.long_stream(side, 2, 30, 1, False) for side in "rs"}
    engine, parts = engine_of(spec), []
    for k, (side, schema) in enumerate(zip("rs", schemas, strict=True)):
        timed = [{**row, "t": 1_000_000 * (1_000 + row["t"])} for row in rows[side]]
        table = with_integers(to_table(timed, schema), CONTENT, contents(timed, f"{side}id"))
        parts += [Row(cell=0, side=k, rows=pack(part)) for _, part in engine.route(side, table)]
    tester = TwsTester(JoinProcessor(spec), timeMode="EventTime", eventTimeExtractor=lambda row: 2**60)
    key = cell_keys(1)[0]
    out = tester.test(key, parts[:1]) + tester.test(key, [Row(cell=0, side=2, rows=None)]) + tester.test(key, parts[1:])
    tables = [unpack(row.rows) for row in out if row.rows]
    assert len(tables) > 3 and max(table.nbytes for table in tables) < 1_500
    pairs = [pair for table in tables for pair in pairs_of(table)]
    case = cases.BY_NAME["band"]
    assert sorted(pairs) == expected(case, Interval(-5, 5), rows["r"], rows["s"])
    assert sum(row.results for row in out) == len(pairs)

    def chunks() -> list[int]:
        return [number for (number,) in tester.peekMapState("chunks", key) if number >= 0]  # below: the manifest

    assert len(chunks()) == 2
    last = max(row["t"] for side in "rs" for row in rows[side])
    for later, left in ((3, True), (6, False)):
        tester.setWatermark(1000 * (1_000 + last + later))
        tester.test(key, [Row(cell=0, side=2, rows=None)])
        assert bool(chunks()) is left


def test_tumbling_state_goes(tmp_path: Path) -> None:
    r, s = (cases.long_stream(side, 9, 200, 3, False) for side in "rs")
    case, window = cases.BY_NAME["equality"], TumblingTime(10)
    cluster = Cluster(spec_of(case.on, cases.within(window), cells=2), tmp_path)
    merged = sorted([(row["t"], "r", row) for row in r] + [(row["t"], "s", row) for row in s], key=lambda e: e[:2])
    for start in range(0, len(merged), 20):
        part = merged[start : start + 20]
        cluster.batch(*([row for _, side, row in part if side == which] for which in "rs"))
    assert sorted(cluster.pairs) == expected(case, window, r, s)
    assert cluster.state_rows < 150


def test_a_cache_that_is_deleted_comes_back_and_leaves_no_old_files(tmp_path: Path) -> None:
    root = tmp_path / "chunks"
    rows = {side: cases.long_stream(side, 4, 40, 1, False) for side in "rs"}
    cluster = Cluster(spec_of("abs(r.x - s.a) <= 2", 50, cells=1), root)
    cluster.batch(rows["r"][:20], rows["s"][:20])
    shutil.rmtree(root)
    cluster.batch(rows["r"][20:], rows["s"][20:])
    assert sorted(cluster.pairs) == expected(cases.BY_NAME["band"], Interval(-50, 50), rows["r"], rows["s"])
    assert root.stat().st_mode & 0o777 == 0o700
    kept = set((root / "test").iterdir())
    assert kept
    name = next(path.name for path in kept)
    unfinished = f".{name[:40]}.{'0' * 16}.part"
    for old in (root / "test" / unfinished, root / "gone" / name):
        old.parent.mkdir(exist_ok=True)
        old.touch()
        for path in (old, old.parent):
            os.utime(path, (0, 0))
    os.utime(root / "test")
    ChunkCache("test", root)
    assert set((root / "test").iterdir()) == kept
    assert not (root / "gone").exists()
