"""Conformance: joins as values, and checks that an engine does them as the oracle does.

    check_tables(engine)      an engine is a function from a TableJoin to the table of results
    check_streams(engine)     an engine is a function from a StreamJoin to an object with push_r, push_s, poll and close

Both draw joins with Hypothesis and show the smallest one that goes wrong. A test of its own that needs more control
draws from `strategies.py` and calls `verify`. A result may have any columns; what is looked at is `rid` and `sid`
(`rid` alone for semi, anti and aggregates), the aggregates, `t_r` and `t_s` where the pairs are known, and with
`verify_rows` everything. `kinds=` asks for other kinds than inner joins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol

import pyarrow as pa

from streamjoin.testing import verdict
from streamjoin.testing.cases import CASES, LASTING, SCHEMAS, Case, R, S, time, within
from streamjoin.testing.kinds import INNER, Kind
from streamjoin.testing.oracle import Arrival, Progress, Row, Valid, Window, arrivals_of_tables, split_late
from streamjoin.testing.results import Result, may_come_out
from streamjoin.testing.rows import to_batch, to_table

TIME = ("t", "t")


def _windowed(window: Window) -> dict[str, Any]:
    spelled = within(window)
    return {} if spelled is None else {"within": spelled}


@dataclass(frozen=True)
class TableJoin:
    """A join of two tables."""

    case: Case
    window: Window
    rows_r: list[Row]
    rows_s: list[Row]
    ordered: bool = False
    kind: Kind = INNER

    @property
    def r(self) -> pa.Table:
        return to_table(self.rows_r, R)

    @property
    def s(self) -> pa.Table:
        return to_table(self.rows_s, S)

    @property
    def options(self) -> dict[str, Any]:
        """As `streamjoin.join` takes it, after the two tables."""
        basic = {"on": self.case.on, **_windowed(self.window), "time": "t", "ordered": self.ordered}
        return basic | self.kind.options

    def results(self) -> list[Result]:
        """What the oracle says."""
        arrivals = arrivals_of_tables(self.rows_r, self.rows_s, TIME)
        return self.kind.results(arrivals, self.case, self.window, TIME)

    def expected(self) -> list[tuple[int | None, ...]]:
        """The keys of its rows."""
        return verdict.keys(self.results(), self.kind)

    def verify(self, out: pa.Table) -> None:
        """Raises AssertionError unless the result has exactly the right rows, and in order if asked for."""
        found = self.results()
        verdict.same([out], found, self.kind)
        if self.ordered:
            verdict.order([out], verdict.times(found, self.kind))

    def verify_rows(self, out: pa.Table) -> None:
        """Raises AssertionError unless a result carries both rows untouched: r's columns, then s's, with the suffixes
        `_r` and `_s` where names clash; r's columns as they are, where there are none of s."""
        alone = self.kind.of_r_alone
        clash = set() if alone else set(R.names) & set(S.names)
        sources = [("r", self.r.take(out["rid"]))] + ([] if alone else [("s", self.s.take(out["sid"]))])
        names = [f"{name}_{side}" if name in clash else name for side, rows in sources for name in rows.schema.names]
        wanted = names + [name for name, _ in self.kind.aggregate]
        assert out.schema.names == wanted, f"columns {out.schema.names}, not {wanted}"
        for side, source in sources:
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
    kind: Kind = INNER

    @property
    def schemas(self) -> dict[str, pa.Schema]:
        """Of both sides."""
        return LASTING if isinstance(self.window, Valid) else SCHEMAS

    @property
    def options(self) -> dict[str, Any]:
        """As `streamjoin.Join` takes it."""
        out = {**self.schemas, "on": self.case.on, **_windowed(self.window)}
        if self.timed:
            out |= {"time": time(self.window), "max_delay": self.max_delay}
        return out | {"ordered": self.ordered, "punctuations": self.punctuations} | self.kind.options

    @property
    def arrivals(self) -> list[Arrival]:
        return [(step.side, row) for step in self.steps if isinstance(step, Push) for row in step.rows]

    def split(self) -> tuple[list[Arrival], list[Arrival]]:
        """What arrives in time, and what is late."""
        return split_late(self.arrivals, TIME, self.max_delay) if self.timed else (self.arrivals, [])

    def results(self) -> list[Result]:
        """What the oracle says."""
        return self.kind.results(self.split()[0], self.case, self.window, TIME if self.timed else None)

    def expected(self) -> list[tuple[int | None, ...]]:
        """The keys of its rows."""
        return verdict.keys(self.results(), self.kind)

    def feed(self, engine: Engine) -> list[Any]:
        """Takes all steps and closes the engine. Returns all that it gave out."""
        return [item for _, item in self.watch(engine)]

    def watch(self, engine: Engine) -> list[tuple[int, Any]]:
        """As `feed`, and beside everything that came out the number of steps that had been taken by then."""
        push = {"r": engine.push_r, "s": engine.push_s}
        schemas = self.schemas
        whole = {side: to_batch([row for at, row in self.arrivals if at == side], schemas[side]) for side in push}
        done = dict.fromkeys(push, 0)
        out: list[tuple[int, Any]] = []
        for taken, step in enumerate(self.steps, 1):
            match step:
                case Push(side, rows):
                    cut = whole[side].slice(done[side], len(rows))
                    push[side](cut if self.sliced else to_batch(rows, schemas[side]))
                    done[side] += len(rows)
                case Poll(timeout):
                    out += [(taken, item) for item in engine.poll(timeout)]
                case Advance(side, moment):
                    engine.advance(**{side: moment})  # type: ignore[attr-defined]  # asked for by whoever drew the steps
        engine.close()
        return out + [(len(self.steps) + 1, item) for item in engine.poll(0.0)]

    def verify(self, out: Sequence[Any], expected: list[tuple[int, int]] | None = None) -> None:
        """Raises AssertionError unless what came out is exactly the right rows, in order and with punctuations that
        keep their promise if asked for. `expected` spares the nested loop where the pairs of an inner join are known.
        """
        found = self.results() if expected is None else None
        batches = verdict.batches(out)
        if expected is not None:
            verdict.same_keys([key for batch in batches for key in verdict.keys_of(batch, INNER)], expected)
        else:
            assert found is not None
            verdict.same(batches, found, self.kind)
        times = None if found is None else verdict.times(found, self.kind)
        if self.ordered:
            verdict.order(batches, times)
        if self.punctuations:
            verdict.punctuations(out, times)
        else:
            assert len(batches) == len(out), "punctuations that were not asked for"

    def verify_moments(self, watched: Sequence[tuple[int, Any]]) -> None:
        """Raises AssertionError if a row came out before it could be known: before an unmatched tuple's window had
        passed, or while something could still beat a choice. `watched` comes from `watch`. A tuple that matches no row
        of the other stream, whatever the time, may come out at once: its own values rule out every partner."""
        if self.kind.of_pairs:
            return
        found = {verdict.key_of(one, self.kind): one for one in self.results()}
        for steps, items in groupby(watched, key=lambda seen: seen[0]):
            if steps > len(self.steps):
                return  # the streams have ended
            reached = self.progress(steps)
            for batch in verdict.batches([item for _, item in items]):
                for key in verdict.keys_of(batch, self.kind):
                    known = may_come_out(found[key], self.window, self.kind.how, self.kind.taken, reached)
                    assert known or self._hopeless(found[key]), f"{key} came out too early, at {reached}"

    def progress(self, steps: int) -> Progress:
        """How far the streams have come after this many steps."""
        rows, marks = {"r": 0, "s": 0}, {"r": -math.inf, "s": -math.inf}
        for step in self.steps[:steps]:
            match step:
                case Push(side, pushed):
                    for row in pushed:
                        rows[side] += not self.timed or row["t"] >= marks[side]
                        marks[side] = max(marks[side], row["t"] - self.max_delay) if self.timed else -math.inf
                case Advance(side, moment):
                    marks[side] = max(marks[side], moment)
        return Progress(rows, marks)

    def _hopeless(self, found: Result) -> bool:
        """No row of the other stream matches, at any time."""
        streams = {side: [row for at, row in self.arrivals if at == side] for side in ("r", "s")}
        rs = [found.r.row] if found.r else streams["r"]
        ss = [found.s.row] if found.s else streams["s"]
        return not any(self.case.holds(r, s) for r in rs for s in ss)


def check_tables(
    engine: Callable[[TableJoin], pa.Table], *, cases: Sequence[Case] = CASES, examples: int = 100, **drawn: Any
) -> None:
    """Checks an engine for tables on joins that Hypothesis draws; `drawn` goes to `strategies.table_joins`. They are
    inner joins, unless `kinds=` names others.

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
    """Checks a live engine on joins that Hypothesis draws; `drawn` goes to `strategies.stream_joins`. They are inner
    joins, unless `kinds=` names others.

    >>> import streamjoin as sj
    >>> from streamjoin.testing.cases import BY_NAME
    >>> check_streams(lambda join: sj.Join(**join.options), cases=[BY_NAME["equality"]], examples=10)
    """
    from streamjoin.testing.strategies import given, settings, stream_joins

    @settings(max_examples=examples, deadline=None)
    @given(stream_joins(cases, **drawn))
    def check(join: StreamJoin) -> None:
        watched = join.watch(engine(join))
        join.verify([item for _, item in watched])
        join.verify_moments(watched)

    check()
