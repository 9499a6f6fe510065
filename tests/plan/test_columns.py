"""What a join hands out: names, combinations that do not go together, and the result's schema for every kind."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.errors import StreamjoinError
from streamjoin.keywords import ELSEWHERE
from streamjoin.kinds import HOWS, how_of, take_of
from streamjoin.options import Options
from streamjoin.plan.columns import result_schema
from streamjoin.plan.plan import make_plan

R = pa.schema(
    [pa.field("t", pa.int64(), nullable=False), ("id", pa.int32()), ("x", pa.float32()), ("tags", pa.list_(pa.int8()))]
)
S = pa.schema([("t", pa.int64()), ("id", pa.int32()), ("a", pa.decimal128(9, 2)), ("name", pa.string())])


def schema(**options: Any) -> dict[str, str]:
    plan = make_plan(R, S, Options(on="r.id = s.id", within=10, time="t", **options), static=True)
    return {field.name: str(field.type) for field in result_schema(plan)}


@pytest.mark.parametrize(
    ("spelled", "name"),
    [("left_outer", "left"), ("leftouter", "left"), ("LEFT", "left"), ("right_outer", "right"), ("outer", "full"),
     ("full_outer", "full"), ("left_semi", "semi"), ("leftanti", "anti"), ("inner", "inner")],
)  # fmt: skip
def test_spark_spellings(spelled: str, name: str) -> None:
    assert how_of(spelled) is HOWS[name]


def test_takes_in_text() -> None:
    assert take_of("min_by(s.a - r.x, 2)") == sj.min_by(sj.s.a - sj.r.x, k=2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"how": "cross"}, ["cross", "inner", "anti"]),
        ({"how": "semi", "select": "r.id, s.a"}, ["s.a", "semi", "inner"]),
        ({"how": "anti", "select": "s.*"}, ["anti", "s.*"]),
        ({"how": "right", "take": "backward"}, ["backward", "right", "left"]),
        ({"how": "full", "take": sj.min_by("s.a")}, ["min_by(s.a)", "full"]),
        ({"how": "semi", "take": "nearest"}, ["nearest", "semi"]),
        ({"how": "full", "aggregate": {"n": "count(*)"}}, ["aggregate", "full", "left"]),
        ({"take": "nearest", "aggregate": {"n": "count(*)"}}, ["aggregate", "nearest"]),
        ({"aggregate": {"n": "median(s.a)"}}, ["median", "count", "max_by"]),
        ({"aggregate": {"n": "sum(s.a) / 2"}}, ["sum(s.a) / 2", "alone"]),
        ({"aggregate": {"n": "sum(*)"}}, ["sum", "1 argument"]),
        ({"aggregate": {"n": "sum(s.name)"}}, ["s.name", "numbers"]),
        ({"aggregate": {"n": "max(s.name)"}}, ["s.name", "order"]),
        ({"aggregate": {"n": "count(*)"}, "select": "s.a"}, ["s.a", "aggregate"]),
        ({"aggregate": {"id": "count(*)"}}, ["id", "name"]),
        ({"take": "latest"}, ["latest", "backward", "min_by"]),
        ({"take": "min_by(s.a, 0)"}, ["k=0", "from 1"]),
        ({"take": sj.max_by("s.name")}, ["s.name", "order"]),
        ({"take": sj.max_by("s.b")}, ["max_by", "s has no column", "known"]),
        ({"select": "r.id + 1"}, ["r.id + 1", "AS name"]),
        ({"aggregate": "count(*) AS n, sum(s.a) AS n"}, ["two columns named n", "another name"]),
        ({"aggregate": "count(*), sum(s.a) AS n"}, ["'count(*), sum(s.a) AS n' must name columns"]),
        ({"select": "r.id, "}, ["comma"]),
        ({"select": "r.id AS y, s.id AS y"}, ["two columns named y", "AS"]),
        ({"select": "r.id, s.id"}, ["two columns named id", "AS"]),
        ({"select": []}, ["select", "list"]),
    ],
)
def test_what_does_not_go_together_is_refused_by_name(options: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(StreamjoinError) as caught:
        schema(**options)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_words_of_other_libraries() -> None:
    table = R.empty_table()
    words = {"tolerance": "within", "strategy": "take", "direction": "take", "allow_exact_matches": 'closed="left"'}
    words |= dict.fromkeys(("by", "left_by", "right_by", "by_left", "by_right"), "on=")
    words |= dict.fromkeys(("left_on", "right_on"), "time=")
    assert words.keys() == ELSEWHERE.keys()
    for word, ours in words.items():
        foreign: dict[str, Any] = {word: 1}
        with pytest.raises(TypeError, match=ours):
            sj.join(table, table, on="TRUE", within=1, time="t", **foreign)


def test_schemas() -> None:
    both = ["t_r", "id_r", "x", "tags", "t_s", "id_s", "a", "name"]
    for how in ("inner", "left", "right", "full"):
        assert list(schema(how=how)) == both
    assert list(schema(how="anti")) == R.names
    assert schema(select="s.name, r.id, s.id AS o, r.x - s.id AS d, r.tags AS l") == {
        "name": "string", "id": "int32", "o": "int32", "d": "float", "l": "list<item: int8>"
    }  # fmt: skip
    wanted = "count(*) AS n, sum(s.a) AS total, avg(s.a) AS mean, max(s.id) AS top, min_by(s.name, s.a) AS first"
    assert schema(aggregate=wanted, select="r.id") == {
        "id": "int32", "n": "int64", "total": "decimal128(19, 2)", "mean": "decimal128(13, 6)", "top": "int32",
        "first": "string",
    }  # fmt: skip


def test_unmatched_columns_may_be_null() -> None:
    for how, nullable in {"inner": False, "left": False, "right": True, "full": True}.items():
        plan = make_plan(R, S, Options(on="r.id = s.id", within=10, time="t", how=how))
        assert result_schema(plan).field("t_r").nullable is nullable
