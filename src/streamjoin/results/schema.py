"""The schema of a result; `plan/columns.py` says where each of its columns comes from."""

from __future__ import annotations

import pyarrow as pa

from streamjoin.plan.columns import Column, columns
from streamjoin.plan.plan import Plan

__all__ = ["Column", "columns", "result_schema"]


def result_schema(plan: Plan) -> pa.Schema:
    """The schema of the result."""
    return pa.schema([column.field for column in columns(plan)])
