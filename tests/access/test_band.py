"""A band window against a plain list: inserted, merged, moved and dropped, each tuple is found once by a probe."""

from __future__ import annotations

import itertools
from dataclasses import fields
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numba import njit

from streamjoin.access.band import index as band_module
from streamjoin.access.band.bins import choose_grid, number_bins, total_bins
from streamjoin.access.band.index import BandSegment
from streamjoin.access.band.memory import BLOCK
from streamjoin.access.band.merge import AT_ONCE, HEAD
from streamjoin.access.band.records import MOST_MERGES, Run
from streamjoin.access.band.runs import LEAST_PACE, PACE, insert
from streamjoin.access.band.search import aim, find
from streamjoin.access.records import Probing, Range
from streamjoin.access.tuples import Shape, Tuples
from streamjoin.codegen.intrinsics import FARTHEST, up32
from streamjoin.codegen.records import Array, address
from streamjoin.windows import FOREVER

SIZES = tuple(np.dtype(kind) for kind in (np.bool_, np.int16, np.float32, np.int64))
FIRST_NUMBER = (1 << 32) - 1000  # the stored half of a number comes round


def empty(dims: int = 2, keyed: bool = False, columns: tuple[Any, ...] = SIZES) -> BandSegment:
    return BandSegment(Shape(columns, dims, keyed))


class Stream:
    """Tuples of one side, all that were ever made."""

    def __init__(self, seed: int, dims: int = 2, keyed: bool = False, columns: tuple[Any, ...] = SIZES) -> None:
        self.random = np.random.default_rng(seed)
        self.dims, self.keyed, self.columns = dims, keyed, columns
        self.batches: list[Tuples] = []
        self.count = 0

    def batch(self, n: int, values: int = 1000, widest: int = 10, disorder: int = 0) -> Tuples:
        random, first = self.random, self.count
        at = np.arange(first, first + n) - random.integers(0, disorder + 1, n)
        lo = random.integers(0, values, (self.dims, n)).astype(np.float32)
        hi = lo + random.integers(0, widest + 1, (self.dims, n)).astype(np.float32)
        lo[random.random(lo.shape) < 0.02] = -FARTHEST
        hi[random.random(hi.shape) < 0.02] = FARTHEST
        width = (hi.astype(np.float64) - lo).max(axis=1, initial=0)
        key = random.integers(0, 40, n).astype(np.uint32) * np.uint32(2654435761) if self.keyed else np.zeros(n, "u4")
        columns = tuple(((at * 7 + k) % 251).astype(dtype) for k, dtype in enumerate(self.columns))
        number = np.arange(FIRST_NUMBER + first, FIRST_NUMBER + first + n)
        rounded_up = np.nextafter(width.astype(np.float32), np.float32(np.inf))
        made = Tuples(columns, lo, hi, lo.copy(), rounded_up, key, at, at - 500, at + 500, number)
        self.batches.append(made)
        self.count += n
        return made

    @property
    def sent(self) -> Tuples:
        """All tuples so far as one batch."""
        if len(self.batches) > 1:
            whole = {
                field.name: np.concatenate([getattr(batch, field.name) for batch in self.batches], axis=-1)
                for field in fields(Tuples)
                if field.name != "columns"
            }
            columns = zip(*(batch.columns for batch in self.batches), strict=True)
            self.batches = [Tuples(columns=tuple(np.concatenate(column) for column in columns), **whole)]
        return self.batches[0]


def stored(store: BandSegment, position: Array) -> Tuples:
    """What a segment has at some positions; of numbers only the low half is stored."""
    count, dims, newest = len(store.shape.columns), store.shape.dims, int(store.record.stop) - 1
    kept = [array[position] for array in store.arrays[:-1]]
    at, low, *key = kept[count + dims :]
    number = newest - ((newest - low.astype(np.int64)) & 0xFFFFFFFF)
    coord = np.array(kept[count : count + dims])
    keys = key[0] if key else np.zeros(len(at), np.uint32)
    return Tuples(tuple(kept[:count]), coord, coord, coord, coord[:, 0], keys, at, at, at, number)


def found(store: BandSegment, probes: Tuples, room: int = 1000) -> tuple[Array, Array]:
    """What a probe is offered: pairs of (index of the probe, tuple number). Looks at the stored tuples as well."""
    ranges, order, search = Range.array(room), np.empty(len(probes), np.uint32), Probing.new()
    search.batch, search.stored, search.end = address(probes.record), store.address, len(probes)
    search.order, search.ranges, search.range_room = address(order), address(ranges), room
    aim(address(search))
    assert np.array_equal(np.sort(order), np.arange(len(probes)))
    who, where, inside, more = [], [], [], True
    while more:
        more = not find(address(search))
        filled = ranges[: search.count]
        lengths = filled["stop"] - filled["start"]
        assert (lengths > 0).all()
        who.append(np.repeat(filled["probe"], lengths))
        inside.append(np.repeat(filled["inside"].astype(bool), lengths))
        shifts = np.repeat(filled["start"] - np.cumsum(lengths) + lengths, lengths)
        where.append(shifts + np.arange(lengths.sum()))
    probe, position = np.concatenate(who), np.concatenate(where)
    offered = stored(store, position) if len(position) else probes.part(0, 0)
    at = offered.at
    in_window = (probes.since[probe] <= at) & (at <= probes.until[probe])
    assert in_window[np.concatenate(inside)].all()
    return probe, offered.number


def check(store: BandSegment, stream: Stream, probes: Tuples, horizon: int) -> None:
    """Every tuple that can match and has not expired is found, none twice; all are as they were inserted."""
    consistent(store, stream)
    probe, number = found(store, probes)
    pairs = probe * (1 << 33) + (number - FIRST_NUMBER)
    assert len(np.unique(pairs)) == len(pairs)
    lo, hi, at, key = stream.sent.lo, stream.sent.hi, stream.sent.at, stream.sent.key
    for i in range(len(probes)):
        match = (at >= horizon) & (at >= probes.since[i]) & (at <= probes.until[i])
        match &= ((lo <= probes.hi[:, i : i + 1]) & (hi >= probes.lo[:, i : i + 1])).all(axis=0)
        if stream.keyed:
            match &= key == probes.key[i]
        missing = np.setdiff1d(np.flatnonzero(match) + FIRST_NUMBER, number[probe == i])
        assert not len(missing)


def consistent(store: BandSegment, stream: Stream) -> None:
    """Runs do not overlap, and hold what was inserted."""
    band = store.band
    assert band.merge_count <= MOST_MERGES
    used = [*store.runs, *(merge.result for merge in store.merges)]
    extents = sorted((int(run.begin), int(run.end)) for run in used)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(extents))
    assert not extents or extents[-1][1] <= band.capacity
    runs = [(int(run.begin), int(run.end)) for run in store.runs]
    assert len(store) == sum(end - begin for begin, end in runs) == band.live
    assert band.held_count == store.held.sum()
    assert all(store.held[begin // BLOCK : (end - 1) // BLOCK + 1].all() for begin, end in runs)
    if not runs:
        return
    kept = stored(store, np.concatenate([np.arange(begin, end) for begin, end in runs]))
    index = kept.number - FIRST_NUMBER
    assert len(np.unique(index)) == len(index)
    assert np.array_equal(kept.at, stream.sent.at[index])
    assert np.array_equal(kept.coord, stream.sent.coord[:, index])
    if stream.keyed:
        assert np.array_equal(kept.key, stream.sent.key[index])
    for column, sent in zip(kept.columns, stream.sent.columns, strict=True):
        assert np.array_equal(column, sent[index])


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays that start small and at most double."""
    monkeypatch.setattr(band_module, "FIRST_CAPACITY", BLOCK)
    monkeypatch.setattr(band_module, "_address_space", lambda: 0)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("keyed", [False, True])
def test_against_a_plain_list(dims: int, keyed: bool) -> None:
    store, stream = empty(dims, keyed), Stream(dims, dims, keyed)
    probing = Stream(100 + dims, dims, keyed)
    random, horizon = stream.random, -FOREVER
    for turn in range(120):
        n = int(random.choice([0, 1, 3, 20, HEAD, HEAD + 1, 700]))
        store.insert(stream.batch(n, values=int(random.choice([1, 50, 1000])), disorder=30))
        if turn % 5 == 0:
            horizon = max(horizon, stream.count - int(random.integers(500, 6000)))
            store.expire(horizon)
        if turn % 7 == 0:
            probing.count = max(stream.count - 20, 0)
            check(store, stream, probing.batch(int(random.choice([1, 20]))), horizon)
    probing.count = stream.count - 300
    check(store, stream, probing.batch(300), horizon)
    store.expire(FOREVER)
    assert len(store) == store.nbytes == store.band.run_count == 0
    assert store.record.stop == FIRST_NUMBER + stream.count


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("keyed", [False, True])
def test_small_arrays_that_grow_under_way(keyed: bool) -> None:
    store, stream, probing = empty(2, keyed), Stream(1, 2, keyed), Stream(2, 2, keyed)
    capacities, merges = set(), set()
    for turn in range(90):
        before = store.band.capacity
        store.insert(stream.batch(int(stream.random.choice([5, 900, 3000]))))
        if store.band.capacity != before:
            capacities.add(int(store.band.capacity))
            merges.add(int(store.band.merge_count))
        if turn % 30 == 29:
            probing.count = stream.count - 100
            check(store, stream, probing.batch(30), -FOREVER)
    assert len(capacities) > 4
    assert len(store) == stream.count


def test_one_large_batch() -> None:
    store, stream, probing = empty(), Stream(3), Stream(4)
    store.insert(stream.batch(9 * AT_ONCE + 17))
    probing.count = stream.count
    check(store, stream, probing.batch(20), -FOREVER)
    assert store.band.run_count < 20


def test_a_whole_window_that_then_lives_on() -> None:
    for keyed in (False, True):
        store, stream, probing = empty(2, keyed), Stream(5, 2, keyed), Stream(6, 2, keyed)
        store.expect(probing.batch(100))
        store.build(stream.batch(5000))
        assert store.band.run_count == 1
        for _ in range(10):
            store.insert(stream.batch(100))
        probing.count = stream.count
        check(store, stream, probing.batch(50), -FOREVER)


def filled(merges: int, keyed: bool = False, size: int = 4) -> tuple[BandSegment, Stream]:
    """A segment in the middle of so many merges."""
    store, stream = empty(2, keyed), Stream(7, 2, keyed)
    for _ in range(12):
        store.insert(stream.batch(AT_ONCE))
    for _ in range(100_000):
        store.insert(stream.batch(size))
        if store.band.merge_count == merges:
            return store, stream
    raise AssertionError("no merge")


@pytest.mark.parametrize("keyed", [False, True])
def test_probes_during_a_merge(keyed: bool) -> None:
    store, stream = filled(1, keyed, 100)
    probing = Stream(8, 2, keyed)
    probing.count = stream.count
    probes = probing.batch(10)
    checked = 0
    while store.band.merge_count:
        if checked % 40 == 0:
            check(store, stream, probes, -FOREVER)
        store.insert(stream.batch(4))
        checked += 1
    assert checked > 50
    check(store, stream, probes, -FOREVER)


def test_expiry_during_a_merge() -> None:
    store, stream = filled(1, size=100)
    merged = store.runs.copy()
    first, last = int(store.merges[0].first), int(store.merges[0].last)
    assert last - first > 1
    probing = Stream(9)
    probing.count = stream.count
    probes = probing.batch(10)
    half = int(merged[first].last_at) + 1  # the merge's oldest run has expired, the next one has not
    before = len(store)
    store.expire(half)
    assert store.band.merge_count == 1 and store.merges[0].first == 0
    gone = sum(int(run.end - run.begin) for run in merged[:first])
    assert len(store) == before - gone
    check(store, stream, probes, half)
    while store.band.merge_count:
        store.insert(stream.batch(50))
    check(store, stream, probes, half)


def test_a_merge_whose_tuples_have_all_expired() -> None:
    store, stream = filled(1, size=100)
    last = int(store.merges[0].last)
    horizon = int(store.runs["last_at"][:last].max()) + 1
    store.insert(stream.batch(100))
    store.expire(horizon)
    assert store.band.merge_count == 0
    probing = Stream(10)
    probing.count = stream.count
    check(store, stream, probing.batch(10), horizon)
    for _ in range(100):
        store.insert(stream.batch(300))
    check(store, stream, probing.batch(10), horizon)


def test_no_insert_takes_long() -> None:
    store, stream = empty(columns=()), Stream(11, columns=())
    for _ in range(40):
        store.insert(stream.batch(AT_ONCE))
    band, size, largest, most_runs, merges = store.band, 32, 0, 0, 0
    for _ in range(12 * AT_ONCE // size):
        before = int(band.work)
        store.insert(stream.batch(size))
        largest = max(largest, int(band.work) - before)
        most_runs, merges = max(most_runs, int(band.run_count)), merges + int(band.merge_count)
    assert merges > 100  # the bound was put to the test
    assert largest <= max(PACE * size, LEAST_PACE) + 2 * AT_ONCE
    assert most_runs < 30
    assert band.work < 40 * stream.count


def test_memory_is_given_back_and_taken_again() -> None:
    store, stream = empty(columns=()), Stream(12, columns=())
    window, bytes_held = 40 * AT_ONCE, []
    for turn in range(160):
        store.insert(stream.batch(AT_ONCE))
        store.expire(stream.count - (window if turn < 100 else window // 10))
        bytes_held.append(store.nbytes)
    per_tuple = store._position_bytes
    assert max(bytes_held) < 2.2 * window * per_tuple
    assert bytes_held[-1] < window * per_tuple
    assert store.band.capacity > 100 * window  # address space
    consistent(store, stream)


def test_compiled_code_owns_a_window() -> None:
    store, stream = empty(), Stream(13)
    batch, record = stream.batch(1000), store.record
    record.source, record.stop = address(batch.record), FIRST_NUMBER + 1000
    for first in range(0, 1000, 10):
        record.begin, record.end = first, first + 10
        assert insert(store.address)
    assert len(store) == 1000
    probing = Stream(14)
    probing.count = 900
    check(store, stream, probing.batch(20), -FOREVER)


def test_many_equal_tuples_need_no_bins() -> None:
    store, stream = empty(), Stream(15)
    for _ in range(100):
        store.insert(stream.batch(300, values=1, widest=0))
    assert store.band.closed > 0
    probing = Stream(16)
    probing.count = stream.count - 10
    check(store, stream, probing.batch(20, values=1), -FOREVER)


@njit
def grid(n, keys, run, probe_width, dims, coord, key, bins):
    """Cuts a run into bins, and numbers those of tuples. Returns how many there are."""
    choose_grid(n, keys, run, probe_width, dims)
    number_bins(coord, key, 0, len(bins), run, dims, bins)
    return total_bins(run, dims)


def test_grids_are_paid_for_and_cover_all_coordinates() -> None:
    random = np.random.default_rng(0)
    for _ in range(300):
        dims, n = int(random.integers(1, 4)), int(10 ** random.uniform(0, 5))
        keys = int(10 ** random.uniform(0, 5)) if random.random() < 0.5 else 1
        run = Run.new()
        run.finite_low[:dims] = random.normal(size=dims) * 1000
        run.finite_high[:dims] = run.finite_low[:dims] + random.choice([0, 1, 1e3, 1e12], dims)
        run.width[:dims] = random.choice([0, 1, 1e3], dims)
        probe_width = random.choice([np.nan, 0.0, 1.0, 1e5], dims)
        coord = random.choice([-FARTHEST, 0.0, 1e3, 1e6, FARTHEST], (dims, 50)).astype(np.float32)
        key, bins = random.integers(0, 1 << 32, 50).astype(np.uint32), np.empty(50, np.uint32)
        total, buckets = grid(n, keys, run, probe_width, dims, coord, key, bins), int(run.buckets)
        assert total + 1 <= max(2, (n + 1) // 2) and buckets & (buckets - 1) == 0  # room for the end of the last bin
        assert (bins < total).all()


@njit
def width_of(low: float, high: float) -> float:
    return up32(low, high)  # type: ignore[no-any-return]


corners = st.floats(-FARTHEST, FARTHEST, width=32)


@given(box=st.tuples(corners, corners).map(sorted))
@example(box=[-(2.0**-47), 2.0])  # the difference is above 2, but as float32 it would be 2
@example(box=[-(2.0**-33), FARTHEST])  # not even float64 can tell the difference
@example(box=[0.25, 20.25])
def test_no_box_is_wider_than_its_width(box: list[float]) -> None:
    true = Fraction(box[1]) - Fraction(box[0])
    compiled: Any = width_of
    found = float(compiled(np.float32(box[0]), np.float32(box[1])))
    assert Fraction(found) >= true
    assert found <= float(true) * (1 + 2.0**-22)  # and hardly wider than it must be
