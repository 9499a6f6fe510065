"""A driver in a process of its own, to be killed: what it was fed, what it started, how far its micro-batch is."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import psutil

import spark_victim
from feeds import Folders
from streamjoin.testing import cases
from streamjoin.testing.oracle import Interval, Row, pairs

ROWS, PATIENCE = 16, 400.0  # rows of a file; seconds
PARTITIONS = 2
LAST, FAR = 10**9, 10**6  # number and time of rows that close all windows
RUNNING, STATE, SINK, COMMITTED = "running", "state committed", "sink committed", "committed"


class Victim:
    """A driver over two growing streams, and every process that it starts."""

    def __init__(self, folder: Path, files: int, *arguments: str) -> None:
        self.folder, self._arguments = folder, arguments
        self._kinds = arguments[arguments.index("--kinds") + 1].split(",") if "--kinds" in arguments else []
        self._feed = Folders(folder)
        self._rows = {side: cases.long_stream(side, 21, files * ROWS, 1, True) for side in "rs"}
        self._members: set[psutil.Process] = set()
        self._log = folder / "log"
        self.feed()
        self.start()

    def feed(self, files: int = 1) -> None:
        """The next file of both streams."""
        for _ in range(files):
            here = slice(self._feed.files * ROWS, (self._feed.files + 1) * ROWS)
            self._feed.add(*(self._rows[side][here] for side in "rs"))

    def start(self) -> None:
        environment = {"STREAMJOIN_CHUNKS": str(self.chunks), **os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, spark_victim.__file__, str(self.folder), *self._arguments]
        with self._log.open("ab") as log, (self.folder / "figures").open("ab") as figures:
            self._driver = psutil.Popen(command, env=environment, stdout=figures, stderr=log)

    @property
    def chunks(self) -> Path:
        return self.folder / "chunks"

    def family(self) -> list[psutil.Process]:
        """The driver and all that it started and that started from there."""
        try:
            found = [self._driver, *self._driver.children(recursive=True)]
        except psutil.NoSuchProcess:
            found = []
        self._members.update(found)
        return found

    def java(self) -> psutil.Process:
        """The driver's Java."""
        return next(member for member in self.family() if runs(member, "org.apache.spark.deploy.SparkSubmit"))

    def executors(self) -> list[psutil.Process]:
        """Those that have had a task, which started a Python. One that has just come would be killed in vain."""
        found = [member for member in self.family() if runs(member, "CoarseGrainedExecutorBackend")]
        return [member for member in found if _children(member)]

    def workers(self) -> list[psutil.Process]:
        """The processes that run Python code for tasks: children of a daemon, and named as it is."""
        daemons = [member for member in self.family() if runs(member, "pyspark.daemon")]
        return [member for member in daemons if any(member in _children(daemon) for daemon in daemons)]

    def kill(self) -> None:
        """SIGKILL for the driver. Executors and Python workers find out by themselves."""
        killed = [self.java(), self._driver]
        for member in killed:
            member.send_signal(signal.SIGKILL)
        psutil.wait_procs(killed, timeout=PATIENCE)

    def phase(self) -> str:
        """How far the newest micro-batch has come."""
        batch = _newest(self.folder / "checkpoint" / "offsets")
        if batch < 0 or (self.folder / "checkpoint" / "commits" / str(batch)).exists():
            return COMMITTED
        sink = self.folder / "out" / "_spark_metadata" / str(batch)
        if sink.exists() or sink.with_suffix(".compact").exists():
            return SINK
        operators = [self.folder / "checkpoint" / "state" / str(k) for k in range(max(1, len(self._kinds)))]
        state = [operator / str(part) / str(batch + 1) for operator in operators for part in range(PARTITIONS)]
        done = [any(path.with_suffix(kind).exists() for kind in (".changelog", ".zip")) for path in state]
        return STATE if all(done) else RUNNING

    def commits(self) -> int:
        return _newest(self.folder / "checkpoint" / "commits") + 1

    def wait_for(self, condition: Callable[[], bool], step: float = 0.02) -> None:
        looks = int(PATIENCE / step)  # not by the clock: all of this may have been stopped for minutes
        while not condition():
            assert self._driver.poll() is None, self._log.read_text()[-3000:]
            assert looks, "no progress"
            looks -= 1
            time.sleep(step)

    def finish(self) -> None:
        """Has the driver process what it was fed, and waits for its end."""
        if self._kinds:  # rows so much later that all others are decided
            self._feed.add(*([{**self._rows[side][0], f"{side}id": LAST, "t": FAR}] for side in "rs"))
        (self.folder / "last").touch()
        self.wait_for(lambda: (self.folder / "done").exists())
        self._driver.wait(PATIENCE)

    def end(self) -> None:
        """Kills whatever is left of all that was ever started."""
        self.family()
        left = [member for member in self._members if member.is_running()]
        for member in left:
            with suppress(psutil.NoSuchProcess):
                member.kill()
        psutil.wait_procs(left, timeout=PATIENCE)

    def figures(self) -> Iterator[dict[str, Any]]:
        """What the micro-batches reported."""
        whole = (self.folder / "figures").read_text().rpartition("\n")[0]
        return map(json.loads, whole.splitlines())

    def batch_seconds(self) -> float:
        """How long a micro-batch takes that nobody disturbs."""
        recent = [batch["batch_ms"] / 1000 for batch in self.figures()][-9:]
        return median(recent) if recent else 1.0

    def lost_tasks(self) -> int:
        return self._log.read_text(errors="replace").count("Lost task ")

    def check(self) -> None:
        """The results are those of the oracle, none missing, none twice."""
        count = (self._feed.files - bool(self._kinds)) * ROWS
        fed: list[tuple[str, Row]] = [(side, row) for side in "rs" for row in self._rows[side][:count]]
        case, window = cases.BY_NAME["band_2d"], Interval(-spark_victim.WITHIN, spark_victim.WITHIN)
        assert case.on == spark_victim.ON
        expected: list[Any] = pairs(fed, case.holds, window, ("t", "t"))
        if self._kinds:
            every = of_every_kind(expected, [row["rid"] for side, row in fed if side == "r"])
            expected = [row for row in every if row[0] in self._kinds]
        assert len(expected) > len(fed)
        found = json.loads((self.folder / "done").read_text())
        assert set(found) == ({"out", "tables"} if "--tables" in self._arguments else {"out"})
        for several in found.values():
            rows = [tuple(row) for row in several if LAST not in row]
            assert sorted(rows, key=str) == sorted(expected, key=str)


def of_every_kind(found: list[tuple[int, int]], rids: list[int]) -> list[tuple[Any, ...]]:
    """What the kinds of the victim give, in its columns, given the pairs."""
    partners: dict[int, list[int]] = {rid: [] for rid in rids}
    for rid, sid in found:
        partners[rid].append(sid)
    out: list[tuple[Any, ...]] = []
    for rid, sids in partners.items():
        out += [("left", rid, sid, None, None) for sid in sids or [None]]  # type: ignore[list-item]
        out += [] if sids else [("anti", rid, None, None, None)]
        out += [("take", rid, sid, None, None) for sid in sorted(sids)[-2:] or [None]]  # type: ignore[list-item]
        out += [("aggregate", rid, None, len(sids), sum(sids))] if sids else []
    return out


def _newest(folder: Path) -> int:
    try:
        return max((int(name) for name in os.listdir(folder) if name.isdigit()), default=-1)
    except FileNotFoundError:
        return -1


def runs(process: psutil.Process, what: str) -> bool:
    try:
        return any(what in word for word in process.cmdline())
    except psutil.NoSuchProcess:
        return False


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return list(process.children())
    except psutil.NoSuchProcess:
        return []
