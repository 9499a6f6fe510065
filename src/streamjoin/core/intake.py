"""Arrivals on their way in: checked, filtered, and turned into boxes and keys."""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.core.codegen import Part, Program
from streamjoin.core.columns import as_numpy, flat, physical_columns, show
from streamjoin.core.functions import reason
from streamjoin.core.kernels.layout import TROUBLE_FIELDS, Array
from streamjoin.core.kernels.scalar import FARTHEST, widest
from streamjoin.core.plan import Plan
from streamjoin.core.store import STORES, BandStore, RunReader, Shape, Store, Tuples
from streamjoin.core.tree import OTHER
from streamjoin.errors import DataError, PredicateError

EXACT = 2.0**22  # float32 tells neighbouring integers apart up to here; beyond, coordinates start at a nearer origin


class Intake:
    """Prepares the arrivals of both sides. The axes of the boxes are shared, so their origins are set once."""

    def __init__(self, plan: Plan, program: Program, place: bool = False) -> None:
        """`place`: the place in the window becomes the first dimension of every box, where no runs keep times apart."""
        self._plan = plan
        self.program = program
        self._modules: dict[str, ModuleType] = {side: program.prepare(side) for side in "rs"}
        self._origin: Array = np.zeros(len(program.dimensions))
        self._anchored = not len(self._origin)
        self._place = int(place)
        self._place_origin: float | None = None

    @property
    def origins(self) -> tuple[float | None, ...]:
        """Where the axes of the boxes begin, the place in the window first; None where no tuple has decided it yet."""
        return (self._place_origin, *(float(x) if self._anchored else None for x in self._origin))

    @origins.setter
    def origins(self, origins: tuple[float | None, ...]) -> None:
        self._place_origin = origins[0]
        self._anchored = None not in origins[1:]
        self._origin[:] = [origin or 0.0 for origin in origins[1:]]

    def reader(self, side: str) -> RunReader:
        """What probes frozen runs of a side. A predicate that leads to no access is tested in long stretches."""
        probing = OTHER[side]
        wide = not self.program.dimensions and not self.program.keyed
        exact = self.program.exact(probing, wide)
        return RunReader(self.shape(side), exact, partial(self.trouble, probing))

    def builder(self, side: str) -> BandStore:
        """What orders batches of a side for `freeze`."""
        probing = OTHER[side]
        return BandStore(self.shape(side), self.program.exact(probing, False), partial(self.trouble, probing))

    def store(self, side: str) -> Store:
        """An empty window store of a side."""
        access, probing, shape = self._plan.access, OTHER[side], self.shape(side)
        wide = access != "hash" and not shape.dims
        store = STORES[access](shape, self.program.exact(probing, wide), partial(self.trouble, probing))
        self._compile(store, probing)
        return store

    def shape(self, side: str) -> Shape:
        """What tuples of a side look like to a window."""
        program, boxes = self.program, self._place + len(self.program.dimensions)
        dims = {"scan": program.scan_dims, "band": boxes, "sorted": boxes, "hash": 0}[self._plan.access]
        return Shape(tuple(part.dtype for part in program.stored[side]), dims, program.keyed)

    def trouble(self, probing: str, code: int, probe: tuple[Any, ...], stored: tuple[Any, ...]) -> DataError:
        """The error for a pair whose predicate cannot be computed."""
        parts, other = self.program.stored, OTHER[probing]
        return overflow(self.program, code, {probing: (parts[probing], probe), other: (parts[other], stored)})

    def _compile(self, store: Store, probing: str) -> None:
        """Has the exact test compiled now: a predicate that does not compile fails before any work."""
        none = np.zeros(0, np.int64)
        columns = tuple(np.zeros(0, part.dtype) for part in self.program.stored[probing])
        boxes = np.zeros((0, 0), np.float32)
        try:
            store.warm_up(Tuples(columns, boxes, boxes, boxes, boxes, none.astype(np.uint32), none, none, none, none))
        except Exception as error:
            if self.program.analysis.tree.op != "function":
                raise
            name = self.program.analysis.tree.value.__name__
            raise PredicateError(
                f"the predicate function {name} does not compile: {reason(error)}; use numbers, comparisons, math and "
                "numpy functions that Numba knows, or write it as SQL text"
            ) from error

    def times(self, side: str, table: pa.Table) -> Array:
        """The time column in ticks."""
        name = self._plan.times[side]
        array = flat(table.column(name))
        if array.null_count:
            row = int(np.argmax(as_numpy(array.is_null())))
            raise DataError(
                f"{side}.{name} is null in row {row} of {len(array)}: a tuple without a time lies in no window; "
                "filter such rows out before joining"
            )
        try:
            if self._plan.unit == "int":
                return as_numpy(array.cast(pa.int64()))
            zone = getattr(array.type, "tz", None)
            return as_numpy(array.cast(pa.timestamp(str(self._plan.unit), zone)).view(pa.int64()))
        except pa.ArrowInvalid as error:
            raise DataError(
                f"{side}.{name} has a time that does not fit 64 bits in the joint unit "
                f"{self._plan.unit}: {str(error).splitlines()[0]}"
            ) from error

    def prepare(
        self, side: str, table: pa.Table, at: Array, opposite: int | Array, first: int
    ) -> tuple[Tuples, Array | None]:
        """The batch for its store and for probing, numbered from `first`, and which rows it kept (None: all).

        Rows that cannot match anything, by themselves, are left out here.
        """
        program, n, place = self.program, table.num_rows, self._place
        entry = physical_columns(table, program.entry[side], side)
        dims = place + len(program.dimensions)
        keep, key = np.zeros(n, np.bool_), np.zeros(n, np.uint32)
        lo, hi = np.zeros((dims, n), np.float32), np.zeros((dims, n), np.float32)
        self._run(side, entry, keep, lo[place:], hi[place:], key)
        if not self._anchored and keep.any():
            self._anchor(lo[place:, keep], hi[place:, keep])
            self._run(side, entry, keep, lo[place:], hi[place:], key)
        since, until = self._plan.window.reach(side, at, opposite)
        if place:
            self._put_on_axis(since, lo[0])
            self._put_on_axis(until, hi[0])
        kept = None if keep.all() else keep
        roles = {(part.column, part.role): array for part, array in zip(program.entry[side], entry, strict=True)}
        columns = tuple(roles[part.column, part.role] for part in program.stored[side])
        if kept is not None:
            columns = tuple(column[kept] for column in columns)
            lo, hi, key, at = lo[:, kept], hi[:, kept], key[kept], at[kept]
            since, until = since[kept], until[kept]
        coord, width = self._coordinates(side, lo, hi, at)
        number = np.arange(first, first + len(at), dtype=np.int64)
        return Tuples(columns, lo, hi, coord, width, key, at, since, until, number), kept

    def _run(self, side: str, entry: tuple[Array, ...], keep: Array, lo: Array, hi: Array, key: Array) -> None:
        trouble = np.zeros(TROUBLE_FIELDS, np.int64)
        # An empty tuple has no type to compile for; any array will do in its place.
        columns = entry or (keep,)
        self._modules[side].prepare(columns, len(keep), self._origin, keep, lo, hi, key, trouble)
        if trouble[0]:
            row = int(trouble[1])
            values = tuple(column[row] for column in entry)
            raise overflow(self.program, int(trouble[0]), {side: (self.program.entry[side], values)})

    def _anchor(self, lo: Array, hi: Array) -> None:
        """Moves the origin of axes whose values are too large for float32 to tell neighbours apart."""
        for d in range(len(self._origin)):
            values = np.concatenate([lo[d], hi[d]])
            values = values[np.abs(values) < FARTHEST]
            if len(values) and np.abs(values).max() > EXACT:
                self._origin[d] = float(np.median(values))
        self._anchored = True

    def _put_on_axis(self, places: Array, axis: Array) -> None:
        """Places as coordinates; far from the first one seen they may coincide, but never change their order."""
        if self._place_origin is None:
            self._place_origin = float(places[0]) if len(places) else 0.0
        np.subtract(places, self._place_origin, out=axis, dtype=np.float64, casting="unsafe")

    def _coordinates(self, side: str, lo: Array, hi: Array, at: Array) -> tuple[Array, Array]:
        """What a store orders by, and the widest box: lower corners; the upper ones where there are no lower."""
        coord, width = lo.copy(), np.zeros(len(lo), np.float32)
        if self._place:
            self._put_on_axis(at, coord[0])
        for d, dimension in enumerate(self.program.dimensions, self._place):
            if dimension.low(side) is None:
                coord[d] = hi[d]
            elif dimension.two_sided:
                width[d] = widest(lo[d], hi[d])
        return coord, width


def overflow(program: Program, code: int, found: dict[str, tuple[tuple[Part, ...], tuple[Any, ...]]]) -> DataError:
    """The error for a value that does not fit 64 bits, with the tuples that led to it."""
    values = [
        f"{side}.{part.column} = {show(value, part.type)}"
        for side, (parts, row) in sorted(found.items())
        for part, value in zip(parts, row, strict=True)
        if part.role == "value"
    ]
    return DataError(
        f"integer overflow in {program.troubles[code - 1]} for {', '.join(values)}: the result does not fit its type; "
        "cast an operand to DOUBLE, or filter such values out"
    )
