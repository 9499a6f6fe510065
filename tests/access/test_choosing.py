"""Which access path "auto" takes, from the predicate and then from the tuples."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from boxes import SIZES, all_of, check, tuples
from streamjoin.access import ACCESSES
from streamjoin.access.choosing import FIRST_LOOK, PATIENCE, Choosing
from streamjoin.access.tuples import HIGH, LOW, Shape, Tuples
from streamjoin.testing.cases import BY_NAME, R, S

N = 20_000
FACTOR = 48  # every pair would be some 600 times n log n


@pytest.mark.parametrize(
    ("on", "access", "why"),
    [
        (BY_NAME["band_2d"].on, "band", "2 band keys"),
        (BY_NAME["overlap"].on, "tree", "inequalities, or intervals"),
        (BY_NAME["variable"].on, "tree", "inequalities, or intervals"),
        ("r.x < s.a AND r.y > s.b", "tree", "trees of minima"),
        ("r.x < s.a AND abs(r.y - s.b) <= 1", "band", "2 band keys"),
        ("r.k = s.k", "hash", "hash chains"),
        ("r.k = s.k AND r.x < s.a", "band", "behind 1 equality key"),
        ("r.k = s.k AND abs(r.y - s.b) <= 1", "band", "behind 1 equality key"),
        (f"r.k = s.k AND {BY_NAME['overlap'].on}", "tree", "behind 1 equality key"),
        ("r.x * s.a < 5", "scan", "every pair"),
    ],
)
def test_the_predicate_suggests_a_path(on: str, access: str, why: str) -> None:
    explained = sj.explain(R, S, on=on, within=5, time="t")
    assert explained.to_dict()["access"] == access
    assert why in str(explained)


def batch(random: np.random.Generator, n: int, first: int, outlier: bool, keyed: bool) -> Tuples:
    """Points of one band and one inequality; with an outlier, or one key with 40 % of all, a grid is of no use."""
    coord = np.stack([random.uniform(0, 1000, n), random.random(n)])
    key = np.where(random.random(n) < 0.4 * outlier, 0, random.integers(1, n, n)) * 77_777_777 if keyed else None
    if outlier and not keyed:
        coord[0, n // 2] = 1e15
    return tuples(coord, np.stack([coord[0], np.full(n, np.float32(1e19))]), key, first)


@pytest.mark.parametrize("keyed", [False, True])
def test_tuples_move_when_a_grid_does_not_divide_them(keyed: bool) -> None:
    """To the tree, and, once they are as others are, back again after a while; nothing is lost on the way."""
    random = np.random.default_rng(5)
    shape = Shape(SIZES, 2, keyed, ((0, LOW), (0, HIGH), (1, LOW)))
    segment, step = Choosing(ACCESSES["band"], shape), FIRST_LOOK
    sent: list[Tuples] = []
    seen: list[str] = []
    for turn in range(6 * (PATIENCE + 4)):
        sent.append(batch(random, step, turn * step, turn < 6, keyed))
        segment.insert(sent[-1])
        segment.expire((turn - 5) * step)
        if not seen or seen[-1] != segment.access:
            seen.append(segment.access)
            low = random.uniform(0, 1000, (2, 30))
            key = random.integers(0, 9, 30) * 77_777_777 if keyed else None
            low[1] = -1e19  # an inequality has one end
            probes = tuples(low, np.stack([low[0] + 3, random.random(30)]), key)
            check(segment, probes, all_of(sent), (turn - 5) * step, exactly=segment.access == "tree")
    assert seen == ["band", "tree", "band"]
    assert 6 * step <= len(segment) < 12 * step  # a grid lets go of whole runs


def rows(side: str, seed: int) -> pa.Table:
    """As in testing/cases.py: intervals of long-tailed lengths, among few values but for an outlier."""
    random = np.random.default_rng(seed)
    x = random.integers(0, 20 * N, N)
    x[N // 3] = 1 << 60
    long = np.minimum(5 * random.pareto(1.0, N), N).astype(np.int64)
    own = {"x": x, "w": long.astype(np.int32)} if side == "r" else {"a": x, "tol": long}
    schema = R if side == "r" else S
    whole: dict[str, Any] = {f"{side}id": np.arange(N), "t": np.arange(N), **own}
    return pa.table({name: pa.array(whole[name]) if name in whole else pa.nulls(N, schema.field(name).type)
                     for name in schema.names}, schema=schema)  # fmt: skip


def with_a_frequent_key(table: pa.Table, seed: int) -> pa.Table:
    """Half of all tuples have the same key, and no value stands out from the others."""
    random = np.random.default_rng(seed)
    keys, values = np.where(random.random(N) < 0.5, 0, random.integers(1, N, N)), random.integers(0, 20 * N, N)
    for name, new in (("k", keys), ("x" if "x" in table.schema.names else "a", values)):
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), pa.array(new).cast(table.schema.types[at]))
    return table


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_a_frequent_key_beside_an_inequality(workers: int) -> None:
    left, right = (with_a_frequent_key(rows(side, seed), seed) for seed, side in enumerate("rs"))
    assert compared(left, right, f"r.k = s.k AND r.x > s.a + {19 * N}", workers) in ("band", "tree", "band and tree")


@pytest.mark.parametrize("case", ["overlap", "band"])
@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_live_joins_do_not_look_at_every_pair(case: str, workers: int) -> None:
    assert "tree" in compared(rows("r", 1), rows("s", 2), BY_NAME[case].on, workers)


def compared(left: pa.Table, right: pa.Table, on: str, workers: int) -> str:
    """Joins live, checks results and how many pairs were looked at, and returns the access path at the end."""
    with sj.Join(r=R, s=S, on=on, within=10**9, time="t", workers=workers) as join:
        for begin in range(0, N, 1000):
            join.push_r(left.slice(begin, 1000))
            join.push_s(right.slice(begin, 1000))
    out = pa.Table.from_batches(list(join.poll()), schema=join.schema)
    whole = sj.join(left, right, on=on, within=10**9, time="t")
    got, want = (np.sort(found["rid"].to_numpy() * N + found["sid"].to_numpy()) for found in (out, whole))
    assert np.array_equal(got, want) and len(out) > 1000
    # A segment of a worker is as deep as a whole one, and an arrival probes half of them, or all.
    assert join.stats()["comparisons"] <= workers * FACTOR * (2 * N * math.log2(2 * N) + len(out))
    return str(join.stats()["access"])
