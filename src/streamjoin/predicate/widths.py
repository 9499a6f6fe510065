"""How wide the boxes of a dimension are, if that does not depend on the tuple."""

from __future__ import annotations

import math

from streamjoin.predicate.analysis import Dimension, Linear, addends
from streamjoin.predicate.tree import Node, bottom_up, physical


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
