"""The specification of a circuit as text, and the design that follows from it."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamjoin.algorithms.lockstep import MOST_CORES, MOST_ROWS, NETWORKS, Chain
from streamjoin.circuit.tools import hardware
from streamjoin.codegen.circuit import Gates
from streamjoin.codegen.values import range_of
from streamjoin.errors import OptionError, SchemaError, shown
from streamjoin.predicate import as_tree
from streamjoin.predicate.resolve import resolve
from streamjoin.predicate.tree import SIDES, columns
from streamjoin.predicate.types import INT32, INTS, Type, parse_name, to_arrow

if TYPE_CHECKING:
    from streamjoin.circuit.core import Design

SCANNERS = (1, 2)
PAYLOAD = 16  # bits of a tuple's number: more than a window needs to tell its tuples apart
_NARROW = re.compile(r"int(\d{1,2})\Z")
KNOWN = "int1 to int64, boolean, date, timestamp, decimal(p,s), and Spark's names of whole numbers"


@dataclass(frozen=True)
class Spec:
    """A chain in words. Columns that are not declared are 32 bits wide.

    >>> Spec("r.x = s.x", cores=2, segment=4, r="x:int12").chain.rows
    (8, 8)
    """

    on: str
    cores: int = 4
    segment: int = 8
    r: str = ""  # columns, as "x:int32,y:decimal(9,2)"
    s: str = ""
    window: tuple[int, int] | None = None  # rows; None: as many as the segments hold
    scanners: int = 2
    memory: str = "lutram"
    network: str = "tree"
    payload: int = PAYLOAD
    entries: int = 0
    low_latency: bool = False

    def __post_init__(self) -> None:
        for name, value, most in (
            ("cores", self.cores, MOST_CORES),
            ("segment", self.segment, MOST_ROWS),
            ("payload", self.payload, 64),
        ):
            if not 1 <= value <= most:
                raise OptionError(f"{name}={value} is not a number from 1 to {most:,}")
        if self.scanners not in SCANNERS:
            raise OptionError(f"scanners={self.scanners} is not 1 or 2")
        if self.network not in NETWORKS:
            raise OptionError(f'network="{self.network}" is not one of {", ".join(NETWORKS)}')
        for side, rows in zip(SIDES, self.rows, strict=True):
            if not self.cores <= rows <= self.cores * self.segment:
                raise OptionError(
                    f"a window of {rows} rows of {side} does not go with {self.cores} cores with segments of "
                    f"{self.segment}: give from {self.cores} to {self.cores * self.segment} rows"
                )
        least = self.chain.margin(0), self.chain.margin(self.chain.leaves - 1)
        if 0 < self.entries < max(least):
            raise OptionError(f"entries={self.entries} of a result FIFO are fewer than its margin of {max(least)}")

    @property
    def rows(self) -> tuple[int, int]:
        whole = self.cores * self.segment
        return self.window or (whole, whole)

    @cached_property
    def _declared(self) -> dict[str, dict[str, tuple[Type, int]]]:
        """By side and name: type, and bits if these are fewer."""
        declared = {"r": _columns("r", self.r), "s": _columns("s", self.s)}
        for side, name in columns(as_tree(self.on)):
            if side and name not in declared[side]:
                declared[side][name] = INT32, 32
        return declared

    @cached_property
    def gates(self) -> Gates:
        """The predicate."""
        schemas = {
            side: pa.schema([(n, to_arrow(t)) for n, (t, _) in own.items()]) for side, own in self._declared.items()
        }
        return Gates(resolve(as_tree(self.on), schemas["r"], schemas["s"]))

    @cached_property
    def chain(self) -> Chain:
        return Chain(
            self.cores, self.rows, self.scanners, self.gates.stages, self.network, self.entries, self.low_latency
        )

    def design(self) -> Design:
        """The circuit's design; needs the extra `fpga`."""
        hardware()
        from streamjoin.circuit.core import Column, Design, Layout

        layouts = []
        for side in SIDES:
            own = [(name, t) for owner, name, t in self.gates.columns if owner == side]
            layouts.append(
                Layout(
                    tuple(Column(name, self._declared[side][name][1], bits_of(t)[1]) for name, t in own), self.payload
                )
            )
        return Design(self.chain, self.gates, layouts[0], layouts[1], self.memory)

    def with_cores(self, cores: int, window: tuple[int, int] | None = None) -> Spec:
        """The same with another number of cores: windows grow with it, or are divided among them."""
        segment = -(-max(window) // cores) if window else self.segment
        return replace(self, cores=cores, segment=segment, window=window)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "window": list(self.rows)}


def bits_of(t: Type) -> tuple[int, bool]:
    """How many bits hold a type's values, and whether they have a sign."""
    if t.kind == "bool":
        return 1, False
    low, high = range_of(t)
    return max(high.bit_length(), (-low - 1).bit_length()) + 1, True


def _columns(side: str, text: str) -> dict[str, tuple[Type, int]]:
    """Columns in words; a comma inside parentheses belongs to a type."""
    found = {}
    for part in re.split(r",(?![^(]*\))", text):
        if not part.strip():
            continue
        name, _, kind = (word.strip() for word in part.partition(":"))
        t, bits = _type(kind.lower())
        if not name or t is None:
            raise SchemaError(f"--{side} {shown(part)} is not a column and its type, as x:int32; types: {KNOWN}")
        found[name] = t, bits
    return found


def _type(word: str) -> tuple[Type | None, int]:
    if (narrow := _NARROW.match(word)) and 1 <= int(narrow[1]) <= 64:
        bits = int(narrow[1])
        return next(t for size, t in INTS.items() if size >= bits), bits
    t = parse_name(word)
    return (
        (None, 0) if t is None or t.kind not in ("bool", "int", "decimal", "timestamp", "date") else (t, bits_of(t)[0])
    )
