"""A tree segment against a plain list, and shapes that tempt a search into looking at everything.

Boxes are made here, so that nothing but the segment itself is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boxes import FIRST_NUMBER, SIZES, all_of, check, found, tuples
from streamjoin.access.frozen import Freezer
from streamjoin.access.frozen import check as holds_together
from streamjoin.access.tree.index import FIRST_ROOM, TreeSegment
from streamjoin.access.tree.records import HEAD
from streamjoin.access.tuples import COORD, COORD_NEGATED, HIGH, LOW, Shape, Tuples
from streamjoin.codegen.intrinsics import FARTHEST
from streamjoin.codegen.records import Array
from streamjoin.windows import FOREVER

FEW = [0.0, -0.0, 1.0, 2.0, 1e-30, -FARTHEST, FARTHEST, float(np.float32(3.4e18))]


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("keyed", [False, True])
def test_against_a_plain_list(dims: int, keyed: bool) -> None:
    random = np.random.default_rng(dims)
    segment, sent, count, horizon = TreeSegment(Shape(SIZES, dims, keyed)), [], 0, -FOREVER
    orders = set()

    def made(n: int) -> Tuples:
        lo = random.integers(0, int(random.choice([1, 50, 1000])), (dims, n)).astype(np.float32)
        hi = lo + (5 * random.pareto(1.0, lo.shape)).astype(np.float32)
        lo[random.random(lo.shape) < 0.02] = -FARTHEST
        hi[random.random(hi.shape) < 0.02] = FARTHEST
        return tuples(lo, hi, random.integers(0, 40, n) * 107_374_182, count)

    for turn in range(100):
        batch = made(int(random.choice([0, 1, 3, 20, HEAD, HEAD + 1, 900])))
        segment.insert(batch)
        sent.append(batch)
        count += len(batch)
        orders.add(tuple(segment.forest.axes.tolist()))
        if turn % 5 == 0:
            horizon = max(horizon, count - int(random.integers(500, 2 * FIRST_ROOM)))
            segment.expire(horizon)
        if turn % 9 == 0 and count:
            check(segment, made(int(random.choice([1, 20]))), all_of(sent), horizon)
            assert len(segment) == min(count, count - horizon)
            assert segment.forest.run_count < 24
    segment.expire(FOREVER)
    assert len(segment) == segment.forest.run_count == 0
    assert segment.record.room == FIRST_ROOM
    segment.insert(made(10))
    assert len(segment) == 10


boxes = st.lists(st.tuples(*[st.sampled_from(FEW)] * 4, st.integers(0, 2)), max_size=60)


@given(boxes, boxes, st.booleans(), st.booleans())
def test_ties_infinities_and_boxes_that_end_before_they_begin(
    stored: list[Any], probing: list[Any], keyed: bool, whole: bool
) -> None:
    one, other = (
        tuples(rows[:, :2].T, rows[:, 2:4].T, rows[:, 4])
        for rows in (np.array(drawn, np.float64).reshape(-1, 5) for drawn in (stored, probing))
    )
    segment = TreeSegment(Shape(SIZES, 2, keyed))
    if whole and len(one):
        segment.build(one, np.full(2, np.nan))
    else:
        segment.insert(one)
    if len(other):
        check(segment, other, one)


def test_one_sided_ends_and_points() -> None:
    random = np.random.default_rng(3)
    lo, hi = random.random((2, 2, 3000)).astype(np.float32)
    stored, probes = tuples(lo, hi), tuples(random.random((2, 50)), random.random((2, 50)))
    segment = TreeSegment(Shape(SIZES, 2, keyed=False, ends=((0, LOW), (1, HIGH))))
    segment.insert(stored)
    probe, number, _ = found(segment, probes)
    holds = (lo[0][None, :] <= probes.hi[0][:, None]) & (hi[1][None, :] >= probes.lo[1][:, None])
    assert sorted(zip(probe, number - FIRST_NUMBER, strict=True)) == list(zip(*np.nonzero(holds), strict=True))

    point = TreeSegment(Shape(SIZES, 1, keyed=False, ends=((0, COORD), (0, COORD_NEGATED))))
    point.insert(tuples(lo[:1], np.full((1, 3000), FARTHEST)))
    probe, number, _ = found(point, probes)
    holds = (lo[0][None, :] <= probes.hi[0][:, None]) & (lo[0][None, :] >= probes.lo[0][:, None])
    assert sorted(zip(probe, number - FIRST_NUMBER, strict=True)) == list(zip(*np.nonzero(holds), strict=True))


@pytest.mark.parametrize("by_tree", [True, False])
@pytest.mark.parametrize("keyed", [True, False])
def test_frozen_runs(by_tree: bool, keyed: bool) -> None:
    """One after the other through the same freezer; an outlier has a run frozen with trees in any case."""
    random, freezer, kinds = np.random.default_rng(7), Freezer(Shape(SIZES, 2, keyed), by_tree), set()
    for n in (1, 15, 16, 17, 255, 3000):
        for outlier in (1.0, 1e12):
            lo = random.uniform(0, 1000, (2, n))
            lo[:, 0] *= outlier
            stored = replace(tuples(lo, lo + random.random((2, n)), random.integers(0, 3, n)), number=np.arange(n))
            run = freezer.freeze(stored, np.full(2, 5.0))
            assert holds_together(run)
            kinds.add("trees" in run)
            low = random.uniform(0, 1000, (2, 20))
            exactly = "trees" in run
            check(freezer.open(run), tuples(low, low + 40, random.integers(0, 3, 20)), stored, exactly=exactly)
            assert not holds_together({**run, "number": run["number"][1:]})
    assert kinds == ({True} if by_tree else {True, False})


def test_searches_look_at_runs_of_their_window_only() -> None:
    segment = TreeSegment(Shape(SIZES, 1, keyed=False))
    lo = np.zeros((1, 30_000))
    segment.insert(tuples(lo, lo))
    late = tuples(lo[:, :1], lo[:, :1], first=29_999, reach=10)
    _, number, compared = found(segment, late)
    assert set(range(29_989, 30_000)) <= set(number - FIRST_NUMBER)
    assert compared < 20_000


N, STEP = 1 << 15, 1 << 9
FACTOR = 32  # every pair would be some 1,000 times n log n


@dataclass(frozen=True)
class Hard:
    """Boxes of both sides, by a seed."""

    name: str
    make: Callable[[np.random.Generator, int], tuple[Array, Array, Array | None]]
    ends: tuple[tuple[int, int], ...] = ()


def inequalities(draw: Callable[[np.random.Generator, int], Array]) -> Callable[[np.random.Generator, int], Any]:
    """Every column of the side that is stored is to be below the other's; they hold for few pairs together."""

    def make(random: np.random.Generator, side: int) -> tuple[Array, Array, None]:
        columns = draw(random, side)
        limited = np.full(columns.shape, -FARTHEST if side else FARTHEST)
        return (limited, columns, None) if side else (columns, limited, None)

    return make


def correlated(random: np.random.Generator, side: int) -> Array:
    """Salary and tax: who earns more and pays less?"""
    salary = random.integers(0, 10 * N, N)
    return np.stack([salary, -(salary // 3 + random.integers(0, 40, N))])


def anti(random: np.random.Generator, side: int) -> Array:
    one = random.random(N)
    return np.stack([one, 1 - one + 1e-4 * side])


def intervals(random: np.random.Generator, side: int) -> tuple[Array, Array, None]:
    start = random.integers(0, 10 * N, (1, N))
    return start, start + np.minimum(5 * random.pareto(1.0, N), 10 * N).astype(np.int64), None


def near(width: float, draw: Callable[[np.random.Generator], Array]) -> Callable[[np.random.Generator, int], Any]:
    """A band on a column as drawn, and one on a uniform column."""

    def make(random: np.random.Generator, side: int) -> tuple[Array, Array, None]:
        at = np.stack([draw(random), random.uniform(0, N, N)])
        around = np.array([[width], [5]]) * side
        return np.clip(at - around, -FARTHEST, FARTHEST), np.clip(at + around, -FARTHEST, FARTHEST), None

    return make


def with_strays(random: np.random.Generator) -> Array:
    values = random.uniform(0, N, N)
    values[random.integers(0, N, N // 100)] = FARTHEST
    values[random.integers(0, N, N // 100)] = -FARTHEST
    values[N // 2] = 1e18
    return values


def clusters(random: np.random.Generator) -> Array:
    return np.arange(20)[random.integers(0, 20, N)] * 50_000.0 + random.normal(0, 100, N)


def skewed(random: np.random.Generator, side: int) -> tuple[Array, Array, Array]:
    """One key has a tenth of the tuples; a band, and intervals."""
    key = np.where(random.random(N) < 0.1, 0, random.integers(1, N, N))
    lo, hi, _ = near(100, lambda g: g.uniform(0, N, N))(random, side)
    return lo, hi + np.array([[0], [500]]) * random.pareto(1.5, N), key


HARD = [
    Hard("correlated", inequalities(correlated), ((0, LOW), (1, LOW))),
    Hard("anti-correlated", inequalities(anti), ((0, LOW), (1, LOW))),
    Hard("three", inequalities(lambda g, side: g.random((3, N)) + 0.7 * (1 - side)), ((0, LOW), (1, LOW), (2, LOW))),
    Hard("long-tailed intervals", intervals),
    Hard("zipf", near(1, lambda g: g.zipf(1.3, N).clip(0, 10**9).astype(float))),
    Hard("clustered", near(50, clusters)),
    Hard("few values", near(1, lambda g: g.integers(0, 5, N) * 10.0)),
    Hard("all equal", near(1, lambda g: np.zeros(N))),
    Hard("strays", near(50, with_strays)),
    Hard("skewed keys", skewed),
]


@pytest.mark.parametrize("hard", HARD, ids=lambda hard: hard.name)
def test_no_shape_is_searched_tuple_by_tuple(hard: Hard) -> None:
    """Streams that arrive in turns: comparisons stay near n log n + results."""
    stored, probing = (tuples(*hard.make(np.random.default_rng(side), side)) for side in (0, 1))
    keyed = bool(stored.key.any())
    segment = TreeSegment(Shape(SIZES, len(stored.lo), keyed, hard.ends))
    results = compared = 0
    for begin in range(0, N, STEP):
        segment.insert(stored.part(begin, begin + STEP))
        probe, _, looked = found(segment, probing.part(begin, begin + STEP), room=1 << 14)
        results, compared = results + len(probe), compared + looked
    check(segment, probing.part(N - 500, N), stored)
    assert results > N // 100
    assert compared <= FACTOR * (N * math.log2(N) + results)
