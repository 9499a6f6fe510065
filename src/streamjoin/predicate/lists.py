"""SQL text around expressions: lists with names, as after SELECT, and calls of aggregate functions."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from streamjoin.errors import PredicateError, cut, either, listed
from streamjoin.predicate.sql import MAX_LENGTH, parse
from streamjoin.predicate.tree import Node

_OPENING, _CLOSING = ("L_PAREN", "CASE", "L_BRACKET"), ("R_PAREN", "END", "R_BRACKET")


class Piece(NamedTuple):
    """The text of one expression of a list, and the name that the list gives it."""

    text: str
    name: str | None = None

    @property
    def star(self) -> str:
        """The side, if the piece stands for all of its columns."""
        words = self.text.replace(" ", "").lower()
        return words[0] if words in ("r.*", "s.*") else ""


def pieces(text: str) -> list[Piece]:
    """The expressions of a list.

    >>> pieces("r.id, r.price - s.bid AS spread")
    [Piece(text='r.id', name=None), Piece(text='r.price - s.bid', name='spread')]
    """
    found = []
    for tokens in _split(text, _tokens(text)):
        name = None
        if len(tokens) > 2 and tokens[-2].token_type.name == "ALIAS":
            name, tokens = tokens[-1].text, tokens[:-2]
        found.append(Piece(text[tokens[0].start : tokens[-1].end + 1], name))
    return found


def parse_call(text: str, known: Collection[str]) -> tuple[str, tuple[Node, ...] | None]:
    """A function of a known name, in lower case, and its arguments; None if they are a star.

    >>> parse_call("max(s.bid - r.price)", ["max"]), parse_call("COUNT(*)", ["count"])
    (('max', (<Node s.bid - r.price>,)), ('count', None))
    """
    tokens = _tokens(text)
    name = tokens[0].text.lower()
    kinds = [token.token_type.name for token in tokens]
    if name not in known:
        raise PredicateError(f'"{cut(text)}" is not a call of {either(known)}')
    if kinds[1:2] != ["L_PAREN"] or _closing(kinds, 1) != len(kinds) - 1:
        raise PredicateError(
            f'"{cut(text)}" is not one call of {name}; write it alone, as in {name}(s.x), and compute with the result '
            "afterwards"
        )
    inner = tokens[2:-1]
    if [token.text for token in inner] == ["*"]:
        return name, None
    if inner and inner[0].token_type.name == "DISTINCT":
        raise PredicateError(f'"{cut(text)}": DISTINCT is not supported here; known: {listed(known)} of all rows')
    return name, tuple(parse(text[part[0].start : part[-1].end + 1]) for part in _split(text, inner))


def _tokens(text: str) -> list[Any]:
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import SqlglotError

    if len(text) > MAX_LENGTH:
        raise PredicateError(f"the list has {len(text):,} characters; at most {MAX_LENGTH:,} are allowed")
    try:
        tokens = Dialect.get_or_raise("spark").tokenize(text)
    except SqlglotError:
        raise PredicateError(f'"{cut(text)}" cannot be read; is a quote missing?') from None
    if not tokens:
        raise PredicateError("the list is empty; name at least one column, as in r.id")
    return list(tokens)


def _split(text: str, tokens: list[Any]) -> list[list[Any]]:
    """The tokens between the commas that stand in no parentheses."""
    parts: list[list[Any]] = [[]]
    depth = 0
    for token in tokens:
        kind = token.token_type.name
        depth += (kind in _OPENING) - (kind in _CLOSING)
        if kind == "COMMA" and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    if not all(parts) and tokens:
        raise PredicateError(f'"{cut(text)}" has nothing before or after a comma')
    return parts if tokens else []


def _closing(kinds: list[str], opening: int) -> int:
    """Where the parenthesis that opens here is closed; -1 if nowhere."""
    depth = 0
    for k in range(opening, len(kinds)):
        depth += (kinds[k] in _OPENING) - (kinds[k] in _CLOSING)
        if depth == 0:
            return k
    return -1
