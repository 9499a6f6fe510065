"""Reads the constants that SQL text spells as strings: dates, timestamps, intervals."""

from __future__ import annotations

import datetime as dt
import re
from fractions import Fraction

from streamjoin.errors import PredicateError, cut

_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")
_TIME = re.compile(r"[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?")
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{2}))?\Z")

_MICROS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}
_CALENDAR = ("MONTH", "YEAR", "QUARTER")
_PART = re.compile(r"\s*([+-]?\s*\d*\.?\d+)\s*([A-Za-z]+)")
_LONGEST = 200  # characters of an interval
_MAX_DIGITS = 40  # of a number in an interval; 64 bits of microseconds have 19
_SPAN_UNITS = ("DAY", "HOUR", "MINUTE", "SECOND")


def parse_date(text: str) -> dt.date:
    """A date as Spark reads it: year, optional month, optional day.

    >>> parse_date("2020-1-2")
    datetime.date(2020, 1, 2)
    """
    match = _DATE.fullmatch(text.strip())
    try:
        if match is not None:
            return dt.date(int(match[1]), int(match[2] or 1), int(match[3] or 1))
    except ValueError:
        pass
    raise PredicateError(f"'{cut(text)}' is not a date; write it like DATE '2020-01-31'")


def parse_timestamp(text: str) -> dt.datetime:
    """A timestamp as Spark reads it; aware if the text names a time zone.

    >>> parse_timestamp("2020-01-02 03:04:05.5")
    datetime.datetime(2020, 1, 2, 3, 4, 5, 500000)
    >>> parse_timestamp("2020-01-02T03:04:05+02:00").isoformat()
    '2020-01-02T03:04:05+02:00'
    """
    stripped = text.strip()
    date = _DATE.match(stripped)
    try:
        if date is not None:
            rest = stripped[date.end() :]
            time = _TIME.match(rest)
            hour = minute = second = micro = 0
            if time is not None:
                hour, minute, second = int(time[1]), int(time[2]), int(time[3] or 0)
                micro = _microseconds(time[4] or "", text)
                rest = rest[time.end() :]
            year, month, day = int(date[1]), int(date[2] or 1), int(date[3] or 1)
            zone = _zone(rest.strip(), text)
            return dt.datetime(year, month, day, hour, minute, second, micro, zone)
    except PredicateError:
        raise
    except ValueError:
        pass
    raise PredicateError(
        f"'{cut(text)}' is not a timestamp; write it like TIMESTAMP '2020-01-31 12:30:00' (UTC) or '... +02:00'"
    )


def _microseconds(digits: str, text: str) -> int:
    if digits[6:].strip("0"):
        raise PredicateError(f"'{cut(text)}' is finer than a microsecond, the unit of SQL timestamps; round it")
    return int(digits[:6].ljust(6, "0"))


def _zone(name: str, text: str) -> dt.tzinfo | None:
    if not name:
        return None
    if name.upper() in ("Z", "UTC", "GMT"):
        return dt.UTC
    offset = _OFFSET.match(name)
    if offset is not None:
        delta = dt.timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
        return dt.timezone(delta if offset[1] == "+" else -delta)
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):  # what is no key, too long for a path, or leads out of the folder
        raise PredicateError(f"'{cut(text)}' ends in '{cut(name)}', which is not a known time zone") from None


def check_interval(text: str) -> None:
    """Refuses a text that is too long for an interval."""
    if len(text) > _LONGEST:
        raise PredicateError(f"INTERVAL '{cut(text)}' has {len(text):,} characters; at most {_LONGEST} are allowed")


def parse_interval(text: str, unit: str | None = None, to: str | None = None) -> dt.timedelta:
    """An interval: a number of one unit, a span of units, or text that names its units.

    >>> parse_interval("5", "SECONDS").total_seconds()
    5.0
    >>> parse_interval("1 day -2 hours").total_seconds()
    79200.0
    >>> parse_interval("10:30", "MINUTE", "SECOND").total_seconds()
    630.0
    """
    check_interval(text)
    if to is not None and unit is not None:
        return _span(text, unit.upper(), to.upper())
    if unit is not None and re.fullmatch(r"\s*[+-]?\s*\d*\.?\d+\s*", text):
        return _micros(_amount(text, unit, f"INTERVAL '{cut(text)}' {cut(unit)}"), text)
    total, at = 0, 0
    body = re.sub(r"\A\s*interval\s+", "", text, flags=re.IGNORECASE)
    while at < len(body.rstrip()):
        match = _PART.match(body, at)
        if match is None or unit is not None:
            raise PredicateError(
                f"INTERVAL '{cut(text)}'{' ' + cut(unit) if unit else ''} cannot be read; write it like "
                "INTERVAL 5 SECONDS or INTERVAL '1 day 2 hours'"
            )
        total += _amount(match[1], match[2], f"INTERVAL '{cut(text)}'")
        at = match.end()
    if at == 0:
        raise PredicateError(f"INTERVAL '{cut(text)}' names no unit; write it like INTERVAL 5 SECONDS")
    return _micros(total, text)


def _amount(number: str, unit: str, shown: str) -> int:
    """So many microseconds; fractions only of seconds, as in Spark."""
    name = unit.upper().removesuffix("S")
    if name in _CALENDAR:
        raise PredicateError(
            f"{shown}: a {name.lower()} has no fixed length; use days, hours, minutes or seconds instead"
        )
    if name not in _MICROS:
        known = ", ".join(word.lower() for word in _MICROS)
        raise PredicateError(f"{shown}: unknown unit '{cut(unit)}'; known: {known}")
    digits = re.sub(r"\s", "", number)
    if len(digits) > _MAX_DIGITS:
        raise PredicateError(f"{shown}: a number of {len(digits):,} digits is too long for 64 bits of microseconds")
    count = Fraction(digits)
    amount = count * _MICROS[name]
    if (count.denominator != 1 and name != "SECOND") or amount.denominator != 1:
        raise PredicateError(f"{shown}: only seconds may have a fraction, of at most six digits")
    return int(amount)


def _span(text: str, unit: str, to: str) -> dt.timedelta:
    """`INTERVAL '1 02:03:04.5' DAY TO SECOND`: one sign for the whole."""
    shown = f"INTERVAL '{cut(text)}' {cut(unit)} TO {cut(to)}"
    if unit in _CALENDAR or to in _CALENDAR:
        raise PredicateError(f"{shown}: months and years have no fixed length; use days or smaller units")
    if unit not in _SPAN_UNITS or to not in _SPAN_UNITS or _SPAN_UNITS.index(unit) >= _SPAN_UNITS.index(to):
        raise PredicateError(f"{shown}: a span goes from a longer to a shorter unit, like DAY TO SECOND")
    units = _SPAN_UNITS[_SPAN_UNITS.index(unit) : _SPAN_UNITS.index(to) + 1]
    body = text.strip()
    negative = body.startswith("-")
    fields = re.split(r"[ :]+", body.lstrip("+-"))
    if len(fields) != len(units) or not all(re.fullmatch(r"\d+(\.\d+)?", field) for field in fields):
        raise PredicateError(f"{shown}: expected {len(units)} numbers, like '1 02:03:04.5' for DAY TO SECOND")
    total = sum(_amount(field, name, shown) for field, name in zip(fields, units, strict=True))
    return _micros(-total if negative else total, text)


def _micros(total: int, text: str) -> dt.timedelta:
    try:
        return dt.timedelta(microseconds=total)
    except OverflowError:
        raise PredicateError(f"INTERVAL '{cut(text)}' is too long for 64 bits of microseconds") from None
