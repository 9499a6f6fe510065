"""What a predicate says about equality and bands, in whatever spelling, and what is left.

The predicate is taken apart into conjuncts. Those that read one side only filter arrivals. Every other conjunct
stays in the exact test; some of them also promise something that leads to few candidates:

    equality    f(r) = g(s)                     hash access
    constraint  low(r) <= high(s), or mirrored  an end of a band

Two opposite constraints make a dimension in which every tuple is an interval and a pair can match only if the intervals
touch: [r_low, r_high] and [s_low, s_high] with r_low <= s_high and s_low <= r_high. A band `abs(r.x - s.a) <= 10`
is the point r.x against the interval s.a - 10 .. s.a + 10; `r.start <= s.end AND s.start <= r.end` two intervals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

from streamjoin.predicate.operations import OPERATIONS
from streamjoin.predicate.tree import Node, bottom_up, columns, physical, to_sql, walk
from streamjoin.predicate.types import BOOL

MAX_DIMS = 3

# One rounding is at most half a unit in the last place. Sums of a few terms stay far below these parts of their size.
SLACK_DOUBLE, SLACK_FLOAT = 2.0**-48, 2.0**-20
STEPS = 16  # roundings that a slack covers; for more of them it grows
MAX_CONSTRAINTS = 200  # of either side, among which the best are looked for
MAX_STEPS = 200  # a sum longer than that is left to the exact test
LARGE = 10**300  # factors and constants beyond that are, too


@dataclass(frozen=True)
class Linear:
    """constant + sum of factor * node, all nodes of one side.

    `slack` is the relative error that must be allowed for, of the terms' sizes and of `size`, that of all constants
    that went in; zero if the end is a single node, computed as the predicate does.
    """

    terms: tuple[tuple[float, Node], ...]
    constant: float = 0.0
    slack: float = 0.0
    size: float = 0.0

    def __str__(self) -> str:
        parts = []
        for factor, node in self.terms:
            text = to_sql(node)
            parts.append(text if factor == 1 else f"-({text})" if factor == -1 else f"{factor:g} * ({text})")
        text = " + ".join(parts)
        if self.constant:
            text += f" {'+' if self.constant > 0 else '-'} {abs(self.constant):.15g}"
        return text


@dataclass(frozen=True)
class Constraint:
    """low(side) <= high(other side) for every matching pair.

    `against` says where the comparison a <= b has a finite constant: "above" for b, "below" for a. A difference that is
    infinite breaks one of two opposite ones of these; NaN, which is above every number, one with its constant above.
    """

    side: str
    low: Linear
    high: Linear
    against: str = ""

    def __str__(self) -> str:
        return f"{self.low} <= {self.high}"


@dataclass(frozen=True)
class Dimension:
    """Up to two opposite constraints: `by_r` has its low end on r, `by_s` on s."""

    by_r: Constraint | None
    by_s: Constraint | None

    @property
    def two_sided(self) -> bool:
        return self.by_r is not None and self.by_s is not None

    @property
    def finite(self) -> bool:
        """Can a tuple with NaN or an infinity in this dimension have no partner?"""
        against = {part.against if part is not None else "" for part in (self.by_r, self.by_s)}
        return "above" in against and "" not in against

    def low(self, side: str) -> Linear | None:
        own = self.by_r if side == "r" else self.by_s
        return own.low if own else None

    def high(self, side: str) -> Linear | None:
        other = self.by_s if side == "r" else self.by_r
        return other.high if other else None

    def __str__(self) -> str:
        return " AND ".join(str(part) for part in (self.by_s, self.by_r) if part is not None)


@dataclass(frozen=True)
class Analysis:
    """A predicate taken apart."""

    tree: Node
    filters: dict[str, tuple[Node, ...]]  # by side: conjuncts that read only this side
    exact: tuple[Node, ...]  # conjuncts for a pair
    equalities: tuple[tuple[Node, Node], ...]  # (of r, of s)
    dimensions: tuple[Dimension, ...]
    residual: tuple[Node, ...]  # the part of exact that leads to no access
    strict: frozenset[tuple[str, str]] = field(default_factory=frozenset)  # columns whose null rules out a match

    @property
    def two_sided(self) -> bool:
        """Is there a dimension with both constraints?"""
        return any(dimension.two_sided for dimension in self.dimensions)


def analyse(tree: Node, hints: tuple[Node, ...] = ()) -> Analysis:
    """Takes a resolved predicate apart. Hints are conjuncts known to hold for matches of an opaque predicate."""
    filters: dict[str, list[Node]] = {"r": [], "s": []}
    exact: list[Node] = []
    equalities: list[tuple[Node, Node]] = []
    constraints: list[Constraint] = []
    residual: list[Node] = []
    parts = conjuncts(tree)
    for conjunct in parts:
        reads = conjunct.reads
        if len(reads) == 1 and conjunct.op != "function":
            filters[next(iter(reads))].append(conjunct)
            continue
        exact.append(conjunct)
        if not _harvest(conjunct, equalities, constraints, exactly=True):
            residual.append(conjunct)
    for hint in hints:
        if len(hint.reads) == 2 and not any(_changes_meaning(node) for node in walk(hint)):
            _harvest(hint, equalities, constraints, exactly=False)
    return Analysis(
        tree,
        {side: tuple(nodes) for side, nodes in filters.items()},
        tuple(exact),
        tuple(equalities),
        _pair_up(constraints),
        tuple(residual),
        _strict(parts),
    )


def conjuncts(node: Node) -> list[Node]:
    """The parts that must all be true, with negations pushed inwards."""
    found: list[Node] = []
    opened = set()
    stack = [(node, False)]
    while stack:
        part, negated = top = stack.pop()
        if part.op in ("not", "or" if negated else "and"):
            if top not in opened:  # what is shared need not hold twice
                opened.add(top)
                stack.extend((arg, negated != (part.op == "not")) for arg in reversed(part.args))
        elif not negated:
            found.append(part)
        else:
            row = OPERATIONS.get(part.op)
            found.append(Node(row.negated, part.args, None, BOOL) if row and row.negated else _not(part))
    return found


def _not(node: Node) -> Node:
    return Node("not", (node,), None, BOOL)


_Columns = frozenset[tuple[str, str]]


def _strict(parts: list[Node]) -> _Columns:
    """Columns that, being null, keep one of the conditions, and so all of them, from being true."""
    spreads: dict[Node, _Columns] = {}  # columns whose null makes the whole node null
    rejects: dict[Node, _Columns] = {}  # columns that, being null, keep the condition from being true
    for part in parts:
        for node in bottom_up(part, known=spreads):
            spreads[node] = _spreads(node, [spreads[arg] for arg in node.args])
            rejects[node] = _rejects(node, [rejects[arg] for arg in node.args], spreads)
    return frozenset().union(*(rejects[part] for part in parts))


def _rejects(node: Node, args: list[_Columns], spreads: dict[Node, _Columns]) -> _Columns:
    if node.op == "and":
        return frozenset().union(*args)
    if node.op == "or":
        return frozenset.intersection(*args)
    if node.op == "not" and node.args[0].op == "is_null":
        return spreads[node.args[0].args[0]]
    return spreads[node]


def _spreads(node: Node, args: list[_Columns]) -> _Columns:
    if node.op == "column":
        return frozenset({node.column})
    row = OPERATIONS.get(node.op)
    null = row.null if row else "any"  # of a literal nothing; of a Python function, whose null never matches, any
    if null == "own":
        return frozenset()
    return frozenset.intersection(*args) if null == "all" else frozenset().union(*args)


def _harvest(node: Node, equalities: list[tuple[Node, Node]], constraints: list[Constraint], exactly: bool) -> bool:
    """Notes what a conjunct over both sides promises; False if that is nothing."""
    if node.op not in ("eq", "lt", "le", "gt", "ge"):
        return False
    left, right = node.args
    one_each = len(left.reads) == len(right.reads) == 1
    if node.op == "eq" and one_each and (exactly or (_is_column(left) and _is_column(right))):
        equalities.append((left, right) if left.reads == {"r"} else (right, left))
        return True
    if left.typed.kind in ("string", "binary", "bool"):
        return False
    found = []
    for a, b in _as_upper_bounds(node.op, left, right):
        constraint = _constraint(a, b, exactly and one_each)
        if constraint is not None:
            found.append(constraint)
    constraints.extend(found)
    return bool(found)


def _changes_meaning(node: Node) -> bool:
    """A cast that SQL puts in and Python does not: there, dates and timestamps are plain counts."""
    return node.op == "cast" and node.args[0].typed.kind not in ("int", "float", "bool")


def _is_column(node: Node) -> bool:
    """A key that Python compares as SQL does: computed ones may be rounded differently."""
    return _below_casts(node).op == "column"


def _as_upper_bounds(op: str, left: Node, right: Node) -> list[tuple[Node, Node]]:
    """The comparison as one or more of the form a <= b, with abs() on the smaller side resolved."""
    if op == "eq":
        return [*_as_upper_bounds("le", left, right), *_as_upper_bounds("le", right, left)]
    if op in ("gt", "ge"):
        left, right = right, left
    inner = _below_casts(left)
    if inner.op == "abs" and len(inner.reads) == 2:
        body = inner.args[0]
        return [(body, right), (Node("neg", (body,), None, body.type), right)]
    return [(left, right)]


def _constraint(a: Node, b: Node, exactly: bool) -> Constraint | None:
    """The constraint that a <= b puts on the two sides, or None if it cannot be split between them."""
    if exactly:
        side = next(iter(a.reads))
        return Constraint(side, Linear(((1.0, a),)), Linear(((1.0, b),)))
    split = _split([(Fraction(1), a), (Fraction(-1), b)])
    if split is None:
        return None
    terms, constant, size, steps = split
    mine: dict[str, list[tuple[float, Node]]] = {"r": [], "s": []}
    for factor, node in terms:
        mine[next(iter(node.reads))].append((factor, node))
    if not mine["r"] or not mine["s"]:
        return None
    single = any(_single(node) for part in (a, b) for node in walk(part))
    slack = (SLACK_FLOAT if single else SLACK_DOUBLE) * math.ceil(steps / STEPS)
    against = "above" if _finite(b) else "below" if _finite(a) else ""
    low = Linear(tuple(mine["r"]), 0.0, slack, size)
    high = Linear(tuple((-factor, node) for factor, node in mine["s"]), -constant, slack, size)
    if sum(factor for factor, _ in low.terms) < 0:  # a negative end reads better on the other side
        flipped_low = Linear(tuple((-factor, node) for factor, node in high.terms), constant, slack, size)
        flipped_high = Linear(tuple((-factor, node) for factor, node in low.terms), 0.0, slack, size)
        return Constraint("s", flipped_low, flipped_high, against)
    return Constraint("r", low, high, against)


def _finite(node: Node) -> bool:
    """Is this a finite number, whatever the tuples are?"""
    literal = _below_casts(node)
    return literal.op == "literal" and _number(literal) is not None


def _single(node: Node) -> bool:
    """Is the node in single precision?"""
    return node.typed.kind == "float" and node.typed.bits == 32


def _split(parts: list[tuple[Fraction, Node]]) -> tuple[list[tuple[float, Node]], float, float, int] | None:
    """A sum as terms of one side each, a constant, the size of all constants, and how many steps that took.

    None if a term mixes the sides, or if that takes too many steps: the same term may be in a sum any number of times.
    """
    terms: list[tuple[float, Node]] = []
    constants: list[Fraction] = []
    stack = parts[::-1]
    steps = 0
    while stack:
        factor, node = stack.pop()
        steps += 1
        number = _number(node) if node.op == "literal" else None
        if number is not None:
            constants.append(factor * number)
        elif node.op == "literal" or steps > MAX_STEPS:
            return None
        elif len(node.reads) == 1:
            if not abs(factor) < LARGE:
                return None
            terms.append((float(factor), node))
        elif added := addends(node):
            stack += [(sign * factor, part) for sign, part in reversed(added)]
        elif node.op == "mul" and node.typed.kind != "decimal":
            found = [(_number(known), rest) for known, rest in (node.args, node.args[::-1]) if known.op == "literal"]
            by = next(((times, rest) for times, rest in found if times is not None), None)
            if by is None:
                return None
            stack.append((factor * by[0], by[1]))
        else:
            return None
    size = sum(abs(part) for part in constants)
    return (terms, float(sum(constants)), float(size), steps) if size < LARGE else None


def addends(node: Node, roughly: bool = False) -> list[tuple[int, Node]]:
    """The parts that a node is the sum of, each with its sign; none if it is no sum.

    A cast is the sum of one part if it changes a number by no more than rounding; `roughly`, if it casts a number.

    >>> from streamjoin.predicate.tree import column
    >>> x, y = column("r", "x"), column("r", "y")
    >>> addends(Node("sub", (x, y))) == [(1, x), (-1, y)], addends(x)
    (True, [])
    """
    if node.op in ("add", "sub"):
        return [(1, node.args[0]), (1 if node.op == "add" else -1, node.args[1])]
    if node.op == "neg":
        return [(-1, node.args[0])]
    if node.op != "cast":
        return []
    number = {node.typed.kind, node.args[0].typed.kind} <= {"int", "float"}
    return [(1, node.args[0])] if _keeps_value(node) or (roughly and number) else []


def _number(literal: Node) -> Fraction | None:
    """A constant's exact value, as stored; None if it is no finite number."""
    value = physical(literal)
    if (
        value is None
        or isinstance(value, (str, bytes, bool))
        or (isinstance(value, float) and not math.isfinite(value))
    ):
        return None
    return Fraction(value)


def _keeps_value(cast: Node) -> bool:
    """Casts that change a number by no more than rounding."""
    source, target = cast.args[0].typed, cast.typed
    if source.kind == "int":
        return target.kind == "float" or (target.kind == "int" and target.bits >= source.bits)
    return source.kind == target.kind == "float" and target.bits >= source.bits


def _below_casts(node: Node) -> Node:
    while node.op == "cast" and _keeps_value(node):
        node = node.args[0]
    return node


def _pair_up(constraints: list[Constraint]) -> tuple[Dimension, ...]:
    """Opposite constraints over the same terms become one dimension; the best-matching pairs first."""
    by_r = [constraint for constraint in constraints if constraint.side == "r"][:MAX_CONSTRAINTS]
    by_s = [constraint for constraint in constraints if constraint.side == "s"][:MAX_CONSTRAINTS]
    traits_r, traits_s = ([(_base(c.low), _base(c.high), _kind(c)) for c in side] for side in (by_r, by_s))
    ranked = sorted(
        ((_kinship(a, b), -i, -j) for i, a in enumerate(traits_r) for j, b in enumerate(traits_s)), reverse=True
    )
    used_r: set[int] = set()
    used_s: set[int] = set()
    paired = []
    for _, i, j in ranked:
        if -i not in used_r and -j not in used_s:
            used_r.add(-i)
            used_s.add(-j)
            paired.append((min(-i, -j), Dimension(by_r[-i], by_s[-j])))
    two_sided = [dimension for _, dimension in sorted(paired, key=lambda item: item[0])]
    single = [Dimension(c, None) for i, c in enumerate(by_r) if i not in used_r]
    single += [Dimension(None, c) for j, c in enumerate(by_s) if j not in used_s]
    return tuple(two_sided + single)


def _kinship(a: tuple[_Columns, _Columns, str], b: tuple[_Columns, _Columns, str]) -> int:
    """How many of the ends of two opposite constraints rest on the same columns."""
    return 2 * (a[0] == b[1]) + 2 * (a[1] == b[0]) + int(a[2] == b[2])


def _base(linear: Linear) -> _Columns:
    return frozenset().union(*(columns(node) for _, node in linear.terms))


def _kind(constraint: Constraint) -> str:
    return constraint.low.terms[0][1].typed.kind
