"""Random predicates over rows full of nulls, NaN, infinities, ties and type edges, against the nested loop.

A kernel costs about a second to compile, so most trees go through `evaluate_all`, many in one
module. Fewer, of the shapes that the analysis turns into hash and band access, go through `sj.join` itself.
"""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz import EDGE_CASES, R, S, all_in_one, check, fuzz_join, joined, may_raise, sample, seeds
from spark_rows import spark_rows
from streamjoin.errors import DataError, PredicateError
from streamjoin.predicate import as_tree
from streamjoin.predicate.resolve import resolve
from streamjoin.testing.expressions import E, Refused, col, columns, lit, nodes, op, to_sql
from streamjoin.testing.generate import TYPES, Predicates, rows
from streamjoin.testing.meaning import matrix
from streamjoin.testing.rows import to_table
from streamjoin.testing.spellings import to_expression, to_python
from streamjoin.testing.truth import evaluate_all


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_generated_code_on_small_values(seed: int, soak: bool) -> None:
    trees, rs, ss = sample(1000 + seed, 2_000 if soak else 10, edges=False)
    wanted = [matrix(e, rs, ss) for e in trees]
    clean = [i for i, w in enumerate(wanted) if not may_raise(w)]
    assert len(clean) > len(trees) * 2 // 3
    for i, got in zip(clean, all_in_one([trees[i] for i in clean], rs, ss), strict=True):
        check(trees[i], rs, ss, wanted[i], got)


def test_generated_code_at_the_edge_of_the_types(soak: bool) -> None:
    """Integers at their type's edge: the mathematically right answer as long as it fits into 64 bits."""
    trees, rs, ss = sample(2000, 1_000 if soak else 12, edges=True)
    wanted = [matrix(e, rs, ss) for e in trees]
    clean = [i for i, w in enumerate(wanted) if not may_raise(w)]
    assert any(wanted[i].wraps.any() for i in clean), "no tree leaves Spark's type: the test is idle"
    for i, got in zip(clean, all_in_one([trees[i] for i in clean], rs, ss), strict=True):
        check(trees[i], rs, ss, wanted[i], got)


def test_beyond_64_bits_is_right_or_an_error(soak: bool) -> None:
    trees, rs, ss = sample(3000, 400 if soak else 60, edges=True)
    wanted = [matrix(e, rs, ss) for e in trees]
    rough = [i for i, w in enumerate(wanted) if may_raise(w)]
    raised = 0
    for i in rough[: 300 if soak else 4]:
        try:
            (got,) = all_in_one([trees[i]], rs, ss)
        except DataError as e:
            raised += 1
            assert "overflow" in str(e).lower() or "64" in str(e) or "range" in str(e).lower(), str(e)  # noqa: PT017
        else:
            check(trees[i], rs, ss, wanted[i], got)


@pytest.mark.parametrize("seed", seeds(6, 200))
def test_equalities_and_bands_in_every_spelling(seed: int) -> None:
    e = Predicates(Random(4000 + seed)).shape()
    fuzz_join(e, seed, to_sql(e))


@pytest.mark.parametrize("seed", seeds(2, 40))
def test_operators_mean_the_same_as_sql(seed: int) -> None:
    draw = Predicates(Random(5000 + seed))
    e = draw.shape() if seed % 2 else draw.tree(2)
    fuzz_join(e, seed, to_expression(e))


def test_operators_build_the_same_tree_as_sql(soak: bool) -> None:
    """Two spellings of one tree give the same typed tree, or at least the same verdicts."""
    trees, rs, ss = sample(5500, 1_000 if soak else 100, edges=False)
    spelt = [(e, as_tree(to_expression(e))) for e in trees]
    others = [(e, tree) for e, tree in spelt if resolve(tree, R, S) != resolve(as_tree(to_sql(e)), R, S)]
    wanted = [(e, tree, matrix(e, rs, ss)) for e, tree in others]
    clean = [(e, tree, want) for e, tree, want in wanted if not may_raise(want)][: None if soak else 4]
    found = evaluate_all([tree for _, tree, _ in clean], R, S, to_table(rs, R), to_table(ss, S))
    for (e, _, want), got in zip(clean, found, strict=True):
        check(e, rs, ss, want, np.asarray(got))


@pytest.mark.parametrize("seed", seeds(2, 40))
def test_whole_joins_of_random_trees(seed: int) -> None:
    e = Predicates(Random(6000 + seed)).tree(3)
    fuzz_join(e, seed, to_sql(e))


def python_sample(seed: int) -> E:
    """A tree that a Python function can say: integers and doubles, no nulls, nothing near 64 bits."""
    draw = Predicates(Random(seed))
    while True:
        e = draw.shape() if seed % 2 else draw.tree(2)
        names = {name for _, name in columns(e)}
        literals = [n for n in nodes(e) if n.op == "lit"]
        small = all(n.type.kind in ("int", "float", "bool") and abs(n.value) < 1000 for n in literals)
        try:
            to_python(e)
        except (Refused, TypeError):
            continue
        if names <= {"i16", "i32", "i64", "f64"} and small:
            return e


@pytest.mark.parametrize("seed", seeds(2, 40))
def test_python_functions_mean_python(seed: int) -> None:
    """The judge is the interpreter itself: IEEE comparisons, so NaN equals nothing."""
    e = python_sample(7000 + seed)
    source = f"lambda r, s: {to_python(e)}"
    function = eval(source)
    rng = Random(seed)
    rs, ss = rows(rng, 40, "r"), rows(rng, 40, "s")
    for row in (*rs, *ss):
        row.update({name: 0 for name in TYPES if row[name] is None and TYPES[name].kind in ("int", "float")})
    got = joined(function, rs, ss)
    for i, r in enumerate(rs):
        for j, s in enumerate(ss):
            want = bool(function(SimpleNamespace(**r), SimpleNamespace(**s)))
            assert got[i, j] == want, f"{source} with r={r} s={s}"


def test_a_null_never_matches_in_a_python_function() -> None:
    rs, ss = rows(Random(1), 30, "r"), rows(Random(2), 30, "s")
    got = joined(lambda r, s: r.i32 != s.i32, rs, ss)
    for i, r in enumerate(rs):
        for j, s in enumerate(ss):
            assert got[i, j] == (None not in (r["i32"], s["i32"]) and r["i32"] != s["i32"])


I32, I64, F32 = (TYPES[n] for n in ("i32", "i64", "f32"))


def test_the_edges_we_know_of(spark: Any) -> None:
    """Hand-picked texts, each with Spark's verdict wherever Spark does not wrap."""

    rng = Random(77)
    rs, ss = rows(rng, 60, "r", True), rows(rng, 60, "s", True)
    left, right = to_table(rs, R), to_table(ss, S)
    # Spark computes on the next wider type what would wrap; the answer is then the mathematical one.
    wide = {"r.i8 + s.i8 > 127": "CAST(r.i8 AS INT) + s.i8 > 127", "r.u32 - s.u32 < 0": "r.u32 - s.u32 < 0"}
    wide["-r.i8 = 128 AND s.i8 IS NOT NULL"] = "-CAST(r.i8 AS INT) = 128 AND s.i8 IS NOT NULL"
    wide["abs(r.i32) > 2147483647 AND s.i8 > 0"] = "abs(CAST(r.i32 AS BIGINT)) > 2147483647 AND s.i8 > 0"
    wide["r.i32 * s.i32 > 4611686014132420608"] = "CAST(r.i32 AS BIGINT) * s.i32 > 4611686014132420608"
    columns_ = [f"coalesce({wide.get(t, t)}, false) AS c{i}" for i, t in enumerate(EDGE_CASES)]
    both = spark_rows(spark, left).alias("r").crossJoin(spark_rows(spark, right).alias("s"))
    answer = both.selectExpr("r.rid", "s.sid", *columns_).toArrow()
    i, j = answer["rid"].to_numpy(), answer["sid"].to_numpy()
    got = evaluate_all([as_tree(t) for t in EDGE_CASES], R, S, left, right)
    for n, text in enumerate(EDGE_CASES):
        want = np.zeros((len(rs), len(ss)), np.bool_)
        want[i, j] = answer[f"c{n}"].to_numpy(zero_copy_only=False)
        where = np.argwhere(want != np.asarray(got[n]))
        assert not len(where), f"{text}: r={rs[where[0][0]]} s={ss[where[0][1]]}, Spark says {want[tuple(where[0])]}"


def test_precedence_is_sparks_or_refused(spark: Any) -> None:
    """Texts on which SQL parsers differ. A refusal is fine; another meaning is not."""

    texts = [
        "r.i8 = s.i8 IS NULL",
        "NOT r.i8 = s.i8 IS NULL",
        "NOT r.flag = s.flag",
        "r.i8 - s.i8 - 1 > 0",
        "r.i8 - -s.i8 * 2 > 3",
        "-r.i8 % 3 = -s.i8 % 3",
        "r.i8 % 5 * 2 = s.i8",
        "r.i32 DIV 2 * 3 = s.i32",
        "r.i32 / 2 * 3 >= s.i32",
        "r.i8 BETWEEN s.i8 - 1 AND s.i8 + 1 AND s.flag OR r.flag",
        "r.flag OR s.flag AND NOT r.flag",
        "r.i8 < s.i8 = s.flag",
        "r.i8 IN (1, 2) = s.flag",
        "r.i8 <=> s.i8 AND NOT r.flag <=> s.flag",
        "r.i8 == s.i8 OR r.i8 != s.i16",
        "!r.flag AND s.flag",
        "r.i8 = 1 OR s.i8 IS NOT DISTINCT FROM r.i8",
    ]
    rng = Random(78)
    rs, ss = rows(rng, 25, "r"), rows(rng, 25, "s")
    left, right = to_table(rs, R), to_table(ss, S)
    both = spark_rows(spark, left).alias("r").crossJoin(spark_rows(spark, right).alias("s"))
    asked, trees = [], []
    for text in texts:
        try:
            trees.append(as_tree(text))
            asked.append(text)
        except PredicateError:
            continue
    legal = []
    for n, text in enumerate(asked):
        try:
            both.selectExpr(text)
            legal.append(n)
        except Exception as e:  # Spark refuses it
            assert "PARSE" in str(e) or "MISMATCH" in str(e)  # noqa: PT017
    assert len(legal) >= 12
    answer = both.selectExpr("r.rid", "s.sid", *(f"coalesce({asked[n]}, false) AS c{n}" for n in legal)).toArrow()
    i, j = answer["rid"].to_numpy(), answer["sid"].to_numpy()
    got = evaluate_all([trees[n] for n in legal], R, S, left, right)
    for n, m in zip(legal, got, strict=True):
        want = np.zeros((len(rs), len(ss)), np.bool_)
        want[i, j] = answer[f"c{n}"].to_numpy(zero_copy_only=False)
        assert (want == np.asarray(m)).all(), asked[n]


@pytest.mark.parametrize("access", ["scan", "auto"])
def test_a_rearranged_band_keeps_its_nan(access: str) -> None:
    """NaN on either side of the difference makes it NaN, which is above everything: s.x - r.x >= c holds."""
    rs, ss = rows(Random(8), 40, "r"), rows(Random(9), 40, "s")
    rs[0]["f32"] = np.float32("nan")
    e = op("ge", op("sub", col("s", "i64", I64), col("r", "f32", F32)), col("s", "amt", TYPES["amt"]))
    check(e, rs, ss, matrix(e, rs, ss), joined(to_sql(e), rs, ss, access=access))


def test_a_key_that_overflows_is_right_or_an_error() -> None:
    """Beyond 64 bits and then rounded to double, the two keys are equal; no pair would be wrong."""
    rs, ss = rows(Random(8), 1, "r"), rows(Random(9), 1, "s")
    rs[0]["i64"], ss[0]["i64"] = -(2**63), -(2**63) + 1
    e = op("eq", op("sub", col("r", "i64", I64), lit(3)), op("sub", col("s", "i64", I64), lit(1000.0)))
    try:
        got = joined(to_sql(e), rs, ss)
    except DataError:
        return
    check(e, rs, ss, matrix(e, rs, ss), got)


def test_unqualified_columns_find_their_side() -> None:
    """A name that only one side has needs no prefix."""
    rs, ss = rows(Random(3), 20, "r"), rows(Random(4), 20, "s")
    e = op("le", col("r", "rid", I64), col("s", "sid", I64))
    check(e, rs, ss, matrix(e, rs, ss), joined("rid <= sid", rs, ss))


@settings(max_examples=max(settings().max_examples, 300))
@given(st.integers(0, 2**40).map(Random))
def test_hypothesis_reads_and_types_any_tree(rng: Random) -> None:
    """Parsing and typing alone are cheap, so Hypothesis can look at many trees: none may be refused."""

    e = Predicates(rng).tree(3) if rng.random() < 0.7 else Predicates(rng).shape()
    text = to_sql(e)
    tree = resolve(as_tree(text), R, S)
    assert getattr(tree.type, "kind", None) == "bool", text


def test_literals_of_every_suffix() -> None:

    for text in (
        "1",
        "1L",
        "10S",
        "5Y",
        "1.5",
        "1.5D",
        "1.5F",
        "1e3",
        "2BD",
        "-9223372036854775808",
        "1.5e-3",
    ):
        assert resolve(as_tree(f"r.f64 > {text} AND s.f64 > {text}"), R, S).type.kind == "bool", text
    assert lit(1).type == I32
