"""Tuples that are nothing but boxes, for segments that keep them and are searched: a plain list is the judge."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from streamjoin.access.records import Probing, Range
from streamjoin.access.segment import Segment
from streamjoin.access.tuples import Tuples
from streamjoin.codegen.records import Array, address
from streamjoin.windows import FOREVER

SIZES = tuple(np.dtype(kind) for kind in (np.bool_, np.int16, np.float32, np.int64))
FIRST_NUMBER = (1 << 32) - 1000  # the stored half of a number comes round


def tuples(lo: Array, hi: Array, key: Array | None = None, first: int = 0, reach: int = FOREVER) -> Tuples:
    """A batch of boxes, one after the other in time; each meets what is not farther away than `reach`."""
    n = lo.shape[1]
    at = np.arange(first, first + n)
    columns = tuple(((at * 7 + k) % 251).astype(dtype) for k, dtype in enumerate(SIZES))
    since, until = (np.full(n, -FOREVER), np.full(n, FOREVER)) if reach == FOREVER else (at - reach, at + reach)
    lo, hi = lo.astype(np.float32), hi.astype(np.float32)
    keys = np.zeros(n, np.uint32) if key is None else key.astype(np.uint32)
    width = np.zeros(len(lo), np.float32)
    return Tuples(columns, lo, hi, lo.copy(), width, keys, at, since, until, at + FIRST_NUMBER)


def found(segment: Segment, probes: Tuples, room: int = 1000) -> tuple[Array, Array, int]:
    """What probes are offered, as pairs of (index of the probe, tuple number), and comparisons."""
    ranges, order, search = Range.array(room), np.empty(len(probes), np.uint32), Probing.new()
    search.order = address(order)
    search.batch, search.stored, search.end = address(probes.record), segment.address, len(probes)
    search.ranges, search.range_room = address(ranges), room
    who, where, more = [], [], True
    while more:
        more = not segment.find(address(search))
        filled = ranges[: search.count]
        lengths = filled["stop"] - filled["start"]
        who.append(np.repeat(filled["probe"], lengths))
        shifts = np.repeat(filled["start"] - np.cumsum(lengths) + lengths, lengths)
        where.append(shifts + np.arange(lengths.sum()))
    probe, position = np.concatenate(who), np.concatenate(where)
    at, low = (_at(segment.record, name, kind)[position] for name, kind in (("at", np.int64), ("number", np.uint32)))
    for k, column in enumerate(segment.columns):
        assert np.array_equal(column[position], ((at * 7 + k) % 251).astype(column.dtype))
    newest = int(segment.record.stop) - 1
    return probe, newest - ((newest - low.astype(np.int64)) & 0xFFFFFFFF), int(search.compared)


def _at(record: Any, name: str, kind: Any) -> Array:
    """An array of a segment, as its record has it."""
    memory = (ctypes.c_char * (int(record.room) * np.dtype(kind).itemsize)).from_address(int(record[name]))
    return np.frombuffer(memory, kind)


def touching(probes: Tuples, stored: Tuples, keyed: bool, horizon: int = -FOREVER) -> Array:
    """All pairs (index of the probe, tuple number) whose boxes touch, as an array of two columns."""
    touch = (stored.at >= horizon)[None, :] & np.ones((len(probes), 1), np.bool_)
    for d in range(len(probes.lo)):
        touch &= stored.lo[d][None, :] <= probes.hi[d][:, None]
        touch &= stored.hi[d][None, :] >= probes.lo[d][:, None]
    if keyed:
        touch &= stored.key[None, :] == probes.key[:, None]
    i, j = np.nonzero(touch)
    return np.stack([i, stored.number[j]])


def check(segment: Segment, probes: Tuples, stored: Tuples, horizon: int = -FOREVER, exactly: bool = True) -> None:
    """A search offers all that touch, none of them twice; `exactly`: and nothing else."""
    probe, number, _ = found(segment, probes)
    expected = touching(probes, stored, segment.shape.keyed, horizon)
    got, want = (sorted(zip(*pairs, strict=True)) for pairs in ((probe, number), expected))
    assert len(set(got)) == len(got)
    assert got == want if exactly else set(got) >= set(want)


def all_of(batches: list[Tuples]) -> Tuples:
    lo, hi, key = (np.concatenate([getattr(batch, name) for batch in batches], axis=-1) for name in ("lo", "hi", "key"))
    return tuples(lo, hi, key)
