"""The conformance checks: the documented engines pass, faulty ones are found, and Hypothesis may be missing."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings

from streamjoin.testing import conformance, strategies
from streamjoin.testing.cases import BY_NAME, stream_of
from streamjoin.testing.conformance import Push, StreamJoin, TableJoin
from streamjoin.testing.oracle import Interval

PAGE = Path(__file__).resolve().parents[2] / "docs" / "testing.md"
EQUALITY = BY_NAME["equality"]


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """What the code on the page defines, after all of it has run."""
    text = PAGE.read_text()
    names: dict[str, Any] = {}
    for block in re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        line = text.count("\n", 0, block.start()) + 1
        exec(compile("\n" * line + block[1], str(PAGE), "exec"), names)
    return names


def test_the_page_runs(page: dict[str, Any]) -> None:
    assert {"nested_loop", "Live", "test_tables"} <= page.keys()


FAULTS: dict[str, Callable[[pa.Table], pa.Table]] = {
    "missing": lambda out: out.slice(1),
    "more than once": lambda out: pa.concat_tables([out, out.slice(0, 1)]),
    "wrong": lambda out: out.set_column(1, "sid", pa.array([99] * out.num_rows, pa.int64())),
    "times of the results": lambda out: out.take(pa.array(range(out.num_rows - 1, -1, -1), pa.int64())),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_an_engine_for_tables_are_found(page: dict[str, Any], fault: str) -> None:
    def faulty(join: TableJoin) -> pa.Table:
        out: pa.Table = FAULTS[fault](page["nested_loop"](join))
        return out

    with pytest.raises(AssertionError, match=fault):
        conformance.check_tables(faulty, cases=[EQUALITY], windows=strategies.symmetric)


def test_faults_of_a_live_engine_are_found(page: dict[str, Any]) -> None:
    Live: Any = page["Live"]

    class Forgetful(Live):  # type: ignore[misc]
        def poll(self, timeout: float) -> list[pa.RecordBatch]:
            self.rows["r"] = self.rows["r"][-3:]
            found: list[pa.RecordBatch] = super().poll(timeout)
            return found

    with pytest.raises(AssertionError, match="missing"):
        conformance.check_streams(
            Forgetful, cases=[EQUALITY], windows=strategies.symmetric, delays=[6], orders=[False], advances=False
        )


def test_late_rows_must_not_be_joined(page: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match="wrong"):
        conformance.check_streams(
            page["Live"], cases=[EQUALITY], windows=strategies.symmetric, delays=[0], orders=[False], advances=False
        )


class Punctuation:
    def __init__(self, time: int) -> None:
        self.time = time


def test_promises_of_punctuations_are_checked() -> None:
    rows = {side: [{f"{side}id": 0, "t": 5, "k": 1}] for side in "rs"}
    join = StreamJoin(EQUALITY, Interval(-1, 1), [Push(side, rows[side]) for side in "rs"], punctuations=True)
    result = pa.RecordBatch.from_pydict({"rid": [0], "sid": [0], "t_r": [5], "t_s": [5]})
    join.verify([Punctuation(4), Punctuation(5), result, Punctuation(6)])
    with pytest.raises(AssertionError, match="below 6"):
        join.verify([Punctuation(6), result])
    with pytest.raises(AssertionError, match="punctuation 4 after 5"):
        join.verify([Punctuation(5), Punctuation(4), result])
    with pytest.raises(AssertionError, match="not asked for"):
        replace(join, punctuations=False).verify([result, Punctuation(6)])


def test_rows_of_a_result_are_checked() -> None:
    import streamjoin as sj

    rows = {side: stream_of(side, [7, 8, 9], 1, 0, False) for side in "rs"}
    join = TableJoin(EQUALITY, Interval(-50, 50), rows["r"], rows["s"])
    out = sj.join(join.r, join.s, **join.options)
    join.verify_rows(out)
    for column, fault in (("x", "values of x of r"), ("k_s", "values of k of s")):
        at = out.schema.names.index(column)
        zeros = pa.array([-77] * out.num_rows, out.schema.field(at).type)
        with pytest.raises(AssertionError, match=fault):
            join.verify_rows(out.set_column(at, column, zeros))


def test_examples_do_not_depend_on_the_profile(page: dict[str, Any]) -> None:
    seen = []

    def counting(join: TableJoin) -> pa.Table:
        seen.append(join)
        return page["nested_loop"](join)

    conformance.check_tables(counting, cases=[EQUALITY], windows=strategies.symmetric, examples=7)
    assert 0 < len(seen) <= 7 < settings().max_examples


def test_without_hypothesis() -> None:
    """Everything but the drawing works without it, and that says what to install."""
    code = """
import sys
sys.modules["hypothesis"] = None
import streamjoin.testing.conformance, streamjoin.testing.generate, streamjoin.testing.scheduler
from streamjoin.errors import UnsupportedError
for check in (streamjoin.testing.conformance.check_tables, streamjoin.testing.conformance.check_streams):
    try:
        check(None)
    except UnsupportedError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.count("pip install 'streamjoin[testing]'") == 2, done.stderr
