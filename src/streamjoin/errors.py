"""The exceptions that streamjoin raises: each says what is wrong, where, and what to do instead."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

SHOWN = 80
"""How much of a value or text a message shows."""

_LONGEST_MESSAGE = 2_000
_REMEDY = 400  # what is kept of the end of a message that is too long: the remedy stands there


class StreamjoinError(Exception):
    """Base of all errors raised by streamjoin. However long what went wrong is, its message is not."""

    def __init__(self, *args: object) -> None:
        if args and isinstance(args[0], str) and len(args[0]) > _LONGEST_MESSAGE:
            head, tail = args[0][: _LONGEST_MESSAGE - _REMEDY - 5], args[0][-_REMEDY:]
            args = (f"{head} ... {tail}", *args[1:])
        super().__init__(*args)


class PredicateError(StreamjoinError, ValueError):
    """The predicate cannot be read, typed or compiled."""


class SchemaError(StreamjoinError, ValueError):
    """A column is missing, has the wrong type, or names clash."""


class OptionError(StreamjoinError, ValueError):
    """An option has a value that does not exist."""


class WindowError(StreamjoinError, ValueError):
    """The window is malformed or does not fit the time columns."""


class DataError(StreamjoinError, ValueError):
    """A value in the data cannot be joined: a null time, an integer beyond its type's edge."""


class LateError(DataError):
    """A tuple came later than max_delay allows and late="error" was asked for."""


class UnsupportedError(StreamjoinError, NotImplementedError):
    """A valid request that this version does not serve."""


class ClosedError(StreamjoinError, RuntimeError):
    """The join was closed; nothing can be pushed any more."""


class StateError(StreamjoinError, RuntimeError):
    """What a checkpoint holds does not belong to this join."""


class DeviceError(StreamjoinError, RuntimeError):
    """There is no OpenCL device that serves, or it failed."""


class CircuitError(StreamjoinError, RuntimeError):
    """A tool that circuits are made with is missing, failed, or took too long."""


class FileError(StreamjoinError, OSError):
    """A file cannot be read or written."""


class PipelineError(StreamjoinError, RuntimeError):
    """A running pipeline failed; its checkpoint is intact, and it goes on from there when it is started again."""


def cut(text: str, width: int = SHOWN) -> str:
    """A text as a message shows it: on one line, without signs that a terminal would obey, and not too long.

    >>> cut("r.x <=\\n  s.y"), cut("x" * 100, 10), cut("a\\0b")
    ('r.x <= s.y', 'xxxxxxx...', 'a\\\\x00b')
    """
    # Much white space in front must not hide what follows, and no text is so long that looking at all of it is slow.
    flat = " ".join(text[: 100 * width].split())
    plain = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in flat[: width + 1])
    return plain if len(plain) <= width and len(text) <= 100 * width else plain[: width - 3] + "..."


class _Brief(reprlib.Repr):
    """repr() of bounded length, for values of any size."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = SHOWN

    def repr_int(self, value: int, level: int) -> str:
        if value.bit_length() <= 200:
            return repr(value)
        # Python refuses to write more than 4,300 digits, and takes long over fewer.
        exponent = math.log10(abs(value))
        leading = 10 ** (exponent % 1)
        return f"{'-' if value < 0 else ''}{leading:.5f}...e+{math.floor(exponent)}"

    def repr_bytes(self, value: bytes, level: int) -> str:
        return self.repr_str(value, level)  # type: ignore[arg-type]


_BRIEF = _Brief()


def shown(value: Any) -> str:
    """A value as a message shows it: its repr, shortened.

    >>> shown("5 s"), shown(10**5000), shown(("_r", "_s"))
    ("'5 s'", '1.00000...e+5000', "('_r', '_s')")
    """
    return _BRIEF.repr(value)


def listed(names: Iterable[str], most: int = 20) -> str:
    """Names for a message, separated by commas: the first of them, if they are many."""
    known = [cut(str(name)) for name in names]
    return ", ".join(known[:most]) + (", ..." if len(known) > most else "")


def either(words: Iterable[str]) -> str:
    """A choice in words.

    >>> either(["scan", "band", "hash"])
    'scan, band or hash'
    """
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def suggest(word: str, known: Iterable[str]) -> str:
    """Ends an error message: the names that were probably meant, or all that exist.

    >>> suggest("prcie", ["price", "qty"])
    'did you mean "price"?'
    >>> suggest("volume", ["price", "qty"])
    'known: price, qty'
    """
    names = [str(name) for name in known]
    # Looking for what is alike takes time by the square of the length; nobody misspells a name of 100 letters.
    short = [name for name in names if len(name) <= 100]
    close = get_close_matches(word, short, cutoff=0.6) if len(word) <= 100 else []
    if close:
        return "did you mean " + " or ".join(f'"{name}"' for name in close) + "?"
    return f"known: {listed(names)}" if names else "there are no names to choose from"
