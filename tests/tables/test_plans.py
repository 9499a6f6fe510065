"""Plans that are kept from call to call: the same one for the same question, another one for any other."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.options import Options
from streamjoin.tables import plans
from streamjoin.tables.plans import KEPT, plan_of

R = pa.schema({"ts": pa.int64(), "x": pa.int64()})
S = pa.schema({"us": pa.int64(), "a": pa.int64()})
ASKED: dict[str, Any] = {"on": "r.x = s.a", "within": 1, "time": ("ts", "us")}


def planned(r: pa.Schema = R, **options: Any) -> Any:
    return plan_of(r, S, Options(**{**ASKED, **options}))


def test_the_same_question_has_the_same_plan() -> None:
    assert planned() is planned()
    assert planned(stats={}, ordered=True) is planned()


@pytest.mark.parametrize(
    "other",
    [
        {"on": "r.x < s.a"},
        {"within": 2},
        {"within": None},
        {"time": None, "within": None},
        {"workers": 3},
        {"how": "left"},
        {"take": "nearest"},
        {"aggregate": {"n": "count(*)"}},
        {"select": "r.x"},
        {"suffixes": ("_1", "_2")},
        {"access": "scan"},
        {"r": R.with_metadata({"a": "b"})},
        {"r": pa.schema([R.field(0), R.field(1).with_metadata({"a": "b"})])},
        {"r": pa.schema([R.field(0), R.field(1).with_nullable(False)])},
        {"r": pa.schema({"ts": pa.int64(), "x": pa.int32()})},
    ],
    ids=str,
)
def test_another_question_has_another_plan(other: dict[str, Any]) -> None:
    plan = planned()
    assert planned(**other) is not plan
    assert planned() is plan


def test_a_function_is_planned_anew() -> None:
    """What it refers to may have changed."""
    limit = 1

    def near(r: Any, s: Any) -> Any:
        return abs(r.x - s.a) <= limit

    r, s = pa.table({"x": [1, 5]}), pa.table({"a": [3, 5]})
    assert sj.join(r, s, on=near).num_rows == 1
    limit = 2
    assert sj.join(r, s, on=near).num_rows == 3


def test_the_number_of_cores_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned()
    monkeypatch.setattr(plans, "usable_cores", lambda: 99)
    assert planned() is not plan


def test_what_was_not_asked_for_lately_is_forgotten() -> None:
    oldest = planned(on="r.x = s.a + 1")
    for k in range(KEPT):
        planned(on=f"r.x = s.a - {k}")
    assert len(plans._kept) == KEPT
    assert planned(on="r.x = s.a + 1") is not oldest


def test_an_error_is_an_error_again() -> None:
    for _ in range(2):
        with pytest.raises(sj.StreamjoinError, match="nothing"):
            planned(on="r.nothing = s.a")
