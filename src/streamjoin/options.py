"""Every option of a join: declared, documented, defaulted and checked here, once.

`streamjoin.join`, `Join`, `explain` and `streamjoin.spark.join` take them as keywords; the command line and pipelines
pass them on. An option names the engines that have it, and what another one offers instead.
"""

from __future__ import annotations

# ruff: noqa: RUF009  `option` makes fields
from collections.abc import Iterable
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from streamjoin import words
from streamjoin.access import ACCESSES
from streamjoin.algorithms import ALGORITHMS, AUTO, DEVICE, NAMES
from streamjoin.errors import OptionError, SchemaError, StreamjoinError, cut, either, shown
from streamjoin.kinds import ALL, CHOSEN, FUNCTIONS, HOWS, INNER, TAKES, Kind, kind_of
from streamjoin.windows import KINDS, SPELLINGS, spelled
from streamjoin.words import ENGINE, ON_SPARK, RESULT, WINDOW, Word

if TYPE_CHECKING:
    import pyarrow as pa

ON_DEVICES = [name for name, row in ALGORITHMS.items() if row.engine == DEVICE]
MEMORY = (AUTO, "host", "device", "parts")
LATE = ("drop", "error", "keep")
OVERLOAD = ("block", "shed")
LONGEST_BATCH = 1 << 16

# Engines, as an error names them.
ENGINES = TABLES, LIVE, SPARK = "tables", "live streams", "Spark DataFrames"


def option(default: Any, doc: str, *engines: str, **more: Any) -> Any:
    """An option of some engines, or of all; `_metadata` has what else is known of it."""
    return field(default=default, metadata=_metadata(doc, *engines, **more))


def _metadata(
    doc: str,
    *engines: str,
    takes: str = "",
    values: Iterable[str] = (),
    elsewhere: str = "",
    former: str = "",
    word: Word | None = None,
) -> dict[str, Any]:
    """What is known of an option.

    doc         what it means
    engines     which of them have it; none stands for all
    takes       what its value may be, or `values`, which are all that it may be
    elsewhere   what the other engines offer instead
    former      a name that it had
    word        how the command line has it, if it does
    """
    return {
        "doc": doc,
        "engines": engines or ENGINES,
        "takes": takes,
        "values": tuple(values),
        "elsewhere": elsewhere,
        "former": former,
        "word": word,
    }


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a join is asked to do."""

    on: Any = field(  # without a default, and by this very name: type checkers then know that it is required
        metadata=_metadata(
            "the predicate",
            takes="SQL text, an expression of sj.r and sj.s, or a function of two tuples",
            word=Word(WINDOW, 'SQL, as "r.x BETWEEN s.a - 10 AND s.a + 10"'),
        )
    )
    within: Any = option(
        None,
        "the window; tables may do without one",
        takes=f'"15 minutes", an integer, {either(f"{name}()" for name in KINDS)}',
        word=Word(WINDOW, SPELLINGS, f"a window; write {SPELLINGS}", spelled),
    )
    time: Any = option(
        None, "the time column, or one of each side; or since when and until when tuples are valid, as sj.valid()"
    )
    how: str = option(
        INNER.name,
        "the join type: which rows without a partner come out, or whether r comes out alone",
        takes=either(f'"{name}"' for name in HOWS),
        word=Word(RESULT, either(HOWS)),
    )
    take: Any = option(
        ALL,
        "which of an r's partners: every one, the latest one before it, the earliest one after it, the nearest one, or "
        "the k with the smallest or greatest value of an expression",
        takes=either([*(f'"{name}"' for name in TAKES), *(f"sj.{name}(e, k=1)" for name in CHOSEN)]),
        word=Word(RESULT, f'{", ".join(TAKES)}, "min_by(abs(r.x - s.y), 3)"'),
    )
    aggregate: Any = option(
        None,
        "one row per r, with functions of all its partners",
        takes=f'{{"n": "count(*)", "bid": "avg(s.bid)"}}, of {either(FUNCTIONS)}',
        word=Word(RESULT, f'"count(*) AS n, avg(s.bid) AS bid", of {either(FUNCTIONS)}'),
    )
    select: Any = option(
        None,
        "what the result has",
        takes='"r.id, r.price - s.bid AS spread", a list of such or of expressions, or a dict by name',
        word=Word(RESULT, '"r.id, s.*, r.price - s.bid AS spread"'),
    )
    algorithm: str = option(
        AUTO,
        "who meets whom",
        TABLES,
        LIVE,
        values=NAMES,
        elsewhere="its cells divide the work; cells= sets their number",
        word=Word(ENGINE),
    )
    workers: int | str = option(
        AUTO,
        "threads of a parallel algorithm",
        TABLES,
        LIVE,
        elsewhere="cells= sets how far the work is divided",
        word=Word(ENGINE, what=f'a number of at least 1, nor "{AUTO}"', read=words.count_or_auto, metavar=f"N|{AUTO}"),
    )
    layout: tuple[int, int] | str = option(
        AUTO,
        "rows and columns of a grid",
        TABLES,
        LIVE,
        takes="(2, 3) for six workers",
        elsewhere="cells= and split= shape the routing",
        word=Word(
            ENGINE,
            "2x3 for six workers",
            f'rows x columns of a grid, such as 2x3, nor "{AUTO}"',
            words.layout,
            f"MxN|{AUTO}",
        ),
    )
    device: int | str | None = option(
        None,
        f"the device of {either(ON_DEVICES)}",
        TABLES,
        LIVE,
        takes='an index (`streamjoin doctor` lists them), a type such as "gpu", or a part of its name',
        elsewhere="its cells run on the executors' cores",
        word=Word(ENGINE, read=words.device),
    )
    memory: str = option(
        AUTO,
        f'where windows of {either(ON_DEVICES)} lie ("{AUTO}" decides by the device)',
        TABLES,
        LIVE,
        values=MEMORY,
        elsewhere="its state lies in Spark's state store",
        word=Word(ENGINE),
    )
    access: str = option(AUTO, "how windows are searched", values=(AUTO, *ACCESSES), word=Word(ENGINE))
    ordered: bool = option(
        False,
        "results by time, which is the later one of the pair's two",
        TABLES,
        LIVE,
        elsewhere="use orderBy on tables; a stream has no order",
        word=Word(RESULT),
    )
    suffixes: tuple[str, str] | None = option(
        ("_r", "_s"),
        "for column names that both sides have",
        takes="two of them, or None, which makes such names an error",
        word=Word(
            RESULT,
            'two with a comma, or "none", which makes such names an error',
            'two suffixes and a comma, nor "none"',
            words.suffixes,
            "R,S|none",
        ),
    )
    stats: dict[str, Any] | None = option(
        None,
        "a dict to be filled with what was done",
        TABLES,
        elsewhere="see the observed metrics in lastProgress, or streamjoin.spark.metrics.JoinListener",
    )
    analyze: bool = option(
        False,
        "explain() runs the join, and shows what it measured beside what it expected",
        TABLES,
        elsewhere="a live join tells it by stats(), a query of Spark by lastProgress",
    )
    rate: float | tuple[float, float] | None = option(
        None,
        "expected tuples per second of each stream, by which the work is divided",
        LIVE,
        SPARK,
        takes="a number, or (r, s)",
        elsewhere="the rows of tables come as fast as they are read",
        former="expected_rate",
        word=Word(
            ENGINE,
            "5000 or 1000,3000; without Spark only with --explain, for live streams",
            "tuples per second, such as 5000, or 1000,3000 for left and right",
            words.rates,
            "N|R,S",
        ),
    )
    batch: int = option(64, "most tuples that travel together between workers", LIVE)
    overload: str = option(
        "block",
        "what a push does while the workers are behind",
        LIVE,
        takes='"block" (it waits) or "shed" (what does not fit is dropped and counted)',
        values=OVERLOAD,
    )
    pin: bool = option(False, "keeps every worker on a core of its own, along the machine's topology", LIVE)
    max_delay: Any = option(0, "by how much a tuple may be late", LIVE, elsewhere="withWatermark() says it there")
    late: str = option(
        "drop",
        "what becomes of later ones",
        LIVE,
        takes='"drop" (and count), "error", or "keep" for late()',
        values=LATE,
    )
    punctuations: bool = option(False, "puts promises of time between the results", LIVE)
    cells: int | None = option(
        None,
        "into how many parts the work is cut; fixed by a stream's first start",
        SPARK,
        elsewhere="workers= divides it here",
        word=Word(ON_SPARK, what="a number of at least 1", read=words.count, metavar="N"),
    )
    split: int | None = option(
        None, "into how many cells a single key or bucket is cut, so that a hot one is not left to one core", SPARK
    )
    bucket: float | None = option(
        None, "the width of a range bucket on the first band; by default four times that of the band", SPARK
    )
    result_time: str | None = option(
        None, "the name of an extra column, max(r.time, s.time), which carries the watermark further", SPARK
    )

    def __post_init__(self) -> None:
        self.kind  # noqa: B018  refuses what does not go together
        for name, declared in DECLARED.items():
            value, values = getattr(self, name), declared.metadata["values"]
            if values and value not in values:
                if name in ("algorithm", "access"):
                    word = cut(value) if isinstance(value, str) else shown(value)
                    raise OptionError(f'unknown {name} "{word}"; known: {", ".join(values)}')
                raise OptionError(f"{name}={shown(value)} is not one of {', '.join(values)}")
        for name in ("device", "memory"):
            if self.is_set(name) and self.algorithm not in ON_DEVICES:
                known = either(f'algorithm="{algorithm}"' for algorithm in ON_DEVICES)
                raise OptionError(f'{name}={shown(getattr(self, name))} is for {known}, not "{self.algorithm}"')
        if not _is_whole(self.batch) or not 1 <= self.batch <= LONGEST_BATCH:
            raise OptionError(f"batch={shown(self.batch)} must be a whole number of tuples from 1 to {LONGEST_BATCH:,}")
        if self.cells is not None and (not _is_whole(self.cells) or self.cells < 1):
            raise OptionError(f"cells={shown(self.cells)} must be a whole number of at least 1")
        for name in ("split", "bucket"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise OptionError(f"{name}={shown(value)} must be above zero")
        if self.suffixes is not None and not _are_suffixes(self.suffixes):
            raise SchemaError(
                f'suffixes={shown(self.suffixes)} must be two different strings, as ("_r", "_s"), or None'
            )
        self.rates, self.times  # noqa: B018  refuses what is no rate, and what names no columns

    def is_set(self, name: str) -> bool:
        """Is an option not at its default?"""
        default = DECLARED[name].default
        return default is not MISSING and getattr(self, name) != default

    @cached_property
    def kind(self) -> Kind:
        """What the join hands out."""
        return kind_of(self.how, self.take, self.aggregate, self.select)

    @property
    def times(self) -> tuple[Any, Any] | None:
        """The time columns of r and of s; of tuples that are valid for a while, what `sj.valid` has made."""
        if self.time is None:
            return None
        both = self.time if isinstance(self.time, (tuple, list)) else (self.time, self.time)
        if not _are_names([name.since if _is_valid(name) else name for name in both]):
            raise SchemaError(
                f'time={shown(self.time)} must name one column, time="ts", or one of each side, time=("r_ts", "s_ts"); '
                'a side may have sj.valid("from", "to") instead'
            )
        return both[0], both[1]

    @property
    def valid(self) -> bool:
        """Are tuples of a side valid for a while?"""
        return any(map(_is_valid, self.times or ()))

    @property
    def rates(self) -> tuple[float, float] | None:
        """The expected tuples per second of r and of s."""
        if self.rate is None:
            return None
        both = self.rate if isinstance(self.rate, (tuple, list)) else (self.rate, self.rate)
        if not words.are_rates(both):
            raise OptionError(
                f"rate={shown(self.rate)} must be the expected tuples per second: a number above 0 and below "
                f"{words.MAX_RATE:g}, or one per side"
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
WORDS: dict[str, Word] = {name: known.metadata["word"] for name, known in DECLARED.items() if known.metadata["word"]}
FORMER = {declared.metadata["former"]: name for name, declared in DECLARED.items() if declared.metadata["former"]}


@dataclass(frozen=True, kw_only=True)
class LiveOptions(Options):
    """What a join of live streams is asked to do."""

    r: pa.Schema
    s: pa.Schema


def from_text(name: str, text: str) -> Any:
    """The value of an option that is written as a word of the command line.

    >>> from_text("workers", "4"), from_text("layout", "2x3"), from_text("rate", "1000,3000")
    (4, (2, 3), (1000.0, 3000.0))
    """
    word = WORDS[name]
    try:
        return word.read(text)
    except StreamjoinError:
        raise
    except ValueError:
        raise OptionError(f'--{name} "{cut(text)}" is not {word.what}') from None


def _are_names(both: Any) -> bool:
    return isinstance(both, (tuple, list)) and len(both) == 2 and all(isinstance(name, str) for name in both)


def _is_valid(name: Any) -> bool:
    return hasattr(name, "since")


def _are_suffixes(both: Any) -> bool:
    return _are_names(both) and both[0] != both[1]


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
