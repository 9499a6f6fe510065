"""Conformance: joins as values, and checks that an engine does them as the oracle does.

    check_tables(engine)      an engine is a function from a TableJoin to the table of results
    check_streams(engine)     an engine is a function from a StreamJoin to an object with push_r, push_s, poll and close

Both draw joins with Hypothesis and show the smallest one that goes wrong. A test of its own that needs more control
draws from `strategies.py` and calls `verify`. A result may have any columns; what is looked at is `rid` and `sid`,
`t_r` and `t_s` where order is asked for, and with `verify_rows` everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from streamjoin.testing.cases import CASES, SCHEMAS, Case, R, S, within
from streamjoin.testing.oracle import Arrival, Row, Window, arrivals_of_tables, pairs, split_late
from streamjoin.testing.rows import pairs_of, to_batch, to_table

TIME = ("t", "t")


@dataclass(frozen=True)
class TableJoin:
    """A join of two tables."""

    case: Case
    window: Window
    rows_r: list[Row]
    rows_s: list[Row]
    ordered: bool = False

    @property
    def r(self) -> pa.Table:
        return to_table(self.rows_r, R)

    @property
    def s(self) -> pa.Table:
        return to_table(self.rows_s, S)

    @property
    def options(self) -> dict[str, Any]:
        """As `streamjoin.join` takes it, after the two tables."""
        return {"on": self.case.on, "within": within(self.window), "time": "t", "ordered": self.ordered}

    def expected(self) -> list[tuple[int, int]]:
        return pairs(arrivals_of_tables(self.rows_r, self.rows_s, TIME), self.case.holds, self.window, TIME)

    def verify(self, out: pa.Table) -> None:
        """Raises AssertionError unless the result has exactly the right pairs, and in order if asked for."""
        _same(pairs_of(out), self.expected())
        if self.ordered:
            verify_order([out])

    def verify_rows(self, out: pa.Table) -> None:
        """Raises AssertionError unless a result carries both rows untouched: r's columns, then s's, with the suffixes
        `_r` and `_s` where names clash."""
        clash = set(R.names) & set(S.names)
        for side, source in (("r", self.r.take(out["rid"])), ("s", self.s.take(out["sid"]))):
            for name in source.schema.names:
                got = out[f"{name}_{side}" if name in clash else name]
                assert got.type == source[name].type, f"{name} of {side} is {got.type}, not {source[name].type}"
                assert str(got.to_pylist()) == str(source[name].to_pylist()), f"values of {name} of {side}"


@dataclass(frozen=True)
class Push:
    """Rows of one side arrive."""

    side: str
    rows: list[Row]


@dataclass(frozen=True)
class Poll:
    """Results are asked for, and waited for that many seconds."""

    timeout: float = 0.0


@dataclass(frozen=True)
class Advance:
    """A promise: no later row of this side has a time below."""

    side: str
    time: int


Step = Push | Poll | Advance


class Engine(Protocol):
    """What a live engine needs to have. `advance(r=..., s=...)` too, unless `advances=False` is asked for.

    `poll` returns results as Arrow batches, and punctuations as anything else with an attribute `time`.
    """

    def push_r(self, batch: pa.RecordBatch, /) -> object: ...

    def push_s(self, batch: pa.RecordBatch, /) -> object: ...

    def poll(self, timeout: float, /) -> Iterable[Any]: ...

    def close(self) -> object: ...


@dataclass(frozen=True)
class StreamJoin:
    """A join of two streams, and in which steps they are fed to an engine."""

    case: Case
    window: Window
    steps: Sequence[Step]
    timed: bool = True  # rows have a time; else the window is one of rows
    max_delay: int = 0
    ordered: bool = False
    punctuations: bool = False
    sliced: bool = False  # batches are slices of longer ones

    @property
    def options(self) -> dict[str, Any]:
        """As `streamjoin.Join` takes it."""
        out = {"r": R, "s": S, "on": self.case.on, "within": within(self.window)}
        if self.timed:
            out |= {"time": "t", "max_delay": self.max_delay}
        return out | {"ordered": self.ordered, "punctuations": self.punctuations}

    @property
    def arrivals(self) -> list[Arrival]:
        return [(step.side, row) for step in self.steps if isinstance(step, Push) for row in step.rows]

    def split(self) -> tuple[list[Arrival], list[Arrival]]:
        """What arrives in time, and what is late."""
        return split_late(self.arrivals, TIME, self.max_delay) if self.timed else (self.arrivals, [])

    def expected(self) -> list[tuple[int, int]]:
        return pairs(self.split()[0], self.case.holds, self.window, TIME if self.timed else None)

    def feed(self, engine: Engine) -> list[Any]:
        """Takes all steps and closes the engine. Returns all that it gave out."""
        push = {"r": engine.push_r, "s": engine.push_s}
        whole = {side: to_batch([row for at, row in self.arrivals if at == side], SCHEMAS[side]) for side in push}
        done = dict.fromkeys(push, 0)
        out: list[Any] = []
        for step in self.steps:
            match step:
                case Push(side, rows):
                    cut = whole[side].slice(done[side], len(rows))
                    push[side](cut if self.sliced else to_batch(rows, SCHEMAS[side]))
                    done[side] += len(rows)
                case Poll(timeout):
                    out += engine.poll(timeout)
                case Advance(side, time):
                    engine.advance(**{side: time})  # type: ignore[attr-defined]  # asked for by whoever drew the steps
        engine.close()
        out += engine.poll(0.0)
        return out

    def verify(self, out: Sequence[Any], expected: list[tuple[int, int]] | None = None) -> None:
        """Raises AssertionError unless what came out is exactly the right pairs, in order and with punctuations that
        keep their promise if asked for. `expected` spares the nested loop where the pairs are known."""
        found = [pair for found in _batches(out) for pair in pairs_of(found)]
        _same(found, self.expected() if expected is None else expected)
        if self.ordered:
            verify_order(_batches(out))
        if self.punctuations:
            verify_punctuations(out)
        else:
            assert len(_batches(out)) == len(out), "punctuations that were not asked for"


def _same(found: list[tuple[int, int]], expected: list[tuple[int, int]]) -> None:
    found = sorted(found)
    faults = {
        "missing": set(expected) - set(found),
        "wrong": set(found) - set(expected),
        "more than once": {pair for pair, following in pairwise(found) if pair == following},
    }
    said = "; ".join(f"{fault} {sorted(which)}" for fault, which in faults.items() if which)
    assert not said, f"pairs (rid, sid): {said}"


def _batches(out: Sequence[Any]) -> list[Any]:
    return [item for item in out if isinstance(item, (pa.RecordBatch, pa.Table))]


def _times(out: pa.Table | pa.RecordBatch) -> np.ndarray[Any, np.dtype[np.int64]]:
    times: np.ndarray[Any, np.dtype[np.int64]] = np.maximum(np.asarray(out["t_r"]), np.asarray(out["t_s"]))
    return times


def verify_order(batches: Sequence[pa.Table | pa.RecordBatch]) -> None:
    """Raises AssertionError if a result is older than one before it."""
    times = np.concatenate([np.zeros(0, np.int64), *(_times(found) for found in batches if found.num_rows)])
    assert (np.diff(times) >= 0).all(), f"times of the results, in order of output: {times}"


def verify_punctuations(out: Sequence[Any]) -> None:
    """Raises AssertionError unless punctuations rise, and every result after one has its time or a later one."""
    promised = None
    for item in out:
        if isinstance(item, (pa.RecordBatch, pa.Table)):
            assert promised is None or not item.num_rows or _times(item).min() >= promised, f"a result below {promised}"
        else:
            assert promised is None or item.time > promised, f"punctuation {item.time} after {promised}"
            promised = item.time


def check_tables(
    engine: Callable[[TableJoin], pa.Table], *, cases: Sequence[Case] = CASES, examples: int = 100, **drawn: Any
) -> None:
    """Checks an engine for tables on joins that Hypothesis draws; `drawn` goes to `strategies.table_joins`.

    >>> import streamjoin as sj
    >>> from streamjoin.testing.cases import BY_NAME
    >>> def engine(join):
    ...     return sj.join(join.r, join.s, **join.options)
    >>> check_tables(engine, cases=[BY_NAME["equality"]], examples=10)
    """
    from streamjoin.testing.strategies import given, settings, table_joins

    @settings(max_examples=examples, deadline=None)
    @given(table_joins(cases, **drawn))
    def check(join: TableJoin) -> None:
        join.verify(engine(join))

    check()


def check_streams(
    engine: Callable[[StreamJoin], Engine], *, cases: Sequence[Case] = CASES, examples: int = 100, **drawn: Any
) -> None:
    """Checks a live engine on joins that Hypothesis draws; `drawn` goes to `strategies.stream_joins`.

    >>> import streamjoin as sj
    >>> from streamjoin.testing.cases import BY_NAME
    >>> check_streams(lambda join: sj.Join(**join.options), cases=[BY_NAME["equality"]], examples=10)
    """
    from streamjoin.testing.strategies import given, settings, stream_joins

    @settings(max_examples=examples, deadline=None)
    @given(stream_joins(cases, **drawn))
    def check(join: StreamJoin) -> None:
        join.verify(join.feed(engine(join)))

    check()
