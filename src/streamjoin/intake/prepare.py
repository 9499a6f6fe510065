"""Arrivals on their way in: checked, filtered, and turned into boxes and keys."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.access import ACCESSES, WHOLE
from streamjoin.access.choosing import Choosing
from streamjoin.access.frozen import Freezer
from streamjoin.access.records import FAULT_WORDS
from streamjoin.access.segment import Search, Segment
from streamjoin.access.tape import Tape
from streamjoin.access.tuples import COORD, COORD_NEGATED, HIGH, LOW, Shape, Tuples
from streamjoin.codegen.embed import reason
from streamjoin.codegen.intrinsics import FARTHEST
from streamjoin.codegen.jit import OnDemand
from streamjoin.codegen.program import Part, Program
from streamjoin.codegen.records import Array, address
from streamjoin.errors import DataError, PredicateError
from streamjoin.intake import arrive
from streamjoin.intake.columns import flat, physical_columns, show, ticks_of
from streamjoin.intake.lifetimes import latest_partners, with_lifetime
from streamjoin.plan.plan import Plan
from streamjoin.predicate.tree import SIDES

BY_TREE = ACCESSES[ACCESSES[WHOLE].gives_way]
EXACT = 2.0**22  # float32 tells neighbouring integers apart up to here; beyond, coordinates start at a nearer origin


class Intake:
    """Prepares the arrivals of both sides, 0 (r) and 1 (s).

    The axes of the boxes are shared, so their origins are set once.
    """

    def __init__(self, plan: Plan, program: Program, with_at: bool = False) -> None:
        """`with_at`: the first dimension of every box is `at` and its bounds, where no runs separate times."""
        self._plan = plan
        self.program = program
        self._modules: list[ModuleType] = [program.prepare(name) for name in SIDES]
        self._refine: dict[int, OnDemand] = {}
        # The indices in `entry` of the arrays that the exact test reads.
        self.stored = [[program.entry[name].index(part) for part in program.stored[name]] for name in SIDES]
        self.origin: Array = np.zeros(len(program.dimensions))
        self.anchored = not len(self.origin)
        self._with_at = int(with_at)
        self._at_origin: float | None = None

    @property
    def origins(self) -> tuple[float | None, ...]:
        """The origins of the boxes' axes, that of `at` first; None where no tuple has determined it yet."""
        return (self._at_origin, *(float(x) if self.anchored else None for x in self.origin))

    @origins.setter
    def origins(self, origins: tuple[float | None, ...]) -> None:
        self._at_origin = origins[0]
        self.anchored = None not in origins[1:]
        self.origin[:] = [origin or 0.0 for origin in origins[1:]]

    def segment(self, side: int, tape: Tape | None = None, way: int = -1) -> Segment:
        """An empty segment of a side's window, fed by a tape if there is one."""
        access, shape = ACCESSES[self._plan.access], self.shape(side)
        if self._plan.may_change and access.gives_way:
            return Choosing(access, shape, tape, way)
        return access.segment(shape, tape, way)

    def freezer(self, side: int) -> Freezer:
        """The freezer for batches of a side."""
        return Freezer(self.shape(side), bool(BY_TREE.reason(self.program.analysis)))

    def search(self, probing: int) -> Search:
        """A search for one thread that probes with arrivals of a side."""
        with compiling(self.program):
            return Search(self.refine(probing), partial(self.fault, probing))

    def refine(self, probing: int) -> OnDemand:
        """The exact test for arrivals of a side. Without keys or boxes to search by, it tests long ranges."""
        if probing not in self._refine:
            access = ACCESSES[self._plan.access]
            wide = not access.dims(self.program) and not (access.by_key and self.program.keyed)
            self._refine[probing] = self.program.refine(SIDES[probing], wide)
        return self._refine[probing]

    def kernels(self) -> list[OnDemand]:
        """What is compiled for the predicate and for the access path, in the order in which it is asked for.

        But what a segment inserts with takes longest, and is the last.
        """
        path = ACCESSES[self._plan.access].segment
        find, forget, enter = (getattr(path, name, None) for name in ("find", "forget", "enter"))
        prepared = [module.prepare for module in self._modules]
        every = [find, forget, self.refine(0), self.refine(1), *prepared, enter]
        return [kernel for kernel in every if isinstance(kernel, OnDemand)]

    def shape(self, side: int) -> Shape:
        """The shape of a side's tuples in a segment."""
        program = self.program
        dims = self._with_at + ACCESSES[self._plan.access].dims(program)
        columns = tuple(part.dtype for part in program.stored[SIDES[side]])
        return Shape(columns, dims, program.keyed, self._ends(SIDES[side]))

    def _ends(self, side: str) -> tuple[tuple[int, int], ...]:
        """Which ends the boxes of a side have; `at` is a point."""
        ends = [(0, COORD), (0, COORD_NEGATED)] * self._with_at
        for d, dimension in enumerate(self.program.dimensions, self._with_at):
            ends += [(d, LOW)] * (dimension.low(side) is not None)
            ends += [(d, HIGH)] * (dimension.high(side) is not None)
        return tuple(ends)

    def fault(self, probing: int, code: int, probe: tuple[Any, ...], stored: tuple[Any, ...]) -> DataError:
        """The error for a pair whose predicate cannot be computed."""
        rows = (probe, stored) if probing == 0 else (stored, probe)
        parts = self.program.stored
        return overflow(self.program, code, {name: (parts[name], row) for name, row in zip(SIDES, rows, strict=True)})

    def times(self, side: int, table: pa.Table) -> Array:
        """The time column in ticks."""
        return times_of(self._plan, side, table)

    def prepare(
        self, side: int, table: pa.Table, at: Array, opposite: int | Array, first: int
    ) -> tuple[Tuples, Array | None]:
        """The batch for storing and probing, numbered from `first`, and which rows it kept (None: all).

        It leaves out rows whose own values keep them from matching anything.
        """
        program, n, own = self.program, table.num_rows, self._with_at
        lives = self._plan.lifetimes
        if lives is not None:
            table = with_lifetime(lives, side, table)
        entry = physical_columns(table, program.entry[SIDES[side]], SIDES[side])
        dims = own + len(program.dimensions)
        keep, key = np.empty(n, np.bool_), np.zeros(n, np.uint32)
        boxes, width = np.zeros((3, dims, n), np.float32), np.zeros(dims, np.float32)
        lo, hi, coord = boxes
        into = keep, lo[own:], hi[own:], coord[own:], width[own:], key
        count = self._run(side, entry, *into)
        if not self.anchored and count:
            self._anchor(lo[own:, keep], hi[own:, keep])
            count = self._run(side, entry, *into)
        since, until = self._plan.window.bounds(side, at, opposite)
        if lives is not None and self._plan.unit is not None:  # `at` is when a tuple begins
            until = np.minimum(until, latest_partners(lives, side, table))
        if own:
            self._put_on_axis(since, lo[0])
            self._put_on_axis(until, hi[0])
            self._put_on_axis(at, coord[0])
        columns = tuple([entry[k] for k in self.stored[side]])
        number = np.arange(first, first + count, dtype=np.int64)
        if count == n:
            return Tuples(columns, lo, hi, coord, width, key, at, since, until, number), None
        columns = tuple(column[keep] for column in columns)
        lo, hi, coord = boxes[..., keep]
        return Tuples(columns, lo, hi, coord, width, key[keep], at[keep], since[keep], until[keep], number), keep

    def _run(self, side: int, entry: tuple[Array, ...], keep: Array, *into: Array) -> int:
        """Computes the arrivals' boxes and keys. Returns how many are kept."""
        fault = np.zeros(FAULT_WORDS, np.int64)
        lo, hi, coord, width, key = into
        columns = np.array([address(array) for array in entry], np.int64)
        arrays = (self.origin, keep, lo, hi, coord, width, key, fault, columns)
        arrivals = np.array((len(keep), *lo.shape, *map(address, arrays)), arrive.Arrivals.dtype)
        count = self._modules[side].prepare(address(arrivals))
        if fault[0]:
            row = int(fault[1])
            values = tuple(column[row] for column in entry)
            raise overflow(self.program, int(fault[0]), {SIDES[side]: (self.program.entry[SIDES[side]], values)})
        return int(count)

    def function(self, side: int) -> int:
        """The address of the function that computes a side's boxes and keys."""
        return int(self._modules[side].prepare.address)

    def _anchor(self, lo: Array, hi: Array) -> None:
        """Moves the origin of axes whose values are too large for float32 to tell neighbours apart."""
        origin = self.origin.copy()
        for d in range(len(origin)):
            values = np.concatenate([lo[d], hi[d]])
            values = values[np.abs(values) < FARTHEST]
            if len(values) and np.abs(values).max() > EXACT:
                origin[d] += float(np.median(values))
        self.origin[:] = origin  # in one step: an interruption leaves all axes unchanged, or all moved
        self.anchored = True

    def _put_on_axis(self, at: Array, axis: Array) -> None:
        """Values of `at` as coordinates. Far from the first one they may coincide, but never change their order."""
        if self._at_origin is None:
            self._at_origin = float(at[0]) if len(at) else 0.0
        np.subtract(at, self._at_origin, out=axis, dtype=np.float64, casting="unsafe")


def overflow(program: Program, code: int, found: dict[str, tuple[tuple[Part, ...], tuple[Any, ...]]]) -> DataError:
    """The error for a value that does not fit 64 bits, with the tuples that led to it."""
    values = [
        f"{side}.{part.column} = {show(value, part.type)}"
        for side, (parts, row) in sorted(found.items())
        for part, value in zip(parts, row, strict=True)
        if part.role == "value"
    ]
    return DataError(
        f"integer overflow in {program.faults[code - 1]} for {', '.join(values)}: the result does not fit its type; "
        "cast an operand to DOUBLE, or filter such values out"
    )


@contextmanager
def compiling(program: Program) -> Iterator[None]:
    """Translates an error of the compiler inside it into one about the predicate."""
    try:
        yield
    except Exception as error:
        if program.analysis.tree.op != "function":
            raise
        name = program.analysis.tree.function.__name__
        raise PredicateError(
            f"the predicate function {name} does not compile: {reason(error)}; use numbers, comparisons, math and "
            "numpy functions that Numba knows, or write it as SQL text"
        ) from error


def times_of(plan: Plan, side: int, table: pa.Table) -> Array:
    """A side's time column in ticks; without one all times are equal."""
    letter = SIDES[side]
    name = plan.times[letter]
    if name is None:
        return np.zeros(table.num_rows, np.int64)
    return ticks_of(flat(table.column(name)), f"{letter}.{name}", str(plan.unit))
