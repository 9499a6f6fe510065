"""A call of a SQL function by its name, in text or in an expression, as a tree."""

from __future__ import annotations

from functools import cache

from streamjoin.errors import PredicateError
from streamjoin.predicate.operations import FUNCTIONS, MANY, Definition, Function
from streamjoin.predicate.tree import Node, bottom_up, column


def call(name: str, args: tuple[Node, ...]) -> Node:
    """The function of this name, one of `operations.FUNCTIONS`, applied to the arguments.

    >>> from streamjoin.predicate.tree import literal, to_sql
    >>> to_sql(call("ceiling", (column("r", "x"),))), to_sql(call("nvl2", (column("r", "x"), literal(1), literal(2))))
    ('ceil(r.x)', 'CASE WHEN r.x IS NOT NULL THEN 1 ELSE 2 END')
    """
    rows = FUNCTIONS[name]
    row = next((row for row in rows if row.arity[0] <= len(args) <= row.arity[1]), None)
    if row is None:
        wanted = " or ".join(dict.fromkeys(map(_count, rows)))
        raise PredicateError(f"{name} takes {wanted}, not {len(args)}")
    return _expanded(row, args) if isinstance(row, Definition) else Node(row.op, args)


def _count(row: Function) -> str:
    few, many = row.arity
    if many == MANY:
        return f"{few} or more arguments"
    return "no argument" if many == 0 else "1 argument" if many == 1 else f"{many} arguments"


@cache
def _meaning(text: str) -> Node:
    from streamjoin.predicate.sql import parse

    return parse(text)


def _expanded(row: Definition, args: tuple[Node, ...]) -> Node:
    """The definition with the arguments in place of its parameters."""
    meaning = _meaning(row.text)
    placed = {column("", name): arg for name, arg in zip(row.parameters, args, strict=True)}
    for node in bottom_up(meaning, known=placed):
        placed[node] = Node(node.op, tuple(placed[arg] for arg in node.args), node.value, node.type)
    return placed[meaning]
