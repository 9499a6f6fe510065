"""Small pushes, which take the short way where they can: the same results as by the long one, row by row."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.testing.cases import BY_NAME, SCHEMAS
from streamjoin.testing.conformance import StreamJoin
from streamjoin.testing.strategies import stream_joins

R = pa.schema({"ts": pa.int64(), "x": pa.int64()})
S = pa.schema({"ts": pa.int64(), "a": pa.int64()})


def live(r: pa.Schema = R, s: pa.Schema = S, **options: Any) -> sj.Join:
    return sj.Join(r=r, s=s, on="r.x = s.a", within=10, time="ts", **options)


class ByRow:
    """Pushes rows as tuples or as dicts, one by one or together."""

    def __init__(self, join: sj.Join, together: bool, dicts: bool) -> None:
        self._join, self._together, self._dicts = join, together, dicts
        self.poll, self.close, self.advance = join.poll, join.close, join.advance

    def push_r(self, batch: pa.RecordBatch) -> None:
        self._push("r", batch)

    def push_s(self, batch: pa.RecordBatch) -> None:
        self._push("s", batch)

    def _push(self, side: str, batch: pa.RecordBatch) -> None:
        rows = [row if self._dicts else tuple(row[name] for name in SCHEMAS[side].names) for row in batch.to_pylist()]
        if self._together:
            self._join.push_rows(side, rows)
        else:
            for row in rows:
                self._join.push_row(side, row)


@pytest.mark.parametrize("name", ["band", "equality"])
@given(data=st.data())
def test_rows_of_plain_values(name: str, data: st.DataObject) -> None:
    join: StreamJoin = data.draw(stream_joins([BY_NAME[name]]))
    engine = ByRow(sj.Join(**join.options), data.draw(st.booleans()), data.draw(st.booleans()))
    join.verify(join.feed(engine))


def mixed(count: int, rng: np.random.Generator, name: str) -> pa.Table:
    """Columns of every width, one of them with nulls."""
    null = rng.random(count) < 0.2
    return pa.table(
        {
            "ts": pa.array(np.sort(rng.integers(0, 50, count))),
            name: pa.array(rng.integers(0, 200, count)),
            f"{name}8": pa.array(rng.integers(-100, 100, count, dtype=np.int8)),
            f"{name}16": pa.array(rng.integers(0, 60_000, count, dtype=np.uint16)),
            f"{name}32": pa.array(rng.random(count, dtype=np.float32), mask=null),
            f"{name}128": pa.array([None if n else k for k, n in enumerate(null)], pa.decimal128(30, 2)),
        }
    )


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("size", [7, 700])
def test_rows_come_out_as_they_came_in(size: int, text: bool) -> None:
    """Through blocks of rows, with nulls, beside a side that is kept by Arrow; and nothing handed out ever changes."""
    rng = np.random.default_rng(size)
    r, s = mixed(5_000, rng, "x"), mixed(1_000, rng, "a")
    if text:
        s = s.append_column("word", pa.array([f"w{k}" for k in range(len(s))]))
    want = sj.join(r, s, on="r.x = s.a", within=10, time="ts")
    join, out, seen = live(r.schema, s.schema, max_delay=100), [], []
    for k in range(0, 5_000, size):
        join.push_r(r.slice(k, size))
        join.push_s(s.slice(k, size) if k < 1_000 else s.slice(0, 0))
        for batch in join.poll():
            out.append(batch)
            seen.append(batch.to_pylist())
    join.close()
    assert [batch.to_pylist() for batch in out] == seen
    order = [(name, "ascending") for name in want.schema.names]
    assert pa.Table.from_batches(out).sort_by(order).equals(want.sort_by(order))


def test_what_does_not_fit_as_it_is_takes_the_long_way() -> None:
    with live(pa.schema({"ts": pa.int64(), "x": pa.int64(), "f": pa.float32()})) as join:
        join.push_row("r", (1, 7, 2))
        join.push_row("r", {"ts": 2, "x": 7, "f": None})
        join.push_rows("r", [(3, None, 1.0), (4, 7, 0.5), (5, 8, 1.5)])
        join.push_rows("r", [])
        join.push_rows("s", [(5, 7)] * 600)
        assert sum(batch.num_rows for batch in join.poll()) == 1_800
        assert join.stats()["r"]["pushed"] == 5


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((1,), "row 0 for r has 1 values and the schema 2 columns; give ts, x"),
        ({"ts": 1}, 'row 0 for r lacks column "x"; give ts, x'),
        ({"ts": 1, "x": 2, "y": 3}, 'row 0 for r has a column "y" that its schema lacks; give ts, x'),
        ({"ts": 1, "y": 2}, 'row 0 for r lacks column "x"; give ts, x'),
        ((1, 2.5), "r.x does not fit type int64: 2.5 in row 0 is no whole number"),
        ("ab", "row 0 for r is a str; give a tuple or a dict of values"),
        ((1, 2**63), r"r\.x does not fit type int64"),
    ],
)
def test_rows_that_are_refused_leave_no_trace(row: Any, message: str) -> None:
    with live() as join:
        with pytest.raises(sj.SchemaError, match=message):
            join.push_row("r", row)
        with pytest.raises(sj.OptionError, match='take "r" or "s"'):
            join.push_row("left", (1, 2))
        join.push_row("r", (1, 7))
        join.push_row("s", (2, 7))
        assert [batch.num_rows for batch in join.poll()] == [1]
        assert join.stats()["r"]["pushed"] == 1


def test_nulls_outside_a_slice_do_not_count() -> None:
    whole = pa.record_batch([pa.array([0, 1, 2]), pa.array([None, 7, None])], schema=R)
    with live() as join:
        for k in range(3):
            join.push_r(whole.slice(k, 1))
        join.push_s({"ts": [3], "a": [7]})
        assert [batch.to_pylist() for batch in join.poll()] == [[{"ts_r": 1, "x": 7, "ts_s": 3, "a": 7}]]


def test_more_pairs_than_there_is_room_for() -> None:
    """A push whose results fill the room for pairs hands them over in parts."""
    with live() as join:
        for _ in range(20):
            join.push_rows("r", [(1, 7)] * 500)
        join.push_rows("s", [(2, 7)] * 5)
        assert sum(batch.num_rows for batch in join.poll()) == 50_000
        assert join.stats()["results"] == 50_000


def test_rows_come_out_after_a_pause_in_which_all_expired() -> None:
    with live() as join:
        for base in (0, 1_000, 2_000):
            for k in range(100):
                join.push_row("r", (base + k, k))
                join.push_row("s", (base + k, k))
            assert sum(batch.num_rows for batch in join.poll()) == 100
        assert join.stats()["r"]["window"] <= 200


CONVERTED = {  # columns that the predicate reads in another form than Arrow's, some of them different on either side
    "r": {
        "k": pa.dictionary(pa.int8(), pa.string()),
        "b": pa.bool_(),
        "w": pa.decimal128(10, 2),
        "m": pa.timestamp("ms"),
    },
    "s": {"k": pa.large_string(), "b": pa.bool_(), "w": pa.decimal128(8, 1), "m": pa.timestamp("us")},
}


def converted(side: str, count: int, rng: np.random.Generator) -> pa.Table:
    """Few different values; the last third has nulls."""
    values: dict[str, Any] = {
        "k": [f"name {k}" for k in rng.integers(0, 3, count)],
        "b": (rng.random(count) < 0.5).tolist(),
        "w": [Decimal(int(k)) for k in rng.integers(0, 5, count)],
        "m": [datetime(2026, 1, 1, 0, 0, int(k)) for k in rng.integers(0, 5, count)],
    }
    for column in values.values():
        for k in range(2 * count // 3, count):
            if rng.random() < 0.05:
                column[k] = None
    columns = {"ts": np.arange(count), "id": np.arange(count)} | {
        name: pa.array(column, pa.string()).cast(t) if name == "k" else pa.array(column, t)
        for (name, column), t in zip(values.items(), CONVERTED[side].values(), strict=True)
    }
    return pa.table(columns)


@pytest.mark.parametrize(("size", "workers"), [(1, 1), (100, 1), (7, 2)])
def test_columns_that_the_predicate_reads_in_another_form(size: int, workers: int) -> None:
    r, s = (converted(side, 300, np.random.default_rng(size + k)) for k, side in enumerate("rs"))
    want = sorted(
        (a["id"], b["id"])
        for a in r.to_pylist()
        for b in s.to_pylist()
        if abs(a["ts"] - b["ts"]) <= 40
        and None not in (*a.values(), *b.values())
        and (a["k"], a["b"]) == (b["k"], b["b"])
        and a["w"] <= b["w"]
        and a["m"] < b["m"]
    )
    on = "r.k = s.k AND r.b = s.b AND r.w <= s.w AND r.m < s.m"
    algorithm = "kang" if workers == 1 else "low_latency"
    join = sj.Join(r=r.schema, s=s.schema, on=on, within=40, time="ts", algorithm=algorithm, workers=workers)
    for k in range(0, 300, size):
        join.push_r(r.slice(k, size))
        join.push_s(s.slice(k, size))
    join.close()
    found = [(row["id_r"], row["id_s"]) for batch in join.poll() for row in batch.to_pylist()]
    assert sorted(found) == want and len(want) > 100
