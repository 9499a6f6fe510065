"""How wide the boxes of a dimension are, if that does not depend on the tuple."""

from __future__ import annotations

import math

from streamjoin.predicate.analysis import Dimension, Linear, addends
from streamjoin.predicate.tree import Node, bottom_up, physical, walk

TINY = 1e-29  # more than what the ends of a box may be moved by where products vanish


def band_width(dimension: Dimension) -> float | None:
    """The widths of both sides' boxes together, if they do not depend on the tuple."""
    total = 0.0
    for side in "rs":
        low, high = dimension.low(side), dimension.high(side)
        if low is None or high is None:
            return None
        terms, constant = _difference(low, high)
        if any(abs(factor) > 1e-12 for factor in terms.values()):
            return None
        total += max(constant, 0.0)
    return total if math.isfinite(total) else None


def side_width(dimension: Dimension, side: str) -> float | None:
    """At most how wide the boxes of a side are, but for the rounding of their coordinates; None if that is unknown.

    A box whose ends are moved by a slack is without limit where a value is not finite: such a tuple must have no
    partners. Ends that are sums of several columns may be moved by much more than the coordinate's own size.
    """
    low, high = dimension.low(side), dimension.high(side)
    if low is None or high is None:
        return None
    terms, constant = _difference(low, high)
    nodes = [node for end in (low, high) for _, node in end.terms]
    moved = slack(dimension, side)
    if any(abs(factor) > 1e-12 for factor in terms.values()) or not math.isfinite(constant):
        return None
    if moved and not dimension.finite and any(node.typed.kind == "float" for node in nodes):
        return None
    if (moved or low.terms != high.terms) and not all(_simple(end) for end in (low, high)):
        return None
    return max(constant, 0.0) + (4 * moved * (low.size + high.size) + TINY if moved else 0.0)


def slack(dimension: Dimension, side: str) -> float:
    """By which part of their size the ends of a side's boxes have been moved outwards, together."""
    return sum(end.slack for end in (dimension.low(side), dimension.high(side)) if end is not None)


def _simple(end: Linear) -> bool:
    """Is the end one column's value, give or take constants?"""
    parts = [part for _, node in end.terms for part in walk(node) if part.op != "literal"]
    return sum(part.op == "column" for part in parts) == 1 and all(
        part.op == "column" or addends(part) for part in parts
    )


def _difference(low: Linear, high: Linear) -> tuple[dict[Node, float], float]:
    """high - low, as factors of what is not a constant, and a constant."""
    terms: dict[Node, float] = {}
    constant = high.constant - low.constant
    for sign, linear in ((1.0, high), (-1.0, low)):
        for factor, node in linear.terms:
            constant += _expand(node, sign * factor, terms)
    return terms, constant


def _expand(whole: Node, times: float, terms: dict[Node, float]) -> float:
    """Adds times * whole to the terms; returns its constant part."""
    factors, constant = {whole: times}, 0.0
    for node in reversed(bottom_up(whole)):  # a node's factor is complete before it is handed down
        factor = factors.get(node, 0.0)
        if not factor:
            continue
        value = physical(node) if node.op == "literal" else None
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            constant += factor * float(value)
        elif added := addends(node, roughly=True):
            for sign, arg in added:
                factors[arg] = factors.get(arg, 0.0) + sign * factor
        else:
            terms[node] = terms.get(node, 0.0) + factor
    return constant
