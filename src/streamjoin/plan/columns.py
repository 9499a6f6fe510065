"""The columns of a result: of r and s, computed from a pair, or aggregated; and the types of what is computed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from streamjoin.errors import OptionError, PredicateError, SchemaError, StreamjoinError, cut, listed
from streamjoin.kinds import Aggregate, Item, Kind
from streamjoin.predicate.resolve import locate, resolve_value
from streamjoin.predicate.tree import SIDES, Node, brief, column
from streamjoin.predicate.types import FLOAT64, INT64, Type, decimal, to_arrow

if TYPE_CHECKING:
    from streamjoin.plan.plan import Plan

TEXT = ("string", "binary")
SUMMED = ("int", "float", "decimal", "interval")
WIDEST = 38  # digits of a decimal


@dataclass(frozen=True)
class Column:
    """A column of the result: of a side, or computed from a pair, or from all partners of an r."""

    name: str
    side: int | None  # None: computed
    source: pa.Field  # in its own schema, or what is computed
    node: Node | None = None
    aggregate: Aggregate | None = None
    nullable: bool = False  # null where there is no partner

    @property
    def field(self) -> pa.Field:
        named = self.source.with_name(self.name)
        return named.with_nullable(True) if self.nullable else named


def typed(kind: Kind, schema_r: pa.Schema, schema_s: pa.Schema) -> Kind:
    """A kind with typed expressions and stars replaced by columns. Checks everything that depends on the schemas."""
    if kind.plain:
        return kind

    def value(node: Node, where: str) -> Node:
        try:
            return resolve_value(node, schema_r, schema_s)
        except StreamjoinError as error:
            raise type(error)(f"{where}: {error}") from None

    def item(wanted: Item) -> list[Item]:
        if wanted.star:
            names = (schema_r if wanted.star == "r" else schema_s).names
            return [Item(column(wanted.star, name)) for name in names]
        node = wanted.node
        assert node is not None
        if node.op == "column":
            node = column(*locate(node, schema_r, schema_s))
        else:
            node = value(node, "select=")
            if node.typed.kind in TEXT:
                raise PredicateError(f"select= has {brief(node)}, a text that is no column; texts cannot be computed")
            if wanted.name is None:
                raise OptionError(f'select= has {brief(node)} without a name; write "{brief(node)} AS name"')
        if kind.per_r and "s" in node.reads:
            raise OptionError(kind.no_s(brief(node)))
        return [replace(wanted, node=node)]

    take = kind.take
    if take.by is not None:
        by = value(take.by, f"take={take.name}()")
        _ordered(by, f"take={take.name}()")
        take = replace(take, by=by)
    aggregates = tuple(_aggregate(found, schema_r, schema_s) for found in kind.aggregate)
    select = None if kind.select is None else tuple(part for wanted in kind.select for part in item(wanted))
    return Kind(kind.how, take, aggregates, select)


def _aggregate(wanted: Aggregate, schema_r: pa.Schema, schema_s: pa.Schema) -> Aggregate:
    where = f'aggregate={{"{cut(wanted.name)}": ...}}'
    try:
        args = [resolve_value(node, schema_r, schema_s) for node in wanted.args[-1:]]
        if len(wanted.args) == 2:  # the value of min_by and max_by, which may be a column of any type
            first = wanted.args[0]
            chosen = column(*locate(first, schema_r, schema_s)) if first.op == "column" else None
            args.insert(0, chosen or resolve_value(first, schema_r, schema_s))
    except StreamjoinError as error:
        raise type(error)(f"{where}: {error}") from None
    found = replace(wanted, args=tuple(args))
    if wanted.function in ("sum", "avg") and args[0].typed.kind not in SUMMED:
        raise PredicateError(f"{where}: {wanted.function} needs numbers or intervals, not {brief(args[0])}")
    if wanted.function in ("min", "max", "min_by", "max_by"):
        _ordered(args[-1], where)
    if len(args) == 2 and args[0].op != "column" and args[0].typed.kind in TEXT:
        raise PredicateError(f"{where}: {brief(args[0])} is a text that is no column; texts cannot be computed")
    return found


def _ordered(node: Node, where: str) -> None:
    if node.typed.kind in TEXT:
        raise PredicateError(f"{where}: {brief(node)} is text, which has no order here; order by a number or a time")


def aggregate_type(aggregate: Aggregate, schemas: dict[str, pa.Schema]) -> pa.DataType:
    """The type of an aggregate, as in Spark. An aggregate that returns one of the values keeps its column's type."""
    if aggregate.function == "count":
        return pa.int64()
    node = aggregate.args[0]
    if aggregate.function in ("sum", "avg"):
        return to_arrow(summed_type(aggregate.function, node.typed))
    if node.op == "column":
        side, name = node.column
        found = schemas[side].field(name).type
        return found.value_type if pa.types.is_dictionary(found) and len(aggregate.args) == 1 else found
    return to_arrow(node.typed)


def summed_type(function: str, t: Type) -> Type:
    """The type of a sum or an average of values of a type."""
    if t.kind == "interval":
        return t
    if t.kind == "decimal":
        more = (10, 0) if function == "sum" else (4, 4)
        return decimal(min(t.precision + more[0], WIDEST), min(t.scale + more[1], WIDEST))
    return INT64 if function == "sum" and t.kind == "int" else FLOAT64


def columns(plan: Plan) -> list[Column]:
    """The result's columns: those of r first, or as `select` has them; then the aggregates."""
    kind = plan.kind
    if kind.select is None:
        if not kind.per_r:
            names = plan.output_names()
            return [
                Column(name, side, source, nullable=kind.how.nullable(side))
                for side, letter in enumerate(SIDES)
                for source, name in zip(plan.schemas[letter], names[letter], strict=True)
            ]
        found = [Column(source.name, 0, source) for source in plan.schemas["r"]]
    else:
        found = _selected(plan, kind.select)
    for aggregate in kind.aggregate:
        source = pa.field(aggregate.name, aggregate_type(aggregate, plan.schemas))
        found.append(Column(aggregate.name, None, source, aggregate=aggregate))
    twice = _twice(plan, found)
    if twice:
        raise SchemaError(f"the result would have two columns named {listed(twice)}; give one another name, with AS")
    return found


def result_schema(plan: Plan) -> pa.Schema:
    """The schema of the result."""
    return pa.schema([column.field for column in columns(plan)])


def _selected(plan: Plan, select: tuple[Item, ...]) -> list[Column]:
    found = []
    for item in select:
        node = item.node
        assert node is not None
        if node.op == "column" and node.type is None:
            side = SIDES.index(node.column[0])
            source = plan.schemas[SIDES[side]].field(node.column[1])
            found.append(Column(item.name or source.name, side, source, nullable=plan.kind.how.nullable(side)))
        else:
            assert item.name is not None
            found.append(Column(item.name, None, pa.field(item.name, to_arrow(node.typed)), node))
    return found


def _twice(plan: Plan, found: list[Column]) -> list[str]:
    counted = Counter(plan.same(chosen.name) for chosen in found)
    return sorted(name for name, count in counted.items() if count > 1)
