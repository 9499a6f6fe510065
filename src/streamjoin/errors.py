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
_REMEDY = 400  # characters kept at the end of a long message, where the remedy is


class StreamjoinError(Exception):
    """Base of all errors raised by streamjoin. Long messages are shortened in the middle."""

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
    """An option has an unknown or invalid value."""


class WindowError(StreamjoinError, ValueError):
    """The window is malformed or does not fit the time columns."""


class DataError(StreamjoinError, ValueError):
    """A value in the data cannot be joined: a null time, an integer beyond its type's edge."""


class LateError(DataError):
    """A tuple arrived later than max_delay allows, and the join has late="error"."""


class UnsupportedError(StreamjoinError, NotImplementedError):
    """A valid request that this version does not support."""


class ClosedError(StreamjoinError, RuntimeError):
    """The join was closed; nothing can be pushed any more."""


class StateError(StreamjoinError, RuntimeError):
    """A checkpoint belongs to another join."""


class DeviceError(StreamjoinError, RuntimeError):
    """No OpenCL device can be used, or the device failed."""


class CircuitError(StreamjoinError, RuntimeError):
    """A tool that circuits are made with is missing, failed, or took too long."""


class FileError(StreamjoinError, OSError):
    """A file cannot be read or written."""


class PipelineError(StreamjoinError, RuntimeError):
    """A running pipeline failed. Its checkpoint is intact; a restart continues from there."""


def cut(text: str, width: int = SHOWN) -> str:
    """A text as a message shows it: on one line, without control characters, and not too long.

    >>> cut("r.x <=\\n  s.y"), cut("x" * 100, 10), cut("a\\0b")
    ('r.x <= s.y', 'xxxxxxx...', 'a\\\\x00b')
    """
    # Leading white space must not hide what follows, and a very long text must not take long.
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
        # Python refuses to format more than 4,300 digits, and is slow below that.
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
    """Names for a message, separated by commas; only the first ones if there are many."""
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
    """The end of an error message: similar names, or all known ones.

    >>> suggest("prcie", ["price", "qty"])
    'did you mean "price"?'
    >>> suggest("volume", ["price", "qty"])
    'known: price, qty'
    """
    names = [str(name) for name in known]
    # The search for similar names is quadratic in their length; names above 100 characters are not searched.
    short = [name for name in names if len(name) <= 100]
    close = get_close_matches(word, short, cutoff=0.6) if len(word) <= 100 else []
    if close:
        return "did you mean " + " or ".join(f'"{name}"' for name in close) + "?"
    return f"known: {listed(names)}" if names else "there are no names to choose from"
