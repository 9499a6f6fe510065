"""Rows without a partner, in the situations in which other systems have handed out wrong ones."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import streamjoin as sj

SCHEMA = pa.schema([("t", pa.int64()), ("x", pa.int64()), ("id", pa.int64())])
ENGINES: dict[str, dict[str, Any]] = {
    "kang": {},
    "low_latency": {"workers": 2},
    "grid": {"workers": 2, "layout": (2, 1)},
    "biclique": {"workers": 2},
}
each_engine = pytest.mark.parametrize("algorithm", ENGINES)


def opened(algorithm: str, how: str = "left", **options: Any) -> sj.Join:
    on = "abs(r.x - s.x) <= 1"
    more = {**ENGINES[algorithm], **options}
    return sj.Join(r=SCHEMA, s=SCHEMA, on=on, within=10, time="t", how=how, algorithm=algorithm, **more)


def row(t: int, x: int, number: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array([value]) for value in (t, x, number)], schema=SCHEMA)


def pairs(join: sj.Join) -> list[tuple[int | None, int | None]]:
    """What there is to poll, as the numbers of both tuples."""
    found = [(out["id_r"], out["id_s"]) for batch in join.poll() for out in batch.to_pylist()]
    return sorted(found, key=str)


@each_engine
def test_no_row_of_nulls_before_the_partner(algorithm: str) -> None:
    """Kafka Streams handed out (r, null) at once and the pair later (KAFKA-10847)."""
    with opened(algorithm, "full") as join:
        join.push_r(row(0, 5, 1))
        join.push_s(row(7, 50, 2))
        assert pairs(join) == []
        join.push_s(row(9, 5, 3))
        join.close()
        assert pairs(join) == [(1, 3), (None, 2)]


@each_engine
def test_no_row_of_nulls_after_the_partner(algorithm: str) -> None:
    """Spark handed out (r, null) when it evicted an r whose pair had come out in an earlier batch (SPARK-26154)."""
    with opened(algorithm, "full") as join:
        join.push_r(row(0, 5, 1))
        join.push_s(row(1, 5, 2))
        found = pairs(join)
        for t in (100, 200):
            join.push_r(row(t, 90, t))
            join.push_s(row(t, -90, t + 1))
            found += pairs(join)
        join.close()
        found += pairs(join)
    assert sorted(found, key=str) == [(1, 2), (100, None), (200, None), (None, 101), (None, 201)]


@each_engine
def test_a_late_partner_contradicts_nothing(algorithm: str) -> None:
    """r has come out without a partner; an s that would have matched comes later than allowed (Spark, pull 58238)."""
    with opened(algorithm) as join:
        join.push_r(row(0, 5, 1))
        join.push_s(row(100, 90, 2))
        join.push_s(row(3, 5, 3))
        join.close()
        assert pairs(join) == [(1, None)]
        assert join.stats()["s"]["late"] == 1


@each_engine
@pytest.mark.parametrize("how", ["left", "right", "full", "anti"])
def test_copies_of_a_tuple_are_one_tuple(algorithm: str, how: str) -> None:
    """Where a tuple goes to several workers, each of them may find no partner; still one row comes out."""
    with opened(algorithm, how) as join:
        for number in range(40):
            join.push_r(row(number, 2 * number, number))
            join.push_s(row(number, 2 * number + (0 if number % 4 else 1000), number))
        join.close()
        found = [out for batch in join.poll() for out in batch.to_pylist()]
    matched = [number for number in range(40) if number % 4]
    alone = [number for number in range(40) if not number % 4]
    if how == "anti":
        assert sorted(out["id"] for out in found) == alone
        return
    got = sorted(((out["id_r"], out["id_s"]) for out in found), key=str)
    left = [(number, None) for number in alone] if how != "right" else []
    right = [(None, number) for number in alone] if how != "left" else []
    assert got == sorted([*[(number, number) for number in matched], *left, *right], key=str)
