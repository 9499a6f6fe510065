"""The exit codes of the program; docs/cli.md says what they mean."""

from __future__ import annotations

DONE = 0
FAILED = 1
REFUSED = 2


def signalled(number: int) -> int:
    """That of a program which a signal ends, as shells count.

    >>> import signal
    >>> signalled(signal.SIGINT)
    130
    """
    return 128 + number
