"""Options as words of the command line: under which heading, how each is written, and how its text is read.

A reader raises a ValueError for a text that it cannot read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streamjoin.algorithms import AUTO

MAX_RATE = 1e15  # tuples per second

# Headings, in the order in which --help has them.
GROUPS = INPUT, WINDOW, RESULT, ENGINE, ON_SPARK = "Input", "Predicate and window", "Result", "Engine", "Spark"


@dataclass(frozen=True)
class Word:
    """An option on the command line."""

    group: str  # its heading
    spelled: str = ""  # how it is written, for --help
    what: str = ""  # what its text should have been, for errors
    read: Callable[[str], Any] = str
    metavar: str | None = None


def count(text: str) -> int:
    """A number of at least 1."""
    if not re.fullmatch("[1-9][0-9]{0,8}", text):
        raise ValueError(text)
    return int(text)


def count_or_auto(text: str) -> int | str:
    """The same, or "auto"."""
    return text if text == AUTO else count(text)


def layout(text: str) -> tuple[int, int] | str:
    """Rows and columns of a grid, or "auto".

    >>> layout("2x3")
    (2, 3)
    """
    if text == AUTO:
        return text
    rows, columns = text.split("x")
    return count(rows), count(columns)


def device(text: str) -> int | str:
    """A device by its index, or by a word.

    >>> device("0"), device("gpu")
    (0, 'gpu')
    """
    return int(text) if re.fullmatch("[0-9]{1,4}", text) else text


def rates(text: str) -> tuple[float, float]:
    """Tuples per second of both streams.

    >>> rates("5000"), rates("1000,3000")
    ((5000.0, 5000.0), (1000.0, 3000.0))
    """
    parts = [float(part) for part in text.split(",")]
    both = parts[0], parts[-1]
    if len(parts) > 2 or not are_rates(both):
        raise ValueError(text)
    return both


def are_rates(both: Any) -> bool:
    """Are these the tuples per second of two streams?"""
    return len(both) == 2 and all(isinstance(rate, (int, float)) and 0 < rate < MAX_RATE for rate in both)


def suffixes(text: str) -> tuple[str, str] | None:
    """Two suffixes, or "none".

    >>> suffixes("_l,_r")
    ('_l', '_r')
    """
    if text == "none":
        return None
    first, second = text.split(",")
    return first, second
