"""Windows as one command-line word: the spellings of --within."""

from __future__ import annotations

import re
from typing import Any

from streamjoin.errors import WindowError, cut

SPELLINGS = (
    '"15 minutes" or "1h30m" (at most that far apart), 500 (the same for integer time columns), '
    '"-10min..5min" (where s.time - r.time lies; "(-10min..5min]" leaves the lower bound out), '
    '"last 1000", "last r=500,s=1000" (rows), "tumbling 1 minute", "tumbling 1000 rows"'
)

MAX_LENGTH = 1_000  # far below the digits that Python refuses to read as a number

_CLOSED = {("[", "]"): "both", ("[", ")"): "left", ("(", "]"): "right", ("(", ")"): "neither"}


def parse_within(text: str) -> Any:
    """The value for `within=` that a spelling stands for.

    >>> parse_within("500")
    500
    >>> parse_within("15 minutes")
    '15 minutes'
    """
    text = text.strip()
    if len(text) > MAX_LENGTH:
        raise _unreadable(text)
    first, _, rest = text.partition(" ")
    if first.lower() == "last":
        return _last(rest.strip(), text)
    if first.lower() == "tumbling":
        return _tumbling(rest.strip(), text)
    if ".." in text:
        return _interval(text)
    return _bound(text, text)


def _interval(text: str) -> Any:
    import streamjoin as sj

    opening = text[0] if text[0] in "[(" else "["
    closing = text[-1] if text[-1] in "])" else "]"
    lower, _, upper = text.removeprefix(opening).removesuffix(closing).partition("..")
    return sj.interval(_bound(lower, text), _bound(upper, text), closed=_CLOSED[opening, closing])


def _last(rest: str, text: str) -> Any:
    import streamjoin as sj

    if rest.isdecimal():
        return sj.last(int(rest))
    sides = dict(re.findall(r"\b([rs])\s*=\s*(\d+)", rest))
    if len(sides) != 2 or re.sub(r"\b[rs]\s*=\s*\d+|[\s,]", "", rest):
        raise _unreadable(text)
    return sj.last(r=int(sides["r"]), s=int(sides["s"]))


def _tumbling(rest: str, text: str) -> Any:
    import streamjoin as sj

    if rows := re.fullmatch(r"(\d+)\s*rows?", rest):
        return sj.tumbling(rows=int(rows[1]))
    return sj.tumbling(_bound(rest, text))


def _bound(part: str, text: str) -> int | str:
    """An integer, for integer time columns, or a duration, which the library reads."""
    part = part.strip()
    if not part:
        raise _unreadable(text)
    return int(part) if re.fullmatch(r"[+-]?\d+", part) else part


def _unreadable(text: str) -> WindowError:
    return WindowError(f'--within "{cut(text)}" is not a window; write {SPELLINGS}')
