"""The standard streams, which may be closed, full, or a pipe without a reader."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def standard_streams() -> Iterator[None]:
    """A failure of standard error does not end the program; a failure of standard output is reported at its end.

    A stream that is closed gets its number back, before a file of ours has it and with it what is printed: standard
    input is then empty, standard error goes nowhere, and writing to standard output fails.
    """
    for number, flags in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, flags), True)  # it is the lowest number that is free
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115
    before = sys.stdout, sys.stderr
    output: Any = _Remembering(sys.stdout)
    errors: Any = _Forgiving(sys.stderr)
    sys.stdout, sys.stderr = output, errors
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def unwritten() -> str | None:
    """Why what was printed could not be written to standard output, if so; an empty string if its reader has left."""
    with suppress(OSError):
        sys.stdout.flush()
    error: OSError | None = getattr(sys.stdout, "failure", None)
    if error is None:
        return None
    _abandon(sys.stdout)
    if isinstance(error, BrokenPipeError):
        return ""
    return "it is closed" if error.errno == errno.EBADF else error.strerror or str(error)


class _Remembering:
    """A stream that remembers how it failed."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.failure: OSError | None = None

    def write(self, text: str) -> int:
        self._attempt(self._stream.write, text)
        return len(text)

    def flush(self) -> None:
        self._attempt(self._stream.flush)

    def _attempt(self, deed: Callable[..., object], *words: str) -> None:
        try:
            deed(*words)
        except OSError as error:
            self.failure = error
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Forgiving(_Remembering):
    """A stream that accepts all writes, even if they fail."""

    def _attempt(self, deed: Callable[..., object], *words: str) -> None:
        try:
            deed(*words)
        except OSError:
            _abandon(self._stream)


def _abandon(stream: Any) -> None:
    """Sends what the stream still holds nowhere; Python would fail on it once more when it ends."""
    with suppress(OSError, ValueError):
        handle = os.open(os.devnull, os.O_WRONLY)
        os.dup2(handle, stream.fileno())
        os.close(handle)
        stream.flush()
