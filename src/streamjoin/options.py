"""Every option of a join: declared, documented, defaulted and checked here, once.

`streamjoin.join`, `Join`, `explain` and `streamjoin.spark.join` take them as keywords; the command line and pipelines
pass them on. An option names the engines that have it, and what another one offers instead.
"""

from __future__ import annotations

# ruff: noqa: RUF009  `option` and `required` make fields
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from streamjoin.access import ACCESSES
from streamjoin.algorithms import ALGORITHMS, AUTO, DEVICE, NAMES
from streamjoin.errors import OptionError, UnsupportedError, cut, shown, suggest

if TYPE_CHECKING:
    import pyarrow as pa

P = ParamSpec("P")
O = TypeVar("O", bound="Options")  # noqa: E741
T = TypeVar("T")

ACCESS_NAMES = (AUTO, *ACCESSES)
MEMORY = ("auto", "host", "device", "parts")
LATE = ("drop", "error", "keep")
OVERLOAD = ("block", "shed")
LONGEST_BATCH = 1 << 16
MAX_RATE = 1e15  # tuples per second

# Engines, as an error names them.
ENGINES = TABLES, LIVE, SPARK = "tables", "live streams", "Spark DataFrames"


def required(doc: str) -> Any:
    """An option that every join needs."""
    return field(metadata={"doc": doc, "engines": ENGINES, "elsewhere": "", "values": (), "former": ""})


def option(
    default: Any, doc: str, *engines: str, elsewhere: str = "", values: Iterable[str] = (), former: str = ""
) -> Any:
    """An option of some engines, or of all. `elsewhere` is what the others offer, `former` a name it had."""
    metadata = {
        "doc": doc,
        "engines": engines or ENGINES,
        "elsewhere": elsewhere,
        "values": tuple(values),
        "former": former,
    }
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a join is asked to do."""

    on: Any = required("the predicate: SQL text, an expression of sj.r and sj.s, or a function of two tuples")
    within: Any = required('the window: "15 minutes", an integer, interval(), last() or tumbling()')
    time: str | tuple[str, str] | None = option(None, "the time column, or one of each side")
    how: str = option("inner", 'the pairs; only "inner" is supported')
    algorithm: str = option(
        "auto",
        "who meets whom: " + ", ".join(f'"{name}"' for name in NAMES),
        TABLES,
        LIVE,
        elsewhere="its cells divide the work; cells= sets their number",
    )
    workers: int | str = option(
        "auto",
        "threads of a parallel algorithm",
        TABLES,
        LIVE,
        elsewhere="cells= sets how far the work is divided",
    )
    layout: tuple[int, int] | str = option(
        "auto", "(rows, columns) of a grid", TABLES, LIVE, elsewhere="cells= and split= shape the routing"
    )
    device: int | str | None = option(
        None,
        'of hells: an index (`streamjoin doctor` lists them), a type such as "gpu", or a part of its name',
        TABLES,
        LIVE,
        elsewhere="its cells run on the executors' cores",
    )
    memory: str = option(
        "auto",
        'of hells: where windows lie, "host", "device" or "parts"; "auto" decides by the device',
        TABLES,
        LIVE,
        elsewhere="its state lies in Spark's state store",
        values=MEMORY,
    )
    access: str = option("auto", "how windows are searched: " + ", ".join(f'"{name}"' for name in ACCESS_NAMES))
    ordered: bool = option(
        False,
        "results by time, which is the later one of the pair's two",
        TABLES,
        LIVE,
        elsewhere="use orderBy on tables; a stream has no order",
    )
    suffixes: tuple[str, str] | None = option(
        ("_r", "_s"), "for column names that both sides have; None makes them an error"
    )
    stats: dict[str, Any] | None = option(
        None,
        "a dict to be filled with what was done",
        TABLES,
        elsewhere="see the observed metrics in lastProgress, or streamjoin.spark.metrics.JoinListener",
    )
    rate: float | tuple[float, float] | None = option(
        None,
        "expected tuples per second of each stream, or (r, s): what is decided by",
        LIVE,
        SPARK,
        elsewhere="the rows of tables come as fast as they are read",
        former="expected_rate",
    )
    batch: int = option(64, "most tuples that travel together between workers", LIVE)
    overload: str = option(
        "block",
        '"block": a push waits while the workers are behind; "shed": what does not fit is dropped and counted',
        LIVE,
        values=OVERLOAD,
    )
    pin: bool = option(False, "keeps every worker on a core of its own, along the machine's topology", LIVE)
    max_delay: Any = option(0, "by how much a tuple may be late", LIVE, elsewhere="withWatermark() says it there")
    late: str = option(
        "drop", 'what becomes of later ones: "drop" (and count), "error", or "keep" for late()', LIVE, values=LATE
    )
    punctuations: bool = option(False, "puts promises of time between the results", LIVE)
    cells: int | None = option(None, "into how many parts the work is cut", SPARK, elsewhere="workers= divides it here")
    split: int | None = option(None, "into how many cells a single key or bucket is cut", SPARK)
    bucket: float | None = option(None, "the width of a range bucket on the first band", SPARK)
    result_time: str | None = option(
        None, "the name of an extra column, max(r.time, s.time), which carries the watermark further", SPARK
    )

    def __post_init__(self) -> None:
        if self.how != "inner":
            raise UnsupportedError(f'how={shown(self.how)} is not supported; only how="inner" is')
        for name, known in (("algorithm", NAMES), ("access", ACCESS_NAMES)):
            value = getattr(self, name)
            if value not in known:
                word = cut(value) if isinstance(value, str) else shown(value)
                raise OptionError(f'unknown {name} "{word}"; known: {", ".join(known)}')
        for name, declared in DECLARED.items():
            value, values = getattr(self, name), declared.metadata["values"]
            if values and value not in values:
                raise OptionError(f"{name}={shown(value)} is not one of {', '.join(values)}")
        for name in ("device", "memory"):
            if self.is_set(name) and (self.algorithm not in ALGORITHMS or ALGORITHMS[self.algorithm].engine != DEVICE):
                raise OptionError(
                    f'{name}={shown(getattr(self, name))} is for algorithm="hells", not "{self.algorithm}"'
                )
        if not _is_whole(self.batch) or not 1 <= self.batch <= LONGEST_BATCH:
            raise OptionError(f"batch={shown(self.batch)} must be a whole number of tuples from 1 to {LONGEST_BATCH:,}")
        if self.cells is not None and (not _is_whole(self.cells) or self.cells < 1):
            raise OptionError(f"cells={shown(self.cells)} must be a whole number of at least 1")
        for name in ("split", "bucket"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise OptionError(f"{name}={shown(value)} must be above zero")
        self.rates  # noqa: B018  refuses what is no rate

    def is_set(self, name: str) -> bool:
        """Is an option not at its default?"""
        default = DECLARED[name].default
        return default is not MISSING and getattr(self, name) != default

    @property
    def rates(self) -> tuple[float, float] | None:
        """The expected tuples per second of r and of s."""
        if self.rate is None:
            return None
        both = self.rate if isinstance(self.rate, (tuple, list)) else (self.rate, self.rate)
        if len(both) != 2 or not all(isinstance(x, (int, float)) and 0 < x < MAX_RATE for x in both):
            raise OptionError(
                f"rate={shown(self.rate)} must be the expected tuples per second: a number above 0 and below "
                f"{MAX_RATE:g}, or one per side"
            )
        return float(both[0]), float(both[1])

    def for_engine(self, engine: str) -> Options:
        """These options, if the engine has all that are set; else an error that says what it offers instead."""
        for name, declared in DECLARED.items():
            engines = declared.metadata["engines"]
            if engine not in engines and self.is_set(name):
                instead = declared.metadata["elsewhere"] or f"it is for {' and '.join(engines)}"
                raise OptionError(f"{name}={shown(getattr(self, name))} is not for {engine}; {instead}")
        return self


DECLARED: dict[str, Field[Any]] = {declared.name: declared for declared in fields(Options)}
FORMER = {declared.metadata["former"]: name for name, declared in DECLARED.items() if declared.metadata["former"]}


@dataclass(frozen=True, kw_only=True)
class LiveOptions(Options):
    """What a join of live streams is asked to do."""

    r: pa.Schema
    s: pa.Schema


def takes(
    declared: Callable[P, O],
) -> Callable[[Callable[[Any, Any, O], T]], Callable[Concatenate[Any, Any, P], T]]:
    """Gives a function of two tables the options as keywords: for callers, for type checkers and for help()."""

    def decorate(function: Callable[[Any, Any, O], T]) -> Callable[Concatenate[Any, Any, P], T]:
        return _taking(function, declared, 2)

    return decorate


def constructed(
    declared: Callable[P, O],
) -> Callable[[Callable[[Any, O], None]], Callable[Concatenate[Any, P], None]]:
    """The same for a constructor."""

    def decorate(function: Callable[[Any, O], None]) -> Callable[Concatenate[Any, P], None]:
        return _taking(function, declared, 1)

    return decorate


def _taking(function: Callable[..., Any], declared: Callable[..., Any], positional: int) -> Callable[..., Any]:
    """Calls a function whose last parameter is an Options with its words instead."""
    first = list(inspect.signature(function).parameters.values())[:positional]
    own = inspect.signature(declared).parameters.values()
    signature = inspect.Signature([*first, *own])
    known = [*(parameter.name for parameter in first), *(parameter.name for parameter in own)]

    @functools.wraps(function)
    def call(*arguments: Any, **words: Any) -> Any:
        for name, now in FORMER.items():
            if name in words:
                words[now] = words.pop(name)
        for name in words:
            if name not in known:
                raise TypeError(f"{function.__name__}() has no option {name}; {suggest(name, known)}")
        found = signature.bind(*arguments, **words).arguments
        return function(*(found.pop(parameter.name) for parameter in first), declared(**found))

    call.__signature__ = signature  # type: ignore[attr-defined]
    call.__doc__ = inspect.cleandoc(function.__doc__ or "").replace("{options}", described())
    return call


def described() -> str:
    """What every option means and which joins have it, for docstrings."""
    lines = []
    for name, declared in DECLARED.items():
        engines = declared.metadata["engines"]
        where = "" if len(engines) == len(ENGINES) else f" ({', '.join(engines)})"
        text = textwrap.wrap(declared.metadata["doc"] + where, 94)
        lines += [f"{name if k == 0 else '':<14}{line}" for k, line in enumerate(text)]
    return "\n".join(lines)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
