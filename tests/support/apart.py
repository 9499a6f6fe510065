"""Tests marked `device` run in a process of their own: what a driver of OpenCL ends is one test, and not the run.

    pytest ──node id──▶ a pytest for one file, which waits for node ids ──reports──▶ pytest, as if they were its own

The other process serves until it ends, by itself or because a test takes too long; the next test gets a new one.
"""

from __future__ import annotations

import ast
import os
import select
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import pytest
from _pytest.runner import runtestprotocol

VARIABLE = "STREAMJOIN_TESTS_APART"  # the descriptors of a process that serves
PATIENCE = 600  # seconds for one test, in which everything may have to be compiled
START = 300  # seconds more for the first one


def set_up(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "device: runs in a process of its own, on an OpenCL device")
    if VARIABLE in os.environ:
        config.pluginmanager.register(Served(*map(int, os.environ.pop(VARIABLE).split(","))))
    else:
        sys.modules["pyopencl"] = None  # type: ignore[assignment]  # a test that needs it and is not marked fails
        config.pluginmanager.register(Apart())


class Served:
    """Inside the other process: runs the tests it is told to."""

    def __init__(self, ids: int, reports: int) -> None:
        self._ids, self._reports = os.fdopen(ids), os.fdopen(reports, "w")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        unfit = _no_device()
        for line in self._ids:
            item = items[line.rstrip("\n")]
            if unfit:
                item.add_marker(pytest.mark.skip(reason=unfit))
            found = runtestprotocol(item, log=False, nextitem=None)
            told = [item.config.hook.pytest_report_to_serializable(config=item.config, report=r) for r in found]
            print(repr(told), file=self._reports, flush=True)  # as JSON it would lose its tuples
        return True


def _no_device() -> str:
    """Why device tests cannot run here."""
    from streamjoin.device.devices import choose
    from streamjoin.errors import DeviceError

    try:
        choose(None)
    except DeviceError as error:
        return str(error)
    return ""


class Apart:
    """In the process of the run: hands marked tests over, and reports as they report."""

    def __init__(self) -> None:
        self._server: Server | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        if item.get_closest_marker("device") is None:
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in self._run(item):
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        # What the test before has set up was kept for this one, which has not needed it.
        item.session._setupstate.teardown_exact(nextitem)
        return True

    def _run(self, item: pytest.Item) -> list[Any]:
        if self._server is not None and self._server.path != item.path:
            self.pytest_unconfigure()
        if self._server is None:
            self._server = Server(item.path, item.config)
        answer = self._server.ask(item.nodeid)
        if isinstance(answer, list):
            return [item.config.hook.pytest_report_from_serializable(config=item.config, data=one) for one in answer]
        self._server = None
        keywords: dict[str, Literal[1]] = dict.fromkeys(item.keywords, 1)
        return [pytest.TestReport(item.nodeid, item.location, keywords, "failed", answer, "call")]

    def pytest_unconfigure(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None


class Server:
    """A process for the marked tests of one file."""

    def __init__(self, path: Path, config: pytest.Config) -> None:
        self.path = path
        self._patience = PATIENCE + START
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as the process
        ids, told = os.pipe()
        reports, tells = os.pipe()
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "--rootdir"]
        self._process = subprocess.Popen(
            [*command, str(config.rootpath), str(path)],
            cwd=config.invocation_params.dir,
            env=os.environ | {VARIABLE: f"{ids},{tells}"},
            pass_fds=(ids, tells),
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            start_new_session=True,
        )
        os.close(ids)
        os.close(tells)
        self._ids, self._reports = os.fdopen(told, "w"), os.fdopen(reports)

    def ask(self, nodeid: str) -> list[Any] | str:
        """The reports of a test, or how the process has ended."""
        patience, self._patience = self._patience, PATIENCE
        ended = f"took longer than {patience} s"
        try:
            print(nodeid, file=self._ids, flush=True)
            if select.select([self._reports], [], [], patience)[0]:
                line = self._reports.readline()
                if line.endswith("\n"):
                    found: list[Any] = ast.literal_eval(line)
                    return found
                ended = ""
        except BrokenPipeError:
            ended = ""
        code = self.close()
        self._output.seek(0)
        said = self._output.read().decode(errors="replace")[-2_000:]
        return f"the process of this test {ended or f'ended with {code}'}; it said:\n{said}"

    def close(self) -> int:
        """Ends it and whatever it has started. Returns its exit code, or the signal's number below zero."""
        for end in (self._ids, self._reports):
            with suppress(BrokenPipeError):
                end.close()
        try:
            return self._process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            return self._process.wait()
