"""A thread, a lock and a wake-up signal that stay consistent under KeyboardInterrupt.

Ctrl-C raises KeyboardInterrupt in the main thread between any two bytecode instructions, inside `threading` too. There
it can leave the lock of a Condition or an Event held forever, a started thread that waits forever, and, in Python 3.11,
a running thread that counts as ended. So every operation on shared state is a single call of C code, or it runs in a
thread that receives no signals.
"""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

NAP = 50e-6  # seconds between two polls


class Thread(threading.Thread):
    """A daemon thread with its own flags for "started" and "ended"."""

    def __init__(self, work: Callable[[], None], name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._work = work
        self.begun = self.ended = False

    def run(self) -> None:
        try:
            self._work()
        finally:
            self.ended = True

    @property
    def running(self) -> bool:
        return self.begun and not self.ended


def start(threads: Iterable[Thread]) -> None:
    """Starts threads from a helper thread, which receives no signals. Returns when all of them run.

    If it is interrupted, either all of them start or none does.
    """
    outcome: list[BaseException | None] = []

    def begin() -> None:
        try:
            for thread in threads:
                thread.begun = True
                try:
                    thread.start()
                except BaseException:  # the system allows no more
                    thread.ended = True
                    raise
            outcome.append(None)
        except BaseException as error:
            outcome.append(error)

    _thread.start_new_thread(begin, ())
    while not outcome:
        time.sleep(NAP)
    if outcome[0] is not None:
        raise outcome[0]


def await_end(threads: Iterable[Thread], meanwhile: Callable[[], None] = lambda: None) -> None:
    """Waits for started threads to end, except for the calling one."""
    for thread in threads:
        if thread is threading.current_thread():
            continue
        while thread.running:
            meanwhile()
            time.sleep(NAP)
        if thread.begun:
            thread.join()


class Section:
    """A critical section: one thread at a time makes a change, and an interrupted change is noticed.

    `under_way` holds the name of a change while it runs. A thread that enters and finds a name there knows that this
    change was interrupted.
    """

    def __init__(self) -> None:
        self.under_way: str | None = None
        self.lock = threading.RLock()  # it knows its owner, in one call of C code

    def run(self, action: Callable[..., Any], *arguments: Any) -> Any:
        """Runs an action inside the section."""
        try:
            with self.lock:
                return action(*arguments)
        except BaseException:
            self.let_go()
            raise

    def change(self, name: str, action: Callable[..., Any], *arguments: Any) -> Any:
        """Runs an action inside the section. Raises BrokenOffError if an earlier one was interrupted."""
        try:
            with self.lock:
                if self.under_way is not None:
                    raise BrokenOffError(f"{self.under_way} was interrupted")
                self.under_way = name
                result = action(*arguments)
                self.under_way = None
                return result
        except BaseException:
            self.let_go()
            raise

    @property
    def mine(self) -> bool:
        """Does the current thread hold the lock?"""
        return bool(self.lock._is_owned())  # type: ignore[attr-defined]

    def let_go(self) -> None:
        """Releases the lock if an interrupt kept the current thread from releasing it."""
        while self.mine:
            self.lock.release()


class BrokenOffError(RuntimeError):
    """A change of shared state was interrupted."""


class Call:
    """Wakes one waiting thread. A signal without a waiter is kept for the next one."""

    def __init__(self) -> None:
        self._silent = threading.Lock()
        self._silent.acquire()

    def ring(self) -> None:
        if self._silent.locked():
            with suppress(RuntimeError):  # another thread was faster
                self._silent.release()

    def wait(self, seconds: float) -> None:
        """Waits until another thread rings, at most for `seconds`."""
        self._silent.acquire(timeout=seconds)
