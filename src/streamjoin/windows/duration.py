"""Lengths of time: durations in text, ticks of the time columns, and back."""

from __future__ import annotations

import datetime as dt
import re
from fractions import Fraction
from typing import Any

import numpy as np

from streamjoin.errors import WindowError, cut, either, shown
from streamjoin.windows import FOREVER, KINDS

NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
    "w": 7 * 86400 * 10**9,
}
_NAMES = {
    "ns": "ns nanosecond nanoseconds",
    "us": "us µs microsecond microseconds",
    "ms": "ms millisecond milliseconds",
    "s": "s sec secs second seconds",
    "m": "m min mins minute minutes",
    "h": "h hr hrs hour hours",
    "d": "d day days",
    "w": "w week weeks",
}
_UNITS = {name: unit for unit, names in _NAMES.items() for name in names.split()}
_PART = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-zµ]+)\s*,?", re.IGNORECASE)

_MAX_DIGITS = 40  # of a number in a duration
_LONGEST = 200  # characters of a duration

Length = str | int | dt.timedelta


def parse_duration(text: str) -> int:
    """A duration as nanoseconds.

    >>> parse_duration("15 minutes") == parse_duration("900s") == 900 * 10**9
    True
    >>> parse_duration("1h30m") // 10**9, parse_duration("-10 min") // 10**9, parse_duration("0.5 ms")
    (5400, -600, 500000)
    """
    rest = text.strip()
    sign = -1 if rest.startswith("-") else 1
    rest = rest[1:] if rest.startswith(("+", "-")) else rest
    total, position = Fraction(0), 0
    while position < len(rest):
        part = _PART.match(rest, position) if len(rest) <= _LONGEST else None
        unit = _UNITS.get(part[2].lower()) if part else None
        if part is None or unit is None:
            raise WindowError(
                f'"{cut(text)}" is not a duration; write a number and a unit, as in "15 minutes", "1h30m" or "500 ms" '
                "(units: ns, us, ms, s, m, h, d, w and their names)"
            )
        if len(part[1]) > _MAX_DIGITS:
            raise WindowError(f'"{cut(text)}" has a number of {len(part[1]):,} digits; 64 bits of time have 19')
        total += Fraction(part[1].removesuffix(".")) * NANOSECONDS[unit]
        position = part.end()
    if not rest or total.denominator != 1:
        raise WindowError(f'"{cut(text)}" is not a duration of whole nanoseconds')
    return sign * int(total)


def length_of(text: str) -> int | str | None:
    """A length in text: an integer, for integer time columns, or a duration, which `ticks` reads; None for no text.

    >>> length_of("-5"), length_of(" 1h30m ")
    (-5, '1h30m')
    """
    text = text.strip()
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else text or None


def needs_nanoseconds(*lengths: Any) -> bool:
    """Does a length fall between two microseconds?"""
    return any((_nanoseconds(length) or 0) % 1000 for length in lengths)


def _nanoseconds(length: Any) -> int | None:
    """A duration in nanoseconds; None if it is none."""
    if isinstance(length, str):
        return parse_duration(length)
    if isinstance(length, np.timedelta64) and not np.isnat(length):
        return int(length.astype("m8[ns]").astype(np.int64))
    if isinstance(length, dt.timedelta):  # pandas' Timedelta is one, and adds nanoseconds
        return (length // dt.timedelta(microseconds=1)) * 1000 + int(getattr(length, "nanoseconds", 0))
    return None


def ticks(length: Any, unit: str | None, what: str) -> int:
    """A duration or integer in the unit of the time columns."""
    whole = isinstance(length, (int, np.integer)) and not isinstance(length, (bool, np.timedelta64))
    nanoseconds = _nanoseconds(length)
    if not whole and nanoseconds is None:
        raise WindowError(
            f'{what} {shown(length)} is not a length; write "15 minutes", a timedelta, or an integer for integer '
            f"times; a window may also be an {either(f'{name}()' for name in KINDS)}"
        )
    if unit is None:
        raise WindowError(
            f'a {what} of {shown(length)} needs time columns; give time="ts" or time=("r_time", "s_time")'
        )
    if unit == "int":
        if whole:
            return _bounded(int(length), length)
        raise WindowError(
            f"{what} {shown(length)}: the time columns are integers, so it must be an integer in their unit, not a "
            "duration; or make the time columns timestamps"
        )
    if nanoseconds is None:
        raise WindowError(
            f"{what} {shown(length)}: the time columns are timestamps, so it must be a duration such as "
            f'"{5 if abs(length) > 10**9 else length} seconds" or a timedelta'
        )
    return _bounded(nanoseconds // (1000 if unit == "us" else 1), length)


def _bounded(value: int, length: Any) -> int:
    if abs(value) > FOREVER:
        raise WindowError(f"{shown(length)} is longer than 64 bits can count; use a shorter window")
    return value


def showticks(value: int, unit: str) -> str:
    """Ticks as a duration in text.

    >>> showticks(900_000_000, "us"), showticks(-5, "int")
    ('15m', '-5')
    """
    if unit not in ("us", "ns"):
        return f"{value}"
    nanoseconds, text = abs(value) * (1000 if unit == "us" else 1), ""
    for name in ("d", "h", "m", "s", "ms", "us", "ns"):
        count, nanoseconds = divmod(nanoseconds, NANOSECONDS[name])
        text += f"{count}{name}" if count else ""
    return ("-" if value < 0 else "") + (text or "0s")


def in_seconds(value: int, unit: str) -> float | None:
    """Ticks in seconds; None if their unit is not known.

    >>> in_seconds(1_500_000, "us"), in_seconds(5, "int")
    (1.5, None)
    """
    return value / (NANOSECONDS["s"] / NANOSECONDS[unit]) if unit in NANOSECONDS else None
