"""A Spark pipeline under signals: its process group, its Java and its Python workers; nothing stays, nothing is lost.

In the suite one pipeline loses its workers, is interrupted as by Ctrl-C, and is then brought to its end. With
HYPOTHESIS_PROFILE=soak every signal comes at every stage, and whoever may end first does.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamjoin as sj
from profiles import soak_only
from streamjoin.bench.demo import expected_pairs, verify
from streamjoin.papers import BAND, tuples

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PATIENCE = 300.0  # seconds; a busy machine may stand still for a minute
START = 1_767_225_600_000_000  # 2026-01-01, in microseconds
RATE, TUPLES, BATCH = 4_000, 12_000, 1_000
INTERRUPTED, HUNG_UP, TERMINATED = 130, 129, 143


class Command:
    """The real command, leader of its own process group as under a shell, and every process that came from it."""

    def __init__(self, folder: Path, *more: str) -> None:
        self._folder, self._mark = folder, f"STREAMJOIN_ATTACK={uuid.uuid4().hex}"
        word = f"generate://papers?rate={RATE}&tuples={TUPLES}&batch={BATCH}&pace=fast"
        words = ["join", "--engine", "spark", "--master", "local[2]", "--left", word, "--right", word, "--on", BAND]
        words += ["--within", "1 second", "--time", "ts", "--watermark", "1 second"]
        words += ["-o", str(folder / "out"), "--checkpoint", str(folder / "checkpoint"), *more]
        name, _, value = self._mark.partition("=")
        environment = {**os.environ, "PYTHONPATH": str(Path(sj.__file__).parents[1]), name: value}
        with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "streamjoin", *words],
                stdout=out,
                stderr=errors,
                env=environment,
                start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            )

    def family(self) -> list[psutil.Process]:
        """All that came from the command, whatever their groups and parents are now."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                environment = Path(f"/proc/{process.pid}/environ").read_bytes()
                if self._mark.encode() in environment and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def running(self, what: str) -> list[psutil.Process]:
        return [process for process in self.family() if any(what in word for word in _words(process))]

    def java(self) -> psutil.Process:
        return self.running("org.apache.spark.deploy.SparkSubmit")[0]

    def workers(self) -> list[psutil.Process]:
        daemons = {process.pid: process for process in self.running("pyspark.daemon")}
        return [process for process in daemons.values() if _parent(process) in daemons]

    def commits(self) -> int:
        try:
            names = os.listdir(self._folder / "checkpoint" / "commits")
        except FileNotFoundError:
            return 0
        return max((int(name) + 1 for name in names if name.isdigit()), default=0)

    def wait_for(self, condition: Callable[[], Any]) -> None:
        limit = time.monotonic() + PATIENCE
        while not condition():
            assert self.process.poll() is None, self.errors()
            assert time.monotonic() < limit, self.errors()
            time.sleep(0.05)

    def more_commits(self, count: int) -> None:
        wanted = self.commits() + count
        self.wait_for(lambda: self.commits() >= wanted)

    def signal_group(self, number: int) -> None:
        os.killpg(self.process.pid, number)

    def ended(self) -> tuple[int, str]:
        """Exit code and standard error; nobody of the family is left."""
        code = self.process.wait(PATIENCE)
        limit = time.monotonic() + 30
        while self.family() and time.monotonic() < limit:
            time.sleep(0.1)
        assert not self.family(), [_words(process)[:3] for process in self.family()]
        return code, self.errors()

    def errors(self) -> str:
        return (self._folder / "stderr").read_text()

    def said(self) -> dict[str, Any]:
        return dict(json.loads((self._folder / "stdout").read_text()))

    def end(self) -> None:
        for process in self.family():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait(PATIENCE)


def _words(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def _parent(process: psutil.Process) -> int:
    try:
        return int(process.ppid())
    except psutil.Error:
        return 0


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Command]]:
    """Starts the command in one folder, again and again; ends whatever a failed test leaves."""
    started = []

    def begin(*more: str) -> Command:
        started.append(Command(tmp_path, *more))
        return started[-1]

    yield begin
    for command in started:
        command.end()


LIVE = ("--trigger", "500 milliseconds", "--json")


def check_clean(errors: str) -> None:
    for word in ("Traceback", "unexpected", "Exception", "Py4J", "refused"):
        assert word not in errors, errors


def finish(start: Callable[..., Command], folder: Path) -> None:
    """The same command goes on to the end, and the output is what a look at every pair finds."""
    last = start("--available-now", "--json")
    code, errors = last.ended()
    assert code == 0, errors
    check_clean(errors)
    assert last.said()["finished"]
    r, s = (tuples(side, 0, TUPLES, RATE, start=START) for side in "rs")
    wanted = expected_pairs(r, s, 1_000_000)
    assert len(wanted) > 100
    verify(written(folder / "out"), wanted)


def written(folder: Path) -> np.ndarray[Any, Any]:
    """What is in the files that the sink's log names."""
    names: set[str] = set()
    for log in (folder / "_spark_metadata").iterdir():
        if not log.name.startswith("."):
            names.update(json.loads(line)["path"].rpartition("/")[2] for line in log.read_text().splitlines()[1:])
    tables = [pq.read_table(folder / name, columns=["ts_r", "ts_s"]) for name in sorted(names)]
    whole = pa.concat_tables(tables)
    columns = [whole[name].cast(pa.timestamp("us", "UTC")).cast("int64").to_numpy() for name in ("ts_r", "ts_s")]
    return np.stack(columns, axis=1)


def test_workers_killed_then_interrupted_and_all_results_are_there(
    start: Callable[..., Command], tmp_path: Path
) -> None:
    command = start(*LIVE)
    command.more_commits(1)
    for worker in command.workers():
        worker.kill()
    command.more_commits(2)
    command.signal_group(signal.SIGINT)
    code, errors = command.ended()
    assert code == INTERRUPTED, errors
    check_clean(errors)
    assert "the same command resumes" in errors
    assert not command.said()["finished"]

    finish(start, tmp_path)


STAGES: dict[str, Callable[[Command], Any]] = {
    "Java starts": lambda command: command.running("org.apache.spark.deploy.SparkSubmit"),
    "first batch": lambda command: "preparing the first batch" in command.errors(),
    "running": lambda command: command.commits() >= 2,
}


@soak_only
@pytest.mark.usefixtures("hang_up")
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, INTERRUPTED), (signal.SIGHUP, HUNG_UP), (signal.SIGTERM, TERMINATED)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_every_signal_at_every_stage(
    start: Callable[..., Command], tmp_path: Path, number: int, code: int, stage: str
) -> None:
    command = start(*LIVE)
    command.wait_for(lambda: STAGES[stage](command))
    command.signal_group(number)
    found, errors = command.ended()
    assert found == code, errors
    check_clean(errors)
    finish(start, tmp_path)


def both(command: Command) -> None:
    """As systemd ends a service: every process gets the signal."""
    command.java().terminate()
    command.process.terminate()


def twice(command: Command) -> None:
    command.signal_group(signal.SIGTERM)
    time.sleep(0.05)
    command.signal_group(signal.SIGTERM)


@soak_only
@pytest.mark.parametrize(
    ("strike", "code", "words"),
    [
        (lambda command: command.java().terminate(), 1, "the Java process of Spark was ended by SIGTERM"),
        (lambda command: command.java().kill(), 1, "the Java process of Spark was killed by SIGKILL"),
        (lambda command: command.java().send_signal(signal.SIGABRT), 1, "Java process of Spark was killed by SIGABRT"),
        (lambda command: command.process.kill(), -signal.SIGKILL, ""),
        (both, TERMINATED, "the same command resumes"),
        (twice, TERMINATED, ""),
    ],
    ids=["Java terminated", "Java killed", "Java crashed", "Python killed", "both terminated", "terminated twice"],
)
def test_whoever_ends_first(
    start: Callable[..., Command], tmp_path: Path, strike: Callable[[Command], None], code: int, words: str
) -> None:
    command = start(*LIVE)
    command.wait_for(lambda: command.commits() >= 2)
    strike(command)
    found, errors = command.ended()
    assert found == code, errors
    check_clean(errors)
    assert words in errors
    finish(start, tmp_path)


@soak_only
def test_what_nohup_ignores_stays_ignored(start: Callable[..., Command], tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        command = start("--available-now", "--json")
    finally:
        signal.signal(signal.SIGHUP, before)
    for stage in STAGES.values():
        command.wait_for(lambda stage=stage: stage(command))  # type: ignore[misc]
        command.signal_group(signal.SIGHUP)
    code, errors = command.ended()
    assert code == 0, errors
    finish(start, tmp_path)


@soak_only
def test_workers_die_and_a_master_that_tries_once_says_so(start: Callable[..., Command], tmp_path: Path) -> None:
    command = start(*LIVE, "--master", "local[2, 1]")
    command.more_commits(1)
    while command.process.poll() is None:
        for worker in command.workers():
            with suppress(psutil.NoSuchProcess):
                worker.kill()
        time.sleep(0.1)
    code, errors = command.ended()
    assert code == 1, errors
    assert "a Python worker" in errors and "local[2, 4]" in errors
    finish(start, tmp_path)
