"""The oracle for kinds of joins: by hand, against pandas, Polars and DuckDB, and the checks find faulty engines."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from streamjoin.testing import conformance
from streamjoin.testing.cases import BY_NAME, s, stream_of
from streamjoin.testing.conformance import TIME, Poll, Push, StreamJoin, TableJoin
from streamjoin.testing.kinds import BY_TIME, COUNTED, HOWS, INNER, KINDS, Aggregate, Kind
from streamjoin.testing.oracle import (
    Everything,
    Interval,
    Last,
    Progress,
    Row,
    RowInterval,
    TumblingRows,
    TumblingTime,
    Tuple,
    Valid,
    Validity,
    arrivals_of_tables,
    streams_of,
)
from streamjoin.testing.results import Aggregate as Plain
from streamjoin.testing.results import Best, Result, may_come_out, results
from streamjoin.testing.rows import to_table
from streamjoin.testing.strategies import count_windows, table_joins, time_windows

EQUALITY = BY_NAME["equality"]
AROUND = Interval(-5, 5)
AGGREGATED = [(f, s("a")) for f in ("count", "sum", "avg", "min", "max")]


def at(side: str, *times: int, **more: list[Any]) -> list[Row]:
    return [{f"{side}id": i, "t": t} | {name: values[i] for name, values in more.items()} for i, t in enumerate(times)]


def run(window: Any, rs: list[Row], ss: list[Row], on: Any = lambda r, s: True, **kind: Any) -> list[Any]:
    found = results(arrivals_of_tables(rs, ss, TIME), on, window, TIME, **kind)
    return [(one.row("r", "rid"), one.row("s", "sid"), one.time) for one in found]


def test_hows_by_hand() -> None:
    rs, ss = at("r", 10, 50), at("s", 8, 30)
    near = Interval(-5, 3)
    assert run(near, rs, ss) == [(0, 0, 10)]
    assert run(near, rs, ss, how="left") == [(0, 0, 10), (1, None, 53)]
    assert run(near, rs, ss, how="right") == [(0, 0, 10), (None, 1, 35)]
    assert run(near, rs, ss, how="full") == [(0, 0, 10), (1, None, 53), (None, 1, 35)]
    assert run(near, rs, ss, how="semi") == [(0, None, 10)]
    assert run(near, rs, ss, how="anti") == [(1, None, 53)]
    assert run(near, rs, ss, how="left", on=lambda r, s: r["rid"] == 1) == [(0, None, 13), (1, None, 53)]
    assert run(near, [], ss, how="full") == [(None, 0, 13), (None, 1, 35)]


def test_ends_of_windows_by_hand() -> None:
    def ends(window: Any) -> list[float]:
        return [time for _, _, time in run(window, at("r", 10), at("s", 1000), how="full")]

    assert ends(Interval(-5, 3)) == [13, 1005]
    assert ends(Interval(-5, 3, "left")) == [12, 1005]
    assert ends(Interval(-5, 3, "right")) == [13, 1004]
    assert ends(Interval(-5, -2)) == [10, 1005], "not before its own time"
    assert ends(Interval(2, 5)) == [15, 1000]
    assert ends(TumblingTime(7)) == [13, 1000]
    assert ends(RowInterval(lambda r, s: None, 3, most=20)) == [13, 1020]
    never = lambda r, s: False  # noqa: E731
    assert [time for *_, time in run(Last(1, 1), at("r", 1), at("s", 9), never, how="full")] == [1, 9]
    assert [time for *_, time in run(Everything(), at("r", 1), [], how="left")] == [math.inf]


def test_takes_by_hand() -> None:
    rs, ss = at("r", 10), at("s", 7, 7, 8, 12, 13, e=[1.0, 1.0, math.nan, None, 0.5])

    def taken(take: Any, window: Any = AROUND, of: Any = ss) -> list[Any]:
        return [(sid, time) for _, sid, time in run(window, rs, of, take=take, how="left")]

    assert taken("backward") == [(2, 10)]
    assert taken("backward", of=ss[:2]) == [(1, 10)], "the last to arrive"
    assert taken("forward") == [(3, 12)]
    assert taken("nearest") == [(2, 12)], "backward's at equal distance, certain when no closer one can follow"
    assert taken("nearest", Interval(-5, 1)) == [(2, 11)]
    assert taken("backward", Interval(0, 5)) == [(None, 10)]
    assert taken("forward", Interval(0, 1)) == [(None, 11)]
    least, most = (Best(lambda r, s: s["e"], 9, greatest) for greatest in (False, True))
    assert [sid for sid, _ in taken(least)] == [4, 1, 0, 2, 3], "NaN above every number, null last, ties as in nearest"
    assert [sid for sid, _ in taken(most)] == [2, 1, 0, 4, 3]
    assert {time for _, time in taken(least)} == {15}
    same = at("s", 10, 10, 11, 11)
    assert taken("forward", of=same) == [(0, 10)]
    assert taken("nearest", of=same) == taken("backward", of=same) == [(1, 10)]


def test_aggregates_by_hand() -> None:
    rs = at("r", 10, 99)
    ss = at("s", 7, 9, 12, n=[5, None, 7], f=[1.0, math.nan, None], by=[None, 2, 2])

    def values(function: str, of: str | None = None, by: str | None = None, how: str = "left") -> list[Any]:
        one = Plain(function, of and (lambda r, s: s[of]), by and (lambda r, s: s[by]))  # type: ignore[arg-type]
        found = results(
            arrivals_of_tables(rs, ss, TIME), lambda r, s: True, Interval(-5, 5), TIME, how=how, aggregate={"v": one}
        )
        assert [one.time for one in found] == [15, 104][: len(found)]
        return [one.values["v"] for one in found]

    assert values("count") == [3, 0]
    assert values("count", how="inner") == [3]
    assert values("count", "n") == [2, 0]
    assert values("sum", "n") == [12, None]
    assert values("avg", "n") == [6.0, None]
    assert values("min", "n") == [5, None]
    assert values("min", "f") == [1.0, None]
    assert math.isnan(values("max", "f")[0])
    assert math.isnan(values("sum", "f")[0])
    assert values("max_by", "n", "by") == [None, None], "s1 and s2 are tied, s1 is closer, and its n is null"
    assert values("min_by", "f", "n") == [1.0, None]


def test_validity_by_hand() -> None:
    spans = [(0, 5), (5, 5), (5, 9), (None, 3), (8, None), (None, None)]
    ss = at("s", *[0] * len(spans), lo=[a for a, _ in spans], hi=[b for _, b in spans])

    def valid(point: int, closed: str) -> list[int]:
        return [sid for _, sid, _ in run(Valid(None, Validity("lo", "hi", closed)), at("r", point), ss)]

    assert valid(5, "left") == [2, 5]
    assert valid(5, "right") == [0, 5]
    assert valid(5, "both") == [0, 1, 2, 5]
    assert valid(8, "neither") == [2, 5]
    assert valid(-9, "left") == [3, 5]

    def overlap(lo: int, hi: int, closed: str) -> list[int]:
        window = Valid(Validity("lo", "hi", closed), Validity("lo", "hi"))
        return [sid for _, sid, _ in run(window, at("r", 0, lo=[lo], hi=[hi]), ss)]

    assert overlap(5, 8, "left") == [2, 5]
    assert overlap(5, 8, "both") == [2, 4, 5]
    assert overlap(1, 1, "left") == []
    assert overlap(1, 1, "both") == [0, 3, 5]
    assert overlap(4, 6, "neither") == [0, 2, 5]
    with pytest.raises(ValueError, match="lo 3 above hi 2"):
        overlap(3, 2, "left")


def test_moments_by_hand() -> None:
    streams = streams_of([("r", {"t": 10}), ("s", {"t": 8}), ("s", {"t": 12})], TIME)
    (one,), (early, late) = streams["r"], streams["s"]

    def known(s: Tuple | None, mark: float, take: Any = "all", window: Any = AROUND, rows: int = 1) -> bool:
        progress = Progress({"r": rows, "s": rows}, {"r": -math.inf, "s": mark})
        return may_come_out(Result(one, s, 0), window, "left", take, progress)

    assert known(early, -math.inf)
    assert [known(None, mark) for mark in (15, 16)] == [False, True]
    assert [known(early, mark, "backward") for mark in (10, 11)] == [False, True]
    assert [known(late, mark, "forward") for mark in (11, 12)] == [False, True]
    assert [known(early, mark, "nearest") for mark in (11, 12)] == [False, True]
    assert [known(early, mark, Best(lambda r, s: 0)) for mark in (15, 16)] == [False, True]
    assert [known(None, 0, window=Last(2, 9), rows=n) for n in (2, 3)] == [False, True]
    assert [known(None, 0, window=TumblingRows(2), rows=n) for n in (1, 2)] == [False, True]


def sorted_tables(join: TableJoin) -> tuple[list[Row], list[Row]]:
    """Rows in the order in which tables arrive, with keys: the as-of joins of others drop null keys or want none."""
    rs, ss = (sorted(rows, key=lambda row: row["t"]) for rows in (join.rows_r, join.rows_s))
    return [row for row in rs if row["k"] is not None], [row for row in ss if row["k"] is not None]


@given(join=table_joins([EQUALITY], time_windows, [False], BY_TIME))
def test_as_of_agrees_with_pandas(join: TableJoin) -> None:
    import pandas as pd

    rs, ss = sorted_tables(join)
    take, reach = str(join.kind.take), 7
    ours = [(a, b) for a, b, _ in run(Interval(-reach, reach), rs, ss, EQUALITY.holds, take=take, how="left")]
    left, right = (
        pd.DataFrame([(row[f"{side}id"], row["t"], row["k"]) for row in rows], columns=[f"{side}id", "t", "k"])
        for side, rows in (("r", rs), ("s", ss))
    )
    left, right = (frame.astype("int64") for frame in (left, right))
    out = pd.merge_asof(left, right, on="t", by="k", direction=take, tolerance=reach)  # type: ignore[arg-type]
    assert ours == [(int(a), None if pd.isna(b) else int(b)) for a, b in zip(out["rid"], out["sid"], strict=True)]


@given(join=table_joins([EQUALITY], time_windows, [False], [kind for kind in BY_TIME if kind.take != "nearest"]))
def test_as_of_agrees_with_polars(join: TableJoin) -> None:
    import polars as pl

    rs, ss = sorted_tables(join)
    take, reach = str(join.kind.take), 7
    ours = [(a, b) for a, b, _ in run(Interval(-reach, reach), rs, ss, EQUALITY.holds, take=take, how="left")]
    left, right = (
        pl.from_arrow(to_table(rows, pa.schema([(name, pa.int64()) for name in (f"{side}id", "t", "k")])))
        for side, rows in (("r", rs), ("s", ss))
    )
    with warnings.catch_warnings(action="ignore"):  # that it cannot check the order
        out = left.join_asof(right, on="t", by="k", strategy=take, tolerance=reach)  # type: ignore[arg-type]
    assert sorted(ours) == sorted(zip(out["rid"].to_list(), out["sid"].to_list(), strict=True))


@given(join=table_joins([EQUALITY], time_windows, [False]))
def test_agrees_with_duckdb(join: TableJoin) -> None:
    """Outer, semi and anti joins, ASOF where times do not tie, and aggregates."""
    import duckdb

    rs, ss = join.rows_r, join.rows_s
    window = "s.t - r.t BETWEEN -5 AND 7"
    with duckdb.connect() as db:
        db.register("tr", join.r)
        db.register("ts", join.s)
        for kind in HOWS:
            ours = Counter((a, b) for a, b, _ in run(Interval(-5, 7), rs, ss, EQUALITY.holds, how=kind.how))
            selected = "r.rid, NULL" if kind.of_r_alone else "r.rid, s.sid"
            text = f"SELECT {selected} FROM tr r {kind.how} JOIN ts s ON r.k = s.k AND {window}"
            assert ours == Counter(db.sql(text).fetchall()), kind
        once = {(row["k"], row["t"]): row for row in reversed(ss)}.values()
        db.register("once", to_table([dict(row) for row in once], join.s.schema))
        ours = Counter((a, b) for a, b, _ in run(Everything(), rs, list(once), EQUALITY.holds, take="backward"))
        text = "SELECT r.rid, s.sid FROM tr r ASOF JOIN once s ON r.k = s.k AND r.t >= s.t"
        assert ours == Counter(db.sql(text).fetchall())
        kind = Kind("left", aggregate=tuple((f, Aggregate(f, e)) for f, e in AGGREGATED))
        found = kind.results(arrivals_of_tables(rs, ss, TIME), EQUALITY, Interval(-5, 7), TIME)
        asked = ", ".join(f"{f}(s.a)" for f, _ in AGGREGATED)
        text = f"SELECT r.rid, {asked} FROM tr r LEFT JOIN ts s ON r.k = s.k AND {window} GROUP BY r.rid"
        theirs = {rid: values for rid, *values in db.sql(text).fetchall()}
        assert {one.row("r", "rid"): list(one.values.values()) for one in found} == theirs


class Oracle:
    """A live engine that knows the end from the start, and hands out each row when it may come out."""

    def __init__(self, join: StreamJoin) -> None:
        self.join, self.taken, self.rows = join, 0, join.results()

    def push_r(self, batch: pa.RecordBatch) -> None:
        self.taken += 1

    push_s = push_r

    def ready(self, found: Result) -> bool:
        kind, reached = self.join.kind, self.join.progress(self.taken)
        return self.arrived(found) and may_come_out(found, self.join.window, kind.how, kind.taken, reached)

    def arrived(self, found: Result) -> bool:
        rows = [row for step in self.join.steps[: self.taken] for row in getattr(step, "rows", [])]
        return all(any(one.row is row for row in rows) for one in (found.r, found.s) if one)

    def poll(self, timeout: float) -> list[pa.RecordBatch]:
        self.taken += 1
        ready = [self.ready(found) for found in self.rows]
        return self._batch(ready)

    def _batch(self, ready: list[bool]) -> list[pa.RecordBatch]:
        out = [found for found, now in zip(self.rows, ready, strict=True) if now]
        self.rows = [found for found, now in zip(self.rows, ready, strict=True) if not now]
        kind = self.join.kind
        ids = {"rid": [found.row("r", "rid") for found in out], "sid": [found.row("s", "sid") for found in out]}
        columns = {name: pa.array(values, pa.int64()) for name, values in ids.items()}
        for name, one in kind.aggregate:
            columns[name] = pa.array([found.values[name] for found in out], one.type)
        return [pa.RecordBatch.from_pydict(columns)]

    def close(self) -> None:
        self.ready = lambda found: True  # type: ignore[method-assign]


class Hasty(Oracle):
    """Says "unmatched" when the tuple has arrived, as some systems do."""

    def ready(self, found: Result) -> bool:
        return self.arrived(found)


def test_a_patient_engine_passes() -> None:
    windows = time_windows | count_windows
    asked: dict[str, Any] = {"cases": [EQUALITY], "advances": False, "orders": [False], "examples": 25}
    conformance.check_streams(Oracle, kinds=KINDS, windows=windows, **asked)


@pytest.mark.parametrize("kind", [INNER, *HOWS, *BY_TIME, COUNTED], ids=str)
def test_a_hasty_engine_is_found(kind: Kind) -> None:
    rows = {side: stream_of(side, list(range(10)), 1, 0, False) for side in "rs"}
    for side in "rs":
        for n, row in enumerate(rows[side]):
            row |= {"t": 2 * n if n < 9 else 90, "k": n % 3}
    for side, n in (("r", 4), ("s", 8), ("r", 9), ("s", 9)):
        rows[side][n]["k"] = 7  # what matches comes too late
    steps = [Push(side, rows[side][cut]) for cut in (slice(9), slice(9, 10)) for side in "rs"]
    steps_and_polls = [step for push in steps for step in (push, Poll())]
    join = StreamJoin(EQUALITY, Interval(-3, 3), steps_and_polls, max_delay=5, kind=kind)
    watched = join.watch(Hasty(join))
    if kind.how in ("inner", "semi") and kind.take == "all":
        join.verify_moments(watched)
    else:
        with pytest.raises(AssertionError, match="too early"):
            join.verify_moments(watched)
