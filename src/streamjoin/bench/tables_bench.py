"""Two whole tables: the named jobs, by streamjoin and by other engines, each in a process of its own, in turns.

All results are compared before any figure is given out. The best call of each engine counts, and the first one of its
process beside it.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from types import TracebackType
from typing import Any

from streamjoin.bench.contestant import OURS
from streamjoin.bench.jobs import JOBS
from streamjoin.bench.yardsticks import PEERS
from streamjoin.errors import OptionError, StreamjoinError
from streamjoin.machine import machine
from streamjoin.papers import MICROSECONDS

ENGINES = (OURS, *PEERS)
WARM_ROWS = 100_000

Note = Callable[[str], None]


class TimeLimitError(StreamjoinError):
    """An engine exceeded the time limit of a call."""


class Contestant:
    """A process with one engine and one job's tables."""

    def __init__(self, job: str, rows: int, engine: str, limit: float) -> None:
        self.what = f"{engine} with {job}"
        self._limit = limit
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed at the end)
        command = [sys.executable, "-m", "streamjoin.bench.contestant", job, str(rows), engine]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True
        )

    def call(self) -> dict[str, Any]:
        """The figures of one more call."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], self._limit)[0]:
            raise TimeLimitError(f"{self.what} took more than {self._limit:g} s")
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            raise StreamjoinError(f"{self.what} failed: {self._errors.read()[-2000:]}")
        return dict(json.loads(line))

    def __enter__(self) -> Contestant:
        try:
            self._answer()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """Ends the process, whatever it does."""
        self._process.kill()
        self._process.communicate()
        self._errors.close()


def chosen_engines(names: Sequence[str] | None) -> tuple[str, ...]:
    """The engines to measure: those that are named, or all that are installed. Ours is always one of them."""
    if names is None:
        return tuple(name for name in ENGINES if find_spec(name))
    for name in names:
        if name not in ENGINES:
            raise OptionError(f'"{name}" is not one of the engines {", ".join(ENGINES)}')
        if not find_spec(name):
            raise OptionError(f"{name} is not installed; install the peers with: pip install 'streamjoin[peers]'")
    return (OURS, *(name for name in names if name != OURS))


def chosen_jobs(names: Sequence[str]) -> tuple[str, ...]:
    """The jobs by name; "all" is every one."""
    for name in names:
        if name not in (*JOBS, "all"):
            raise OptionError(f'"{name}" is not one of the jobs {", ".join(JOBS)}, all')
    return tuple(JOBS) if "all" in names else tuple(names)


def tables(
    jobs: Sequence[str] = ("band2d",),
    rows: int = 1_000_000,
    rounds: int = 5,
    engines: Sequence[str] | None = None,
    limit: float = 120.0,
    note: Note = lambda text: None,
) -> dict[str, Any]:
    """The jobs' figures by engine, and the ratios of the peers' times to ours."""
    chosen = chosen_engines(engines)
    runs = []
    for job in chosen_jobs(jobs):
        runs += _measured(job, rows, rounds, chosen, limit, note)
    figures: dict[str, Any] = {
        "machine": machine() | {"engines": {name: _version(name) for name in chosen}},
        "runs": runs,
        "ratios": _ratios(runs),
    }
    return figures | _summary(runs) if len(jobs) == 1 and jobs[0] in JOBS else figures


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _measured(
    job: str, rows: int, rounds: int, engines: Sequence[str], limit: float, note: Note
) -> list[dict[str, Any]]:
    """One job by all engines that have a way to do it."""
    with suppress(TimeLimitError), Contestant(job, min(rows, WARM_ROWS), OURS, limit) as warm:
        warm.call()  # what is compiled here is in the cache for the process that is measured
    running = {}
    calls: dict[str, list[dict[str, Any]]] = {}
    with ExitStack() as stack:
        for engine in engines:
            if engine == OURS or PEERS[engine].takes(JOBS[job]):
                running[engine] = stack.enter_context(Contestant(job, rows, engine, limit))
                calls[engine] = []
        for turn in range(rounds):
            for engine, contestant in list(running.items()):
                try:
                    calls[engine].append(contestant.call())
                except TimeLimitError as error:
                    note(str(error))
                    running.pop(engine).end()  # or it would go on beside those that are measured
                    continue
                note(f"{job} {rows:,} rows, round {turn + 1}: {engine} {calls[engine][-1]['seconds']:.3f} s")
    prints = {engine: tuple(answers[0]["fingerprint"]) for engine, answers in calls.items() if answers}
    if len(set(prints.values())) > 1:
        raise StreamjoinError(f"the engines disagree about {job} (rows, sum of hashes): {prints}")
    same = True if len(prints) > 1 else None  # alone it was compared with nothing
    return [_run(job, rows, engine, answers, same) for engine, answers in calls.items()]


def _run(job: str, rows: int, engine: str, answers: list[dict[str, Any]], same: bool | None) -> dict[str, Any]:
    """The best of an engine's calls; without figures if it exceeded the time limit."""

    def best(name: str) -> Any:
        return min((answer[name] for answer in answers), default=None)

    return {
        "job": job,
        "rows": rows,
        "engine": engine,
        "seconds": best("seconds"),
        "first_seconds": answers[0]["seconds"] if answers else None,
        "cpu_seconds": best("cpu_seconds"),
        "peak_mb": max((answer["peak_mb"] for answer in answers), default=None),
        "rows_out": best("rows_out"),
        "same": same if answers else None,
    }


def _ratios(runs: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """By job and peer: its time in ours. Above 1 we win."""
    ours = {run["job"]: run["seconds"] for run in runs if run["engine"] == OURS}
    ratios: dict[str, dict[str, float]] = {job: {} for job in ours}
    for run in runs:
        if run["engine"] != OURS and run["seconds"] and ours[run["job"]]:
            ratios[run["job"]][run["engine"]] = run["seconds"] / ours[run["job"]]
    return ratios


def _summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """One job in short."""
    ours = next(run for run in runs if run["engine"] == OURS)
    peers = {run["engine"]: run["seconds"] for run in runs if run["engine"] != OURS}
    ratios = _ratios(runs)[ours["job"]]
    window = JOBS[ours["job"]].window
    return {
        "seconds": ours["seconds"],
        "rows": ours["rows_out"],
        "verified": bool(ours["same"]),
        "peer_seconds": peers,
        "ratio_to_best_peer": min(ratios.values(), default=None),
        "table_rows": ours["rows"],
        "window": None if window is None else f"{window / MICROSECONDS:g}s",
    }
