"""Insertion by the function that a segment's record names at the moment, for segments that change their access path."""

from __future__ import annotations

from streamjoin.access.records import Stored
from streamjoin.codegen.intrinsics import call, record_at
from streamjoin.codegen.jit import on_demand


@on_demand
def take_in(address):
    """What `insert` of the record does."""
    return call(record_at(address, Stored).insert, address)
