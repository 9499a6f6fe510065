"""Records: one declaration for NumPy and Numba; layout, inheritance, nesting, use by address."""

from __future__ import annotations

import ctypes
from typing import Annotated, Any

import numpy as np
import pytest

from streamjoin.codegen.intrinsics import record_at, records_at
from streamjoin.codegen.jit import njit, on_demand
from streamjoin.codegen.records import Address, PerSide, Record, Word, address


class Item(Record):
    kind: Word
    weight: Annotated[float, np.float64]


class Base(Record):
    index: Word
    seen: PerSide
    first: Item


class Derived(Base):
    flag: Annotated[bool, np.bool_]
    own: Word
    items: Annotated[Any, (Item, 3)]


class Parcel(Record):
    node: Address
    items: Address
    count: Word


@njit(nogil=True)
def change(node):
    """Reads and writes fields, nested ones too; copies whole records."""
    node.index += 1
    node.seen[1] = node.seen[0] + 10
    node.first.kind = 7
    return node.first.weight


@njit(nogil=True)
def fill(node):
    node.items[2].kind = 5
    node.items[1] = node.items[2]
    node.first = node.items[1]
    node.flag = True
    return node.own


@on_demand
def by_address(at):
    parcel = record_at(at, Parcel)
    node, items = record_at(parcel.node, Derived), records_at(parcel.items, parcel.count, Item)
    for k in range(len(items)):
        node.own += items[k].kind
        items[k] = node.first
    return node.own


@njit
def call_by_address(at):
    return record_at(at, Base).seen[1]


def test_a_derived_record_begins_with_its_base() -> None:
    offsets = Derived.dtype.fields
    assert offsets is not None and Base.dtype.fields is not None
    assert [offsets[name][1] for name in Base.dtype.names or ()] == [0, 8, 24]
    assert all(offsets[name][:2] == Base.dtype.fields[name][:2] for name in Base.dtype.fields)
    assert Derived.dtype.isalignedstruct and offsets["own"][1] == 48  # behind a bool


def test_python_and_compiled_code_read_the_same_fields() -> None:
    node = Derived.new()
    node.seen[0], node.first.weight = 4, 0.5
    assert change(node) == 0.5
    assert (node.index, node.seen.tolist(), node.first.kind) == (1, [4, 14], 7)
    node.own = 9
    assert fill(node) == 9
    assert node.first.kind == node.items[1].kind == 5 and node.flag


def test_by_address() -> None:
    node, items, parcel = Derived.new(), Item.array(4), Parcel.new()
    items["kind"] = range(4)
    node.seen[1], node.first.kind = 3, 8
    parcel.node, parcel.items, parcel.count = address(node), address(items), 4
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(by_address.address)
    assert function(address(parcel)) == node.own == 0 + 1 + 2 + 3
    assert items["kind"].tolist() == [8] * 4
    assert call_by_address(address(node)) == 3  # as its base


def test_a_field_needs_a_numpy_type_and_a_name_of_its_own() -> None:
    with pytest.raises(TypeError, match=r"Wrong\.length is annotated with .*int.*, which has no NumPy type"):

        class Wrong(Record):
            length: int

    with pytest.raises(TypeError, match=r"Hidden\.size would be hidden"):

        class Hidden(Record):
            size: Word
