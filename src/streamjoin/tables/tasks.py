"""Divides a search into tasks of about equal cost, however the partners are distributed over the rows.

What a row costs is looked up for some rows of the sorted sides: its candidates in the keys of a sweep, its share of
some rows of s in a tree. So neither a key that many rows have nor a few rows that have all the partners leave a thread
alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np

from streamjoin.codegen.records import Array
from streamjoin.plan.shape import SCAN, TREE, Shape
from streamjoin.tables.crew import Crew
from streamjoin.tables.layout import Layout, Sorted, Tree

TASKS = 24  # for every worker: one that has finished takes the next
LEAST = 1 << 13  # tuples that are worth a task, or
WORTH = 1 << 16  # candidates
TILE = 1 << 11, 1 << 12  # tuples of r and of s that are compared with each other
LOOKED_UP = 1 << 12  # rows whose candidates in a sweep are counted
SAMPLED = 1 << 9  # rows of a side whose pairs are looked at for a tree
STEP = 4.0  # candidates that cost what it costs to look for them


@dataclass(frozen=True)
class Task:
    """Positions first..last-1 of one side, to be met with the other."""

    of_r: bool  # whose positions they are
    first: int
    last: int
    offsets: tuple[int, ...] = ()  # by how much keys of the others lie above own ones
    strict: int = 0  # 1: equal starts are left out
    others: tuple[int, int] = (0, 0)  # of a tile


def tasks(shape: Shape, layout: Layout, points: tuple[bool, bool], crew: Crew) -> tuple[list[Task], float]:
    """The whole search in parts, and how many candidates it will find.

    `points`: whose intervals have no length on the axis that is swept.
    """
    if shape.kind == SCAN:
        return list(_tiles(len(layout.r.side), len(layout.s.side), crew.workers)), shape.candidates
    passes = [(True, 0)]
    if shape.kind != TREE and not points[1]:
        passes = [(False, 0)] if points[0] else [(True, 0), (False, 1)]
    found, candidates = [], 0.0
    for of_r, strict in passes:
        own, other = (layout.r, layout.s) if of_r else (layout.s, layout.r)
        offsets = tuple(offset if of_r else -offset for offset in layout.offsets)
        ends = [0, len(own.side)]
        if crew.workers > 1:
            places, costs = _costs(own, other, offsets, strict, layout.tree)
            sums = np.concatenate([[0.0], np.cumsum(costs * np.diff(places, append=ends[-1]))])
            candidates += float(sums[-1]) - STEP * len(offsets) * ends[-1]
            ends = _equal_costs(places, sums, ends[-1], TASKS * crew.workers // len(passes))
        found += [Task(of_r, int(a), int(b), offsets, strict) for a, b in pairwise(ends)]
    looked_up = crew.workers > 1 and layout.tree is None  # of a tree's few, a sample of pairs shows none
    return found, candidates if looked_up else shape.candidates


def _tiles(n_r: int, n_s: int, workers: int) -> Iterator[Task]:
    """All pairs, in tiles of the same size; more of them than there need be if there are several workers."""
    across = -(-n_s // TILE[1])
    wanted = min(TASKS * workers, n_r * n_s // WORTH) if workers > 1 else 1
    down = min(max(-(-n_r // TILE[0]), -(-wanted // max(across, 1))), n_r)
    for k, j in product(range(down), range(across)):
        others = n_s * j // across, n_s * (j + 1) // across
        yield Task(True, n_r * k // down, n_r * (k + 1) // down, others=others)


def _costs(own: Sorted, other: Sorted, offsets: tuple[int, ...], strict: int, tree: Tree | None) -> tuple[Array, Array]:
    """Positions, each of which stands for those up to the next one, and what one of these costs, in candidates."""
    n, most = len(own.side), len(other.side)
    places = _spread(n, LOOKED_UP if tree is None else SAMPLED)
    starts, ends = own.starts[places].astype(np.int64), own.ends[places].astype(np.int64)
    if tree is not None:
        some = _spread(most, SAMPLED)
        keys = other.starts[some].astype(np.int64)[None, :]
        inside = (starts[:, None] <= keys) & (keys <= ends[:, None])
        inside &= tree.values[some][None, :] <= tree.limits[places][:, None]
        return places, inside.sum(axis=1) * (most / max(len(some), 1)) + STEP * len(offsets)
    costs = np.full(len(places), STEP * len(offsets))
    top = int(np.iinfo(other.starts.dtype).max)
    for offset in offsets:
        low, high = starts + offset + strict, ends + offset
        first = np.searchsorted(other.starts[:most], np.clip(low, 0, top).astype(other.starts.dtype))
        last = np.searchsorted(other.starts[:most], np.clip(high, 0, top).astype(other.starts.dtype), side="right")
        costs += np.where((low <= top) & (high >= 0), np.maximum(last - first, 0), 0)
    return places, costs


def _spread(n: int, most: int) -> Array:
    """So many of n places, the first one among them."""
    count = min(n, most)
    return np.arange(count, dtype=np.int64) * n // max(count, 1)


def _equal_costs(places: Array, sums: Array, n: int, most: int) -> list[int]:
    """The ends of parts of n positions that cost the same, given what those before some places cost, and all."""
    count = int(max(1, min(most, n, max(n // LEAST, sums[-1] / WORTH))))
    ends = np.interp(np.arange(1, count) * sums[-1] / count, sums, np.append(places, n))
    return np.unique(np.concatenate([[0], ends.astype(np.int64), [n]])).tolist()  # type: ignore[no-any-return]
