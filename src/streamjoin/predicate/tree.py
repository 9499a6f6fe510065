"""The expression tree that every spelling of a predicate becomes, and small tools to look at one."""

from __future__ import annotations

import datetime as dt
import hashlib
import math
import re
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, cast

from streamjoin.errors import SHOWN, PredicateError, cut, shown
from streamjoin.predicate.operations import OPERATIONS
from streamjoin.predicate.types import Type, sql_name

SIDES = ("r", "s")  # 0 is r, 1 is s: letters where columns are named, numbers elsewhere
OTHER = {"r": "s", "s": "r"}
"""The other side."""

LONGEST_JUNCTION = 10_000
"""Conditions that one AND or OR holds."""

LONGEST_TEXT = 1_000_000
"""Characters of a predicate's text that are shown."""


@dataclass(frozen=True, eq=False, repr=False)
class Node:
    """One node: a column, a literal, a Python function, or one of `operations.OPERATIONS`.

    Before `resolve` only literals that say their type (`1L`) have one; after it every node has.

    `value` is read as what it is: `column`, `constant`, `target` or `function`.

    `case` has args cond1, value1, cond2, value2, ..., else; `and` and `or` take any number of args.

    A node may be an argument of many others: `nullif(a, b)` has `a` twice, and 30 of them in each other have it a
    thousand million times. Whoever goes through a tree goes through its distinct nodes (`walk`, `bottom_up`), without
    recursion. `digest` stands for the node and all below it, so that comparing two trees takes one step.
    """

    op: str
    args: tuple[Node, ...] = ()
    value: object = None
    type: Type | None = None
    digest: bytes = field(init=False)
    reads: frozenset[str] = field(init=False)  # the sides: a subset of {"r", "s"}

    def __post_init__(self) -> None:
        own = frozenset(self.column[0]) if self.op == "column" else frozenset()
        object.__setattr__(self, "reads", own.union(*(arg.reads for arg in self.args)))
        parts = [self.op.encode(), _exactly(self.value), repr(self.type).encode(), *(arg.digest for arg in self.args)]
        content = hashlib.blake2b(digest_size=16)
        for part in parts:
            content.update(b"%d:" % len(part))
            content.update(part)
        object.__setattr__(self, "digest", content.digest())

    @property
    def typed(self) -> Type:
        """The type of a resolved node."""
        assert self.type is not None, f"unresolved: {brief(self)}"
        return self.type

    @property
    def column(self) -> tuple[str, str]:
        """Of a column: its side, "" if the text names none, and its name."""
        assert self.op == "column"
        return cast(tuple[str, str], self.value)

    @property
    def constant(self) -> Any:
        """Of a literal: None, bool, int, float, Decimal, str, bytes, datetime, date or timedelta."""
        assert self.op == "literal"
        return self.value

    @property
    def target(self) -> Type:
        """Of a cast: the type to cast to."""
        assert isinstance(self.value, Type)
        return self.value

    @property
    def function(self) -> Callable[..., Any]:
        """Of a Python function: itself."""
        assert callable(self.value)
        return self.value

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, Node) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"<Node {brief(self)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """As a flat list: pickle would follow a deep tree by recursion."""
        nodes = bottom_up(self)
        place = {node: k for k, node in enumerate(nodes)}
        return _rebuilt, ([(node.op, [place[arg] for arg in node.args], node.value, node.type) for node in nodes],)


def _rebuilt(parts: list[tuple[str, list[int], object, Type | None]]) -> Node:
    nodes: list[Node] = []
    for op, args, value, type in parts:
        nodes.append(Node(op, tuple(nodes[k] for k in args), value, type))
    return nodes[-1]


def _exactly(value: object) -> bytes:
    """A node's value as bytes that no other value has: 1, 1.0 and TRUE are equal in Python, 0.0 and -0.0 too."""
    if isinstance(value, str):
        return b"s" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return b"b" + value
    if isinstance(value, bool):
        return b"1" if value else b"0"
    if isinstance(value, int):
        return b"i%x" % value  # in this base of any length
    if isinstance(value, float):
        return b"f" + float.hex(value).encode()
    if isinstance(value, tuple):
        return b"t" + b"".join(b"%d:%b" % (len(part), part) for part in map(_exactly, value))
    if callable(value):
        return b"c%x" % id(value)
    return b"o" + repr(value).encode("utf-8", "surrogatepass")


def column(side: str, name: str) -> Node:
    """The column `name` of side "r" or "s" ("" if the text does not say)."""
    return Node("column", value=(side, name))


def literal(value: Any, type: Type | None = None) -> Node:
    """A constant; `type` only where the spelling fixes it."""
    return Node("literal", value=value, type=type)


def junction(op: str, parts: list[Node]) -> Node:
    """`and` or `or` of the parts, with nested ones of the same kind flattened, unless that makes too long a list.

    >>> a, b, c = (column("r", name) for name in "abc")
    >>> to_sql(junction("and", [a, junction("and", [b, c])]))
    'r.a AND r.b AND r.c'
    """
    if sum(len(part.args) if part.op == op else 1 for part in parts) > LONGEST_JUNCTION:
        return Node(op, tuple(parts))  # e = e & e forty times over
    flat: list[Node] = []
    for part in parts:
        flat.extend(part.args if part.op == op else (part,))
    return flat[0] if len(flat) == 1 else Node(op, tuple(flat))


def walk(*nodes: Node) -> Iterator[Node]:
    """Every distinct node of the trees, in the order of their text."""
    stack, seen = list(reversed(nodes)), set()
    while stack:
        top = stack.pop()
        if top not in seen:
            seen.add(top)
            yield top
            stack.extend(reversed(top.args))


def bottom_up(
    node: Node, known: Container[Node] = (), order: Callable[[Node], Sequence[Node]] = lambda node: node.args
) -> list[Node]:
    """Every distinct node of the tree that is not known yet, arguments before what is computed from them.

    >>> x = column("r", "x")
    >>> [to_sql(node) for node in bottom_up(Node("add", (x, Node("neg", (x,)))))]
    ['r.x', '-r.x', 'r.x + -r.x']
    """
    done: dict[Node, None] = {}
    stack = [node]
    while stack:
        top = stack.pop()
        if top in done or top in known:
            continue
        missing = [arg for arg in order(top) if arg not in done and arg not in known]
        if missing:
            stack += [top, *reversed(missing)]
        else:
            done[top] = None
    return list(done)


def columns(*nodes: Node) -> set[tuple[str, str]]:
    """The (side, name) of every column that the trees read."""
    return {part.column for part in walk(*nodes) if part.op == "column"}


_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_WIDE = Context(prec=80)


def physical(node: Node) -> Any:
    """A resolved literal as kernels store it: the count since 1970 in its unit, days, the scaled integer.

    >>> from streamjoin.predicate import types
    >>> physical(literal(dt.timedelta(seconds=2), types.interval("ns")))
    2000000000
    >>> physical(literal(Decimal("1.5"), types.decimal(10, 3)))
    1500
    """
    value, t = node.constant, node.typed
    if value is None:
        return None
    if t.kind == "timestamp":
        utc = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo is not None else value
        return (utc - _EPOCH) // _MICROSECOND * (1000 if t.unit == "ns" else 1)
    if t.kind == "date":
        return (value - _EPOCH.date()).days
    if t.kind == "interval":
        return value // _MICROSECOND * (1000 if t.unit == "ns" else 1)
    if t.kind == "decimal":
        return int(Decimal(value).scaleb(t.scale, _WIDE).to_integral_value(ROUND_HALF_UP))
    return value


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z_0-9]*\Z")

_Piece = str | tuple[Node, int]  # text, or a node within surroundings of some strength


def to_sql(node: Node, limit: int = LONGEST_TEXT) -> str:
    """The node as Spark SQL text, for explain() and error messages; cut where it is longer than the limit.

    >>> x, a = column("r", "x"), column("s", "odd name")
    >>> to_sql(Node("le", (Node("abs", (Node("sub", (x, a)),)), literal(10))))
    'abs(r.x - s.`odd name`) <= 10'
    """
    texts: list[str] = []
    length = 0
    stack: list[_Piece] = [(node, 0)]
    while stack:
        piece = stack.pop()
        if not isinstance(piece, str):
            stack.extend(reversed(_pieces(*piece)))
            continue
        texts.append(piece)
        length += len(piece)
        if length > limit:
            return "".join(texts)[:limit] + "..."
    return "".join(texts)


def brief(node: Node) -> str:
    """The node's text as messages show it."""
    return cut(to_sql(node, 2 * SHOWN), 2 * SHOWN)


def identity(node: Node) -> str:
    """A text that only this tree has: its SQL; if that had to be cut, with its digest."""
    text = to_sql(node)
    return text if len(text) <= LONGEST_TEXT else f"{text} {node.digest.hex()}"


def _pieces(node: Node, outer: int) -> list[_Piece]:
    """A node's text, with its arguments still to be written.

    `outer` is the binding strength of the surroundings; weaker text gets parentheses.
    """
    op, args = node.op, node.args
    row = OPERATIONS.get(op)
    if row is not None and row.sign:
        sign, strength = row.sign, row.strength
        # A right operand of equal strength needs parentheses: a - (b - c), and comparisons do not chain.
        first = strength + 1 if row.rule == "comparison" else strength
        rest = strength if row.rule == "logic" else strength + 1
        pieces: list[_Piece] = [(args[0], first)]
        for arg in args[1:]:
            pieces += [f" {sign} ", (arg, rest)]
        return _wrap(pieces, strength, outer)
    if op == "column":
        side, name = node.column
        quoted = name if _PLAIN.match(name) else "`" + name.replace("`", "``") + "`"
        return [f"{side}.{quoted}" if side else quoted]
    if op == "literal":
        text = literal_sql(node.constant, node.type)
        return [f"({text})" if text.startswith("-") and outer > 5 else text]
    if op == "cast":
        return ["CAST(", (args[0], 0), f" AS {sql_name(node.target)})"]
    if op == "not":
        if args[0].op == "is_null":
            return _wrap([(args[0].args[0], 5), " IS NOT NULL"], 4, outer)
        return _wrap(["NOT ", (args[0], 3)], 3, outer)
    if op == "is_null":
        return _wrap([(args[0], 5), " IS NULL"], 4, outer)
    if op == "neg":
        return ["-(", (args[0], 0), ")"] if args[0].op == "literal" else ["-", (args[0], 8)]
    if op == "case":
        whens: list[_Piece] = []
        for k in range(0, len(args) - 1, 2):
            whens += [" WHEN ", (args[k], 0), " THEN ", (args[k + 1], 0)]
        return ["CASE", *whens, " ELSE ", (args[-1], 0), " END"]
    if op == "in":  # only before resolve, which turns it into an `or` of equalities
        return _wrap([(args[0], 5), " IN (", *_separated(args[1:]), ")"], 4, outer)
    if op == "function":
        name = getattr(node.value, "__name__", "function").strip("<>")
        return [f"python {name}(", *_separated(args), ")"]
    return [f"{op}(", *_separated(args), ")"]


def _separated(args: tuple[Node, ...]) -> list[_Piece]:
    pieces: list[_Piece] = []
    for arg in args:
        pieces += [", ", (arg, 0)]
    return pieces[1:]


def _wrap(pieces: list[_Piece], strength: int, outer: int) -> list[_Piece]:
    return ["(", *pieces, ")"] if strength < outer else pieces


def literal_sql(value: Any, type: Type | None = None) -> str:
    """A constant as Spark SQL text that reads back as the same value and kind.

    >>> literal_sql(1.5), literal_sql(Decimal("1.5")), literal_sql("a"), literal_sql(dt.timedelta(seconds=90))
    ('1.5D', '1.5', "'a'", "INTERVAL '90' SECOND")
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        name = "float" if type is not None and type.bits == 32 else "double"
        if not math.isfinite(value):
            text = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
            return f"CAST('{text}' AS {name})"
        return f"{value!r}D" if name == "double" else f"{_shortest_float32(value)}F"
    if isinstance(value, Decimal):
        # Written out, 1E+999999999 would fill the memory.
        plain = value.is_finite() and abs(value.adjusted()) <= 1000
        text = format(value, "f") if plain else str(value)
        return text if "." in text else text + "BD"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if isinstance(value, dt.datetime):
        wall_clock = type is not None and not type.aware
        return f"TIMESTAMP{'_NTZ' if wall_clock else ''} '{value.isoformat(sep=' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, dt.timedelta):
        return _interval_sql(value // _MICROSECOND)
    if isinstance(value, int) and value.bit_length() > 200:  # no constant can be so large
        return shown(value)
    return str(value)


def _interval_sql(micros: int) -> str:
    """In the longest unit that needs no fraction, or else in seconds."""
    for unit, length in (("DAY", 86_400), ("HOUR", 3_600), ("MINUTE", 60)):
        if micros and micros % (length * 1_000_000) == 0:
            return f"INTERVAL '{micros // (length * 1_000_000)}' {unit}"
    whole, part = divmod(abs(micros), 1_000_000)
    digits = f"{whole}.{part:06d}".rstrip("0").rstrip(".")
    return f"INTERVAL '{'-' if micros < 0 else ''}{digits}' SECOND"


def _shortest_float32(value: float) -> str:
    import numpy as np

    return str(np.float32(value))


def too_large(verb: str, size: int, what: str, limit: int) -> PredicateError:
    """The error for a predicate that would take too long to compile."""
    return PredicateError(
        f"the predicate {verb} {size:,} {what}, and at most {limit:,} are compiled; compute parts of it as columns "
        "before joining, or put long lists into a table and join that"
    )


def between(value: Node, low: Node, high: Node) -> Node:
    """value >= low AND value <= high."""
    return junction("and", [Node("ge", (value, low)), Node("le", (value, high))])


def negate(value: Node) -> Node:
    """-value, with the sign of a plain number drawn into it, so that the smallest bigint can be written."""
    number = value.value
    if value.op == "literal" and isinstance(number, (int, float, Decimal)) and not isinstance(number, bool):
        # Python's minus rounds a Decimal to 28 digits.
        minus = number.copy_negate() if isinstance(number, Decimal) else -number
        return Node("literal", value=minus, type=value.type)
    return Node("neg", (value,))
