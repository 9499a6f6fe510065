"""Exactly once, whoever is killed: drivers, executors and Python workers get SIGKILL, caches vanish, while files come.

In the suite an executor is killed, with the cache, and a driver; under `make soak` a hundred of each. One query and its
checkpoint take them all.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

import psutil
import pytest

from profiles import SOAK, soak_only
from spark_victim import KINDS
from victims import COMMITTED, SINK, STATE, Victim

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TRIES = 30  # until a kill hits a task
CACHE = "cache and "
HELD = 0.7  # seconds that a process stands still before it dies, so that a task waits for it


@pytest.fixture
def kills(soak: bool) -> int:
    random.seed(None if soak else 7)
    return 100 if soak else 1


@pytest.fixture
def victim(tmp_path: Path, kills: int, request: pytest.FixtureRequest) -> Iterator[Victim]:
    found = Victim(tmp_path, 20 * kills + 20, *request.param)
    yield found
    found.end()


def wait_for_a_moment(victim: Victim) -> None:
    """Until somewhere in a micro-batch."""
    victim.wait_for(lambda: victim.phase() != COMMITTED)
    time.sleep(random.uniform(0, victim.batch_seconds()))


def strike(victim: Victim, kind: str) -> None:
    if kind.startswith(CACHE):  # without the kill, nobody would read what is no longer there
        shutil.rmtree(victim.chunks, ignore_errors=True)
    victim.wait_for(lambda: kill_one(getattr(victim, kind.removeprefix(CACHE))()))


def kill_one(processes: list[psutil.Process]) -> bool:
    """Stops one of them wherever it is, and kills it when somebody has come to wait for it: tasks are short."""
    try:
        chosen = random.choice(processes)
        chosen.suspend()
        time.sleep(HELD)
        chosen.kill()
    except (IndexError, psutil.NoSuchProcess):
        return False
    return True


def strikes(victim: Victim, kind: str) -> bool:
    """Kills one, and says whether a task was lost with it."""
    lost, before = victim.lost_tasks(), victim.commits()
    victim.feed(2)
    wait_for_a_moment(victim)
    strike(victim, kind)
    victim.wait_for(lambda: victim.commits() > before + 1)
    return victim.lost_tasks() > lost


EXECUTORS = 2 if SOAK else 1


@pytest.mark.parametrize(
    "victim", [("--tables", "--master", f"local-cluster[{EXECUTORS},1,1024]")], indirect=True, ids=[""]
)
def test_workers_and_executors_are_killed_and_the_cache_is_wiped(victim: Victim, kills: int, soak: bool) -> None:
    kinds = (f"{CACHE}workers", "executors", "workers") if soak else (f"{CACHE}executors",)
    victim.wait_for(lambda: victim.commits() > 0)
    for kind in kinds * kills:
        assert any(strikes(victim, kind) for _ in range(TRIES)), f"{kind}: no kill hit a task"
    for _ in range(TRIES):
        if misses(victim):
            break
        strikes(victim, kinds[0])  # what was read from the state may have been counted by a task that was killed
    victim.finish()
    victim.check()
    assert misses(victim)


def misses(victim: Victim) -> int:
    """Chunks that were not in the cache, as far as micro-batches have reported it."""
    return sum(batch["cache_misses"] for batch in victim.figures())


@soak_only
@pytest.mark.parametrize("victim", [("--kinds", ",".join(KINDS), "--master", "local[2, 4]")], indirect=True, ids=[""])
def test_what_is_decided_comes_out_once(victim: Victim, kills: int) -> None:
    """left, anti, take and aggregate in one query, while its driver and its Python workers are killed by turns."""
    for who in islice(cycle(("driver", "workers")), kills):
        before = victim.commits()
        victim.feed()  # all that was fed before may have been processed
        victim.wait_for(lambda before=before: victim.commits() > before)  # type: ignore[misc]
        victim.feed(2)
        wait_for_a_moment(victim)
        if who == "driver":
            victim.kill()
            victim.start()
        else:
            strike(victim, who)
    victim.finish()
    victim.check()


@pytest.mark.parametrize(
    "victim",
    [
        pytest.param(("--master", "local[2, 4]"), marks=soak_only, id="inner"),
        pytest.param(("--kinds", "left", "--master", "local[2, 4]"), id="left"),  # tasks may be tried again
    ],
    indirect=True,
)
def test_the_driver_is_killed(victim: Victim, kills: int) -> None:
    """First when the state is committed and the sink is not: then our state of before must give the same results."""
    for aim in islice(cycle((STATE, SINK, None)), kills):
        before = victim.commits()
        victim.wait_for(lambda before=before: victim.commits() > before)  # type: ignore[misc]
        if aim:
            stop_between(victim, aim)
            assert victim.phase() == aim
        else:
            victim.feed(2)
            wait_for_a_moment(victim)
        victim.kill()
        assert victim.phase() == aim or aim is None
        victim.feed()
        victim.start()
    victim.finish()
    victim.check()


def stop_between(victim: Victim, aim: str) -> None:
    """Has the driver stand still at a moment that lasts some milliseconds: a look, a stop, and a second look."""
    java = victim.java()
    for _ in range(50):
        victim.feed()
        victim.wait_for(lambda: victim.phase() not in (COMMITTED, aim))
        victim.wait_for(lambda: victim.phase() in (COMMITTED, aim), step=0.0005)
        java.suspend()
        if victim.phase() == aim:
            return
        java.resume()
    pytest.fail(f"no micro-batch was caught when its {aim}")
