"""The oracle against outside judges: Spark SQL on random trees and rows, DuckDB where it means the same."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from spark_rows import spark_rows
from streamjoin.testing.expressions import I32, NULL, STRING, E, columns, lit, nodes, op, to_sql
from streamjoin.testing.generate import ARROW, TYPES, Predicates, rows, schema
from streamjoin.testing.meaning import matrix, predicate
from streamjoin.testing.oracle import Interval, Last, TumblingRows, TumblingTime, arrivals_of_tables, pairs, split_late
from streamjoin.testing.rows import to_table


@pytest.mark.parametrize("edges", [False, True], ids=["small", "edges"])
def test_agrees_with_spark(spark: Any, soak: bool, edges: bool) -> None:
    rng = Random(11 + edges)
    draw = Predicates(rng)
    for _ in range(40 if soak else 1):
        trees = [draw.tree(rng.choice((1, 2, 3))) for _ in range(180)] + [draw.shape() for _ in range(60)]
        rs, ss = rows(rng, 14, "r", edges), rows(rng, 14, "s", edges)
        left, right = (spark_rows(spark, to_table(x, schema(side))) for x, side in ((rs, "r"), (ss, "s")))
        joined = left.alias("r").crossJoin(right.alias("s"))
        texts = [to_sql(e) for e in trees]
        # A few dozen expressions per query: beyond that Spark's generated code grows too large to compile.
        for start in range(0, len(trees), 40):
            chosen = texts[start : start + 40]
            answer = joined.selectExpr("r.rid", "s.sid", *(f"({t}) AS c{i}" for i, t in enumerate(chosen))).toArrow()
            i, j = answer["rid"].to_numpy(), answer["sid"].to_numpy()
            for n, text in enumerate(chosen):
                ours = matrix(trees[start + n], rs, ss)
                theirs = np.zeros_like(ours.truth)
                theirs[i, j] = answer[f"c{n}"].fill_null(False).to_numpy(zero_copy_only=False)
                where = np.argwhere((theirs != ours.truth) & ~ours.wraps & ~ours.narrows)
                assert not len(where), _report(
                    text, trees[start + n], rs[where[0][0]], ss[where[0][1]], theirs[tuple(where[0])]
                )


def _report(text: str, e: E, r: dict[str, Any], s: dict[str, Any], spark_says: Any) -> str:
    used = {f"{side}.{name}": (r if side == "r" else s)[name] for side, name in sorted(columns(e))}
    return f"{text}\n  with {used}\n  Spark: {spark_says}"


# DuckDB agrees where no rule of its own interferes: it mixes float32 and integers differently, rounds casts,
# divides differently, and raises on overflow.
DUCK_OPS = {
    "col",
    "lit",
    "add",
    "sub",
    "and",
    "or",
    "not",
    "between",
    "not_between",
    "is_null",
    "is_not_null",
    "abs",
}
DUCK_OPS |= {"eq", "ne", "lt", "le", "gt", "ge", "least", "greatest", "coalesce", "case"}
DUCK_COLUMNS = ("i16", "i32", "i64", "f64", "nm", "flag")


def duck_speaks(e: E) -> bool:
    names = {name for _, name in columns(e)}
    kinds = {n.type.kind for n in nodes(e)}
    literals = all(n.op != "lit" or n.type in (I32, STRING, NULL) for n in nodes(e))
    plain = {n.op for n in nodes(e)} <= DUCK_OPS
    return plain and literals and names <= set(DUCK_COLUMNS) and kinds <= {"bool", "int", "float", "string", "null"}


def test_agrees_with_duckdb() -> None:
    import duckdb

    rng = Random(5)
    draw = Predicates(rng)
    trees: list[E] = []
    while len(trees) < 120:
        e = draw.tree(2) if rng.random() < 0.6 else draw.shape()
        if duck_speaks(e):
            trees.append(e)
    rs, ss = rows(rng, 20, "r"), rows(rng, 20, "s")
    with duckdb.connect() as db:
        db.register("tr", to_table(rs, schema("r")))
        db.register("ts", to_table(ss, schema("s")))
        selected = ", ".join(f"coalesce(({to_sql(e)}), false) AS c{i}" for i, e in enumerate(trees))
        answer = db.sql(f"SELECT r.rid, s.sid, {selected} FROM tr r, ts s").to_arrow_table()
    i, j = answer["rid"].to_numpy(), answer["sid"].to_numpy()
    for n, e in enumerate(trees):
        ours = matrix(e, rs, ss)
        theirs = np.zeros_like(ours.truth)
        theirs[i, j] = answer[f"c{n}"].to_numpy(zero_copy_only=False)
        where = np.argwhere((theirs != ours.truth) & ~ours.wraps)
        assert not len(where), _report(to_sql(e), e, rs[where[0][0]], ss[where[0][1]], theirs[tuple(where[0])])


def test_generator_covers_the_language() -> None:
    """The random trees are not all trivial: every operator, every type, and answers of both kinds appear."""
    rng = Random(3)
    draw = Predicates(rng)
    trees = [draw.tree(3) for _ in range(300)] + [draw.shape() for _ in range(100)]
    ops = {n.op for e in trees for n in nodes(e)}
    from streamjoin.testing.expressions import ARITH, COMPARE

    wanted = {
        *ARITH,
        *COMPARE,
        "and",
        "or",
        "not",
        "between",
        "not_between",
        "in",
        "not_in",
        "is_null",
        "is_not_null",
    }
    wanted |= {
        "neg",
        "abs",
        "floor",
        "ceil",
        "sqrt",
        "least",
        "greatest",
        "coalesce",
        "nullif",
        "case",
        "cast",
    }
    assert wanted <= ops, wanted - ops
    assert {name for e in trees for _, name in columns(e)} == set(TYPES) == set(ARROW)
    rs, ss = rows(rng, 12, "r"), rows(rng, 12, "s")
    shares = [matrix(e, rs, ss).truth.mean() for e in trees[:150]]
    assert np.mean([0 < x < 1 for x in shares]) > 0.5


def at(side: str, *times: int) -> list[dict[str, Any]]:
    return [{f"{side}id": i, "t": t} for i, t in enumerate(times)]


EVERYTHING = predicate(op("eq", lit(1), lit(1)))
TIME = ("t", "t")


def test_windows_by_hand() -> None:
    """The sentences of the semantics, worked out by hand."""

    def of(window: Any, rs: list[dict[str, Any]], ss: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
        return pairs(arrivals_of_tables(rs, ss, TIME), EVERYTHING, window, TIME)

    assert of(Interval(-10, 5), at("r", 100), at("s", 89, 90, 105, 106)) == [(0, 1), (0, 2)]
    assert of(Interval(-10, 5, "neither"), at("r", 100), at("s", 90, 91, 104, 105)) == [(0, 1), (0, 2)]
    assert of(Interval(-10, 5, "left"), at("r", 100), at("s", 90, 105)) == [(0, 0)]
    assert of(Interval(-10, 5, "right"), at("r", 100), at("s", 90, 105)) == [(0, 1)]
    assert of(Interval(1, 5), at("r", 100), at("s", 100, 101)) == [(0, 1)]
    assert of(TumblingTime(10), at("r", 9, -1), at("s", 0, 10, -10)) == [(0, 0), (1, 2)]
    assert of(TumblingRows(2), at("r", 1, 2, 3), at("s", 10, 20, 30)) == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
        (2, 2),
    ]
    # At s's arrival the last two r's are r1 and r2; equal times arrive r first.
    assert of(Last(2, 2), at("r", 1, 2, 3), at("s", 3)) == [(1, 0), (2, 0)]
    assert of(Last(1, 1), at("r", 5), at("s", 1, 2)) == [(0, 1)]


def test_lateness_by_hand() -> None:
    arrivals = [("r", {"t": 10}), ("s", {"t": 1}), ("r", {"t": 7}), ("r", {"t": 6}), ("s", {"t": 0})]
    kept, late = split_late(arrivals, TIME, 3)
    assert late == [("r", {"t": 6})]
    assert len(kept) == 4
