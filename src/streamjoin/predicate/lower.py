"""What several spellings share: the forms that are written in terms of simpler ones."""

from __future__ import annotations

from decimal import Decimal

from streamjoin.predicate.tree import Node, junction, literal


def between(value: Node, low: Node, high: Node) -> Node:
    """value >= low AND value <= high."""
    return junction("and", [Node("ge", (value, low)), Node("le", (value, high))])


def nullif(value: Node, other: Node) -> Node:
    """NULL where the two are equal, else the value."""
    return Node("case", (Node("eq", (value, other)), literal(None), value))


def negate(value: Node) -> Node:
    """-value, with the sign of a plain number drawn into it, so that the smallest bigint can be written."""
    number = value.value
    if value.op == "literal" and isinstance(number, (int, float, Decimal)) and not isinstance(number, bool):
        # Python's minus rounds a Decimal to 28 digits.
        minus = number.copy_negate() if isinstance(number, Decimal) else -number
        return Node("literal", value=minus, type=value.type)
    return Node("neg", (value,))
