"""A second process that compiles a part of what a join is going to need.

Numba compiles one function at a time in a process. So a join names the functions that it needs, in order; where some
of them are missing from the cache, a helper compiles from the end of the list while this process begins at the front:

    this process   refine of r ─ refine of s ─ …        takes the next one from the front, and whatever it is asked for
    the helper                      … ─ find ─ insert   takes the last one, and keeps its machine code in the cache

All that comes back is a line that says that the helper is done with a function. Its machine code is found in the cache
folder like that of any other process, under the same digests; if it is not there, the function is compiled here.
So nothing depends on the helper: it may fail, be killed, or have other sources.
"""

from __future__ import annotations

import json
import linecache
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from streamjoin.folders import kept
from streamjoin.interrupts import Thread, start
from streamjoin.machine import usable_cores

LEAST = 2  # missing functions besides the one that is compiled here: fewer are compiled before a helper has started
PATIENCE = 120.0  # seconds for one function; then it is compiled here
IDLE = 60.0  # seconds that a helper waits for a task
NAP = 1e-3
START = "import json, sys; sys.path[:] = json.loads(sys.stdin.readline()); from {} import serve; serve()"


@dataclass(frozen=True)
class Kernel:
    """A function that will be needed, as the machine code of one signature."""

    file: str  # in the cache
    module: str
    name: str
    there: Callable[[], bool]  # is its machine code in a file?
    compile: Callable[[], Any]

    @property
    def text(self) -> str:
        """The text of its module if that is a generated one."""
        return "".join(linecache.getlines(f"<{self.module}>"))


class Helper:
    """A process that compiles kernels, from the end of the list on, and the thread that tells it which."""

    def __init__(self, wanted: deque[Kernel], tell: Callable[[str], None]) -> None:
        self.owner = os.getpid()
        self.at: str | None = None  # the file that it is about to write
        self._wanted, self._tell = wanted, tell
        self._thread = Thread(self._feed, "streamjoin-compiler")
        start([self._thread])

    @property
    def running(self) -> bool:
        return self._thread.running

    def _feed(self) -> None:
        command = [sys.executable, "-P", "-c", START.format(__name__)]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        with suppress(OSError), subprocess.Popen(command, **pipes) as started:
            process: Any = started  # with pipes
            self._say(process, sys.path)
            with suppress(IndexError):  # nothing is left
                while True:
                    # Between these two lines this process may begin with the same kernel. Then it is compiled twice.
                    kernel = self._wanted.pop()
                    self.at = kernel.file
                    self._tell(kernel.name)
                    self._say(process, {"module": kernel.module, "text": kernel.text, "name": kernel.name})
                    if not process.stdout.readline():
                        break
            self.at = None
            process.kill()
        self.at = None

    @staticmethod
    def _say(process: Any, what: Any) -> None:
        print(json.dumps(what), file=process.stdin, flush=True)


class Ahead:
    """The functions that the last join has named, and the helper that compiles some of them."""

    def __init__(self) -> None:
        self._expected: Iterable[Kernel] = ()
        self._wanted: deque[Kernel] = deque()
        self._helper: Helper | None = None

    def expect(self, kernels: Iterable[Kernel]) -> None:
        """Names the kernels that are needed next, in order; those that take long at the end."""
        self._expected = kernels

    def missing(self, file: str, tell: Callable[[str], None]) -> bool:
        """Called before a kernel is compiled. Has the helper compiled it?"""
        helper, compiled = self._helper, False
        if helper is None or helper.owner != os.getpid() or not helper.running:
            self._begin(file, tell)
            return False
        for kernel in tuple(self._wanted):
            if kernel.file == file:
                with suppress(ValueError):  # the helper was faster
                    self._wanted.remove(kernel)
        until = time.monotonic() + PATIENCE
        while helper.running and helper.at == file and time.monotonic() < until:
            compiled = True
            try:
                other = self._wanted.popleft()
            except IndexError:
                time.sleep(NAP)
            else:
                other.compile()
        return compiled

    def _begin(self, file: str, tell: Callable[[str], None]) -> None:
        expected, self._expected = self._expected, ()
        wanted = deque(kernel for kernel in expected if kernel.file != file and not kernel.there())
        if len(wanted) >= LEAST and _allowed():
            self._wanted = wanted
            with suppress(RuntimeError):  # the system allows no more threads
                self._helper = Helper(wanted, tell)


def _allowed() -> bool:
    """Is there a core for a helper, a folder to write to, and an interpreter to start?"""
    process = sys.modules.get("multiprocessing.process")
    alone = process is None or process.parent_process() is None  # else its siblings have the cores
    python = Path(sys.executable or "").name.startswith("python")  # not a program that embeds it
    return alone and usable_cores() > 1 and python and kept("kernels").lend() is not None


def serve() -> None:
    """The helper: compiles what standard input names, a line each, and answers with a line. It ends with its input."""
    tasks: deque[Any] = deque()
    start([Thread(lambda: _read(tasks), "streamjoin-tasks")])
    since = time.monotonic()
    try:
        while time.monotonic() - since < IDLE:  # a process that was killed may have forked one that keeps the pipe open
            if not tasks:
                time.sleep(NAP)
                continue
            _compile(**tasks.popleft())
            print(flush=True)
            since = time.monotonic()
    finally:
        os._exit(1)  # the thread holds a lock of standard input, without which Python cannot end


def _compile(module: str, text: str, name: str) -> None:
    from streamjoin.codegen.cache import load_module
    from streamjoin.codegen.jit import compile_ahead

    compile_ahead(getattr(load_module(text) if text else import_module(module), name))


def _read(tasks: deque[Any]) -> None:
    for line in sys.stdin:
        tasks.append(json.loads(line))
    os._exit(0)  # whoever asked is gone: what is being compiled is of no use to anybody
