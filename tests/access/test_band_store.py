"""A band window against a plain list: inserted, merged, moved and dropped, each tuple is found once by a probe."""

from __future__ import annotations

import itertools
from dataclasses import fields
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numba import njit

from streamjoin.access.band import index as band_module
from streamjoin.access.band.bins import choose_grid, number_cells, total_cells
from streamjoin.access.band.index import BandStore, as_source
from streamjoin.access.band.memory import BLOCK
from streamjoin.access.band.runs import AT_ONCE, HEAD, LEAST_PACE, MOST_JOBS, PACE, insert
from streamjoin.access.band.search import aim, candidates, learn
from streamjoin.access.layout import (
    BEGIN,
    BOX_FIELDS,
    CAPACITY,
    CLOSED,
    COUNT,
    END,
    FIELDS,
    FINITE_HIGH,
    FINITE_LOW,
    HELD,
    JOB_COUNT,
    LIVE,
    NEWEST,
    RUN_COUNT,
    WIDTH,
    WORK,
    Ranges,
)
from streamjoin.access.tuples import Shape, Tuples
from streamjoin.codegen.intrinsics import FARTHEST, up32
from streamjoin.codegen.records import Array
from streamjoin.windows import FOREVER

SIZES = tuple(np.dtype(kind) for kind in (np.bool_, np.int16, np.float32, np.int64))
FIRST_NUMBER = (1 << 32) - 1000  # the stored half of a number comes round


def empty(dims: int = 2, keyed: bool = False, columns: tuple[Any, ...] = SIZES) -> BandStore:
    return BandStore(Shape(columns, dims, keyed), ModuleType("unused"), lambda *_: RuntimeError())


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


def numbers(store: BandStore, position: Array) -> Array:
    """Tuple numbers, of which only the low half is stored."""
    return store.newest - ((store.newest - store.stored.number[position].astype(np.int64)) & 0xFFFFFFFF)


def found(store: BandStore, probes: Tuples, room: int = 1000) -> tuple[Array, Array]:
    """What a probe is offered: pairs of (index of the probe, tuple number). Looks at the stored tuples as well."""
    ranges = Ranges(*(np.empty(room, kind) for kind in (np.int64, np.int64, np.int64, np.bool_)))
    order, cursor = np.empty(len(probes), np.uint32), np.zeros(FIELDS, np.int64)
    learn(store.band, probes.lo, probes.hi, 0, len(probes))
    aim(store.band, probes.probes, 0, len(probes), order)
    assert np.array_equal(np.sort(order), np.arange(len(probes)))
    who, where, inside, more = [], [], [], True
    while more:
        more = not candidates(probes.probes, order, len(order), store.band, ranges, cursor)
        count = cursor[COUNT]
        lengths = ranges.stop[:count] - ranges.start[:count]
        assert (lengths > 0).all()
        who.append(np.repeat(ranges.probe[:count], lengths))
        inside.append(np.repeat(ranges.inside[:count], lengths))
        shifts = np.repeat(ranges.start[:count] - np.cumsum(lengths) + lengths, lengths)
        where.append(shifts + np.arange(lengths.sum()))
    probe, position = np.concatenate(who), np.concatenate(where)
    at = store.stored.at[position]
    in_window = (probes.since[probe] <= at) & (at <= probes.until[probe])
    assert in_window[np.concatenate(inside)].all()
    return probe, numbers(store, position)


def check(store: BandStore, stream: Stream, probes: Tuples, horizon: int) -> None:
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


def consistent(store: BandStore, stream: Stream) -> None:
    """Runs do not overlap, and hold what was inserted."""
    band, state = store.band, store.band.state
    assert state[JOB_COUNT] <= MOST_JOBS
    extents = sorted(
        (int(band.runs[k, BEGIN]), int(band.runs[k, END])) for k in range(-state[JOB_COUNT], state[RUN_COUNT])
    )
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(extents))
    assert not extents or extents[-1][1] <= state[CAPACITY]
    runs = [(int(run[BEGIN]), int(run[END])) for run in band.runs[: state[RUN_COUNT]]]
    assert len(store) == sum(end - begin for begin, end in runs) == state[LIVE]
    assert state[HELD] == band.held.sum()
    assert all(band.held[begin // BLOCK : (end - 1) // BLOCK + 1].all() for begin, end in runs)
    if not runs:
        return
    position = np.concatenate([np.arange(begin, end) for begin, end in runs])
    number = numbers(store, position)
    index = number - FIRST_NUMBER
    assert len(np.unique(index)) == len(index)
    assert np.array_equal(store.stored.at[position], stream.sent.at[index])
    assert np.array_equal(store.stored.coord[:, position], stream.sent.coord[:, index])
    if stream.keyed:
        assert np.array_equal(store.stored.key[position], stream.sent.key[index])
    for column, sent in zip(store.stored.columns, stream.sent.columns, strict=True):
        assert np.array_equal(column[position], sent[index])


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
    assert len(store) == store.nbytes == store.band.state[RUN_COUNT] == 0
    assert store.newest == FIRST_NUMBER + stream.count - 1


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("keyed", [False, True])
def test_small_arrays_that_grow_under_way(keyed: bool) -> None:
    store, stream, probing = empty(2, keyed), Stream(1, 2, keyed), Stream(2, 2, keyed)
    capacities, jobs = set(), set()
    for turn in range(90):
        before = store.band.state[CAPACITY]
        store.insert(stream.batch(int(stream.random.choice([5, 900, 3000]))))
        if store.band.state[CAPACITY] != before:
            capacities.add(int(store.band.state[CAPACITY]))
            jobs.add(int(store.band.state[JOB_COUNT]))
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
    assert store.band.state[RUN_COUNT] < 20


def test_a_whole_window_that_then_lives_on() -> None:
    for keyed in (False, True):
        store, stream, probing = empty(2, keyed), Stream(5, 2, keyed), Stream(6, 2, keyed)
        store.expect(probing.batch(100))
        store.build(stream.batch(5000))
        assert store.band.state[RUN_COUNT] == 1
        for _ in range(10):
            store.insert(stream.batch(100))
        probing.count = stream.count
        check(store, stream, probing.batch(50), -FOREVER)


def filled(jobs: int, keyed: bool = False, size: int = 4) -> tuple[BandStore, Stream]:
    """A store in the middle of so many jobs."""
    store, stream = empty(2, keyed), Stream(7, 2, keyed)
    for _ in range(12):
        store.insert(stream.batch(AT_ONCE))
    for _ in range(100_000):
        store.insert(stream.batch(size))
        if store.band.state[JOB_COUNT] == jobs:
            return store, stream
    raise AssertionError("no job")


@pytest.mark.parametrize("keyed", [False, True])
def test_probes_during_a_job(keyed: bool) -> None:
    store, stream = filled(1, keyed, 100)
    probing = Stream(8, 2, keyed)
    probing.count = stream.count
    probes = probing.batch(10)
    checked = 0
    while store.band.state[JOB_COUNT]:
        if checked % 40 == 0:
            check(store, stream, probes, -FOREVER)
        store.insert(stream.batch(4))
        checked += 1
    assert checked > 50
    check(store, stream, probes, -FOREVER)


def test_expiry_during_a_job() -> None:
    store, stream = filled(1, size=100)
    job_runs = store.band.runs[: store.band.state[RUN_COUNT]].copy()
    first, last = store.band.jobs[0, :2]
    assert last - first > 1
    probing = Stream(9)
    probing.count = stream.count
    probes = probing.batch(10)
    half = int(job_runs[first, 3]) + 1  # the job's oldest run has expired, the next one has not
    before = len(store)
    store.expire(half)
    assert store.band.state[JOB_COUNT] == 1 and store.band.jobs[0, 0] == 0
    gone = sum(int(run[END] - run[BEGIN]) for run in job_runs[:first])
    assert len(store) == before - gone
    check(store, stream, probes, half)
    while store.band.state[JOB_COUNT]:
        store.insert(stream.batch(50))
    check(store, stream, probes, half)


def test_a_job_whose_tuples_have_all_expired() -> None:
    store, stream = filled(1, size=100)
    last = int(store.band.jobs[0, 1])
    horizon = int(store.band.runs[:last, 3].max()) + 1
    store.insert(stream.batch(100))
    store.expire(horizon)
    assert store.band.state[JOB_COUNT] == 0
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
    state, size, largest, most_runs, jobs = store.band.state, 32, 0, 0, 0
    for _ in range(12 * AT_ONCE // size):
        before = int(state[WORK])
        store.insert(stream.batch(size))
        state = store.band.state
        largest = max(largest, int(state[WORK]) - before)
        most_runs, jobs = max(most_runs, int(state[RUN_COUNT])), jobs + int(state[JOB_COUNT])
    assert jobs > 100  # the bound was put to the test
    assert largest <= max(PACE * size, LEAST_PACE) + 2 * AT_ONCE
    assert most_runs < 30
    assert state[WORK] < 40 * stream.count


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
    assert store.band.state[CAPACITY] > 100 * window  # address space
    consistent(store, stream)


def test_compiled_code_owns_a_window() -> None:
    store, stream = empty(), Stream(13)
    source, _columns = as_source(stream.batch(1000))
    for first in range(0, 1000, 10):
        assert insert(store.band, source, first, first + 10)
    assert len(store) == 1000 and store.band.state[NEWEST] == FIRST_NUMBER + 999
    probing = Stream(14)
    probing.count = 900
    check(store, stream, probing.batch(20), -FOREVER)


def test_many_equal_tuples_need_no_cells() -> None:
    store, stream = empty(), Stream(15)
    for _ in range(100):
        store.insert(stream.batch(300, values=1, widest=0))
    assert store.band.state[CLOSED] > 0
    probing = Stream(16)
    probing.count = stream.count - 10
    check(store, stream, probing.batch(20, values=1), -FOREVER)


def test_grids_are_paid_for_and_cover_all_coordinates() -> None:
    random = np.random.default_rng(0)
    for _ in range(300):
        dims, n = int(random.integers(1, 4)), int(10 ** random.uniform(0, 5))
        keys = int(10 ** random.uniform(0, 5)) if random.random() < 0.5 else 1
        box = np.zeros((BOX_FIELDS, dims))
        box[FINITE_LOW] = random.normal(size=dims) * 1000
        box[FINITE_HIGH] = box[FINITE_LOW] + random.choice([0, 1, 1e3, 1e12], dims)
        box[WIDTH] = random.choice([0, 1, 1e3], dims)
        reach = random.choice([np.nan, 0.0, 1.0, 1e5], dims)
        buckets = choose_grid(n, keys, box, reach)
        total = total_cells(box, buckets)
        assert total + 1 <= max(2, (n + 1) // 2) and buckets & (buckets - 1) == 0  # room for the end of the last cell
        coord = random.choice([-FARTHEST, 0.0, 1e3, 1e6, FARTHEST], (dims, 50)).astype(np.float32)
        cell = np.empty(50, np.uint32)
        number_cells(coord, random.integers(0, 1 << 32, 50).astype(np.uint32), 0, 50, box, buckets, cell)
        assert (cell < total).all()


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
