"""From an analysed predicate to compiled kernels: the columns that each kernel reads, and the text of the modules.

A generated module is a head (`matches` for a predicate, `DIMS` for a scan) in front of the unchanged text of a kernel
from `access/`. It is content-addressed, so the next process finds it compiled.
"""

from __future__ import annotations

import inspect
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from streamjoin.codegen.cache import PACKAGE, load_module
from streamjoin.codegen.embed import Embedded, embed
from streamjoin.codegen.emit import AT_ONCE, Emitter
from streamjoin.codegen.values import Slot, Value
from streamjoin.predicate.analysis import MAX_DIMS, Analysis, Dimension, Linear
from streamjoin.predicate.operations import is_exact
from streamjoin.predicate.tree import OTHER, Node, brief, columns, walk
from streamjoin.predicate.types import Type

JIT, INTRINSICS = f"{PACKAGE}.codegen.jit", f"{PACKAGE}.codegen.intrinsics"
# Generated text imports or repeats kernels of folders that this one may not import: they are known here by name only.
ARRIVE, RECORDS = f"{PACKAGE}.intake.arrive", f"{PACKAGE}.access.records"
REFINE, STAND_INS = f"{PACKAGE}.access.refine", f"{PACKAGE}.access.stand_ins"

PREPARE = """

import {arrive} as arrive
from {intrinsics} import carray, pointer, record_at, words_at
from {records} import FAULT_WORDS


@on_demand
def prepare(address):
    arrivals = record_at(address, arrive.Arrivals)
    n, at = arrivals.rows, words_at(arrivals.columns, {count})
    return compute(
        {columns},
        n,
        carray(pointer(arrivals.origin), ({dims},), np.float64),
        arrive.flags_at(arrivals.keep, n),
        arrive.boxes_at(arrivals.lo, arrivals),
        arrive.boxes_at(arrivals.hi, arrivals),
        arrive.boxes_at(arrivals.coord, arrivals),
        arrive.floats_at(arrivals.width, {dims}),
        arrive.keys_at(arrivals.key, n),
        words_at(arrivals.fault, FAULT_WORDS),
    )
"""
COLUMNS = """

@inner(forceinline=True)
def {name}_columns(address):
    columns = records_at(address, {count}, Column)
    return ({views})

"""
UNDERFLOW = 1e-30  # the largest error by underflow of a product of small numbers
INLINE = '@inner(error_model="numpy", forceinline=True)'


@dataclass(frozen=True)
class Part:
    """One array that a kernel reads: a column's values, its validity, or half of a string's digest."""

    column: str
    role: str  # "value", "valid", "high", "low"
    type: Type

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.bool_ if self.role == "valid" else self.type.stored)


@dataclass(frozen=True)
class PairCode:
    """The exact test in parts. A pair matches if all plain conjuncts and all costly ones hold."""

    lines: list[str]  # statements, of which the first `cheap` are all that the plain conjuncts need
    cheap: int
    plain: list[str]
    costly: list[tuple[int, Value]]  # by fault code: to be evaluated only for pairs in the window


def type_name(dtype: np.dtype[Any]) -> str:
    """NumPy's name of a type, as generated code writes it."""
    return str(dtype).replace("bool", "bool_")


def head() -> str:
    """The imports of a generated module with code of predicates."""
    return f"""\
import numpy as np

from {INTRINSICS} import add_checked, coordinate, float_bits, mix, mul_checked, prefetch, sub_checked
from {INTRINSICS} import to_int64, truncated_div, up32
from {JIT} import inner, njit, on_demand

"""


def kernel_text(kernel: str) -> str:
    """The text of a kernel module without the definitions that a generated head supplies."""
    supplied = (f"from {STAND_INS} import", "from __future__")
    lines = inspect.getsource(import_module(kernel)).splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(supplied))


def _columns_text(name: str, parts: tuple[Part, ...]) -> str:
    """The columns that the predicate reads, as a tuple of arrays."""
    at = "carray(pointer(columns[{}].start), (1 << 60,), np.{})"
    views = "".join(f"{at.format(k, type_name(part.dtype))}, " for k, part in enumerate(parts))
    return COLUMNS.format(name=name, count=len(parts), views=views)


def parts_of(
    types: Mapping[tuple[str, str], Type],
    side: str,
    names: Iterable[tuple[str, str]],
    never_null: Container[tuple[str, str]] = (),
) -> tuple[Part, ...]:
    """The arrays of a side that hold these columns."""
    parts = []
    for owner, name in sorted(names):
        if owner != side:
            continue
        t = types[owner, name]
        roles = ("high", "low") if t.kind in ("string", "binary") else ("value",)
        parts += [Part(name, role, t) for role in roles]
        if (owner, name) not in never_null:
            parts.append(Part(name, "valid", t))
    return tuple(parts)


def slots_of(side: str, parts: tuple[Part, ...], array: str, index: str) -> dict[tuple[str, str], Slot]:
    """The slots of a side's columns in a tuple of arrays, for generated code."""
    places = {(part.column, part.role): f"{array}[{k}][{index}]" for k, part in enumerate(parts)}
    slots = {}
    for part in parts:
        name = part.column
        value = places.get((name, "value")) or places[name, "high"]
        slots[side, name] = Slot(value, places.get((name, "valid")), places.get((name, "low")))
    return slots


class Program:
    """The compiled form of one predicate: for each side the arrays it needs, `prepare` and the kernels that probe."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.dimensions: tuple[Dimension, ...] = analysis.dimensions[:MAX_DIMS]
        self.keyed = bool(analysis.equalities)
        self._types = {n.column: n.typed for n in walk(analysis.tree) if n.op == "column"}

    @cached_property
    def entry(self) -> dict[str, tuple[Part, ...]]:
        """By side: the arrays that `prepare` reads, all of the predicate's columns with their validity."""
        names = columns(self.analysis.tree)
        return {side: self._parts(side, names, frozenset()) for side in "rs"}

    @cached_property
    def stored(self) -> dict[str, tuple[Part, ...]]:
        """By side: the arrays that the exact test reads. A column whose null rules out a match is never null here."""
        names = columns(*self.analysis.exact)
        return {side: self._parts(side, names, self.analysis.strict) for side in "rs"}

    def _parts(
        self, side: str, names: set[tuple[str, str]], never_null: frozenset[tuple[str, str]]
    ) -> tuple[Part, ...]:
        return parts_of(self._types, side, names, never_null)

    def prepare(self, side: str) -> ModuleType:
        """The module whose `prepare` filters arrivals of a side and computes their boxes and key hashes.

        It is called by address, with an `Arrivals` of `intake/arrive.py`.
        """
        parts = self.entry[side]
        at = "carray(pointer(at[{}]), (n,), np.{})"
        columns = [at.format(k, type_name(part.dtype)) for k, part in enumerate(parts)]
        by_address = PREPARE.format(
            arrive=ARRIVE,
            intrinsics=INTRINSICS,
            records=RECORDS,
            count=len(parts),
            dims=len(self.dimensions),
            columns=f"({', '.join(columns)}{',' * (len(columns) == 1)})",
        )
        return load_module(head() + self.compute_text(side) + by_address)

    def refine(self, probing: str, wide: bool) -> Any:
        """The exact test: candidates among arrivals of one side and stored tuples of the other, see `access/refine.py`.

        `wide`: no access path narrows the candidates down, and matches are expected to be few among them.
        """
        guarded = bool(self._costly(probing))
        before = (
            f"{head()}{self._embedded.text}GUARDED, WIDE = {guarded}, {wide and not guarded}\n"
            f"from {INTRINSICS} import carray, pointer, records_at\nfrom {RECORDS} import Column\n"
            f"{_columns_text('probing', self.stored[probing])}{_columns_text('stored', self.stored[OTHER[probing]])}"
            f"{self.match_text(probing)}\n"
        )
        return load_module(before + kernel_text(REFINE), self._embedded.inject).refine

    @property
    def calls_python(self) -> bool:
        """Does it contain a Python function, which may raise any exception?"""
        return any(node.op == "function" for node in walk(self.analysis.tree))

    @property
    def scan_dims(self) -> int:
        """The number of two-sided dimensions; they come first. A one-sided one narrows too little to pay in a scan."""
        return sum(dimension.two_sided for dimension in self.dimensions)

    @property
    def faults(self) -> tuple[str, ...]:
        """The texts of fault codes: code k, counted from 1, is a failure in the k-th text."""
        nodes = (*self.analysis.exact, *self.analysis.filters["r"], *self.analysis.filters["s"])
        keys = tuple(f"{brief(r)} = {brief(s)}" for r, s in self.analysis.equalities)
        return (*(brief(node) for node in nodes), *keys)

    @cached_property
    def _embedded(self) -> Embedded:
        function = next((node for node in walk(self.analysis.tree) if node.op == "function"), None)
        return Embedded("", {}) if function is None else embed(function)

    def match_text(self, probing: str) -> str:
        """The exact test: `matches` over the stored columns of both sides.

        Comparisons are evaluated together, without branches. Functions, including those of the C library, and
        operations that may overflow are evaluated only where the comparisons hold.
        """
        pair = self.pair_code(probing)
        lines = pair.lines
        result = " & ".join(f"({code})" for code in pair.plain) or "True"
        if pair.costly:
            if pair.plain:
                lines.insert(pair.cheap, f"    if not ({result}):\n        return False")
            for _, value in pair.costly:  # one that is false decides, even if another one is bad
                lines.append(f"    if not ({value.code} | ({value.bad or 'False'})):\n        return False")
            for code, value in pair.costly:
                if value.bad is not None:
                    lines.append(f"    if {value.bad}:\n        if fault[0] == 0:")
                    lines.append(f"            fault[0], fault[1], fault[2] = {code}, i, j\n        return False")
            result = "True"
        function = [INLINE, "def matches(p, i, w, j, fault):", *lines, f"    return {result}"]
        asked = [f"    prefetch(w[{k}], j)" for k in range(len(self.stored[OTHER[probing]]))]
        return "\n".join([*function, "\n", INLINE, "def fetch(w, j):", *(asked or ["    pass"])]) + "\n"

    def pair_code(self, probing: str) -> PairCode:
        """The exact test of tuple i of columns p and stored tuple j of columns w."""
        emitter = Emitter(self._pair_slots(probing))
        costly = self._costly(probing)
        plain = [emitter.truth(node).code for code, node in enumerate(self.analysis.exact, 1) if code not in costly]
        while len(plain) > AT_ONCE:
            groups = (plain[k : k + AT_ONCE] for k in range(0, len(plain), AT_ONCE))
            plain = [emitter.set(" & ".join(f"({code})" for code in group)) for group in groups]
        cheap = len(emitter.lines)
        values = [(code, emitter.truth(node)) for code, node in costly.items()]
        return PairCode(emitter.lines, cheap, plain, values)

    def _pair_slots(self, probing: str) -> dict[tuple[str, str], Slot]:
        stored = OTHER[probing]
        slots = slots_of(probing, self.stored[probing], "p", "i")
        return slots | slots_of(stored, self.stored[stored], "w", "j")

    def _costly(self, probing: str) -> dict[int, Node]:
        """By code: conjuncts that are evaluated last, for pairs in the window only: functions, those that may overflow,
        slow ones."""
        emitter = Emitter(self._pair_slots(probing))
        return {
            code: node
            for code, node in enumerate(self.analysis.exact, 1)
            if node.op == "function"
            or emitter.value(node).bad is not None
            or not all(is_exact(part.op) for part in walk(node))
        }

    def compute_text(self, side: str) -> str:
        """For each arrival: whether it can match anything, its box, its key hash; and the widest box of those kept.

        A segment orders by `coord`: the lower corners, or the upper ones where there are no lower ones.
        """
        parts = self.entry[side]
        emitter = Emitter(slots_of(side, parts, "columns", "i"), indent=" " * 8)
        emit = emitter.lines.append
        self._filter(emitter, side)
        for d, dimension in enumerate(self.dimensions):
            low, high = dimension.low(side), dimension.high(side)
            low_code = self._bound(emitter, low, -1) if low else "-np.inf"
            high_code = self._bound(emitter, high, 1) if high else "np.inf"
            emit(f"        lo[{d}, i] = coordinate({low_code}, origin[{d}])")
            emit(f"        hi[{d}, i] = coordinate({high_code}, origin[{d}])")
            emit(f"        coord[{d}, i] = {'lo' if low else 'hi'}[{d}, i]")
            if dimension.two_sided:
                emit(f"        width[{d}] = max(width[{d}], up32(lo[{d}, i], hi[{d}, i]))")
        if self.keyed:
            self._hash(emitter, side, "i")
        lines = [
            INLINE,
            "def compute(columns, n, origin, keep, lo, hi, coord, width, key, fault):",
            "    kept = 0",
            "    for d in range(len(width)):",
            "        width[d] = 0",
            "    for i in range(n):",
            "        keep[i] = False",
            *emitter.lines,
            "        keep[i] = True",
            "        kept += 1",
            "    return kept",
        ]
        return "\n".join(lines) + "\n"

    def _filter(self, emitter: Emitter, side: str) -> None:
        """Skips a row that its own values keep from matching anything."""
        analysis, emit = self.analysis, emitter.lines.append
        for k, part in enumerate(self.entry[side]):
            if part.role == "valid" and (side, part.column) in analysis.strict:
                emit(f"        if not columns[{k}][i]:\n            continue")
        first = 1 + len(analysis.exact) + (len(analysis.filters["r"]) if side == "s" else 0)
        coded = list(enumerate(analysis.filters[side], first))
        trial = Emitter(slots_of(side, self.entry[side], "columns", "i"))
        for code, node in sorted(coded, key=lambda item: trial.value(item[1]).bad is not None):
            value = emitter.truth(node)
            self._refuse(emitter, value, code)
            emit(f"        if not ({value.code}):\n            continue")

    def _hash(self, emitter: Emitter, side: str, index: str) -> None:
        """Writes the hash of a row's equality keys to `key`, at an index."""
        analysis, seed = self.analysis, "np.uint64(0)"
        first = 1 + len(analysis.exact) + len(analysis.filters["r"]) + len(analysis.filters["s"])
        for code, pair in enumerate(analysis.equalities, first):
            node = pair[0 if side == "r" else 1]
            self._refuse(emitter, emitter.value(node), code, unless_ordered=True)
            for half in self._key_parts(emitter, node):
                seed = emitter.set(f"mix({seed}, {half})")
        emitter.lines.append(f"        key[{index}] = np.uint32({seed} >> np.uint64(32))")

    def _refuse(self, emitter: Emitter, value: Value, code: int, unless_ordered: bool = False) -> None:
        """Reports an arrival whose value is out of range, unless it still compares correctly with values in range."""
        if value.bad is not None and not (unless_ordered and value.up):
            emitter.lines.append(f"        if {value.bad}:\n            if fault[0] == 0:")
            emitter.lines.append(f"                fault[0], fault[1] = {code}, i\n            continue")

    def _bound(self, emitter: Emitter, linear: Linear, direction: int) -> str:
        """The end of an interval as float64, moved outwards by its slack; unbounded where it cannot be computed."""
        parts, sizes, bad = [f"{linear.constant!r}"] if linear.constant else [], [f"{linear.size!r}"], []
        for factor, node in linear.terms:
            value = emitter.value(node)
            term = f"np.float64({value.code})" if factor == 1 else f"{factor!r} * np.float64({value.code})"
            parts.append(term)
            sizes.append(f"abs({term})")
            if value.bad:
                bad.append(f"({value.bad})")
        code = emitter.set(" + ".join(parts))
        if linear.slack:
            slack = f"({linear.slack!r} * ({' + '.join(sizes)}) + {UNDERFLOW!r})"
            code = emitter.set(f"{code} {'-' if direction < 0 else '+'} {slack}")
        if linear.slack:  # a term moved across the comparison: NaN and infinities do not follow the rules of sums
            code = emitter.set(f"{code} if abs({code}) < np.inf else {'-np.inf' if direction < 0 else 'np.inf'}")
        if bad:
            code = emitter.set(f"{'-np.inf' if direction < 0 else 'np.inf'} if {' | '.join(bad)} else {code}")
        return code

    def _key_parts(self, emitter: Emitter, node: Node) -> list[str]:
        """64-bit patterns that are equal for equal values: zeros are one value, and so are NaNs."""
        assert node.type is not None
        if node.type.kind in ("string", "binary"):
            return [f"np.uint64({half})" for half in emitter.halves(node)]
        value = emitter.value(node)
        if node.type.kind == "float":
            wide = emitter.set(f"np.float64({value.code}) + 0.0")
            return [f"np.uint64(float_bits(np.nan if {wide} != {wide} else {wide}))"]
        return [f"np.uint64(np.int64({value.code}))"]
