"""Pushing, polling and closing from different threads: nothing is lost, doubled or torn."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from streamjoin.errors import ClosedError


def schema(side: str) -> pa.Schema:
    return pa.schema([(f"{side}id", pa.int64()), ("t", pa.int64()), ("x", pa.int64())])


def chunk(side: str, start: int, n: int) -> pa.RecordBatch:
    ids = np.arange(start, start + n)
    return pa.RecordBatch.from_arrays([pa.array(ids), pa.array(ids), pa.array(ids % 97)], schema=schema(side))


def expected(n: int, window: int) -> int:
    """Pairs with equal x and times at most `window` apart."""
    x = np.arange(n) % 97
    return sum(int((x[max(i - window, 0) : i + window + 1] == x[i]).sum()) for i in range(n))


def new_join(window: int = 300, **options: object) -> sj.Join:
    return sj.Join(r=schema("r"), s=schema("s"), on="r.x = s.x", within=window, time="t", **options)  # type: ignore[arg-type]


def test_several_threads_compile_the_same_predicate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them may see a generated module that another one is still making."""
    from numba.core import config as numba_config

    config: Any = numba_config

    before = config.CACHE_DIR
    monkeypatch.setenv("STREAMJOIN_CACHE", str(tmp_path / "cache"))
    tables = [pa.table({f"{side}id": [1], "t": [1], "x": [1]}) for side in "rs"]
    together = threading.Barrier(4)
    found = []

    def work() -> None:
        together.wait()
        found.append(sj.join(*tables, on="r.x * 3 = s.x + 2 AND r.t < 1234567", within=1, time="t").num_rows)

    threads, failures = start(*[work] * 4)
    for thread in threads:
        thread.join()
    assert found == [1] * 4 and not failures
    assert before == config.CACHE_DIR


def start(*work: Callable[[], object]) -> tuple[list[threading.Thread], list[BaseException]]:
    failures: list[BaseException] = []

    def guarded(f: Callable[[], object]) -> None:
        try:
            f()
        except BaseException as e:  # handed to the test's own thread
            failures.append(e)

    threads = [threading.Thread(target=guarded, args=(f,), daemon=True) for f in work]
    for t in threads:
        t.start()
    return threads, failures


def finish(threads: list[threading.Thread], failures: list[BaseException]) -> None:
    for t in threads:
        t.join(timeout=60)
        assert not t.is_alive(), "a thread hangs"
    if failures:
        raise failures[0]


N = 20_000


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("algorithm", ["kang", "cell", "biclique", "handshake", "low_latency", "grid"])
def test_two_pushers_and_a_poller(algorithm: str, ordered: bool) -> None:
    j = new_join(ordered=ordered, algorithm=algorithm)
    out: list[pa.RecordBatch] = []
    done = threading.Event()

    def push(side: str, size: int) -> None:
        for i in range(0, N, size):
            getattr(j, f"push_{side}")(chunk(side, i, min(size, N - i)))

    def poll() -> None:
        while not done.is_set():
            out.extend(j.poll())
            time.sleep(0.0005)

    pushers, failed = start(lambda: push("r", 128), lambda: push("s", 333))
    pollers, failed_polls = start(poll)
    finish(pushers, failed)
    j.close()
    done.set()
    finish(pollers, failed_polls)
    out.extend(j.poll())
    pairs = np.concatenate([np.stack([b["rid"].to_numpy(), b["sid"].to_numpy()], 1) for b in out if b.num_rows])
    assert len(pairs) == expected(N, 300) == j.stats()["results"]
    assert len(np.unique(pairs, axis=0)) == len(pairs)
    assert (abs(pairs[:, 0] - pairs[:, 1]) <= 300).all()
    assert (pairs[:, 0] % 97 == pairs[:, 1] % 97).all()
    if ordered:
        assert (np.diff(pairs.max(axis=1)) >= 0).all()


def test_several_pollers_share_the_results() -> None:
    j = new_join()
    done = threading.Event()
    shares: list[list[int]] = [[], [], []]

    def poll(mine: list[int]) -> None:
        while not done.is_set():
            mine.extend(b.num_rows for b in j.poll(0.001))

    pollers, failed = start(*(lambda m=m: poll(m) for m in shares))
    for i in range(0, N, 500):
        j.push_r(chunk("r", i, 500))
        j.push_s(chunk("s", i, 500))
    j.close()
    done.set()
    finish(pollers, failed)
    rest = sum(b.num_rows for b in j.poll())
    assert sum(map(sum, shares)) + rest == expected(N, 300)


def test_several_pushers_on_one_side() -> None:
    """With a wide max_delay the order among them does not matter."""
    j = new_join(max_delay=N)
    quarter = N // 4
    parts = [(side, k * quarter) for side in ("r", "s") for k in range(4)]

    def push(side: str, at: int) -> None:
        for i in range(0, quarter, 100):
            getattr(j, f"push_{side}")(chunk(side, at + i, 100))

    threads, failed = start(*(lambda side=side, at=at: push(side, at) for side, at in parts))
    finish(threads, failed)
    j.close()
    assert sum(b.num_rows for b in j.poll()) == expected(N, 300)
    assert j.stats()["r"]["late"] == j.stats()["s"]["late"] == 0


def test_close_while_polling_and_pushing() -> None:
    """Whoever pushes after the close gets ClosedError; everything accepted before it is handed out."""
    for _ in range(5):
        j = new_join()
        accepted = {"r": 0, "s": 0}
        seen = [0]
        stop = threading.Event()

        def push(side: str, j: sj.Join = j, accepted: dict[str, int] = accepted) -> None:
            for i in range(0, 10 * N, 50):
                try:
                    getattr(j, f"push_{side}")(chunk(side, i, 50))
                except ClosedError:
                    return
                accepted[side] = i + 50

        def poll(j: sj.Join = j, seen: list[int] = seen, stop: threading.Event = stop) -> None:
            while not stop.is_set():
                seen[0] += sum(b.num_rows for b in j.poll())

        threads, failed = start(lambda: push("r"), lambda: push("s"))
        pollers, failed_polls = start(poll)
        time.sleep(0.1)
        j.close()
        finish(threads, failed)
        stop.set()
        finish(pollers, failed_polls)
        seen[0] += sum(b.num_rows for b in j.poll())
        r, s = np.arange(accepted["r"]), np.arange(accepted["s"])
        want = sum(int((s[max(i - 300, 0) : i + 301] % 97 == i % 97).sum()) for i in r[: len(s) + 301])
        assert seen[0] == want == j.stats()["results"]


def test_stats_and_advance_meanwhile() -> None:
    j = new_join()
    stop = threading.Event()

    def look() -> None:
        last = 0
        while not stop.is_set():
            stats = j.stats()
            assert stats["results"] >= last
            last = stats["results"]

    threads, failed = start(look)
    for i in range(0, N, 500):
        j.push_r(chunk("r", i, 500))
        j.push_s(chunk("s", i, 500))
        j.advance(r=i + 500, s=i + 500)
    j.close()
    stop.set()
    finish(threads, failed)
    assert sum(b.num_rows for b in j.poll()) == expected(N, 300)


def test_leaving_the_block_closes() -> None:
    with new_join() as j:
        j.push_r(chunk("r", 0, 100))
        j.push_s(chunk("s", 0, 100))
    with pytest.raises(ClosedError):
        j.push_r(chunk("r", 100, 1))
    assert sum(b.num_rows for b in j.poll()) == expected(100, 300)


def test_an_exception_inside_the_block_closes_too() -> None:
    j = new_join()

    def fail_half_way() -> None:
        with j:
            j.push_r(chunk("r", 0, 10))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()
    with pytest.raises(ClosedError):
        j.push_r(chunk("r", 10, 1))
