"""Ctrl-C, termination and a closed terminal as a request to stop, which the running pipeline polls for."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, current_thread, main_thread
from typing import Any

from streamjoin.exits import signalled

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def held() -> Iterator[None]:
    """Delays a first signal to the end of a block that must not be interrupted; a second one is delivered at once."""
    if current_thread() is not main_thread():
        yield
        return
    came: list[int] = []

    def take(number: int, frame: object) -> None:
        if came:
            before[number](number, frame)
        came.append(number)

    before: dict[int, Any] = {number: signal.getsignal(number) for number in SIGNALS}
    before = {number: handler for number, handler in before.items() if callable(handler)}
    for number in before:
        signal.signal(number, take)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        signal.raise_signal(came[0])


class Stop:
    """Set by the first signal, or by hand; a second signal ends the program at once.

    To be made before Spark starts: a signal that was ignored then (nohup, a job in the background) stays so.
    """

    def __init__(self) -> None:
        self._event = Event()
        self._ignored = [number for number in SIGNALS if signal.getsignal(number) is signal.SIG_IGN]
        self._terminals = [stream for stream in (1, 2) if os.isatty(stream)]
        self.number: int | None = None

    def set(self) -> None:
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Whether a stop is requested, now or within this time."""
        return self._event.wait(seconds)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Takes the signals meanwhile. To be entered when Spark has started, since PySpark then takes Ctrl-C itself.

        Its handler would break off whatever call to Java is under way.
        """
        if current_thread() is not main_thread():
            yield
            return
        taken = {number: signal.SIG_IGN if number in self._ignored else self._take for number in SIGNALS}
        before = {number: signal.signal(number, handler) for number, handler in taken.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _take(self, number: int, frame: object) -> None:
        if self.number is not None:
            raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(signalled(number))
        self.number = number
        for stream in self._terminals:
            if not os.isatty(stream):  # it was closed; further writes would fail
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        self._event.set()
