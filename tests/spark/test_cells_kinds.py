"""Kinds of joins in the cells of the Spark engine, without Spark: against the oracle, whatever cells and batches."""

from __future__ import annotations

from itertools import chain, cycle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cells import Cluster, spec_of
from streamjoin.errors import OptionError, StateError
from streamjoin.kinds import Take
from streamjoin.spark import deciding
from streamjoin.spark.state import Manifest
from streamjoin.spark.wire import unpack
from streamjoin.testing import cases, verdict
from streamjoin.testing.expressions import lit
from streamjoin.testing.kinds import AGGREGATES, BY_TIME, BY_VALUE, HOWS, INNER, Kind
from streamjoin.testing.oracle import Everything, Interval, Progress, Row, Valid, pairs
from streamjoin.testing.results import may_come_out
from streamjoin.testing.strategies import stream, time_windows, validities

CASES = [cases.BY_NAME[name] for name in ("band", "equality_band", "nulls")]
WIDE_R = cases.case_of("band_of_r", cases.band(cases.s("a"), cases.r("x"), 2, 2))  # an r looks at several values
FLOATS = cases.case_of("band_of_floats", cases.near(cases.r("y"), cases.s("b"), lit(0.5)))  # NaN and infinities
SINGLE = cases.case_of("band_of_single_floats", cases.near(cases.r("z"), cases.s("c"), lit(1)))
SPREAD = [cases.BY_NAME["band"], WIDE_R, FLOATS, SINGLE]
GROUPS = {"hows": HOWS, "by_time": BY_TIME, "by_value": BY_VALUE, "aggregates": AGGREGATES}
END = 10**6


def clusters(case: cases.Case, window: Any, kind: Kind, folder: Path | None, **options: Any) -> list[Cluster]:
    """The operators of a join: one, or two where each decides about one side."""
    if isinstance(window, Valid):
        options |= {**cases.LASTING, "time": cases.time(window)}
    spec = spec_of(case.on, cases.within(window), **kind.options, **options)
    return [Cluster(part, folder and folder / str(k)) for k, part in enumerate(spec.parts)]


def unique(rows: list[Row]) -> list[Row]:
    """Rows of different times: ties are decided by the content here, and by arrival in the oracle."""
    return list({row["t"]: row for row in rows}.values())


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@given(data=st.data())
@settings(max_examples=15)
def test_cells_do_as_the_oracle(case: cases.Case, group: str, data: st.DataObject, tmp_path_factory: Any) -> None:
    kind, window = data.draw(st.sampled_from(GROUPS[group])), data.draw(time_windows)
    check(case, kind, window, data, tmp_path_factory.mktemp("chunks"))


@given(data=st.data())
def test_tuples_that_are_valid_for_a_while(data: st.DataObject, tmp_path_factory: Any) -> None:
    kind = data.draw(st.sampled_from([INNER, *HOWS, *AGGREGATES[:1]]))
    check(cases.BY_NAME["equality"], kind, data.draw(validities()), data, tmp_path_factory.mktemp("chunks"))


@pytest.mark.parametrize("fewest", [1, 8, deciding.FEWEST])
@given(data=st.data())
@settings(max_examples=15)
def test_versions_of_a_key(fewest: int, data: st.DataObject, tmp_path_factory: Any) -> None:
    """No window: the latest version of the key, however old, whenever the older ones were dropped."""
    kind = Kind(data.draw(st.sampled_from(["inner", "left"])), "backward")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(deciding, "FEWEST", fewest)
        check(cases.BY_NAME["equality"], kind, Everything(), data, tmp_path_factory.mktemp("chunks"))


def test_state_holds_one_version_per_key(tmp_path: Path) -> None:
    (cluster,) = clusters(
        cases.BY_NAME["equality"], Everything(), Kind("inner", "backward"), tmp_path, cells=2, split=1
    )
    keys, rounds = 50, 300
    for n in range(rounds):
        s = [{**row, "sid": n * keys + k, "k": k} for k, row in enumerate(rows_at("s", *[n] * keys))]
        cluster.batch(rows_at("r", n), s)
    assert cluster.state_rows < 3 * deciding.FEWEST < rounds * keys
    cluster.newest = {"r": END, "s": END}
    cluster.batch(
        [{**row, "rid": rounds + k, "k": k} for k, row in enumerate(rows_at("r", *[END] * keys))], rows_at("s", END)
    )
    cluster.newest = {"r": 2 * END, "s": 2 * END}
    cluster.time_passes()
    last = {row["rid"] - rounds: row["sid"] for table in cluster.out for row in table.to_pylist() if row["t_r"] == END}
    assert {key: sid for key, sid in last.items() if key != 1} == {
        key: (rounds - 1) * keys + key for key in range(keys) if key != 1
    }, "all keys are found again, k = 1 has a new one"


def check(
    case: cases.Case, kind: Kind, window: Any, data: st.DataObject, folder: Path, options: dict[str, Any] | None = None
) -> None:
    """Some micro-batches, and the end: what came out is what the oracle says."""
    if options is None:
        options = {"cells": data.draw(st.sampled_from([1, 2, 6])), "split": data.draw(st.sampled_from([None, 1, 2]))}
    found = clusters(case, window, kind, folder, **options)
    r, s = unique(data.draw(stream("r"))), unique(data.draw(stream("s")))
    if isinstance(window, Valid):
        r, s = cases.lasting("r", r), cases.lasting("s", s)
    merged = disordered(data, r, s)
    for size in [*data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=6)), len(merged)]:
        part, merged = merged[:size], merged[size:]
        for cluster in found:
            cluster.batch(*of_sides(part))
            if data.draw(st.booleans()):
                cluster.time_passes()
    arrivals = [("r", row) for row in r] + [("s", row) for row in s]
    for cluster in found:
        cluster.newest = {"r": END, "s": END}  # the streams go on, and far beyond
        cluster.time_passes()
        assert cluster.late == 0
        assert cluster.state_rows == 0 or window == Everything()
    expected = kind.results(arrivals, case, window, ("t", "t"))
    verdict.same([table for cluster in found for table in cluster.out], expected, kind)


def disordered(data: st.DataObject, r: list[Row], s: list[Row]) -> list[tuple[str, Row]]:
    """Both streams in order of time, but for rows that come up to the clusters' delay later."""
    late = st.lists(st.integers(0, 6), min_size=1, max_size=7)
    sides = [
        [(row["t"] + by, side, row) for row, by in zip(rows, cycle(data.draw(late)))]
        for side, rows in (("r", r), ("s", s))
    ]
    return [(side, row) for _, side, row in sorted(chain(*sides), key=lambda e: e[:2])]


def of_sides(part: list[tuple[str, Row]]) -> tuple[list[Row], list[Row]]:
    return [row for side, row in part if side == "r"], [row for side, row in part if side == "s"]


@pytest.mark.parametrize("case", [*CASES, *SPREAD[1:]], ids=lambda case: case.name)
@given(data=st.data())
@settings(max_examples=30)
def test_a_choice_comes_out_as_soon_as_nothing_can_beat_it(case: cases.Case, data: st.DataObject) -> None:
    """In every visit what the oracle decides by the rows so far and the watermark; ties wait for all of their time."""
    kind, window = data.draw(st.sampled_from(BY_TIME)), data.draw(time_windows)
    (cluster,) = clusters(case, window, kind, None, cells=data.draw(st.sampled_from([1, 4])))
    rest = disordered(data, unique(data.draw(stream("r"))), unique(data.draw(stream("s"))))
    arrivals: list[tuple[str, Row]] = []
    while rest:
        size = data.draw(st.integers(1, 9))
        part, rest = rest[:size], rest[size:]
        arrivals += part
        for visit in range(data.draw(st.integers(1, 2))):
            mark = cluster.watermark
            if visit:
                cluster.time_passes()
            else:
                cluster.batch(*of_sides(part))
            progress = Progress({}, {"r": mark, "s": mark})
            known = {
                (found.row("r", "rid"), found.row("s", "sid"))
                for found in kind.results(arrivals, case, window, ("t", "t"))
                if may_come_out(found, window, kind.how, kind.taken, progress)
                and not (found.s and found.s.time >= mark)
            }
            rows = [(row["rid"], row["sid"]) for table in cluster.out for row in table.to_pylist()]
            assert len(rows) == len(set(rows))
            assert {row for row in rows if row[1] is not None} == {row for row in known if row[1] is not None}
            assert {row for row in rows if row[1] is None} >= {row for row in known if row[1] is None}
    assert cluster.late == 0


@given(data=st.data())
def test_choices_that_waited_for_their_window_go_on(data: st.DataObject) -> None:
    """State of format 3, where choices came out at the end of the window: each comes out once, and is right."""
    kind, window = data.draw(st.sampled_from(BY_TIME[2:])), data.draw(time_windows)
    case, cells = cases.BY_NAME["band"], data.draw(st.sampled_from([1, 4]))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Take, "hastened", False)
        (cluster,) = clusters(case, window, kind, None, cells=cells)
        assert cluster.engine.spec.signature["format"] == "3"
        r, s = unique(data.draw(stream("r"))), unique(data.draw(stream("s")))
        rest = disordered(data, r, s)
        for size in data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)):
            cluster.batch(*of_sides(rest[:size]))
            rest = rest[size:]
        if data.draw(st.booleans()):  # then the watermark stands still until the first rows are there
            cluster.time_passes()
    (now,) = clusters(case, window, kind, None, cells=cells)
    assert now.engine.spec.signature["format"] == "4"
    cluster.engine = now.engine
    for size in [*data.draw(st.lists(st.integers(1, 9), max_size=3)), len(rest)]:
        cluster.batch(*of_sides(rest[:size]))
        rest = rest[size:]
    cluster.newest = {"r": END, "s": END}
    cluster.time_passes()
    assert cluster.state_rows == 0
    arrivals = [("r", row) for row in r] + [("s", row) for row in s]
    verdict.same(cluster.out, kind.results(arrivals, case, window, ("t", "t")), kind)


@pytest.mark.parametrize(("take", "lower"), [("forward", -(10**5)), ("nearest", -30)])
def test_what_has_come_out_is_not_kept(take: str, lower: int) -> None:
    """A window that is long, and a partner within seconds: the state holds what waits, not the window."""
    (cluster,) = clusters(cases.BY_NAME["equality"], Interval(lower, 10**5), Kind("inner", take), None, cells=2)
    for n in range(200):
        arriving = {side: rows_at(side, *range(20 * n, 20 * n + 20)) for side in "rs"}
        cluster.batch(*([{**row, f"{side}id": row["t"]} for row in rows] for side, rows in arriving.items()))
    assert sum(table.num_rows for table in cluster.out) > 3900
    assert cluster.state_rows < 500


def rows_at(side: str, *times: int) -> list[Row]:
    found = cases.stream_of(side, [0] * len(times), 1, 0, False)
    return [{**row, "t": t, "k": 1} for row, t in zip(found, times, strict=True)]


def test_a_late_row_is_dropped_and_contradicts_nothing() -> None:
    """r0 has been handed out as unmatched when its partner comes, too late; it is counted, and nothing else."""
    (cluster,) = clusters(cases.BY_NAME["equality"], Interval(-5, 5), Kind("left"), None, cells=1)
    r, s = rows_at("r", 10, 100, 200), rows_at("s", 12, 100, 200)
    cluster.batch(r[:2], s[1:2])  # the watermark of the next visit is 94
    cluster.time_passes()
    assert [table.to_pydict()["rid"] for table in cluster.out] == [[1], [0]]
    cluster.batch(r[2:], [s[0], s[2]])
    assert cluster.late == 1
    cluster.newest = {"r": END, "s": END}
    cluster.time_passes()
    out = pa.concat_tables(cluster.out)
    assert list(zip(out["rid"].to_pylist(), out["sid"].to_pylist(), strict=True)) == [(1, 1), (0, None), (2, 2)]


@pytest.mark.parametrize("kind", [BY_TIME[0], BY_TIME[4], BY_VALUE[1], AGGREGATES[1]], ids=str)
@given(data=st.data())
@settings(max_examples=10)
def test_ties_do_not_depend_on_the_batches(kind: Kind, data: st.DataObject) -> None:
    """Equal times are told apart by the content, so that a replay in other micro-batches takes the same partners."""
    r, s = data.draw(stream("r")), data.draw(stream("s"))
    found = []
    for sizes in ([100], data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=20))):
        (cluster,) = clusters(cases.BY_NAME["equality_band"], Interval(-5, 5), kind, None, cells=2)
        rest = [[*r], [*s]]
        for size in [*sizes, 100]:
            cluster.newest = {}  # nothing is late, and nothing is decided before the end
            cluster.batch(*(rows[:size] for rows in rest))
            rest = [rows[size:] for rows in rest]
        cluster.newest = {"r": END, "s": END}
        cluster.time_passes()
        found.append(sorted(str(row) for table in cluster.out for row in table.to_pylist()))
    assert found[0] == found[1]


def test_columns_that_nobody_needs_are_not_kept() -> None:
    case, window = cases.BY_NAME["equality"], Interval(-5, 5)
    spec = spec_of(case.on, 5, select="r.rid, s.sid, s.a - r.x AS apart")
    assert spec.plan.schemas["r"].names == ["rid", "t", "k", "x"]
    assert spec.plan.schemas["s"].names == ["sid", "t", "k", "a"]
    cluster = Cluster(spec, None)
    rows = {side: cases.long_stream(side, 3, 40, 1, False) for side in "rs"}
    cluster.batch(rows["r"], rows["s"])
    out = pa.concat_tables(cluster.out)
    assert out.schema.names == ["rid", "sid", "apart"]
    arrivals = [(side, row) for side in "rs" for row in rows[side]]
    values = {side: {row[f"{side}id"]: row for row in rows[side]} for side in "rs"}
    expected = pairs(arrivals, case.holds, window, ("t", "t"))
    assert sorted(zip(out["rid"].to_pylist(), out["sid"].to_pylist(), strict=True)) == expected
    for row in out.to_pylist():
        a, x = values["s"][row["sid"]]["a"], values["r"][row["rid"]]["x"]
        assert row["apart"] == (None if a is None or x is None else a - x)


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("case", SPREAD, ids=lambda case: case.name)
@given(data=st.data())
@settings(max_examples=15)
def test_homes_in_buckets(case: cases.Case, group: str, data: st.DataObject, tmp_path_factory: Any) -> None:
    """A band without an equality over many narrow buckets, whichever side looks at several of them."""
    kind, window = data.draw(st.sampled_from(GROUPS[group])), data.draw(time_windows)
    options = {"cells": data.draw(st.sampled_from([4, 6, 8])), "bucket": data.draw(st.sampled_from([0.3, 1, None]))}
    options["split"] = data.draw(st.sampled_from([None, 1]))
    for cluster in clusters(case, window, kind, None, **options):
        assert cluster.engine.spec.router.kind == "range"
    check(case, kind, window, data, tmp_path_factory.mktemp("chunks"), options)


@pytest.mark.parametrize(
    "kind", [HOWS[0], Kind("right"), Kind("full"), Kind("anti"), BY_TIME[5], AGGREGATES[0]], ids=str
)
def test_a_band_copies_a_tuple_to_the_buckets_that_it_reaches(kind: Kind) -> None:
    """The side that is decided about is not copied, the other one to its bucket's cells: 2.5 times, not 16."""
    n = 400
    rows = {side: cases.stream_of(side, [0] * n, 1, 0, False) for side in "rs"}
    for side, column in (("r", "x"), ("s", "a")):
        rows[side] = [{**row, "t": 1, column: 7 * k % 6400} for k, row in enumerate(rows[side])]
    for cluster in clusters(cases.BY_NAME["band"], Interval(-5, 5), kind, None, cells=16):
        cluster.batch(rows["r"], rows["s"])
        router = cluster.engine.spec.router
        assert (router.groups, router.rows * router.columns) == (8, 2)
        copied = cluster.copies - n
        assert 2 * n < copied < 3 * n
        counts = [
            sum(unpack(data).num_rows for number, data in cell.chunks.items() if number >= 0) for cell in cluster.cells
        ]
        assert sum(counts) == cluster.copies and max(counts) < 3 * min(counts)


def test_a_hot_value_has_homes_in_several_cells() -> None:
    n = 600
    rows = {side: cases.stream_of(side, [0] * n, 1, 0, False) for side in "rs"}
    rows = {side: [{**row, "t": 1, {"r": "x", "s": "a"}[side]: 5} for row in rows[side]] for side in "rs"}
    (cluster,) = clusters(cases.BY_NAME["band"], Interval(-5, 5), Kind("left"), None, cells=16, split=4)
    cluster.batch(rows["r"], rows["s"][:10])
    held = [sum(unpack(data).num_rows for number, data in cell.chunks.items() if number >= 0) for cell in cluster.cells]
    assert sum(count > 0 for count in held) == 4
    assert cluster.copies == n + 4 * 10
    assert max(held) < 1.3 * min(count for count in held if count)


def test_another_kind_is_another_join() -> None:
    """A checkpoint of a left join is not taken for one of an anti join, nor homes in a grid for homes in buckets."""
    left, anti = (spec_of(cases.BY_NAME["band"].on, 5, how=how) for how in ("left", "anti"))
    with pytest.raises(StateError, match="its kind was 'left, all' and is now 'anti, all'"):
        Manifest.read(Manifest(left.signature).write(), anti.signature)
    grid = spec_of(cases.BY_NAME["band"].on, 5, how="left", cells=4, split=4)
    assert grid.signature["routing"] == "grid, 1 groups of 4 x 1 cells, buckets of 1.0 on band 0", "as it has been"
    with pytest.raises(StateError, match=r"its routing was 'grid, 1 groups of 4 x 1 .*give the former cells=, split="):
        Manifest.read(Manifest(grid.signature).write(), left.signature)
    with pytest.raises(OptionError, match=r"bucket=3\.0 needs a two-sided band in which an r looks equally far"):
        spec_of("r.x BETWEEN s.a - 5 AND s.a + 5 + r.w", 5, how="left", bucket=3.0)
    assert spec_of("abs(r.x - s.a) <= s.tol", 5, how="left").router.kind == "grid"
    assert spec_of("abs(r.x - s.a) <= s.tol", 5, how="left", bucket=3.0).router.kind == "range"
    both_above = "r.y - s.b >= -5 AND s.b - r.y >= -3"  # true for NaN, which would have to look everywhere
    assert spec_of(both_above, 5, how="left").router.kind == "grid"
    assert spec_of(cases.BY_NAME["band"].on, 5).signature["format"] == "2"
