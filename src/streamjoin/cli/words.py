"""The command line's spellings: windows, workers, layouts, devices and rates."""

from __future__ import annotations

import math
import re
from typing import Any

from streamjoin.algorithms import NAMES
from streamjoin.errors import OptionError, WindowError, cut, either
from streamjoin.windows import SPELLINGS, spelled

MAX_LENGTH = 1_000  # far below the digits that Python refuses to read as a number


def parse_within(text: str) -> Any:
    """The value for `within=` that a spelling stands for.

    >>> parse_within("500")
    500
    >>> parse_within("15 minutes")
    '15 minutes'
    """
    within = spelled(text) if len(text) <= MAX_LENGTH else None
    if within is None:
        raise WindowError(f'--within "{cut(text)}" is not a window; write {SPELLINGS}')
    return within


ALGORITHMS = either(NAMES)


def parse_workers(text: str) -> int | str:
    """A number of workers, or "auto".

    >>> parse_workers("4")
    4
    """
    if text == "auto":
        return text
    if not re.fullmatch("[1-9][0-9]{0,8}", text):
        raise OptionError(f'--workers "{text}" is not a number of at least 1, nor "auto"')
    return int(text)


def parse_layout(text: str) -> tuple[int, int] | str:
    """Rows and columns of a grid, or "auto".

    >>> parse_layout("2x3")
    (2, 3)
    """
    if text == "auto":
        return text
    sizes = re.fullmatch("([1-9][0-9]{0,8})x([1-9][0-9]{0,8})", text)
    if sizes is None:
        raise OptionError(f'--layout "{text}" is not rows x columns of a grid, such as 2x3, nor "auto"')
    return int(sizes[1]), int(sizes[2])


def parse_device(text: str | None) -> int | str | None:
    """A device by its index, or by a word.

    >>> parse_device("0"), parse_device("gpu")
    (0, 'gpu')
    """
    return int(text) if text is not None and re.fullmatch("[0-9]{1,4}", text) else text


def parse_rate(text: str) -> tuple[float, float]:
    """Tuples per second of both streams.

    >>> parse_rate("5000"), parse_rate("1000,3000")
    ((5000.0, 5000.0), (1000.0, 3000.0))
    """
    try:
        rates = [float(part) for part in text.split(",")]
    except ValueError:
        rates = []
    if len(rates) not in (1, 2) or not all(0 < rate < math.inf for rate in rates):
        raise OptionError(f'--rate "{text}" is not tuples per second, such as 5000, or 1000,3000 for left and right')
    return rates[0], rates[-1]
