"""Gives every node of a predicate the type that Spark (ANSI off) gives it, with implicit casts spelled out.

Where Spark rounds, wraps or guesses and an exact answer cannot be promised, the predicate is refused, with a
remedy.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from streamjoin.errors import PredicateError, SchemaError, cut, shown, suggest
from streamjoin.predicate import arithmetic
from streamjoin.predicate.coerce import FLOATING, cast_to, common, show
from streamjoin.predicate.compare import compare, is_in
from streamjoin.predicate.fold import int_range
from streamjoin.predicate.function import columns_read
from streamjoin.predicate.operations import OPERATIONS, Rule
from streamjoin.predicate.tree import OTHER, Node, bottom_up, brief, literal, physical, too_large, walk
from streamjoin.predicate.types import (
    BINARY,
    BOOL,
    DATE,
    FLOAT64,
    INT32,
    INT64,
    MAX_DECIMAL,
    NULL,
    STRING,
    Type,
    decimal,
    from_arrow,
    interval,
    sql_name,
    timestamp,
)

if TYPE_CHECKING:
    import pyarrow as pa

MAX_NODES = 5_000
"""Distinct nodes of a predicate: far more than code is emitted for, so that it is refused before it takes time."""


def resolve(tree: Node, schema_r: pa.Schema, schema_s: pa.Schema) -> Node:
    """The typed predicate over these two schemas.

    >>> import pyarrow as pa
    >>> from streamjoin.predicate.sql import parse
    >>> from streamjoin.predicate.tree import to_sql
    >>> r, s = pa.schema([("x", pa.int32())]), pa.schema([("a", pa.float32())])
    >>> to_sql(resolve(parse("r.x BETWEEN s.a - 10 AND s.a + 0.5"), r, s))
    'CAST(r.x AS float) >= s.a - 10.0F AND CAST(r.x AS double) <= CAST(s.a AS double) + 0.5D'
    """
    typed, resolver = _typed(tree, schema_r, schema_s)
    if typed.type == NULL:
        typed = cast_to(typed, BOOL)
    if typed.type != BOOL:
        raise PredicateError(
            f"not a predicate: {show(typed)} is not a condition; compare it with something, as in r.x <= s.y"
        )
    return _settled(typed, resolver.unit)


def resolve_value(tree: Node, schema_r: pa.Schema, schema_s: pa.Schema) -> Node:
    """A typed expression of any type over these two schemas.

    >>> import pyarrow as pa
    >>> from streamjoin.predicate.sql import parse
    >>> r, s = pa.schema([("x", pa.int32())]), pa.schema([("a", pa.float32())])
    >>> str(resolve_value(parse("r.x - s.a"), r, s).type)
    'float'
    """
    typed, resolver = _typed(tree, schema_r, schema_s)
    if typed.type == NULL:
        raise PredicateError(f"{brief(tree)} is null and has no type; give it one, as in CAST(NULL AS int)")
    return _settled(typed, resolver.unit)


def locate(tree: Node, schema_r: pa.Schema, schema_s: pa.Schema) -> tuple[str, str]:
    """The side and the exact name of a column, which may have any type."""
    return _Resolver({"r": schema_r, "s": schema_s}).locate(*tree.column)


def _typed(tree: Node, schema_r: pa.Schema, schema_s: pa.Schema) -> tuple[Node, _Resolver]:
    nodes = bottom_up(tree)
    if len(nodes) > MAX_NODES:
        raise too_large("has", len(nodes), "operations, columns and constants", MAX_NODES)
    resolver = _Resolver({"r": schema_r, "s": schema_s})
    resolver.find_unit(tree)
    for node in nodes:
        resolver.visit(node)
    return resolver.typed[tree], resolver


def _settled(typed: Node, unit: str) -> Node:
    settled: dict[Node, Node] = {}
    for node in bottom_up(typed):
        settled[node] = _settle(node, tuple(settled[arg] for arg in node.args), unit)
    return settled[typed]


class _Resolver:
    """One run over one tree: knows the schemas, the predicate's unit of time and what is typed already."""

    def __init__(self, schemas: dict[str, pa.Schema]) -> None:
        self.schemas = schemas
        self.unit = "us"
        self.typed: dict[Node, Node] = {}

    def find_unit(self, tree: Node) -> None:
        """Nanoseconds if any column that the predicate reads needs them, else microseconds."""
        for node in walk(tree):
            if node.op == "column":
                t = from_arrow(self.field(node).type)
                if t is not None and t.unit == "ns":
                    self.unit = "ns"
            elif node.op == "function":
                for side, name in columns_read(node.function, self.names()):
                    t = from_arrow(self.schemas[side].field(name).type)
                    if t is not None and t.unit == "ns":
                        self.unit = "ns"

    def names(self) -> dict[str, list[str]]:
        return {side: list(schema.names) for side, schema in self.schemas.items()}

    def visit(self, node: Node) -> None:
        """Types a node whose arguments are typed."""
        self.typed[node] = self.as_typed(node, [self.typed[arg] for arg in node.args])

    def as_typed(self, node: Node, args: list[Node]) -> Node:
        if node.op == "column":
            return self.column(node)
        if node.op == "literal":
            return self.literal(node)
        if node.op == "function":
            return self.function(node)
        return RULES[OPERATIONS[node.op].rule](node, args, self.unit)

    def field(self, node: Node) -> pa.Field[Any]:
        """The Arrow field that a column node means, with its side found if the text names none."""
        side, name = self.locate(*node.column)
        return self.schemas[side].field(name)

    def locate(self, side: str, name: str) -> tuple[str, str]:
        """The (side, name) meant: spelled exactly so, or else the only one that differs in case."""
        candidates = [side] if side else ["r", "s"]
        found = [(c, name) for c in candidates if name in self.schemas[c].names]
        if not found:
            found = [(c, n) for c in candidates for n in self.schemas[c].names if n.lower() == name.lower()]
        if not found:
            where = f"{side} has no" if side else "neither r nor s has a"
            known = [n for c in candidates for n in self.schemas[c].names]
            other = OTHER.get(side, "")
            there = other and name in self.schemas[other].names
            here = f"but {other} has: write {other}.{cut(name)}; or " if there else ""
            raise SchemaError(f'{where} column "{cut(name)}" (in the predicate); {here}{suggest(name, known)}')
        if len(found) > 1:
            options = " or ".join(f'{c}["{cut(n)}"]' for c, n in found[:4])
            remedy = "say which side is meant, as in r.x" if not side else "spell it exactly"
            raise SchemaError(f'column "{cut(name)}" in the predicate is ambiguous: {options}; {remedy}')
        where, exact = found[0]
        if self.schemas[where].names.count(exact) > 1:
            raise SchemaError(f'{where} has several columns named "{cut(exact)}"; rename all but one first')
        return where, exact

    def column(self, node: Node) -> Node:
        side, name = self.locate(*node.column)
        arrow = self.schemas[side].field(name).type
        t = from_arrow(arrow)
        if t is None:
            raise SchemaError(
                f'column "{cut(name)}" of {side} has type {cut(str(arrow))}, which a predicate cannot use; '
                "extract a number, time or text from it before joining (other columns may have any type)"
            )
        if t.kind == "decimal" and (t.precision > MAX_DECIMAL or t.scale < 0):
            raise SchemaError(
                f'column "{cut(name)}" of {side} is {arrow}: decimals in predicates have at most '
                f"{MAX_DECIMAL} digits and no negative scale; cast it before joining, for example to "
                f"decimal({MAX_DECIMAL},{min(max(t.scale, 0), MAX_DECIMAL)})"
            )
        if t == NULL:
            return literal(None, NULL)
        return Node("column", value=(side, name), type=_with_unit(t, self.unit))

    def literal(self, node: Node) -> Node:
        value = node.constant
        t = node.type if node.type is not None else _literal_type(node)
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError:
                raise PredicateError(f"the text {brief(node)} is not Unicode: half of a surrogate pair") from None
        if t.kind == "int" and value is not None:
            low, high = int_range(t.bits)
            if not low <= value <= high:
                raise PredicateError(f"the constant {shown(value)} is not a valid {sql_name(t)} ({low} to {high})")
        if t.kind == "decimal" and value is not None and t.precision > 38:
            raise PredicateError(
                f"the constant {cut(str(value))} has {t.precision:,} digits, and a decimal has at most 38; "
                "shorten it or write it as a double, with a D at the end"
            )
        return Node("literal", value=value, type=_with_unit(t, self.unit))

    def function(self, node: Node) -> Node:
        args = []
        for (side, name), certain in columns_read(node.function, self.names()).items():
            known = from_arrow(self.schemas[side].field(name).type)
            usable = known is not None and known.kind in _IN_FUNCTIONS
            if not usable and not certain:
                continue
            arg = self.column(Node("column", value=(side, name)))
            if not usable:
                raise PredicateError(
                    f"{show(arg)} cannot be used in a Python function (numbers, bools, dates and timestamps "
                    "can); write the predicate as SQL text or with r and s, or cast the column before joining"
                )
            args.append(arg)
        return Node("function", tuple(args), node.value, BOOL)


_IN_FUNCTIONS = frozenset({"bool", "int", "float", "timestamp", "date", "interval"})


def _with_unit(t: Type, unit: str) -> Type:
    return replace(t, unit=unit) if t.kind in ("timestamp", "interval") and t != FLOATING else t


def _literal_type(node: Node) -> Type:
    """Spark's type of a constant that does not say it."""
    value = node.constant
    if value is None:
        return NULL
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        low, high = int_range(32)
        if low <= value <= high:
            return INT32
        low, high = int_range(64)
        if low <= value <= high:
            return INT64
        raise PredicateError(f"the constant {shown(value)} does not fit 64 bits ({low} to {high}); use a double")
    if isinstance(value, float):
        return FLOAT64
    if isinstance(value, Decimal):
        _, digits, exponent = value.as_tuple()
        if not isinstance(exponent, int):
            raise PredicateError(f"the constant {cut(str(value))} is not a number that a decimal can hold; use a float")
        scale = max(-exponent, 0)
        return decimal(max(len(digits) + max(exponent, 0), scale, 1), scale)
    if isinstance(value, str):
        return STRING
    if isinstance(value, bytes):
        return BINARY
    if isinstance(value, dt.datetime):
        return timestamp(aware=True) if value.tzinfo is not None else FLOATING
    if isinstance(value, dt.date):
        return DATE
    if isinstance(value, dt.timedelta):
        return interval()
    raise PredicateError(f"a constant of type {type(value).__name__} cannot be used in a predicate: {shown(value)}")


def _condition(what: str, node: Node) -> Node:
    if node.type == NULL:
        return cast_to(node, BOOL)
    if node.type != BOOL:
        raise PredicateError(f"{what} needs conditions, and {show(node)} is not one; compare it, as in ... <> 0")
    return node


def _choice(op: str, args: list[Node]) -> Node:
    """least, greatest, coalesce."""
    target = common(args, f"{op}(...)")
    if target == NULL:
        return literal(None, NULL)
    _no_text(op, args, target)
    if len(args) == 1:
        return args[0]
    return Node(op, tuple(cast_to(arg, target) for arg in args), type=target)


def _case(args: list[Node]) -> Node:
    values = [*args[1:-1:2], args[-1]]
    target = common(values, "CASE")
    if target == NULL:
        return literal(None, NULL)
    _no_text("CASE", values, target)
    typed: list[Node] = []
    for k in range(0, len(args) - 1, 2):
        typed += [_condition("CASE WHEN", args[k]), cast_to(args[k + 1], target)]
    return Node("case", (*typed, cast_to(args[-1], target)), type=target)


RULES: dict[Rule, Callable[[Node, list[Node], str], Node]] = {
    "logic": lambda node, args, unit: Node(node.op, tuple(_condition(node.op.upper(), arg) for arg in args), type=BOOL),
    "comparison": lambda node, args, unit: compare(node.op, *args),
    "is_null": lambda node, args, unit: Node(node.op, tuple(args), type=BOOL),
    "in": lambda node, args, unit: is_in(args[0], args[1:]),
    "arithmetic": lambda node, args, unit: arithmetic.binary(node.op, args[0], args[1], unit),
    "signed": lambda node, args, unit: arithmetic.signed(node.op, args[0]),
    "whole": lambda node, args, unit: arithmetic.whole(node.op, args[0]),
    "round": lambda node, args, unit: arithmetic.rounded(node.op, args[0]),
    "double": lambda node, args, unit: arithmetic.double(node.op, args),
    "choice": lambda node, args, unit: _choice(node.op, args),
    "case": lambda node, args, unit: _case(args),
    "cast": lambda node, args, unit: cast_to(args[0], _with_unit(node.target, unit)),
}
"""From a node and its typed arguments, and the predicate's unit of time, to the typed node."""


def _no_text(what: str, args: list[Node], target: Type) -> None:
    if target in (STRING, BINARY):
        text = next(arg for arg in args if arg.type == target)
        raise PredicateError(
            f"{what} cannot choose between texts ({show(text)}); compare the columns themselves with = and "
            "combine the conditions with AND and OR"
        )


def _settle(node: Node, args: tuple[Node, ...], unit: str) -> Node:
    """The last step: timestamps still without a zone become naive, constants must fit their 64 bits."""
    naive = timestamp(unit)
    t = naive if node.type == FLOATING else node.type
    value = naive if node.op == "cast" and node.value == FLOATING else node.value
    if node.op == "cast" and args[0].type == t:
        return args[0]
    settled = Node(node.op, args, value, t)
    if node.op == "literal" and t is not None and t.kind in ("timestamp", "interval", "decimal"):
        low, high = int_range(64)
        try:
            stored = physical(settled)
        except OverflowError:  # a timestamp whose instant in UTC lies outside the years 1 to 9999
            stored = high + 1
        if stored is not None and not low <= stored <= high:
            raise PredicateError(
                f"the constant {brief(node)} does not fit 64 bits as {sql_name(t)}"
                + (f" counted in {t.unit}; use a shorter constant or coarser columns" if t.unit else "")
            )
    return settled
