"""Aggregates of the partners of every r, without result rows of the pairs: one accumulator for each aggregate.

An accumulator has an entry for each r. It takes pairs in any order, merges with another accumulator of other pairs, and
returns its results as an Arrow array.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import pyarrow as pa

from streamjoin.codegen.records import Array
from streamjoin.errors import DataError, cut
from streamjoin.kinds import Aggregate
from streamjoin.plan.columns import summed_type
from streamjoin.predicate.tree import Node
from streamjoin.predicate.types import FLOAT64, INT64, to_arrow
from streamjoin.results.best import Best, scores_of
from streamjoin.results.computed import Values, decimals, to_array
from streamjoin.results.reduce import (
    OUT,
    add_floats,
    add_integers,
    add_wide,
    count_pairs,
    count_valid,
    take_extremes,
)

PerSide = tuple[Array, Array]  # arrays of r and of s


class Accumulator(ABC):
    """One aggregate over n tuples r. `argument` is the expression whose values it needs, if it needs any."""

    def __init__(self, aggregate: Aggregate, n: int) -> None:
        self.aggregate = aggregate
        self.first = 0  # the row of r of the first entry
        self.counts = np.zeros(n, np.int64)  # values that were not null

    @property
    def argument(self) -> Node | None:
        return self.aggregate.args[-1] if self.aggregate.args else None

    @abstractmethod
    def add(self, pairs: PerSide, found: Values | None) -> None:
        """Takes pairs, and the argument's values."""

    def merge(self, other: Accumulator) -> None:
        """Adds the state of an accumulator of other pairs."""
        self._merge(other)
        self.counts += other.counts

    @abstractmethod
    def _merge(self, other: Accumulator) -> None: ...

    @abstractmethod
    def result(self, rows: Array) -> pa.Array:
        """The aggregate of these tuples r."""


class Count(Accumulator):
    """count(*) and count(e)."""

    def add(self, pairs: PerSide, found: Values | None) -> None:
        if found is None:
            count_pairs(self.counts, pairs[0])
        else:
            count_valid(self.counts, pairs[0], found.valid)

    def _merge(self, other: Accumulator) -> None:
        pass

    def result(self, rows: Array) -> pa.Array:
        return to_array(self.counts[rows], None, INT64)


class FloatSum(Accumulator):
    """sum and avg of floats: compensated, so that the order of pairs has almost no effect."""

    def __init__(self, aggregate: Aggregate, n: int) -> None:
        super().__init__(aggregate, n)
        self._sums, self._lost = np.zeros(n), np.zeros(n)

    def add(self, pairs: PerSide, found: Values | None) -> None:
        assert found is not None
        add_floats(self._sums, self._lost, self.counts, pairs[0], found.values, found.valid)

    def _merge(self, other: Accumulator) -> None:
        assert isinstance(other, FloatSum)
        every, no_counts = np.arange(len(self._sums)), np.zeros(len(self._sums), np.int64)
        add_floats(self._sums, self._lost, no_counts, every, other._sums, np.ones(len(every), np.bool_))
        with np.errstate(invalid="ignore"):
            self._lost += other._lost

    def result(self, rows: Array) -> pa.Array:
        sums, lost, counts = self._sums[rows], self._lost[rows], self.counts[rows]
        with np.errstate(all="ignore"):
            total = np.where(np.isfinite(sums) & np.isfinite(lost), sums + lost, sums)
            if self.aggregate.function == "avg":
                total = total / counts
        return to_array(total, counts > 0, FLOAT64)


class WholeSum(Accumulator):
    """sum and avg of types that are stored as integers: exact."""

    def __init__(self, aggregate: Aggregate, n: int) -> None:
        super().__init__(aggregate, n)
        self._low, self._high = np.zeros(n, np.uint64), np.zeros(n, np.int64)

    def add(self, pairs: PerSide, found: Values | None) -> None:
        assert found is not None
        add_integers(self._low, self._high, self.counts, pairs[0], found.values, found.valid)

    def _merge(self, other: Accumulator) -> None:
        assert isinstance(other, WholeSum)
        add_wide(self._low, self._high, other._low, other._high)

    def result(self, rows: Array) -> pa.Array:
        aggregate = self.aggregate
        low, high, counts = self._low[rows], self._high[rows], self.counts[rows]
        source = aggregate.args[0].typed
        target = summed_type(aggregate.function, source)
        valid = counts > 0
        narrow = low.view(np.int64)
        wide = high != narrow >> 63
        if aggregate.function == "sum" and target.kind == "decimal":
            bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
            return decimals(low, high, bitmap, to_arrow(target))
        if aggregate.function == "sum":
            if wide.any():
                raise DataError(
                    f'aggregate "{cut(aggregate.name)}": {aggregate} of row {self.first + int(rows[wide.argmax()])} '
                    "of r, of those that may match, is beyond 64 bits; cast its argument to DOUBLE"
                )
            return to_array(narrow, valid, target)
        if target.kind == "float":
            total = narrow.astype(np.float64)
            if wide.any():
                total[wide] = [float(_whole(a, b)) for a, b in zip(low[wide], high[wide], strict=True)]
            with np.errstate(all="ignore"):
                return to_array(total / counts, valid, target)
        scale = 10 ** (target.scale - source.scale) if target.kind == "decimal" else 1
        quotients = [_rounded(_whole(a, b) * scale, int(c)) for a, b, c in zip(low, high, counts, strict=True)]
        means = np.array([q & 0xFFFFFFFFFFFFFFFF for q in quotients], np.uint64)
        if target.kind == "decimal":
            bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
            return decimals(means, np.array([q >> 64 for q in quotients], np.int64), bitmap, to_arrow(target))
        return to_array(means.view(np.int64), valid, target)


class Extreme(Accumulator):
    """min and max."""

    def __init__(self, aggregate: Aggregate, n: int) -> None:
        super().__init__(aggregate, n)
        t = aggregate.args[0].typed
        self._best: Array = np.zeros(n, f"float{t.bits}" if t.kind == "float" else np.int64)

    def add(self, pairs: PerSide, found: Values | None) -> None:
        assert found is not None
        self._take(pairs[0], found.values.astype(self._best.dtype, copy=False), found.valid)

    def _take(self, r: Array, values: Array, valid: Array) -> None:
        take_extremes(self._best, self.counts, r, values, valid, self.aggregate.function == "max")

    def _merge(self, other: Accumulator) -> None:
        assert isinstance(other, Extreme)
        counts = self.counts.copy()
        self._take(np.arange(len(self._best)), other._best, other.counts > 0)
        self.counts[:] = counts

    def result(self, rows: Array) -> pa.Array:
        return to_array(self._best[rows], self.counts[rows] > 0, self.aggregate.args[0].typed)


class Choice(Accumulator):
    """min_by and max_by: they find the partner; its value is looked up afterwards."""

    def __init__(self, aggregate: Aggregate, n: int, times: PerSide) -> None:
        super().__init__(aggregate, n)
        self.best = Best(n, 1, times)

    def add(self, pairs: PerSide, found: Values | None) -> None:
        assert found is not None
        self.best.add(*pairs, *scores_of(found.values, found.valid, self.aggregate.function == "max_by", OUT))

    def _merge(self, other: Accumulator) -> None:
        assert isinstance(other, Choice)
        self.best.merge(other.best)

    def result(self, rows: Array) -> pa.Array:
        raise AssertionError("the value of a partner is looked up where its row is")


def accumulator(aggregate: Aggregate, n: int, times: PerSide) -> Accumulator:
    """The accumulator of an aggregate over n tuples r; `times` decide ties."""
    if len(aggregate.args) == 2:
        return Choice(aggregate, n, times)
    if aggregate.function == "count":
        return Count(aggregate, n)
    if aggregate.function in ("min", "max"):
        return Extreme(aggregate, n)
    return (FloatSum if aggregate.args[0].typed.kind == "float" else WholeSum)(aggregate, n)


def _whole(low: Array, high: Array) -> int:
    return (int(high) << 64) + int(low)


def _rounded(total: int, count: int) -> int:
    """The quotient, with halves rounded away from zero."""
    if count == 0:
        return 0
    quotient = (2 * abs(total) + count) // (2 * count)
    return quotient if total >= 0 else -quotient
