"""The exceptions that streamjoin raises: each says what is wrong, where, and what to do instead."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class StreamjoinError(Exception):
    """Base of all errors raised by streamjoin."""


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


class FileError(StreamjoinError, OSError):
    """A file cannot be read or written."""


class PipelineError(StreamjoinError, RuntimeError):
    """A running pipeline failed; its checkpoint is intact, and it goes on from there when it is started again."""


def suggest(word: str, known: Iterable[str]) -> str:
    """Ends an error message: the names that were probably meant, or all that exist.

    >>> suggest("prcie", ["price", "qty"])
    'did you mean "price"?'
    >>> suggest("volume", ["price", "qty"])
    'known: price, qty'
    """
    names = [str(name) for name in known]
    close = get_close_matches(word, names, n=3, cutoff=0.6)
    if close:
        return "did you mean " + " or ".join(f'"{name}"' for name in close) + "?"
    shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    return f"known: {shown}" if names else "there are no names to choose from"
