"""Keys in order as a stable sort has them, whatever they are like: in words with their positions, and beside these."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjoin.codegen.records import Array
from streamjoin.plan.shape import Axis
from streamjoin.plan.statistics import Values
from streamjoin.tables import crew, sort
from streamjoin.tables.keys import digits
from streamjoin.tables.lanes import LANES

LOW_BITS = 30


@pytest.fixture(autouse=True, params=[20, 1 << 18], ids=["buckets", "one bucket"])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort, "FEW", request.param)
    monkeypatch.setattr(crew.Crew.cut, "__defaults__", (30,))


def sorted_by(keys: Array, bits: int, threads: crew.Crew) -> tuple[Array, Array | None]:
    """The keys as two columns, each of which float64 holds exactly."""
    low, high = keys & ((1 << LOW_BITS) - 1), keys >> LOW_BITS  # whose addresses the columns have
    columns = [digits(Values(low), Axis(0, 0.0, 1.0, min(bits, LOW_BITS)), 0)]
    if bits > LOW_BITS:
        columns.append(digits(Values(high), Axis(0, 0.0, 1.0, bits - LOW_BITS), LOW_BITS))
    return sort.in_order(np.concatenate(columns), bits, len(keys), threads)


@st.composite
def some_keys(draw: st.DrawFn) -> tuple[Array, int]:
    """Keys of some bits: any, few different ones, one far from all others, or those at the ends."""
    bits = draw(st.sampled_from([1, 8, 9, 19, 22, 30, 31, 32, 40, 62]))
    n, seed = draw(st.integers(0, 400)), draw(st.integers(0, 100))
    random, top = np.random.default_rng(seed), (1 << bits) - 1
    like = draw(st.sampled_from(["any", "few", "equal", "outlier", "ends", "in order"]))
    keys = random.integers(0, top, n, endpoint=True)
    if like == "few":
        keys = keys[random.integers(0, max(n // 20, 1), n)]
    elif like == "equal":
        keys[:] = draw(st.sampled_from([0, top, top // 2]))
    elif like == "outlier":
        keys = np.minimum(random.integers(0, 50, n), top)
        keys[: n // 50 + 1] = top
    elif like == "ends":
        keys = random.choice([0, 1, top - 1, top], n)
    elif like == "in order":
        keys.sort()
    return keys.astype(np.int64), bits


@given(made=some_keys(), workers=st.integers(1, 3))
def test_keys_come_in_order_and_equal_ones_as_they_stood(made: tuple[Array, int], workers: int) -> None:
    keys, bits = made
    with crew.crew(workers) as threads:
        found, order = sorted_by(keys, bits, threads)
    wanted = np.argsort(keys, kind="stable")
    assert np.array_equal(found[: len(keys)], keys[wanted])
    assert len(found) == len(keys) + LANES
    assert (found[len(keys) :] == np.iinfo(found.dtype).max).all()
    assert np.array_equal(np.arange(len(keys)) if order is None else order, wanted)


@given(data=st.data())
def test_times_in_order(data: st.DataObject) -> None:
    """Up to the type's limits."""
    far = st.sampled_from([-(2**63), -(2**52), -1, 0, 1, 2**52, 2**63 - 1])
    chosen = data.draw(st.sampled_from([far, st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1)]))
    times = np.array(data.draw(st.lists(chosen, max_size=60)), np.int64)
    with crew.crew(2) as threads:
        order = sort.order_of(times, threads)
    assert np.array_equal(np.arange(len(times)) if order is None else order, np.argsort(times, kind="stable"))
