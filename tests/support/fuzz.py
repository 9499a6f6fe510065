"""Random predicates compared with the nested loop: what the fuzz tests of every engine share."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

import streamjoin as sj
from profiles import SOAK
from streamjoin.errors import DataError
from streamjoin.predicate import as_tree
from streamjoin.testing.expressions import E, columns, to_sql
from streamjoin.testing.generate import Predicates, rows, schema
from streamjoin.testing.meaning import Verdicts, matrix
from streamjoin.testing.rows import to_table
from streamjoin.testing.truth import evaluate_all

R, S = schema("r"), schema("s")


def describe(e: E, r: dict[str, Any], s: dict[str, Any], expected: Any, got: Any) -> str:
    used = {f"{side}.{name}": (r if side == "r" else s)[name] for side, name in sorted(columns(e))}
    return f"{to_sql(e)}\n  with {used}\n  expected {bool(expected)}, got {bool(got)}"


def check(e: E, rs: list[dict[str, Any]], ss: list[dict[str, Any]], want: Verdicts, got: np.ndarray) -> None:
    """Exact everywhere, except that a cast beyond its integer's range has no specified value."""
    where = np.argwhere((np.asarray(got) != want.truth) & ~want.narrows)
    if len(where):
        i, j = where[0]
        raise AssertionError(describe(e, rs[i], ss[j], want.truth[i, j], got[i, j]))


def may_raise(want: Verdicts) -> bool:
    return bool(want.beyond.any() or want.narrows.any())


def all_in_one(trees: list[E], rs: list[dict[str, Any]], ss: list[dict[str, Any]]) -> list[np.ndarray]:

    parsed = [as_tree(to_sql(e)) for e in trees]
    return [np.asarray(m) for m in evaluate_all(parsed, R, S, to_table(rs, R), to_table(ss, S))]


def sample(seed: int, n: int, edges: bool) -> tuple[list[E], list[dict[str, Any]], list[dict[str, Any]]]:
    rng = Random(seed)
    draw = Predicates(rng)
    trees = [draw.shape() if rng.random() < 0.3 else draw.tree(rng.choice((1, 2, 3))) for _ in range(n)]
    return trees, rows(rng, 40, "r", edges), rows(rng, 40, "s", edges)


def seeds(suite: int, soak: int) -> range:
    """Each is another predicate to compile, a second or two of it: few in the suite, many in a soak."""
    return range(soak if SOAK else suite)


def result_matrix(out: pa.Table, n_r: int, n_s: int) -> np.ndarray:
    counts = np.zeros((n_r, n_s), np.int64)
    np.add.at(counts, (out["rid"].to_numpy(), out["sid"].to_numpy()), 1)
    assert counts.max(initial=0) <= 1, "a pair came twice"
    return counts.astype(np.bool_)


def joined(on: Any, rs: list[dict[str, Any]], ss: list[dict[str, Any]], **options: Any) -> np.ndarray:
    out = sj.join(to_table(rs, R), to_table(ss, S), on=on, within=1000, time="t", **options)
    return result_matrix(out, len(rs), len(ss))


def fuzz_join(e: E, seed: int, on: Any, **options: Any) -> None:
    """One predicate on three row sets: a plain one, one with type edges, one with an empty side."""
    rng = Random(seed)
    for n_r, n_s, edges in ((40, 40, False), (40, 25, True), (5, 0, False)):
        rs, ss = rows(rng, n_r, "r", edges), rows(rng, n_s, "s", edges)
        want = matrix(e, rs, ss)
        try:
            got = joined(on, rs, ss, **options)
        except DataError:
            if not may_raise(want):
                raise
        else:
            check(e, rs, ss, want, got)


EDGE_CASES = [
    # The papers' band: an integer literal keeps float32 arithmetic, a decimal or double one makes it double.
    "r.f32 BETWEEN s.f32 - 10 AND s.f32 + 10",
    "r.f32 BETWEEN s.f32 - 0.1 AND s.f32 + 0.1",
    "abs(r.f32 - s.f64) <= 0.1D",
    "r.i64 = s.f32",
    "r.i64 = s.f64",
    "r.f64 = s.f64",
    "r.f64 - s.f64 = 0",
    "r.i32 / s.i32 > 1",
    "r.i8 + s.i8 > 127",
    "-r.i8 = 128 AND s.i8 IS NOT NULL",
    "abs(r.i32) > 2147483647 AND s.i8 > 0",
    "r.i32 * s.i32 > 4611686014132420608",
    "r.nm <> s.nm OR r.nm IS NULL",
    "NOT (r.f64 < s.f64) AND NOT (r.f64 > s.f64)",
    "r.u32 - s.u32 < 0",
    "r.amt = s.amt OR r.amt + 1.00 >= s.amt",
    "((r.i8 + s.i8) IS NULL AND r.i32 IS NOT NULL) OR r.i64 = s.i64",
    "r.i8 = s.i8 AND (((r.i32 + s.i32) IS NULL AND r.i8 = 1) OR r.i8 = 2)",
    "((r.i8 + s.i8) IS NOT NULL AND (r.i8 <=> s.i32 OR (r.i32 + s.i8) IS NULL)) = s.flag",
    "round(r.f64) = s.f64 OR round(r.f32) < round(s.f64)",
    "rint(r.f64) + sign(s.f32) >= radians(s.f64) * 10",
    "degrees(r.f32) < s.i32 AND pmod(r.f64, 7) >= pmod(s.i8, 3)",
    "round(r.amt) = round(s.amt) OR isnan(r.f32) = s.flag",
]
