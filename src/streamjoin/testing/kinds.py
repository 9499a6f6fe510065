"""Kinds of joins as values: how, take and aggregate over the schemas of `cases.py`, for streamjoin and the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import streamjoin as sj
from streamjoin.testing import oracle, results
from streamjoin.testing.cases import ARROW, Case, r, s
from streamjoin.testing.expressions import F64, I64, E, T, op, to_sql
from streamjoin.testing.meaning import value


@dataclass(frozen=True, repr=False)
class Best:
    """min_by(e, k) or max_by(e, k)."""

    e: E
    k: int = 1
    greatest: bool = False

    @property
    def name(self) -> str:
        return "max_by" if self.greatest else "min_by"

    def __repr__(self) -> str:
        return f"{self.name}({to_sql(self.e)}, k={self.k})"


@dataclass(frozen=True, repr=False)
class Aggregate:
    """An aggregate of an expression, or of rows, and what min_by and max_by go by."""

    function: str
    e: E | None = None
    by: E | None = None

    def __repr__(self) -> str:
        given = [to_sql(e) for e in (self.e, self.by) if e is not None]
        return f"{self.function}({', '.join(given) or '*'})"

    @property
    def type(self) -> pa.DataType:
        """What the semantics say of the type of its column."""
        if self.e is None or self.function == "count":
            return pa.int64()
        kind: T = self.e.type
        match self.function:
            case "avg":
                kind = F64
            case "sum":
                kind = F64 if kind.kind == "float" else I64
        return ARROW[kind]


@dataclass(frozen=True)
class Kind:
    """What becomes of the pairs.

    >>> Kind("left", take=Best(s("a"), k=2))
    Kind(how='left', take=min_by(s.a, k=2), aggregate=())
    >>> Kind(aggregate=(("n", Aggregate("count")),)).options
    {'aggregate': {'n': 'count(*)'}}
    """

    how: str = "inner"
    take: str | Best = "all"
    aggregate: tuple[tuple[str, Aggregate], ...] = ()

    @property
    def options(self) -> dict[str, Any]:
        """As streamjoin takes it; nothing for an inner join."""
        out: dict[str, Any] = {} if self.how == "inner" else {"how": self.how}
        if isinstance(self.take, Best):
            out["take"] = getattr(sj, self.take.name)(to_sql(self.take.e), k=self.take.k)
        elif self.take != "all":
            out["take"] = self.take
        if self.aggregate:
            out["aggregate"] = {name: str(one) for name, one in self.aggregate}
        return out

    @property
    def of_r_alone(self) -> bool:
        """A row has the columns of r, and none of s."""
        return self.how in ("semi", "anti") or bool(self.aggregate)

    @property
    def of_pairs(self) -> bool:
        """Every row is a pair, and every pair a row."""
        return self == Kind()

    @property
    def taken(self) -> results.Take:
        take = self.take
        return results.Best(value(take.e), take.k, take.greatest) if isinstance(take, Best) else take

    def results(
        self, arrivals: Sequence[oracle.Arrival], case: Case, window: oracle.Window, time: oracle.Times
    ) -> list[results.Result]:
        """What the oracle says."""

        def asked(one: Aggregate) -> results.Aggregate:
            of, by = (None if e is None else value(e) for e in (one.e, one.by))
            return results.Aggregate(one.function, of, by)

        aggregate = {name: asked(one) for name, one in self.aggregate} or None
        return results.results(arrivals, case.holds, window, time, how=self.how, take=self.taken, aggregate=aggregate)


INNER = Kind()
HOWS = [Kind(how) for how in ("left", "right", "full", "semi", "anti")]
DISTANCE = op("abs", op("sub", r("x"), s("a")))
BY_TIME = [Kind(how, take) for take in ("backward", "forward", "nearest") for how in ("inner", "left")]
BY_VALUE = [Kind("inner", Best(DISTANCE)), Kind("left", Best(s("b"), k=2)), Kind("left", Best(s("b"), greatest=True))]
TAKES = BY_TIME + BY_VALUE
STATISTICS = (
    ("n", Aggregate("count")),
    ("known", Aggregate("count", s("a"))),
    ("total", Aggregate("sum", s("a"))),
    ("mean", Aggregate("avg", s("b"))),
    ("low", Aggregate("min", s("b"))),
    ("high", Aggregate("max", op("sub", s("a"), r("x")))),
    ("best", Aggregate("min_by", s("a"), s("b"))),
    ("worst", Aggregate("max_by", s("b"), DISTANCE)),
)
COUNTED = Kind("left", aggregate=STATISTICS[:1])
AGGREGATES = [COUNTED, Kind("inner", aggregate=STATISTICS), Kind("left", aggregate=STATISTICS)]
KINDS = [INNER, *HOWS, *TAKES, *AGGREGATES]
