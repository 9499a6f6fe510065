"""What a sample says about shapes: candidates, and which columns go together."""

from __future__ import annotations

import numpy as np

from streamjoin.codegen.records import Array
from streamjoin.plan.shape import Shape, Tables, shapes
from streamjoin.plan.statistics import Dimension, Ends, Values

ROWS = 20_000


def interval(low: Array, high: Array) -> Ends:
    return Values(low.astype(np.float64)), Values(high.astype(np.float64))


def point(values: Array) -> Ends:
    found = Values(values.astype(np.float64))
    return found, found


def shapes_of(*dimensions: Dimension, rows: int = ROWS) -> list[Shape]:
    return shapes(Tables((rows, rows), None, dimensions))


def test_columns_that_go_together_are_not_cut_into_strips() -> None:
    """A window that only says again what the predicate says leaves as many pairs as there are without it."""
    random = np.random.default_rng(1)
    r, s = random.integers(0, 10**6, (2, ROWS))
    overlap = Dimension("x", interval(r, r + 2000), interval(s, s + 2000))
    window = Dimension("time", interval(r - 2000, r + 2000), point(s))
    best = shapes_of(overlap, window)[0]
    results = ROWS * ROWS * 0.004
    assert not best.strips
    assert results / 1.5 < best.candidates < results * 1.5


def test_columns_that_have_nothing_to_do_with_each_other_are_cut_into_strips() -> None:
    random = np.random.default_rng(2)
    (r, s), (a, b) = random.integers(0, 10**6, (2, 2, ROWS))
    one = Dimension("x", interval(r - 2000, r + 2000), point(s))
    other = Dimension("y", interval(a - 2000, a + 2000), point(b))
    best = shapes_of(one, other)[0]
    assert len(best.strips) == 1
    assert best.candidates < ROWS * ROWS * 0.004 * 0.02


def test_a_sparse_join_of_many_rows_shows_in_the_sample() -> None:
    """Six partners a row: 512 rows of each side see one pair in a hundred samples."""
    rows = 8_000_000
    random = np.random.default_rng(3)
    r, s = random.integers(0, 10 * rows, (2, rows))
    best = shapes_of(Dimension("x", interval(r, r + 30), interval(s, s + 30)), rows=rows)[0]
    results = 6.0 * rows
    assert results / 3 < best.candidates < results * 3


def test_strips_and_sweeps_of_nothing() -> None:
    none = np.zeros(0)
    one, other = (Dimension(name, interval(none, none), point(none)) for name in "xy")
    assert shapes_of(one, other, rows=0)[0].candidates == 0
