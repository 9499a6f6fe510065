"""What live joins keep of undecided tuples, and what their figures say; the results are the oracle's matter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.codegen.intrinsics import record_at
from streamjoin.codegen.jit import njit
from streamjoin.live import versions
from streamjoin.results import undecided
from streamjoin.results.output import Output
from streamjoin.results.undecided import Undecided
from streamjoin.results.undecided_kernels import Waitlist, put_earlier
from streamjoin.testing.cases import BY_NAME
from streamjoin.testing.kinds import BY_TIME
from streamjoin.testing.oracle import Everything
from streamjoin.testing.strategies import stream_joins

R = pa.schema({"ts": pa.int64(), "x": pa.int64()})
S = pa.schema({"ts": pa.int64(), "a": pa.int64()})
COUNT = {"n": "count(*)", "best": "min_by(s.ts, s.a)"}
KINDS: list[dict[str, Any]] = [
    {"how": "left"},
    {"how": "full"},
    {"how": "semi"},
    {"how": "anti"},
    {"how": "left", "take": "backward"},
    {"how": "left", "take": sj.max_by("s.a", k=2)},
    {"how": "left", "aggregate": COUNT},
]


def live(on: str = "r.x = s.a", within: Any = 10, **options: Any) -> sj.Join:
    return sj.Join(r=R, s=S, on=on, within=within, time="ts", **options)


def rows(join: sj.Join) -> list[dict[str, object]]:
    return [row for batch in join.poll() for row in batch.to_pylist()]


@njit
def hasten(address, positions, due):
    waiting = record_at(address, Waitlist)
    for k in range(len(positions)):
        put_earlier(waiting, positions[k], due)


@given(
    steps=st.lists(
        st.tuples(st.lists(st.integers(-3, 12), max_size=9), st.integers(0, 20), st.integers(0, 40)), max_size=12
    ),
    block=st.sampled_from([1, 2, 8]),
)
def test_who_waits_no_longer(steps: list[tuple[list[int], int, int]], block: int) -> None:
    """Against a list: tuples that are due, those that are hastened, and blocks that are forgotten."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(undecided, "BLOCK", block)
        waiting, known, place = Undecided(head=(np.int64, -1)), dict[int, int](), 0
        for ends, passed, below in steps:
            due = np.array(ends, np.int64) + place
            known |= {waiting.next + k: int(end) for k, end in enumerate(due)}
            waiting.append(due, due + 1)
            hastened = [number for number in known if number % 3 == 0 and known[number] > place]
            waiting.expect(len(hastened))
            hasten(waiting.address, np.array(hastened, np.int64) - waiting.first, place)
            known |= dict.fromkeys(hastened, place)
            place += passed
            assert waiting.due(place) or not any(end < place for end in known.values())
            now = waiting.settle(place, below, ended=False) + waiting.first
            assert sorted(now.tolist()) == [number for number, end in known.items() if end < place and number < below]
            for number in now.tolist():
                del known[number]
            assert waiting.held == len(known)
            waiting.forget(below)
            assert waiting.first <= min(known, default=waiting.next)
        left = waiting.settle(place, waiting.next, ended=True) + waiting.first
        assert left.tolist() == list(known)


@pytest.mark.parametrize("kind", [*KINDS, {"take": "nearest"}, {"take": "forward", "how": "left"}], ids=str)
@pytest.mark.parametrize(
    "more", [{}, {"within": sj.interval(-9, 2), "max_delay": 4}, {"within": sj.tumbling(8)}], ids=str
)
def test_a_push_that_decides_nothing_may_settle_nothing(
    kind: dict[str, Any], more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes out after each push is what comes out if every push settles all that it can."""
    rng = np.random.default_rng(8)
    pushes, now = [], [0, 0]
    for _ in range(60):
        side, size = int(rng.integers(2)), int(rng.integers(1, 6))
        times = np.sort(now[side] + rng.integers(0, 5, size))
        now[side] = int(times[-1])
        columns = {"ts": times, "xa"[side]: rng.integers(0, 4, size)}
        pushes.append(("rs"[side], pa.RecordBatch.from_pydict(columns)))

    def run() -> tuple[list[list[str]], int]:
        out, steps = [], 0
        with live("r.x = s.a", **kind, **more) as join:
            move_on = join._output._move_on

            def counted(*args: Any) -> None:
                nonlocal steps
                steps += 1
                move_on(*args)

            monkeypatch.setattr(join._output, "_move_on", counted)
            for side, batch in pushes:
                (join.push_r if side == "r" else join.push_s)(batch)
                out.append(sorted(map(str, rows(join))))
        return [*out, sorted(map(str, rows(join)))], steps

    found, few = run()
    monkeypatch.setattr(Output, "concerned", lambda *_: True)
    every, many = run()
    assert found == every
    assert few < many or "Tumbling" in str(more)  # slices have no short way in


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_memory_is_that_of_the_windows(kind: dict[str, Any]) -> None:
    """Whether anything matches or not: rows, times and what is known of tuples go when their windows have passed."""
    with live("r.x = s.a AND r.x % 3 > 0", ordered=True, **kind) as join:
        for start in range(0, 60_000, 600):
            ids = np.arange(start, start + 600)
            join.push_r({"ts": ids, "x": np.where(ids % 7 == 0, ids, -2)})
            join.push_s({"ts": ids, "a": ids})
            rows(join)
            output = join._output
            assert output._stage is not None
            waiting = output._stage._waiting.values()
            assert max(len(times._values) for times in output._times) < 12_000
            assert max(len(part["due"]) for each in waiting for part in (each.members, each.others)) < 20_000
            assert sum(side.nbytes for side in output.sides) < 300_000


def test_figures() -> None:
    """How many rows came out alone, and how many tuples are held back."""
    with live("r.x = s.a AND r.x > 0", how="left") as join:
        join.push_r({"ts": [1, 2, 3], "x": [7, 8, 0]})
        join.push_s({"ts": [4], "a": [7]})
        stats = join.stats()
        assert (stats["unmatched"], stats["held_back"]) == (0, 2)
        join.advance(s=14)  # past the window of the tuple at 3, which no s can match, and of the one at 2
        assert [(row["ts_r"], row["ts_s"]) for row in rows(join)] == [(1, 4), (2, None), (3, None)]
        stats = join.stats()
        assert (stats["unmatched"], stats["held_back"], stats["results"]) == (2, 0, 3)


def test_inner_joins_have_no_such_figures() -> None:
    with live() as join:
        assert not {"unmatched", "held_back"} & join.stats().keys()


def test_promises_wait_for_windows_of_rows() -> None:
    """An unmatched tuple has its own time there: no punctuation passes it before it has left its window."""
    with live(within=sj.last(2), how="left", punctuations=True) as join:
        join.push_r({"ts": [1], "x": [7]})
        join.push_s({"ts": [50], "a": [8]})
        join.push_r({"ts": [60], "x": [9]})
        assert [item.time for item in join.poll()] == [1]
        join.push_r({"ts": [61, 62], "x": [9, 9]})
        out = list(join.poll())
        assert [row["ts_r"] for batch in out if isinstance(batch, pa.RecordBatch) for row in batch.to_pylist()] == [
            1,
            60,
        ]
        assert out[-1].time == 50


def test_what_nobody_needs_is_not_kept() -> None:
    schema = pa.schema([*S, ("text", pa.string())])
    kinds: list[tuple[dict[str, Any], int]] = [
        ({"how": "anti"}, 0),
        ({"select": "r.x, s.ts"}, 8 * 1_000),
        ({"aggregate": COUNT}, 16 * 1_000),
    ]
    for kind, kept in kinds:
        with sj.Join(r=R, s=schema, on="r.x = s.a", within=10, time="ts", **kind) as join:
            ids = np.arange(1_000)
            join.push_s({"ts": ids, "a": ids, "text": ["some text"] * 1_000})
            assert kept <= join.stats()["s"]["payload_bytes"] <= 1.1 * kept


def test_explained() -> None:
    text = str(sj.explain(R, S, on="r.x = s.a", within=sj.interval(-5, 10), time="ts", how="full"))
    assert "an r without a partner when s has passed r.time + 10" in text
    assert "an s without a partner when r has passed s.time + 5" in text
    assert "advance()" in text


@pytest.mark.parametrize("algorithm", ["kang", "low_latency"])
@given(data=st.data())
def test_versions_are_carried_on(algorithm: str, data: st.DataObject) -> None:
    """No window: whenever three tuples of s have come, those that are still needed come again."""
    kinds = [kind for kind in BY_TIME if kind.take == "backward"]
    join = data.draw(stream_joins([BY_NAME["equality"]], st.just(Everything()), kinds=kinds))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(versions, "FEWEST", 3)
        watched = join.watch(sj.Join(**join.options, algorithm=algorithm))
    join.verify([item for _, item in watched])
    join.verify_moments(watched)


def test_one_version_per_key_is_kept() -> None:
    with sj.Join(r=R, s=S, on="r.x = s.a", time="ts", take="backward") as join:
        join.push_s({"ts": [0], "a": [-1]})
        for start in range(0, 60_000, 1_000):
            ids = np.arange(start, start + 1_000)
            join.push_r({"ts": ids, "x": ids % 500})
            join.push_s({"ts": ids, "a": ids % 500})
            rows(join)
            stats = join.stats()
            assert stats["r"]["window"] + stats["s"]["window"] < 8_000
            assert stats["s"]["payload_bytes"] < 16 * 10_000
        assert stats["s"]["pushed"] == 60_001
        join.push_r({"ts": [60_000], "x": [-1]})
        join.advance(s=70_000)
        assert {"ts_r": 60_000, "x": -1, "ts_s": 0, "a": -1} in rows(join)


def test_without_a_window_only_equalities() -> None:
    with pytest.raises(sj.WindowError, match="one version per key"):
        sj.Join(r=R, s=S, on="r.x = s.a AND r.ts > s.ts + 5", time="ts", take="backward")


def test_a_choice_by_time_needs_times() -> None:
    with pytest.raises(sj.WindowError, match='take="backward" goes by time'):
        sj.Join(r=R, s=S, on="r.x = s.a", within=sj.last(3), take="backward")


def test_a_sum_that_overflows_names_its_row() -> None:
    """The row of the stream, however many before it have been forgotten."""
    ids, large = np.arange(20_000), 2**62
    join = live(aggregate={"t": "sum(s.a)"})
    for start in range(0, 20_000, 500):
        join.push_r({"ts": ids[start : start + 500], "x": ids[start : start + 500]})
        join.push_s({"ts": ids[start : start + 500], "a": ids[start : start + 500]})
    join.push_r({"ts": [20_000] * 4, "x": [1, 2, 3, large]})
    join.push_s({"ts": [20_000] * 3, "a": [large] * 3})
    with pytest.raises(sj.DataError, match=r"sum.* of row 20003 of r"):
        join.advance(r=20_100, s=20_100)


def test_no_window_in_words() -> None:
    text = str(sj.explain(R, S, on="r.x = s.a", time="ts", take="backward"))
    assert "window      none: one version of s per key" in text
    assert "every pair" not in text
