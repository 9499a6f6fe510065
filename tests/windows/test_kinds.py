"""Kinds of windows: what the registry promises of each, lateness, and what others ask a window for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin.windows import FOREVER, KINDS, SINCE_EVER, asked, spelled
from streamjoin.windows.watermark import Watermark
from streamjoin.windows.window import Asked

EXAMPLES = {"interval": "-10..5", "last": "last r=3,s=4", "tumbling": "tumbling 7"}


def test_every_kind_has_an_example() -> None:
    assert EXAMPLES.keys() == KINDS.keys()


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_is_made_by_its_function_and_read_from_text(name: str) -> None:
    assert name in sj.__all__
    assert getattr(KINDS[name].module, name) is getattr(sj, name)
    made = spelled(EXAMPLES[name])
    assert isinstance(made, Asked)
    window = made.window("int")
    assert window.describe() == window.identity()
    at = np.arange(-20, 20, dtype=np.int64)
    for side in (0, 1):
        since, until = window.bounds(side, at, 5)
        assert len(since) == len(until) == len(at)
        assert window.horizon(side, 3, 5) <= max(since[at >= 3])


def test_the_rows_load_no_compiler_and_no_arrow() -> None:
    code = "import sys, streamjoin.windows; print(*sys.modules)"
    path = str(Path(sj.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": path}
    )
    assert not {"numba", "numpy", "pyarrow"} & set(done.stdout.split())


def test_which_side_is_never_the_earlier_one() -> None:
    assert asked(sj.interval(0, 5)).window("int").later_side == 1
    assert asked(sj.interval(-5, 0)).window("int").later_side == 0
    assert asked(5).window("int").later_side is None
    assert asked(sj.tumbling(5)).window("int").later_side is None
    assert asked(sj.last(5)).window(None).later_side is None


times = st.one_of(st.integers(-30, 30), st.sampled_from([SINCE_EVER, SINCE_EVER + 3, FOREVER - 3, FOREVER]))


@given(st.lists(times, max_size=12), times, st.sampled_from([0, 1, 5, FOREVER]), times)
def test_lateness_is_that_of_one_tuple_after_the_other(
    arrivals: list[int], newest: int, max_delay: int, promised: int
) -> None:
    mark = Watermark(max_delay)
    mark.advance_to(newest)
    mark.promise(promised)
    expected, latest = [], newest
    for time in arrivals:
        expected.append(time < max(latest - max_delay, SINCE_EVER, promised))
        latest = max(latest, time)
    late = mark.late(np.array(arrivals, np.int64))
    assert (late is None) == (not any(expected))
    if late is not None:
        assert late.tolist() == expected
    mark.advance(np.array(arrivals, np.int64))
    assert mark.value == max(latest - max_delay, SINCE_EVER, promised)
