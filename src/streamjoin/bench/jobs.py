"""The named jobs of `bench tables`: two tables each, their predicate, and what a peer needs to phrase it well.

Every table has a time and two more columns: r(t, x, y) and s(u, a, b). Times are integers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.papers import BAND, HALF_WIDTH, MICROSECONDS, Array, Source

COLUMNS: Mapping[str, tuple[str, str, str]] = MappingProxyType({"r": ("t", "x", "y"), "s": ("u", "a", "b")})
RATE = 500  # rows per second of the jobs whose time is a time of arrival
STEP = MICROSECONDS // RATE
MANY_WINDOWS = 8  # from this many windows on, peers put the time into buckets, too
PARTNERS = 6  # results per row, where a generator can choose


@dataclass(frozen=True)
class Between:
    """A column of one side lies between two expressions over the other side's columns.

    Peers make an equality of it: the row with the column goes into its bucket, the other row into every bucket that
    the bounds touch. No two bounds of a `steady` one lie further apart than a bucket is wide, so that those are two.
    """

    side: str
    column: str
    low: str
    high: str
    bucket: int
    steady: bool = True


@dataclass(frozen=True)
class Part:
    """Some of the results: those that fulfil a condition, and what equalities on buckets can help with it."""

    where: str
    near: tuple[Between, ...] = ()


@dataclass(frozen=True)
class Inputs:
    """Two tables, and a window that every result lies in."""

    r: pa.Table
    s: pa.Table
    within: int


Columns = tuple[Array, Array, Array]
Generator = Callable[[np.random.Generator, int, str], Columns]


@dataclass(frozen=True)
class Job:
    """A join of two tables."""

    on: str
    generate: Generator
    window: int | None = None  # None: the predicate alone decides
    covering: Callable[[Columns, Columns], int] | None = None  # then this one excludes nothing
    equal: tuple[tuple[str, str], ...] = ()
    parts: tuple[Part, ...] = ()  # disjoint, and together all results; none: the predicate as it is
    overlap: bool = False  # of the intervals from each side's first column to its last one

    def inputs(self, rows: int) -> Inputs:
        """The tables, the same in every process."""
        made = {side: self.generate(np.random.default_rng(seed), rows, side) for seed, side in enumerate("rs")}
        tables = {side: pa.table(dict(zip(COLUMNS[side], made[side], strict=True))) for side in made}
        within = self.window if self.window is not None else (self.covering or _span)(made["r"], made["s"])
        return Inputs(tables["r"], tables["s"], within)

    def timed_parts(self, rows: int) -> tuple[Part, ...]:
        """The parts, the window among their conditions."""
        parts = self.parts or (Part(self.on),)
        if self.window is None:
            return parts
        window = f"s.u BETWEEN r.t - {self.window} AND r.t + {self.window}"
        time = Between("r", "t", f"u - {self.window}", f"u + {self.window}", 2 * self.window)
        near = (time,) if rows * STEP > MANY_WINDOWS * self.window else ()
        return tuple(Part(f"{part.where} AND {window}", part.near + near) for part in parts)


def _span(r: Columns, s: Columns) -> int:
    return int(max(r[0].max(), s[0].max()) - min(r[0].min(), s[0].min()))


def _longest(r: Columns, s: Columns) -> int:
    """No two intervals overlap that begin further apart than the longest one is."""
    return int(max((side[2] - side[0]).max() for side in (r, s)))


def _times(rows: int) -> Array:
    return np.arange(rows, dtype=np.int64) * STEP


def _papers(random: np.random.Generator, rows: int, side: str) -> Columns:
    source = Source(side, RATE)
    source.batch(rows)
    times, number, real = source.sent()
    return times.astype(np.int64), number, real


def _numbers(highest: int) -> Generator:
    """Integers from 0 on, and a payload."""

    def generate(random: np.random.Generator, rows: int, side: str) -> Columns:
        return _times(rows), random.integers(0, highest, rows, dtype=np.int32), random.random(rows)

    return generate


def _skewed(random: np.random.Generator, rows: int, side: str) -> Columns:
    """One key of many has a tenth of the rows."""
    times, keys, payload = _numbers(50_000)(random, rows, side)
    keys[random.random(rows) < 0.1] = 0
    return times, keys, payload


def _intervals(lengths: Callable[[np.random.Generator, int], Array]) -> Generator:
    """Starts in no order, row numbers, ends."""

    def generate(random: np.random.Generator, rows: int, side: str) -> Columns:
        starts = random.integers(0, 10 * rows, rows)
        return starts, np.arange(rows, dtype=np.int32), starts + lengths(random, rows)

    return generate


def _even(random: np.random.Generator, rows: int) -> Array:
    return random.integers(0, 10 * PARTNERS + 1, rows)


def _long_tailed(random: np.random.Generator, rows: int) -> Array:
    return np.minimum(5 * random.pareto(1.2, rows), 10 * rows).astype(np.int64)


def _salary_and_tax(random: np.random.Generator, rows: int, side: str) -> Columns:
    """Who earns more pays more, but for some noise."""
    salary = random.integers(0, 1000 * rows, rows)
    return _times(rows), salary, salary // 4 + random.integers(0, 1500 * PARTNERS, rows)


def _apart(falling: bool) -> Generator:
    """Two measures of which s lies apart from r, but for the ends: independent, or one falls as the other rises.

    A part d of each range lies in the other side's. One inequality holds for d^2 / 2 of all pairs, two independent ones
    for d^4 / 4. Where one measure decides the other, all results belong to a few rows.
    """
    width = 10**9

    def generate(random: np.random.Generator, rows: int, side: str) -> Columns:
        part = min(1.0, (2 * PARTNERS / rows) ** 0.5 if falling else (4 * PARTNERS / rows) ** 0.25)
        shift = int((1 - part) * width) if side == "s" else 0
        first = random.integers(0, width, rows) + shift
        if falling:
            return _times(rows), first, width - first + random.integers(0, int(part * width) // 8 + 1, rows)
        return _times(rows), first, random.integers(0, width, rows) - shift

    return generate


def _near(column: str, other: str) -> Between:
    # One more than both half-widths: at the edge, sums of single precision may round either way.
    return Between("r", column, f"{other} - {HALF_WIDTH}", f"{other} + {HALF_WIDTH}", 2 * HALF_WIDTH + 1)


def _overlap(lengths: Callable[[np.random.Generator, int], Array]) -> Job:
    """Two intervals overlap if one of them begins inside the other."""
    inside_s = Part("r.t BETWEEN s.u AND s.b", (Between("r", "t", "u", "b", 32, steady=False),))
    inside_r = Part("s.u > r.t AND s.u <= r.y", (Between("s", "u", "t", "y", 32, steady=False),))
    on, parts = "r.t <= s.b AND s.u <= r.y", (inside_s, inside_r)
    return Job(on, _intervals(lengths), covering=_longest, parts=parts, overlap=True)


BAND_1D = f"r.x BETWEEN s.a - {HALF_WIDTH} AND s.a + {HALF_WIDTH}"
BOTH = "r.x > s.a AND r.y < s.b"

JOBS: Mapping[str, Job] = MappingProxyType(
    {
        "band2d": Job(BAND, _papers, 900 * MICROSECONDS, parts=(Part(BAND, (_near("x", "a"), _near("y", "b"))),)),
        "band1d": Job(BAND_1D, _numbers(3_000_000), 900 * MICROSECONDS, parts=(Part(BAND_1D, (_near("x", "a"),)),)),
        "equi": Job("r.x = s.a", _numbers(50_000), 300 * MICROSECONDS, equal=(("x", "a"),)),
        "overlap": _overlap(_even),
        "overlap_tail": _overlap(_long_tailed),
        "ineq": Job(BOTH, _apart(falling=False)),
        "ineq_correlated": Job(BOTH, _salary_and_tax),
        "ineq_anti": Job(BOTH, _apart(falling=True)),
        "skew": Job("r.x = s.a", _skewed, MICROSECONDS // 2, equal=(("x", "a"),)),
    }
)
DENSE = Job("r.x = s.a", _numbers(15_000), 300 * MICROSECONDS, equal=(("x", "a"),))
"""Some twenty partners for every row: for kinds of joins that build no pairs."""

INNER = "inner"
KINDS: Mapping[str, dict[str, Any]] = MappingProxyType(  # of joins, by the name that benchmarks give them
    {
        INNER: {},
        "left": {"how": "left"},
        "full": {"how": "full"},
        "semi": {"how": "semi"},
        "anti": {"how": "anti"},
        "take": {"take": "nearest"},
        "count": {"aggregate": {"n": "count(*)"}},
    }
)
