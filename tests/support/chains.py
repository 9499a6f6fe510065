"""Drawn chains and steps for the tests of the lock-step join, and what must come out of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from streamjoin.algorithms.lockstep import Chain
from streamjoin.circuit.cycles import NOTHING, STILL

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Feed:
    """Steps, the pauses before them, which results are taken, and which pairs match."""

    r: Array
    s: Array
    pause: Array
    ready: Array
    matches: Array

    def expected(self, chain: Chain) -> list[tuple[int, int]]:
        """By a nested loop over the steps: who comes later meets what is left of the other window. r comes first."""
        windows: tuple[list[int], list[int]] = ([], [])
        found = []
        for r, s in zip(self.r.tolist(), self.s.tolist(), strict=True):
            for side, entering in ((0, r), (1, s)):
                if entering == STILL:
                    continue
                for other in windows[1 - side]:
                    pair = (entering, other) if side == 0 else (other, entering)
                    if NOTHING not in pair and self.matches[pair]:
                        found.append(pair)
                windows[side].append(entering)
                del windows[side][: -chain.rows[side]]
        return sorted(found)


@st.composite
def chains(draw: st.DrawFn, most_cores: int = 9) -> Chain:
    rows = draw(st.integers(1, 20)), draw(st.integers(1, 20))
    chain = Chain(
        cores=draw(st.integers(1, min(most_cores, *rows))),
        rows=rows,
        scanners=draw(st.sampled_from([2, 1])),
        stages=draw(st.integers(1, 4)),
        network=draw(st.sampled_from(["tree", "paper"])),
        expedited=draw(st.booleans()),
    )
    least = max(chain.margin(0), chain.margin(chain.leaves - 1))  # FIFOs that just hold their margin throttle often
    return replace(chain, entries=draw(st.sampled_from([0, least, least + 1])))


@st.composite
def feeds(draw: st.DrawFn, most: int = 60) -> Feed:
    """Bursts, pauses, one side silent, rows that were filtered out, slow consumers, all pairs matching or few."""
    kinds = draw(st.sampled_from(["rs", "rs", "r", "s"]))
    moves = {"rs": [(1, 1), (1, 0), (0, 1)], "r": [(1, 0)], "s": [(0, 1)]}[kinds]
    steps = draw(st.lists(st.sampled_from(moves), max_size=most))
    gone = draw(st.sampled_from([0.0, 0.0, 0.3]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    moved = np.array(steps, np.int64).reshape(-1, 2)
    places = np.cumsum(moved, axis=0) - 1
    sides = [np.where(moved[:, k] == 1, places[:, k], STILL) for k in (0, 1)]
    sides = [np.where((side != STILL) & (rng.random(len(side)) < gone), NOTHING, side) for side in sides]
    pause = rng.integers(0, 6, len(moved)) * (rng.random(len(moved)) < draw(st.sampled_from([0.0, 0.2])))
    speed = draw(st.sampled_from([1.0, 1.0, 0.4]))
    ready = rng.random(64) < speed
    ready[0] = True
    selectivity = draw(st.sampled_from([1.0, 0.3, 0.05]))
    return Feed(sides[0], sides[1], pause.astype(np.int64), ready, rng.random((64, 64)) < selectivity)
