"""A join as it was asked for, checked and decided before any work starts."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamjoin.access import ACCESSES, WHOLE
from streamjoin.algorithms import ALGORITHMS, AUTO, SEQUENTIAL
from streamjoin.codegen.emit import check_size
from streamjoin.errors import PredicateError, SchemaError, StreamjoinError, WindowError, listed, shown
from streamjoin.kinds import BACKWARD, PLAIN, Kind
from streamjoin.machine import usable_cores
from streamjoin.options import Options
from streamjoin.plan.choice import Choice, Task, Wish, choose
from streamjoin.plan.columns import columns, typed
from streamjoin.plan.formulas import load_of
from streamjoin.plan.times import Lifetimes, lifetimes, time_names, time_unit
from streamjoin.predicate import as_tree
from streamjoin.predicate.analysis import Analysis, analyse
from streamjoin.predicate.resolve import resolve
from streamjoin.predicate.tree import SIDES, column, junction
from streamjoin.windows import asked
from streamjoin.windows.duration import needs_nanoseconds
from streamjoin.windows.every import Every, VersionWindow
from streamjoin.windows.window import Asked, Window

if TYPE_CHECKING:
    from streamjoin.codegen.pairs import PairProgram
    from streamjoin.codegen.program import Program

Rates = tuple[float, float] | None  # tuples per second


@dataclass(frozen=True)
class Plan:
    """A decided join: the analysed predicate, the window in ticks, the access path and the reason for it."""

    schemas: dict[str, pa.Schema]
    times: dict[str, str | None]
    unit: str | None  # of the time columns: "us", "ns", "int"
    window: Window
    analysis: Analysis
    algorithm: str
    access: str
    suffixes: tuple[str, str] | None
    workers: int = 1
    layout: tuple[int, int] = (1, 1)
    device: int | str | None = None  # which OpenCL device, for "hells"
    memory: str = "auto"  # and where its windows lie
    expected: tuple[int, int] = (0, 0)  # tuples in the windows, if rates and window determine them
    reasons: tuple[str, ...] = field(default=())
    may_change: bool = False  # the access path, if the tuples turn out not to suit it
    any_case: bool = False  # names that differ in case only are the same name
    kind: Kind = PLAIN  # what comes out, its expressions typed
    lifetimes: Lifetimes | None = None  # if tuples are valid for a while

    @property
    def timed(self) -> bool:
        """Do tuples have times for an order or a choice? Not if they are valid for a while."""
        return self.unit is not None and self.lifetimes is None

    @property
    def timeless(self) -> str:
        """Why they have none."""
        if self.lifetimes is not None:
            return "a tuple that is valid for a while has none; leave valid() out, or name one of its columns"
        return 'there are no time columns; give time="ts"'

    def program(self) -> Program:
        """The predicate's compiled form; imports the compiler."""
        from streamjoin.codegen.program import Program

        return Program(self.analysis)

    @cached_property
    def pair_program(self) -> PairProgram:
        """The same for two whole tables."""
        from streamjoin.codegen.pairs import PairProgram

        return PairProgram(self.analysis)

    def same(self, name: str) -> str:
        """A form of a name that is equal for names that count as the same."""
        return name.lower() if self.any_case else name

    def output_names(self) -> dict[str, list[str]]:
        """By side: the result's column names."""
        names = {side: self.schemas[side].names for side in SIDES}
        clashes = {self.same(name) for name in names["r"]} & {self.same(name) for name in names["s"]}
        if clashes and self.suffixes is None:
            raise SchemaError(
                f'both sides have columns named {listed(sorted(clashes))}; rename them, or give suffixes=("_r", "_s")'
            )
        endings = dict(zip(SIDES, self.suffixes or ("", ""), strict=True))
        named = {s: [n + endings[s] if self.same(n) in clashes else n for n in names[s]] for s in SIDES}
        counted = Counter(self.same(name) for side in SIDES for name in named[side])
        twice = {name for name, count in counted.items() if count > 1}
        if twice:
            raise SchemaError(
                f"with suffixes={shown(self.suffixes)} the result would have two columns named "
                f"{listed(sorted(twice))}; choose other suffixes"
            )
        return named


def make_plan(
    schema_r: pa.Schema, schema_s: pa.Schema, options: Options, static: bool = False, *, endless: bool | None = None
) -> Plan:
    """Checks everything that can be checked before data is seen.

    `static`: the tables are known as a whole and joined as such, unless an algorithm is named. `endless`: rows keep
    coming, and must expire. By default, everything that is not static is endless.
    """
    endless = not static if endless is None else endless
    algorithm, workers, layout = options.algorithm, options.workers, options.layout
    schemas = {"r": schema_r, "s": schema_s}
    for side, schema in schemas.items():
        twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
        if twice:
            raise SchemaError(f"{side} has several columns named {listed(twice)}; rename all but one of each")
    within = asked(options.within)
    lives = lifetimes(options.times, schemas, options.within, options.max_delay)
    times = time_names(options.times, schemas)
    unit = time_unit(times, schemas, needs_nanoseconds(*within.lengths, options.max_delay))
    window = within.window(unit)
    if lives and endless:
        times, unit, window = {"r": lives.r.time, "s": lives.s.time}, lives.unit, lives.window()
    if static and window.by_rows and unit is None:
        raise WindowError(
            'a window of rows on tables needs an order of arrival; give time="ts" (rows are taken in its order)'
        )
    more = lives.conditions() if lives else []
    if not lives and times["r"] is not None and times["s"] is not None:
        more += within.conditions(column("r", times["r"]), column("s", times["s"]))
    untyped = junction("and", [as_tree(options.on), *more])
    read = lives.extended(schemas) if lives else schemas
    tree = resolve(untyped, read["r"], read["s"])
    check_size(tree)
    analysis = analyse(tree, _hints(tree, schema_r, schema_s))
    if endless and not window.bounded:
        window = _by_version(within, options.kind, analysis)
    whole = static and algorithm in (AUTO, SEQUENTIAL) and layout == "auto"
    found, reasons = _choose_access(analysis, options.access, algorithm, whole)
    chosen = _choose_workers(analysis, window, found, Wish(algorithm, workers, layout), options.rates)
    if serves := ALGORITHMS[chosen.algorithm].serves:
        serves(window, chosen.workers)
    if whole and algorithm == AUTO:
        chosen = _all_cores(workers)
    plan = Plan(
        schemas,
        times,
        unit,
        window,
        analysis,
        chosen.algorithm,
        found,
        options.suffixes,
        chosen.workers,
        chosen.layout,
        options.device,
        options.memory,
        _expected(window, options.rates),
        (*reasons, *chosen.reasons),
        may_change=options.access == AUTO and not whole,
        kind=typed(options.kind, schema_r, schema_s),
        lifetimes=lives,
    )
    columns(plan)  # refuses names that clash
    return plan


def _by_version(within: Asked, kind: Kind, analysis: Analysis) -> VersionWindow:
    """Streams without a window keep one version of s per key, which only equalities allow."""
    if not isinstance(within, Every):
        raise WindowError(f'{within!r} has no limit that is the same for all tuples; give one, as most="1 hour"')
    if kind.take.name != BACKWARD or not analysis.equalities:
        raise WindowError(
            'streams need a window, as within="15 minutes", or their tuples would be kept forever; without one only '
            'take="backward" with an equality, as in on="r.key = s.key", or two tables'
        )
    if analysis.residual or analysis.dimensions:
        raise WindowError(
            "streams without a window keep one version per key, so that their predicate may have equalities and "
            'conditions on one side only; give a window, as within="15 minutes", or filter the results by the others'
        )
    return VersionWindow()


def _hints(tree: Any, schema_r: pa.Schema, schema_s: pa.Schema) -> tuple[Any, ...]:
    """Conditions that a Python function needs to be true, as far as it can be traced and typed."""
    if tree.op != "function":
        return ()
    from streamjoin.predicate.function import trace

    hints = []
    for node in trace(tree.value):
        try:
            hints.append(resolve(node, schema_r, schema_s))
        except StreamjoinError:
            continue
    return tuple(hints)


def _choose_access(analysis: Analysis, wanted: str, algorithm: str, whole: bool) -> tuple[str, list[str]]:
    row = ALGORITHMS[SEQUENTIAL if algorithm == AUTO else algorithm]
    possible = [ACCESSES[name] for name in row.accesses]
    if wanted not in (AUTO, *row.accesses):
        raise PredicateError(
            f'access="{wanted}" does not go with algorithm="{algorithm}", which can search its windows by '
            f'{", ".join(row.accesses)}; choose one of these, or "auto"'
        )
    if wanted != AUTO:
        why_not = "" if whole and wanted == WHOLE else ACCESSES[wanted].why_not(analysis)
        if why_not:
            raise PredicateError(f'access="{wanted}" {why_not}')
        return wanted, [f'access="{wanted}" was asked for']
    if whole:
        return WHOLE, ["tables are known as a whole: a sample of their rows decides which columns they are sorted by"]
    for access in reversed(possible):
        if reason := access.reason(analysis):
            return access.name, [reason]
    hints = [access.hint for access in possible if access.hint and not access.why_not(analysis)]
    plain = row.scans or "neither equality nor band in the predicate: every pair in the window is compared"
    return possible[0].name, hints or [plain]


def _choose_workers(analysis: Analysis, window: Window, access: str, wish: Wish, rates: Rates) -> Choice:
    """Algorithm, workers and layout: as asked for, the rest by the model."""
    rate_r, rate_s = rates or (None, None)
    return choose(Task(access, window.retention, rate_r, rate_s, boxes=analysis.two_sided), usable_cores(), wish)


def _all_cores(workers: int | str) -> Choice:
    """Whole tables are cut into parts for all cores, or for the number of threads that was asked for."""
    if isinstance(workers, int):
        return Choice(SEQUENTIAL, workers, (1, 1), (f"workers={workers} was asked for",))
    return Choice(SEQUENTIAL, usable_cores(), (1, 1), ("a worker for every core; small tables are joined by one",))


def _expected(window: Window, rates: Rates) -> tuple[int, int]:
    """Tuples in the windows of r and s; 0 where it is not known."""
    retention = window.retention
    if retention is None or (rates is None and not retention.by_rows):
        return 0, 0
    load = load_of(*(rates or (0.0, 0.0)), retention)
    return math.ceil(load.window_r), math.ceil(load.window_s)
