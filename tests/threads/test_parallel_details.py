"""What users of worker threads rely on: failures are told, nothing hangs, nothing is lost silently, idle means idle."""

from __future__ import annotations

import gc
import os
import threading
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.errors import ClosedError, DataError, PredicateError, StreamjoinError

SCHEMA = pa.schema({"t": pa.int64(), "x": pa.int64()})
NEAR = "r.x BETWEEN s.x - 1 AND s.x + 1"
PARALLEL = ["cell", "biclique", "handshake", "low_latency", "grid"]


def make(on: Any = NEAR, within: Any = 1000, **options: Any) -> sj.Join:
    return sj.Join(r=SCHEMA, s=SCHEMA, on=on, within=within, time="t", **options)


def batch(first: int, count: int, value: int = 5) -> dict[str, np.ndarray]:
    return {"t": np.arange(first, first + count), "x": np.full(count, value)}


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("streamjoin-")]


def rows(join: sj.Join) -> int:
    return sum(item.num_rows for item in join.poll() if isinstance(item, pa.RecordBatch))


def push_and_wait(join: sj.Join, value: int) -> None:
    """The error may come with the second push, with a poll, or with close()."""
    join.push_r(batch(0, 3, value))
    join.push_s(batch(0, 3, value))
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        list(join.poll(0.05))
    join.close()


def push_often(join: sj.Join) -> None:
    for first in range(200, 2000, 200):
        join.push_s(batch(first, 200))


def push_and_fail() -> None:
    with make(algorithm="grid", workers=2) as join:
        join.push_r(batch(0, 10))
        raise KeyError("mine")


@pytest.mark.parametrize("algorithm", PARALLEL)
def test_a_predicate_that_fails_in_a_worker_stops_the_join_with_its_error(algorithm: str) -> None:
    huge = 3_000_000_000
    join = make(on="r.x * s.x + r.x * s.x > 7", algorithm=algorithm, workers=2, access="scan")
    with pytest.raises(DataError, match=r"r\.x"):
        push_and_wait(join, huge)
    with pytest.raises(ClosedError):
        join.push_r(batch(9, 1))
    join.close()
    assert not threads()


LIMITS = (1, 2)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("algorithm", ["biclique", "handshake"])
def test_a_function_that_raises_in_a_worker_stops_the_join(algorithm: str) -> None:
    join = make(on=lambda r, s: abs(r.x - s.x) <= LIMITS[r.x], algorithm=algorithm, workers=2)
    with pytest.raises(PredicateError, match="the predicate function raised an exception"):
        push_and_wait(join, 5)
    join.close()
    assert not threads()


@pytest.mark.parametrize("algorithm", PARALLEL)
def test_a_push_that_is_broken_off_does_not_keep_close_from_returning(
    algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while some workers have got the batch and others have not."""
    join = make(algorithm=algorithm, workers=2, access="scan")
    join.push_r(batch(0, 200))
    engine: Any = join._engine
    runtime, sent = engine.runtime, list[Any]()

    def once(real: Any) -> Any:
        def send(*arguments: Any, **options: Any) -> Any:
            if sent:
                raise KeyboardInterrupt
            sent.append(arguments)
            return real(*arguments, **options)

        return send

    for name in ("send", "feed"):
        monkeypatch.setattr(runtime, name, once(getattr(runtime, name)))
    with pytest.raises(KeyboardInterrupt):
        push_often(join)
    monkeypatch.undo()
    said = []

    def close() -> None:
        with pytest.raises(ClosedError, match=r"push_s\(\) was interrupted") as caught:
            join.close()
        said.append(caught)

    closing = threading.Thread(target=close, daemon=True)
    closing.start()
    closing.join(60)
    assert said and not threads()


def test_tables_that_are_broken_off_leave_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    from streamjoin.threads.runtime import Runtime

    calls = []
    real = Runtime.feed

    def feed(self: Any, *arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(self, *arguments)

    monkeypatch.setattr(Runtime, "feed", feed)
    table = pa.table(batch(0, 1000))
    with pytest.raises(KeyboardInterrupt):
        sj.join(table, table, on=NEAR, within=10, time="t", algorithm="biclique", workers=2)
    assert not threads()


@pytest.mark.parametrize("algorithm", PARALLEL)
def test_close_returns_without_a_push_and_twice(algorithm: str) -> None:
    join = make(algorithm=algorithm, workers=3)
    join.close()
    join.close()
    assert not threads() and rows(join) == 0


def test_an_error_inside_with_is_the_one_that_is_told() -> None:
    with pytest.raises(KeyError):
        push_and_fail()
    assert not threads()


def test_a_join_that_is_never_closed_leaves_no_threads() -> None:
    join = make(algorithm="low_latency", workers=3)
    join.push_r(batch(0, 10))
    del join
    gc.collect()
    deadline = time.monotonic() + 10
    while threads() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not threads()


def test_pinned_workers_stay_on_a_core_each() -> None:
    with make(algorithm="low_latency", workers=2, pin=True) as join:
        join.push_r(batch(0, 10))
        join.push_s(batch(0, 10))
        time.sleep(0.2)
        workers = [t for t in threading.enumerate() if t.name.startswith("streamjoin-worker-")]
        places = [os.sched_getaffinity(thread.native_id or 0) for thread in workers]
        assert all(len(place) == 1 for place in places)
        assert len(set().union(*places)) == min(len(workers), len(os.sched_getaffinity(0)))
    assert rows(join) == 100


def test_idle_workers_rest() -> None:
    with make(algorithm="low_latency", workers=7) as join:
        join.push_r(batch(0, 10))
        time.sleep(0.5)
        before = time.process_time()
        time.sleep(1.0)
        assert time.process_time() - before < 0.6


@pytest.mark.parametrize("algorithm", PARALLEL)
def test_what_is_shed_is_counted_and_what_is_taken_is_joined(algorithm: str) -> None:
    sent, size = 0, 4000
    with make(within=10**9, algorithm=algorithm, workers=2, access="scan", overload="shed") as join:
        for k in range(40):
            join.push_r(batch(k * size, size, k))
            sent += size
        held = join.stats()["r"]
        assert held["pushed"] + held["shed"] == sent
        assert held["pushed"] > 0


@pytest.mark.parametrize("algorithm", PARALLEL)
def test_a_window_that_grows_far_beyond_its_first_room(algorithm: str) -> None:
    count = 40_000
    random = np.random.default_rng(3)
    values = {side: random.integers(0, 200_000, count) for side in "rs"}
    with make(within=10**6, algorithm=algorithm, workers=2) as join:
        for begin in range(0, count, 5_000):
            part = slice(begin, begin + 5_000)
            times = np.arange(begin, begin + 5_000)
            join.push_r({"t": times, "x": values["r"][part]})
            join.push_s({"t": times, "x": values["s"][part]})
        join.close()
        found = rows(join)
    ordered = np.sort(values["s"])
    low = np.searchsorted(ordered, values["r"] - 1, side="left")
    assert found == int((np.searchsorted(ordered, values["r"] + 1, side="right") - low).sum())


def test_statistics_add_up() -> None:
    with make(algorithm="low_latency", workers=3, ordered=True) as join:
        for k in range(20):
            join.push_r(batch(k * 10, 10))
            join.push_s(batch(k * 10, 10))
        time.sleep(0.3)
        stats = join.stats()
        assert sum(worker["results"] for worker in stats["workers"]) == 200 * 200
        assert sum(worker["window_r"] for worker in stats["workers"]) == stats["r"]["window"] == 200
        assert stats["comparisons"] > 0 and stats["latency_ms"]["p99"] is not None
        assert stats["punctuation_lag"] == 0


@pytest.mark.parametrize(
    "options",
    [
        {"algorithm": "grid", "workers": 0},
        {"algorithm": "grid", "layout": (0, 2)},
        {"algorithm": "handshake", "layout": (1, 2)},
        {"algorithm": "handshake", "access": "band"},
        {"algorithm": "grid", "batch": 0},
        {"algorithm": "grid", "overload": "x"},
    ],
)
def test_options_that_make_no_sense_are_refused_before_any_thread_starts(options: dict[str, Any]) -> None:
    with pytest.raises(StreamjoinError):
        make(**options)
    assert not threads()
