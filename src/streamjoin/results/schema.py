"""The columns of a result: their names, and the column of a side that each comes from."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from streamjoin.plan.plan import SIDES, Plan


class Column(NamedTuple):
    """A column of the result."""

    name: str
    side: int
    source: pa.Field  # in its own schema

    @property
    def field(self) -> pa.Field:
        return self.source.with_name(self.name)


def columns(plan: Plan) -> list[Column]:
    """The result's columns, those of r first."""
    names = plan.output_names()
    return [
        Column(name, side, source)
        for side, letter in enumerate(SIDES)
        for source, name in zip(plan.schemas[letter], names[letter], strict=True)
    ]


def result_schema(plan: Plan) -> pa.Schema:
    """The schema of the result."""
    return pa.schema([column.field for column in columns(plan)])
