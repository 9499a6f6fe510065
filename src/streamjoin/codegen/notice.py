"""The notice that kernels are being compiled.

Compiling takes seconds, once per machine and predicate. A terminal or a notebook shows the notice; a program gets a
record of the logger `streamjoin`.
"""

from __future__ import annotations

import logging
import sys
import time

from streamjoin.folders import cache_folder

QUIET = 1.0  # seconds without a notice
AGAIN = 5.0

log = logging.getLogger(__name__.partition(".")[0])


class Notice:
    """Counts compiled functions, and reports after a second and then every few seconds."""

    def __init__(self) -> None:
        self.compiled = 0
        self._since = self._told = 0.0

    def compiling(self, name: str) -> None:
        """Called before a function is compiled."""
        now = time.monotonic()
        log.debug("compiling %s", name)
        if not self.compiled:
            self._since, self._told = now, now + QUIET - AGAIN
        self.compiled += 1
        if now - self._told >= AGAIN:
            self._told = now
            self._tell(
                f"compiling kernels that this machine has not seen yet: {self.compiled} so far, "
                f"{now - self._since:.0f} s; they are kept in {cache_folder()}"
            )

    def _tell(self, text: str) -> None:
        log.info(text)
        if sys.stderr is not None and (hasattr(sys, "ps1") or sys.stderr.isatty()):
            print(f"streamjoin: {text}", file=sys.stderr, flush=True)
