"""One predicate, three spellings: SQL text, expressions over r and s, a Python function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamjoin.errors import PredicateError, shown

if TYPE_CHECKING:
    from streamjoin.predicate.tree import Node


def as_tree(on: Any) -> Node:
    """The tree of a predicate in any of the three spellings, not yet resolved against schemas.

    >>> from streamjoin.predicate.expressions import r, s
    >>> as_tree("r.x <= s.a") == as_tree(r.x <= s.a)
    True
    """
    if isinstance(on, str):
        from streamjoin.predicate.sql import parse

        return parse(on)
    from streamjoin.predicate.expressions import Expression, Side, When

    if isinstance(on, Expression):
        return on.node
    if isinstance(on, bool):
        from streamjoin.predicate.tree import literal

        return literal(on)
    if callable(on) and not isinstance(on, (Side, When)):
        from streamjoin.predicate.function import from_callable

        return from_callable(on)
    raise PredicateError(
        f"on={shown(on)} is no predicate; write SQL text (on='r.x <= s.y'), an expression (on=r.x <= s.y with "
        "from streamjoin import r, s) or a function (on=lambda r, s: r.x <= s.y)"
    )
