"""Exactly once, whoever is killed: the driver and Python workers get SIGKILL while a join runs."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

import streams
from oracle import Interval, pairs
from test_spark_join import Feed

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BATCHES, ROWS, PATIENCE = 10, 40, 400.0


def start(folder: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "STREAMJOIN_CHUNKS": str(folder / "chunks")}
    environment["PYTHONPATH"] = os.pathsep.join([p for p in sys.path if p])
    victim = Path(__file__).with_name("spark_victim.py")
    quiet = subprocess.DEVNULL
    return subprocess.Popen([sys.executable, str(victim), str(folder)], env=environment, stdout=quiet, stderr=quiet)


def committed(folder: Path) -> int:
    return len([path for path in (folder / "checkpoint" / "commits").glob("*") if path.name.isdigit()])


def wait_for(condition: Any, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition() and process.poll() is None:
        assert time.monotonic() < deadline, "no progress"
        time.sleep(0.05)


def is_worker(process: psutil.Process) -> bool:
    """Does this process run Python code for tasks? Its parent, the daemon, only starts such processes."""
    try:
        return "pyspark.daemon" in " ".join(process.cmdline()) and not process.children()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False


def end(process: subprocess.Popen[bytes]) -> None:
    """Kills a driver together with the Java and Python processes that it started, and no others."""
    if process.poll() is None:
        family = psutil.Process(process.pid).children(recursive=True)
        for member in [psutil.Process(process.pid), *family]:
            try:
                member.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(family, timeout=30)
    process.wait(30)


def test_driver_and_workers_are_killed(spark: Any, tmp_path: Path) -> None:
    random.seed(7)
    case, window = streams.BY_NAME["band_2d"], Interval(-9, 9)
    rows = {side: streams.long_stream(side, 21, BATCHES * ROWS, 1, True) for side in "rs"}
    feed = Feed(spark, tmp_path)
    for start_row in range(0, BATCHES * ROWS, ROWS):
        feed.add(*(rows[side][start_row : start_row + ROWS] for side in "rs"))

    process = start(tmp_path)
    try:
        wait_for(lambda: committed(tmp_path) >= 2, process)
        for worker in [child for child in psutil.Process(process.pid).children(recursive=True) if is_worker(child)][:1]:
            worker.send_signal(signal.SIGKILL)
        after = committed(tmp_path) + 2
        wait_for(lambda: committed(tmp_path) >= after, process)
        time.sleep(random.random())
        end(process)  # anywhere between state commit and sink commit

        shutil.rmtree(tmp_path / "chunks")
        process = start(tmp_path)
        wait_for(lambda: (tmp_path / "done").exists(), process)
        process.wait(PATIENCE)
    finally:
        end(process)
    assert (tmp_path / "done").exists()
    arrivals = [(side, row) for side in "rs" for row in rows[side]]
    assert feed.pairs() == pairs(arrivals, case.holds, window, ("t", "t")).pairs
