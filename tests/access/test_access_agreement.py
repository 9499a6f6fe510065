"""Predicates whose bands or keys are easily got wrong: every access path must find what a look at every pair finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from profiles import SOAK
from streamjoin.predicate import as_tree
from streamjoin.testing.truth import evaluate_all

DAY = 86_400_000_000


def rows(side: str, x: Any, kind: pa.DataType) -> pa.Table:
    return pa.table({"t": pa.array([0] * len(x), pa.int64()), f"{side}x": pa.array(x, kind)})


def pushed(left: pa.Table, right: pa.Table, access: str, on: Any) -> int:
    with sj.Join(r=left.schema, s=right.schema, on=on, within=1, time="t", access=access) as join:
        join.push_r(left)
        join.push_s(right)
    return sum(batch.num_rows for batch in join.poll())


def counts(left: pa.Table, right: pa.Table, on: Any, accesses: tuple[str, ...], tables: bool = True) -> dict[str, int]:
    found = {}
    for access in accesses:
        if tables:
            found[f"tables by {access}"] = sj.join(left, right, on=on, within=1, time="t", access=access).num_rows
        found[f"streams by {access}"] = pushed(left, right, access, on)
    return found


MOVED: list[tuple[str, pa.DataType, Any, Any]] = [
    ("(r.rx + 1e18D) - (s.sx + 1e18D) <= 5", pa.float64(), 50.0, 0.0),
    ("r.rx - s.sx + 1e18D <= 1e18D", pa.float64(), 50.0, 0.0),
    ("abs((r.rx - 1e17D) - (s.sx - 1e17D)) <= 1", pa.float64(), 3.0, 0.0),
    ("(r.rx + 10000000000) - (s.sx + 10000000000) <= 5", pa.float32(), 500.0, 0.0),
    ("(r.rx + 1152921504606846976) - (s.sx + 1152921504606847076) <= 0", pa.int64(), 50, 0),
    ("r.rx - 1700000000000000000 - s.sx <= -1699999999999999950", pa.int64(), 40, 0),
    ("(r.rx - s.sx) * 1e-45F >= 0", pa.float32(), 1.4, 1.6),
    ("s.sx - r.rx >= 7", pa.float64(), float("nan"), 1.0),
    ("r.rx - s.sx <= 7", pa.float64(), float("inf"), float("inf")),
]


def truth(on: str, one: pa.Table, two: pa.Table) -> int:
    hidden = as_tree(f"({on}) OR r.rx <> r.rx")  # no band can be taken out of it
    (want,) = evaluate_all([hidden], one.schema, two.schema, one, two)
    return int(want.sum())


@pytest.mark.parametrize(("on", "kind", "left", "right"), MOVED if SOAK else MOVED[-1:])
def test_terms_moved_across_a_comparison(on: str, kind: pa.DataType, left: Any, right: Any) -> None:
    one, two = rows("r", [left], kind), rows("s", [right], kind)
    found = counts(one, two, on, ("scan", "band") if SOAK else ("band",), tables=SOAK)  # whose boxes are the same
    assert set(found.values()) == {truth(on, one, two)}


def test_terms_moved_across_many_comparisons_at_once() -> None:
    """Each holds for its own columns of the one pair, so together they do: a band that is too narrow loses it."""
    together = MOVED[:-1]
    texts = [on.replace("rx", f"rx{k}").replace("sx", f"sx{k}") for k, (on, *_) in enumerate(together)]
    one, two = (
        pa.table({"t": [0], f"{side}x": [0], **{f"{side}x{k}": pa.array([v], kind) for k, (v, kind) in enumerate(of)}})
        for side, of in (
            ("r", [(left, kind) for _, kind, left, _ in together]),
            ("s", [(right, kind) for _, kind, _, right in together]),
        )
    )
    on = " AND ".join(texts)
    assert truth(on, one, two) == 1
    assert sj.explain(one.schema, two.schema, on=on, within=1, time="t").to_dict()["residual"] == [], "all are bands"
    assert pushed(one, two, "band", on) == 1


FUNCTIONS = ("scan", "auto") if SOAK else ("auto",)  # which looks at fewer pairs, and asks the function of each


def test_a_function_computes_in_double_precision() -> None:
    f = np.float32(0.1)
    one, two = rows("r", [f], pa.float32()), rows("s", [float(f) * 3], pa.float64())
    assert set(counts(one, two, lambda r, s: r.rx * 3 == s.sx, FUNCTIONS).values()) == {1}


@pytest.mark.parametrize("on", [lambda r, s: r.rx == s.sx, lambda r, s: r.rx <= s.sx])
def test_a_function_sees_dates_and_timestamps_as_counts(on: Callable[..., Any]) -> None:
    one = rows("r", [5], pa.int32()).set_column(1, "rx", pa.array([5], pa.int32()).cast(pa.date32()))
    two = rows("s", [5], pa.timestamp("us"))
    assert set(counts(one, two, on, FUNCTIONS).values()) == {1}


def test_a_function_of_one_side() -> None:
    one, two = rows("r", [1, 5], pa.int64()), rows("s", [1, 2], pa.int64())
    assert set(counts(one, two, lambda r, s: r.rx > 3, FUNCTIONS).values()) == {2}


rx = np.array([1, 2])


def test_a_global_with_the_name_of_a_column() -> None:
    one, two = rows("r", [1, 5], pa.int64()), rows("s", [1, 2], pa.int64())
    assert set(counts(one, two, lambda r, s: r.rx <= s.sx, FUNCTIONS).values()) == {2}


def test_overflow_outside_of_the_window_is_nobodys_concern() -> None:
    big = 2**63 - 1
    one = pa.table({"t": [1, 1, 1], "x": [big, 0, 0]})
    two = pa.table({"t": [1, 1000], "y": [0, big]})
    on = "(r.x * s.y) * 2 > 5"
    for access in ("scan", "auto"):
        assert sj.join(one, two, on=on, within=10, time="t", access=access).num_rows == 0
    with pytest.raises(sj.DataError, match="overflow"):
        sj.join(one, two, on=on, within=1000, time="t")


def test_nanoseconds_of_every_kind_of_duration() -> None:
    pandas = pytest.importorskip("pandas")
    one = pa.table({"t": pa.array([0], pa.timestamp("ns"))})
    two = pa.table({"t": pa.array([1400], pa.timestamp("ns"))})
    durations: list[Any] = ["1500 ns", np.timedelta64(1500, "ns"), pandas.Timedelta("1500ns")]
    for within in durations:
        assert sj.join(one, two, on="TRUE", within=within, time="t").num_rows == 1
        assert sj.join(one, two, on="TRUE", within=sj.interval("0 s", within), time="t").num_rows == 1
    with sj.Join(r=one.schema, s=two.schema, on="TRUE", within="1 s", time="t", max_delay="500 ns") as join:
        join.push_r({"t": pa.array([1000, 600], pa.timestamp("ns"))})
    assert join.stats()["r"]["late"] == 0


def test_pandas_frames_with_any_index() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"t": [1, 2, 3], "x": [1.0, 2.0, 3.0]}, index=pandas.Index([7, 8, 9], name="t"))
    picked = frame[frame.x > 1]
    out = sj.join(picked, frame, on="r.x = s.x", within=5, time="t", ordered=True)
    assert out.x_r.tolist() == [2.0, 3.0] == out.x_s.tolist()
    assert out.index.tolist() == [0, 1]
