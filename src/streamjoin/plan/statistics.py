"""Cheap statistics of two tables: what a sample of their intervals and keys says about pairs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np

from streamjoin.codegen.records import Array

SAMPLE = 512  # rows of a side, at least, and those of which all pairs are looked at
PART = 1 << 10  # rows for one of the sample,
MOST = 1 << 13  # which has so many at most
MET = 1 << 12  # pairs of a sample that are looked at, at most
KEYS = 4096  # rows of a side whose key hashes are counted
MARGIN = 0.05  # part of its length by which an axis extends beyond the sample


@dataclass(frozen=True)
class Values:
    """Numbers on an axis: float64, or int64 to which a bias is added, so that they start near zero."""

    array: Array
    bias: int = 0

    def __len__(self) -> int:
        return len(self.array)

    def floats(self, positions: Array) -> Array:
        """The numbers at some positions, in float64."""
        found: Array = self.array[positions]
        return (found + np.int64(self.word)).astype(np.float64) if self.whole else found

    @property
    def word(self) -> int:
        """The bias in 64 bits. Adding it may wrap around; the sums lie in range again.

        >>> Values(np.array([-(2**63)]), 2**63).word
        -9223372036854775808
        """
        return (self.bias + (1 << 63)) % (1 << 64) - (1 << 63)

    @property
    def whole(self) -> bool:
        """Are they integers?"""
        return self.array.dtype != np.float64


Ends = tuple[Values | None, Values | None]  # where intervals begin and end; None: unbounded
Sample = tuple[Array | None, Array | None]


@lru_cache(16)
def picked(n: int, most: int) -> Array:
    """Positions of a sample, the same ones each time."""
    found = np.arange(n) if n <= most else np.sort(np.random.default_rng(n).integers(0, n, most))
    found.flags.writeable = False  # others get the same
    return found


@dataclass(frozen=True)
class Dimension:
    """One dimension of a join in numbers: where the intervals of both sides begin and end.

    A pair matches only if r begins before s ends and s begins before r ends.
    """

    name: str
    r: Ends
    s: Ends

    @cached_property
    def sample(self) -> tuple[Sample, Sample]:
        return _sample(self.r), _sample(self.s)

    @cached_property
    def parts(self) -> tuple[Array, Array]:
        """Of all pairs of some of the sample: does r begin before s ends, and s before r ends?"""
        (r_low, r_high), (s_low, s_high) = (
            tuple(None if end is None else end[:: -(-len(end) // SAMPLE) or 1] for end in ends) for ends in self.sample
        )
        return _below(r_low, s_high), _below(s_low, r_high).T

    @cached_property
    def share(self) -> float:
        """The part of all pairs that overlap."""
        return share(self.parts[0] & self.parts[1])

    @cached_property
    def swept(self) -> float:
        """The part of all pairs that forward scans visit: more than overlap if intervals end before they begin."""
        r, s = self.sample
        pairs = _length(r) * _length(s)
        return max(self._visits[2], 0.5) / pairs if pairs else 0.0

    @property
    def met(self) -> tuple[Array, Array]:
        """Pairs that forward scans visit, as numbers of rows of the sample, evenly picked if there are many."""
        (order_s, inside_r), (order_r, inside_s), count = self._visits
        picks = np.arange(min(count, MET)) * count // max(min(count, MET), 1)
        in_r = int(inside_r[1].sum())
        r, place_s = _visited(inside_r, picks[picks < in_r])
        s, place_r = _visited(inside_s, picks[picks >= in_r] - in_r)
        return np.concatenate([r, order_r[place_r]]), np.concatenate([order_s[place_s], s])

    @cached_property
    def _visits(self) -> tuple[tuple[Array, _Ranges], tuple[Array, _Ranges], int]:
        """What forward scans over the sample visit: each side's rows in order, and where the other's intervals lie."""
        (r_low, r_high), (s_low, s_high) = (_ended(ends) for ends in self.sample)
        order_r, order_s = np.argsort(r_low), np.argsort(s_low)
        inside_r = _ranges(s_low[order_s], r_low, r_high, "left")
        inside_s = _ranges(r_low[order_r], s_low, s_high, "right")
        return (order_s, inside_r), (order_r, inside_s), int(inside_r[1].sum() + inside_s[1].sum())

    @cached_property
    def span(self) -> tuple[float, float]:
        """The smallest and the largest finite value of the sample."""
        values = np.concatenate([end for ends in self.sample for end in ends if end is not None])
        values = values[np.isfinite(values)]
        if not len(values):
            return 0.0, 1.0
        low, high = float(values.min()), float(values.max())
        margin = (high - low) * MARGIN + abs(low) * 1e-9 + 1e-300
        return low - margin, high + margin

    @cached_property
    def whole(self) -> bool:
        """Are all finite values of the sample integers?"""
        values = np.concatenate([end for ends in self.sample for end in ends if end is not None])
        with np.errstate(invalid="ignore"):
            return bool(((values == np.floor(values)) | ~np.isfinite(values)).all())

    def lengths(self, side: str) -> Array | None:
        """The lengths of the sample's intervals; None if they are unbounded."""
        low, high = self.sample[side == "s"]
        if low is None or high is None:
            return None
        with np.errstate(invalid="ignore"):
            found: Array = (high - low)[...]
        return np.compress(np.isfinite(found), found)

    def is_point(self, side: str) -> bool:
        """Do the intervals of a side begin where they end?"""
        low, high = self.r if side == "r" else self.s
        return low is not None and low is high


def _sample(ends: Ends) -> Sample:
    low, high = (None if end is None else end.floats(picked(len(end), _sampled(len(end)))) for end in ends)
    return low, high


def _sampled(rows: int) -> int:
    """How many rows a sample has: of more rows fewer pairs match, and a sample should show some of them.

    >>> _sampled(1000), _sampled(1_000_000), _sampled(10_000_000)
    (512, 976, 8192)
    """
    return min(max(rows // PART, SAMPLE), MOST)


def _length(sample: Sample) -> int:
    low, high = sample
    return len(low if low is not None else high if high is not None else ())


def _ended(sample: Sample) -> tuple[Array, Array]:
    """Where the sample's intervals begin and end; infinite where they are unbounded."""
    (low, high), n = sample, _length(sample)
    return np.full(n, -np.inf) if low is None else low, np.full(n, np.inf) if high is None else high


_Ranges = tuple[Array, Array]  # of sorted values: where each begins, and how many are in it


def _ranges(values: Array, low: Array, high: Array, side: Literal["left", "right"]) -> _Ranges:
    """Which of some sorted values lie between lower and upper bounds; "right": what equals a lower one lies outside."""
    begin = values.searchsorted(low, side)
    return begin, np.maximum(values.searchsorted(high, "right") - begin, 0)


def _visited(ranges: _Ranges, picks: Array) -> tuple[Array, Array]:
    """Of all members of the ranges, one behind the other, these: the number of the range, and the member."""
    begin, count = ranges
    behind = np.cumsum(count)
    own = behind.searchsorted(picks, "right")
    return own, begin[own] + picks - (behind - count)[own]


def _below(low: Array | None, high: Array | None) -> Array:
    if low is None or high is None:
        return np.ones((1, 1), np.bool_)
    below: Array = low[:, None] <= high[None, :]
    return below


def share(pairs: Array) -> float:
    """The part of pairs that hold; if none does, less than one pair."""
    if not pairs.size:
        return 0.0
    return max(float(pairs.mean()), 0.5 / pairs.size)


def equal_share(r: Array, s: Array) -> float:
    """The part of all pairs with equal keys, by a sample of their hashes."""
    r, s = np.sort(r[picked(len(r), KEYS)]), np.sort(s[picked(len(s), KEYS)])
    if not len(r) or not len(s):
        return 0.0
    equal = np.searchsorted(s, r, side="right") - np.searchsorted(s, r, side="left")
    return max(float(equal.sum()), 0.5) / (len(r) * len(s))
