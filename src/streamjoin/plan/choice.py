"""What "auto" chooses by the model: algorithm, workers and layout of a join, with reasons in numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from streamjoin.access import ACCESSES
from streamjoin.access.prices import BATCH, Costs, Price
from streamjoin.algorithms import ALGORITHMS, AUTO, INDEX, NAMES, PARALLEL, RECTANGULAR, SCAN, SEQUENTIAL, Algorithm
from streamjoin.errors import OptionError, shown, suggest
from streamjoin.plan.costs import calibrated
from streamjoin.plan.formulas import (
    Layout,
    Load,
    Retention,
    best_layout,
    busy,
    handshake_latency_bound,
    latency,
    load_of,
    node_of,
)

MAX_WORKERS = 1_000_000  # more than the cores of any machine

ENOUGH = 0.7  # the part of a core's time up to which one worker is enough
ROOMIER = 1.25  # a grid may have this many times the workers it needs, if they make a better rectangle


@dataclass(frozen=True)
class Task:
    """What is to be joined, as far as it is known. `boxes`: does a scan have any?"""

    access: str
    retention: Retention | None
    rate_r: float | None = None
    rate_s: float | None = None
    boxes: bool = True
    stripe: int = BATCH  # consecutive tuples that go to the same way


@dataclass(frozen=True)
class Wish:
    """What the user has fixed."""

    algorithm: str = AUTO
    workers: int | str = "auto"
    layout: Layout | str = "auto"


ANYTHING = Wish()


@dataclass(frozen=True)
class Choice:
    """How a join is spread over workers, and why. The layout is m x n of a grid, 1 x workers of anything else."""

    algorithm: str
    workers: int
    layout: Layout
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class _Option:
    algorithm: str
    layout: Layout
    busy: float
    latency: float

    @property
    def workers(self) -> int:
        return self.layout[0] * self.layout[1]

    def __str__(self) -> str:
        rows, columns = self.layout
        return ALGORITHMS[self.algorithm].shape.format(rows=rows, columns=columns, workers=self.workers)


@dataclass(frozen=True)
class _Case:
    """A task whose rates are known, on a number of cores."""

    task: Task
    load: Load
    costs: Costs
    cores: int

    @property
    def price(self) -> Price:
        return ACCESSES[self.task.access].price(self.costs, self.task.boxes)

    @property
    def scans(self) -> bool:
        return self.price.comparison > 0

    @property
    def alone(self) -> float:
        """The load of a single worker: seconds of work per second."""
        return busy(node_of(self.load, SEQUENTIAL, (1, 1)), self.price)

    def option(self, algorithm: str, layout: Layout) -> _Option:
        task, costs, node = self.task, self.costs, node_of(self.load, algorithm, layout)
        price = replace(self.price, probe=self.price.probe + costs.hop / BATCH)  # a message is taken, at least
        wait = latency(node, price, costs.hop, task.stripe)
        return _Option(algorithm, layout, busy(node, price), wait)

    def of(self, algorithm: str, workers: int) -> _Option:
        """An algorithm with a number of workers, in their best layout."""
        return self.option(
            algorithm, best_layout(self.load, workers) if ALGORITHMS[algorithm].rectangular else (1, workers)
        )

    def fitting(self, algorithm: str, fewest: int) -> _Option:
        """The optimal degree: the fewest workers that do not fall behind, but no more than there are cores.

        A grid takes a few more if they are nearer to a square, as the paper's figure 6 does: 8 or 9 instead of 7.
        """
        tried = (self.of(algorithm, n) for n in range(min(fewest, self.cores), self.cores + 1))
        best = next((option for option in tried if option.busy <= 1), None) or self.of(algorithm, self.cores)
        if ALGORITHMS[algorithm].rectangular:
            for n in range(best.workers + 1, min(self.cores, math.ceil(best.workers * ROOMIER)) + 1):
                wider = self.of(algorithm, n)
                if min(wider.layout) > min(best.layout) and wider.latency < best.latency:
                    best = wider
        return best


def choose(task: Task, cores: int, wish: Wish = ANYTHING, costs: Costs | None = None) -> Choice:
    """Decides what the user has left open, with reasons in numbers.

    One worker is enough if the rates are not known or one core carries the load easily. Otherwise the algorithms that
    "auto" may choose are compared: for scans by latency, for indexes by the load of the busiest worker. `costs` are
    the prices of this machine, which are measured if necessary.
    """
    _check(wish)
    algorithm, workers = wish.algorithm, wish.workers
    if isinstance(wish.layout, tuple):
        algorithm, workers = RECTANGULAR, wish.layout[0] * wish.layout[1]
    if algorithm == AUTO and workers == 1:
        algorithm = SEQUENTIAL
    if algorithm != AUTO and (alone := ALGORITHMS[algorithm].alone):
        why = "one worker was asked for" if workers == 1 and algorithm == SEQUENTIAL else alone[0]
        return Choice(algorithm, 1, (1, 1), (why,))
    if algorithm != AUTO and (row := ALGORITHMS[algorithm]).degree is not None:
        count, why = _by_windows(row, task.retention, workers)
        return Choice(algorithm, count, (1, count), (why,))
    load = _load(task)
    reasons: list[str] = []
    if load is None:
        chosen = _without_rates(task, algorithm, workers, wish.layout, cores, reasons)
    else:
        case = _Case(task, load, costs or calibrated(), cores)
        chosen = _with_rates(case, algorithm, workers, wish.layout, reasons)
    name, layout = chosen
    count = layout[0] * layout[1]
    if count > cores:
        reasons.append(f"{count} workers were asked for, {_cores(cores)}: they take turns")
    return Choice(name, count, layout, tuple(reasons))


def _by_windows(row: Algorithm, retention: Retention | None, workers: int | str) -> tuple[int, str]:
    """The workers of an algorithm whose number depends on the windows alone, and why."""
    count = workers if isinstance(workers, int) else 1
    if row.degree is not None and retention is not None and not isinstance(workers, int):
        count = row.degree(retention.r, retention.s)
    return count, f"{row.name}: {row.shape.format(rows=1, columns=count, workers=count)}"


def _with_rates(
    case: _Case, algorithm: str, workers: int | str, layout: Layout | str, reasons: list[str]
) -> tuple[str, Layout]:
    alone, free, demand = case.alone, algorithm == AUTO and workers == "auto", _demand(case)
    if free and alone <= ENOUGH:
        reasons.append(f"{demand}: one worker is {_percent(alone)} busy")
        return SEQUENTIAL, (1, 1)
    if free and alone <= 1:
        reasons.append(f"{demand}: one worker would be {_percent(alone)} busy, more than {_percent(ENOUGH)}")
    else:
        needed = max(1, math.ceil(alone))
        reasons.append(f"{demand}: {needed} worker{'s' * (needed > 1)} needed, {_cores(case.cores)}")
    if free and case.cores == 1:
        return SEQUENTIAL, (1, 1)
    if isinstance(layout, tuple):
        best = case.option(algorithm, layout)
    elif algorithm != AUTO:
        best = case.of(algorithm, workers) if isinstance(workers, int) else case.fitting(algorithm, 1)
    else:
        rivals = [
            case.of(name, workers) if isinstance(workers, int) else case.fitting(name, 2)
            for name in _candidates(case.scans)
        ]
        best = _compared(case, rivals, reasons)
    if ALGORITHMS[best.algorithm].pushed:
        bound = _seconds(handshake_latency_bound(_retention(case.load)))
        reasons.append(f"{best.algorithm} finds a result after up to {bound}")
    much = best.busy * max(1.0, best.workers / case.cores)
    if much > 1:
        timed = case.scans and case.task.retention is not None and not case.task.retention.by_rows
        share = math.sqrt(1 / much) if timed else 1 / much
        reasons.append(f"this sustains about {_percent(share)} of these rates: pushes will wait")
    return best.algorithm, best.layout


def _candidates(scans: bool) -> list[str]:
    """What "auto" may choose, if windows are scanned or have an index. Without rates, the first one."""
    return [row.name for row in ALGORITHMS.values() if (SCAN if scans else INDEX) in row.automatic]


def _compared(case: _Case, rivals: list[_Option], reasons: list[str]) -> _Option:
    """Scans: by latency. Indexes: the fewest workers, or the lowest load."""
    if case.scans:
        best, *others = sorted(rivals, key=lambda option: option.latency)
        reasons.append(
            f"{best.algorithm}: {best} finds a result after {_seconds(best.latency)} on average"
            + "".join(f", {other} after {_seconds(other.latency)}" for other in others)
            + ", at what they sustain" * (best.busy > 1)
        )
    else:
        best = min(rivals, key=lambda option: (option.busy > 1, option.workers, option.busy))
        does = [f"{one} {_indexes(case.load, one)}, {_percent(one.busy)}" for one in rivals]
        reasons.append(f"{best.algorithm}: its workers are {_percent(best.busy)} busy; {', '.join(does)}")
    bound = _seconds(handshake_latency_bound(_retention(case.load)))
    never = [f"{row.name} ({row.why_not.format(bound=bound)})" for row in reversed(ALGORITHMS.values()) if row.why_not]
    reasons.append(f"never by itself: {', '.join(never)}")
    return best


def _indexes(load: Load, option: _Option) -> str:
    """What an algorithm does with indexes."""
    row, held = ALGORITHMS[option.algorithm], load.window_r + load.window_s
    of_r, of_s = node_of(load, option.algorithm, option.layout).segments
    return row.indexes.format(entries=option.workers * (of_r + of_s) / held if held else 1.0)


def _without_rates(
    task: Task, algorithm: str, workers: int | str, layout: Layout | str, cores: int, reasons: list[str]
) -> tuple[str, Layout]:
    """All cores for an algorithm that the user named, otherwise one worker. A layout assumes equal streams."""
    timed = task.retention is not None
    why = "no rate given" if timed else "integer times have no unit"
    if algorithm == AUTO and workers == "auto":
        change = "rate= or workers=" if timed else "workers="
        reasons.append(f"{why}: one worker is assumed to be enough; {change} would change that")
        return SEQUENTIAL, (1, 1)
    if isinstance(layout, tuple):
        reasons.append(f"a layout of {layout[0]} x {layout[1]} was asked for")
        return algorithm, layout
    count = workers if isinstance(workers, int) else cores
    if algorithm == AUTO:
        algorithm = _candidates(not ACCESSES[task.access].indexed)[0]
        reasons.append(f"{why}: {algorithm}, which {ALGORITHMS[algorithm].divides} whatever they are")
    elif workers == "auto":
        reasons.append(f"{why}: a worker for every core, {_cores(cores)}")
    rows = task.retention if task.retention is not None and task.retention.by_rows else Retention(1, 1)
    equal = Load(1, 1, rows.r, rows.s)
    return algorithm, (best_layout(equal, count) if ALGORITHMS[algorithm].rectangular else (1, count))


def _check(wish: Wish) -> None:
    algorithm, workers, layout = wish.algorithm, wish.workers, wish.layout
    if algorithm not in NAMES:
        raise OptionError(f'unknown algorithm "{algorithm}"; {suggest(algorithm, NAMES)}')
    if workers != "auto" and not (isinstance(workers, int) and workers is not True and 1 <= workers <= MAX_WORKERS):
        raise OptionError(
            f'workers={shown(workers)} is not a number of at least 1 (at most {MAX_WORKERS:,}), nor "auto"'
        )
    alone = algorithm != AUTO and ALGORITHMS[algorithm].alone
    if alone and workers not in ("auto", 1):
        wrong = alone[1].format(workers=workers, parallel=", ".join(PARALLEL))
        raise OptionError(f'algorithm="{algorithm}" {wrong}')
    if layout == "auto":
        return
    if not (isinstance(layout, tuple) and len(layout) == 2) or not all(
        type(x) is int and 0 < x <= MAX_WORKERS for x in layout
    ):
        raise OptionError(f'layout={shown(layout)} is not (rows, columns), such as (2, 3), nor "auto"')
    if algorithm not in (AUTO, RECTANGULAR):
        raise OptionError(f'layout={layout!r} is for algorithm="{RECTANGULAR}", not "{algorithm}"')
    if workers not in ("auto", layout[0] * layout[1]):
        raise OptionError(
            f"layout={layout!r} has {layout[0] * layout[1]} workers, not {workers}; leave one of them out"
        )


def _load(task: Task) -> Load | None:
    for side, rate in (("r", task.rate_r), ("s", task.rate_s)):
        if rate is not None and not 0 <= rate < math.inf:
            raise OptionError(f"the rate of {side}, {rate}, is not a number of tuples per second")
    if task.retention is None or task.rate_r is None or task.rate_s is None:
        return None
    return load_of(task.rate_r, task.rate_s, task.retention)


def _retention(load: Load) -> Retention:
    """How long tuples stay, in seconds, also for windows of rows."""
    return Retention(
        load.window_r / load.rate_r if load.rate_r else 0.0, load.window_s / load.rate_s if load.rate_s else 0.0
    )


def _demand(case: _Case) -> str:
    """In words: the work that the streams demand, and what a core can do."""
    load, price = case.load, case.price
    if load.rate_r == load.rate_s and load.window_r == load.window_s:
        text = f"2 x {load.rate_r:,.0f} tuples/s against windows of {_amount(load.window_r)}"
    else:
        text = (
            f"{load.rate_r:,.0f} r/s against {_amount(load.window_s)} s, "
            f"{load.rate_s:,.0f} s/s against {_amount(load.window_r)} r"
        )
    if price.comparison:
        return f"{text}: {_amount(load.comparisons)} comparisons/s, one core does {_amount(1 / price.comparison)}"
    return f"{text} by {case.task.access}, {case.alone:.2f} s of work per second"


def _percent(share: float) -> str:
    return f"{share * 100:,.0f} %"


def _cores(cores: int) -> str:
    return f"{cores} core{'s are' if cores > 1 else ' is'} there"


def _amount(number: float) -> str:
    """A number, short, with a unit prefix.

    >>> [_amount(x) for x in (4_500_000, 45e9, 10_437_000_000, 812)]
    ['4.5 M', '45 G', '10.4 G', '812']
    """
    for size, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if number >= size:
            return f"{number / size:,.1f}".removesuffix(".0") + f" {unit}"
    return f"{number:,.0f}"


def _seconds(seconds: float) -> str:
    """A time in a fitting unit.

    >>> [_seconds(x) for x in (43_200, 450, 0.0021, 3.4e-7)]
    ['43,200 s', '450 s', '2.1 ms', '0.34 us']
    """
    size, unit = next((pair for pair in ((1.0, "s"), (1e-3, "ms")) if seconds >= pair[0]), (1e-6, "us"))
    count = seconds / size
    return f"{count:,.0f} {unit}" if count >= 100 else f"{count:.3g} {unit}"
