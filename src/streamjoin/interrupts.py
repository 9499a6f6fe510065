"""Threads, a lock and a wake-up call that an interruption cannot break.

Ctrl-C raises KeyboardInterrupt in the main thread between any two steps of Python code, inside `threading` too: there
it can leave the lock of a Condition or an Event taken for ever, a started thread that waits for ever, and, in Python
3.11, a running thread that counts as ended. So what the main thread shares with others is a single call of C code, or
it is done in a thread that no signal reaches.
"""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

NAP = 50e-6  # seconds between two looks


class Thread(threading.Thread):
    """A daemon that says itself when it has begun and when it has ended."""

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
    """Starts threads, from a thread of its own that no signal reaches. Returns when all run.

    If it is interrupted they start nevertheless, or none does.
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
    """Waits for threads that have begun, except for the one that asks."""
    for thread in threads:
        if thread is threading.current_thread():
            continue
        while thread.running:
            meanwhile()
            time.sleep(NAP)
        if thread.begun:
            thread.join()


class Section:
    """Lets one thread at a time change something, each change as a whole.

    `under_way` names a change from its beginning to its end. Whoever comes in and finds a name there knows that this
    change was broken off.
    """

    def __init__(self) -> None:
        self.under_way: str | None = None
        self.lock = threading.RLock()  # which knows its owner, from inside one call of C code

    def run(self, action: Callable[..., Any], *arguments: Any) -> Any:
        """Runs an action alone."""
        try:
            with self.lock:
                return action(*arguments)
        except BaseException:
            self.let_go()
            raise

    def change(self, name: str, action: Callable[..., Any], *arguments: Any) -> Any:
        """Runs an action alone, unless an earlier one was broken off."""
        try:
            with self.lock:
                if self.under_way is not None:
                    raise BrokenOffError(f"{self.under_way} was broken off")
                self.under_way = name
                result = action(*arguments)
                self.under_way = None
                return result
        except BaseException:
            self.let_go()
            raise

    @property
    def mine(self) -> bool:
        """Does the present thread hold it?"""
        return bool(self.lock._is_owned())  # type: ignore[attr-defined]

    def let_go(self) -> None:
        """Frees the lock, if an interruption on the way out kept the present thread from it."""
        while self.mine:
            self.lock.release()


class BrokenOffError(RuntimeError):
    """Something shared was left half changed."""


class Call:
    """Wakes one waiting thread. A call that nobody waits for is kept for the next one who does."""

    def __init__(self) -> None:
        self._silent = threading.Lock()
        self._silent.acquire()

    def ring(self) -> None:
        if self._silent.locked():
            with suppress(RuntimeError):  # another one was faster
                self._silent.release()

    def wait(self, seconds: float) -> None:
        """Until somebody rings, at most for so long."""
        self._silent.acquire(timeout=seconds)
