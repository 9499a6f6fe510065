"""Ctrl-C and termination as a wish: the running pipeline sees it between two looks and stops cleanly."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, current_thread, main_thread

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Set by the first signal, or by hand; a second signal ends the program at once."""

    def __init__(self) -> None:
        self._event = Event()
        self.number: int | None = None

    def set(self) -> None:
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Takes the signals meanwhile. To be entered when Spark has started, since PySpark then takes Ctrl-C itself.

        Its handler would break off whatever call to Java is under way.
        """
        if current_thread() is not main_thread():
            yield
            return
        before = {number: signal.signal(number, self._take) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _take(self, number: int, frame: object) -> None:
        if self.number is not None:
            raise KeyboardInterrupt
        self.number = number
        self._event.set()
