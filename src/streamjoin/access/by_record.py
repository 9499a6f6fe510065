"""Insertion by the current function in a segment's record, for segments that change their access path."""

from __future__ import annotations

from streamjoin.access.records import Stored
from streamjoin.codegen.intrinsics import call, record_at
from streamjoin.codegen.jit import on_demand


@on_demand
def take_in(address):
    """Calls `insert` of the record."""
    return call(record_at(address, Stored).insert, address)
