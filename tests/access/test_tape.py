"""Segments on a tape against a plain list: written, grown, shrunk, expired, every tuple in reach is found once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamjoin.access import tape as tape_module
from streamjoin.access.hash import Hash
from streamjoin.access.records import Probing, Range
from streamjoin.access.scan import Scan
from streamjoin.access.tape import OWN_CHUNK, OnTape, Tape
from streamjoin.access.tuples import Shape, Tuples
from streamjoin.codegen.records import Array, address

COLUMNS = (np.dtype(np.int16), np.dtype(np.float64))


class Stream:
    """Tuples in order of arrival, all that were ever made."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.at, self.key = np.zeros(0, np.int64), np.zeros(0, np.uint32)
        self.lo = self.hi = np.zeros((2, 0), np.float32)

    def batch(self, n: int, widest: int) -> Tuples:
        random, first = self.random, len(self.at)
        at = np.arange(first, first + n) // 3
        lo = random.integers(0, 200, (2, n)).astype(np.float32)
        hi = lo + random.integers(0, widest + 1, (2, n)).astype(np.float32)
        key = random.integers(0, 60, n).astype(np.uint32) * np.uint32(2654435761)
        columns = tuple((at * 7).astype(dtype) for dtype in COLUMNS)
        self.at, self.key = np.append(self.at, at), np.append(self.key, key)
        self.lo, self.hi = np.append(self.lo, lo, axis=1), np.append(self.hi, hi, axis=1)
        number, width = np.arange(first, first + n), np.full(2, widest, np.float32)
        return Tuples(columns, lo, hi, lo.copy(), width, key, at, at - 400, at + 400, number)


def found(segment: OnTape, probes: Tuples, room: int) -> set[tuple[int, int]]:
    """Candidates as (index of the probe, tuple number); none comes twice."""
    ranges, search = Range.array(room), Probing.new()
    search.batch, search.stored, search.end = address(probes.record), segment.address, len(probes)
    search.low, search.high, search.newest = segment.record.oldest, segment.record.stop, segment.record.stop - 1
    search.ranges, search.range_room = address(ranges), room
    number, pairs, more = segment.tape.arrays["low_number"], [], True
    while more:
        more = not segment.find(address(search))
        filled = ranges[: search.count]
        lengths = filled["stop"] - filled["start"]
        shifts = np.repeat(filled["start"] - np.cumsum(lengths) + lengths, lengths)
        who, place = np.repeat(filled["probe"], lengths), shifts + np.arange(lengths.sum())
        pairs.append(np.stack([who, number[place]], axis=1))
    found = np.concatenate(pairs)
    assert len(np.unique(found, axis=0)) == len(found)
    return {(int(probe), int(stored)) for probe, stored in found}


def expected(stream: Stream, probes: Tuples, oldest: int, kind: type[OnTape], dims: int) -> set[tuple[int, int]]:
    """What no access path may miss."""
    out = set()
    for i in range(len(probes)):
        match = (stream.at >= probes.since[i]) & (stream.at <= probes.until[i])
        if kind is Hash:
            match &= stream.key == probes.key[i]
        for d in range(dims):
            match &= (stream.lo[d] <= probes.hi[d, i]) & (stream.hi[d] >= probes.lo[d, i])
        out |= {(i, int(number)) for number in np.flatnonzero(match) if number >= oldest}
    return out


@pytest.mark.parametrize(("kind", "dims"), [(Scan, 0), (Scan, 2), (Hash, 0)])
def test_against_a_plain_list(kind: type[OnTape], dims: int) -> None:
    segment, stream, probing = kind(Shape(COLUMNS, dims, kind is Hash)), Stream(1), Stream(2)
    random, rooms = stream.random, set()
    for turn in range(40):
        before = len(stream.at)
        segment.insert(stream.batch(int(random.choice([0, 1, 7, OWN_CHUNK, 5000])), int(random.choice([0, 5, 60]))))
        rooms.add(segment.tape.room)
        if turn % 3 == 2:
            kept = 20_000 if turn < 28 else 500
            segment.expire(max(len(stream.at) - kept, 0) // 3)
        oldest = int(segment.record.oldest)
        assert np.array_equal(np.flatnonzero(stream.at[oldest:] < segment.record.horizon), [])
        if turn % 8 == 0:
            probing.at = stream.at[: max(before - 900, 0)]
            probes = probing.batch(6, 10)
            candidates = found(segment, probes, 20_000 if dims else 50)
            assert expected(stream, probes, oldest, kind, dims) <= candidates
            assert all(oldest <= number < len(stream.at) for _, number in candidates)
    assert len(rooms) > 5 and segment.tape.room < max(rooms)
    segment.expire(1 << 40)
    assert len(segment) == 0


def written(tape: Tape, batch: Tuples) -> Array:
    """Which of a tape's columns hold what a batch has."""
    there = tape.positions(int(batch.number[0]), int(batch.number[-1]) + 1)
    pairs: list[tuple[Any, Any]] = list(zip(tape.columns, batch.columns, strict=True))
    pairs += [(tape.arrays[name], getattr(batch, name)) for name in ("lo", "hi", "coord", "at", "since", "number")]
    return np.array([np.array_equal(kept[..., there], given) for kept, given in pairs])


@pytest.mark.parametrize("ways", [1, 3])
def test_a_tape_that_grows_under_way(ways: int) -> None:
    tape, stream = Tape(Shape(COLUMNS, 2, True), 4, ways, 8, 100, blocks=False), Stream(3)
    batches: list[Tuples] = []
    for _ in range(100):
        batch = stream.batch(1000, 5)
        if tape.head + 1000 - 1000 * max(len(batches) - 60, 0) > tape.most:
            tape.resize(1000 * max(len(batches) - 60, 0), 2 * tape.most)
        tape.write(batch, 0, 1000)
        batches.append(batch)
        for kept in batches[-60::20]:
            assert written(tape, kept).all()


def test_a_chunk_never_has_needed_and_new_tuples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its widest box is forgotten when it is begun again: no tuple that counts may be in it by then."""
    monkeypatch.setattr(tape_module, "CHUNK", 64)
    tape = Tape(Shape(COLUMNS, 2, False), 4, 2, 8, 100, blocks=False)
    stream = Stream(4)
    for released in range(0, 20 * tape.most, tape.most // 4):
        while tape.head < released + tape.most:
            tape.write(stream.batch(8, 5), 0, 8)
        cycle = tape.ways * tape.chunk
        assert tape.head - 1 - tape.room < released // cycle * cycle
