"""Progress on standard error: one block that is redrawn on a terminal, occasional lines elsewhere.

A join of files that takes less than a second says nothing where there is no terminal.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol, Self

from streamjoin.interrupts import Thread, await_end, start

if TYPE_CHECKING:
    from streamjoin.spark.pipeline.pipeline import Figures

EVERY = 5.0  # seconds between two lines if there is no terminal
RECENT = 10  # batches that rates are taken over
REMIND = 10.0  # seconds without a line after which what takes long is named again
SOON = 0.8  # seconds after which a stage of a join of files is named if there is no terminal
BETWEEN = 0.25  # seconds that a rate is taken over, at least
NAP = 0.1
LEVELS, PLAIN = "▁▂▃▄▅▆▇█", "_-=#"  # of a curve
SPARKS = 40  # points of a curve


class Stage(Protocol):
    """Begins a stage of the work, with a number of steps if known; returns a function that counts the steps done."""

    def __call__(self, text: str, steps: int | None = None) -> Callable[[int], None]: ...


@contextmanager
def progress(also: Callable[[str], None] = lambda text: None, quiet: bool = False) -> Iterator[Stage]:
    """Shows stages on a terminal, and names long ones elsewhere; `also` is called with each of them in any case.

    `quiet` says nothing where there is no terminal.
    """
    if not sys.stderr.isatty():
        with nullcontext() if quiet else _Patient("") as lines:

            def note(text: str, steps: int | None = None) -> Callable[[int], None]:
                also(text)
                if lines is not None:
                    lines.show(text, [])
                return lambda done: None

            yield note
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:

        def stage(text: str, steps: int | None = None) -> Callable[[int], None]:
            also(text)
            for earlier in bars.task_ids:
                bars.remove_task(earlier)
            task = bars.add_task(text, total=steps)
            return lambda done: bars.advance(task, done)

        yield stage


class Block:
    """One redrawn block on a terminal: title, stage, seconds so far, figures. Elsewhere occasional lines.

    A long stage is named at once, and again with the seconds so far while nothing else is printed.
    """

    _at_once = True

    def __init__(self, title: str) -> None:
        self._title = title
        self._lock = threading.Lock()  # a reminder of an earlier stage never follows the line of a later one
        self._stage, self._since = "", time.monotonic()
        self._rows: list[tuple[str, str]] = []
        self._rates: deque[float] = deque(maxlen=SPARKS)
        self._printed = 0.0
        self._named = True  # the stage, where there is no terminal
        self._over = threading.Event()
        self._screen: Any = None
        self._thread: Thread | None = None
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live as Screen

            console = Console(stderr=True)
            self._screen = Screen(console=console, refresh_per_second=4, transient=True, get_renderable=self._table)

    def __enter__(self) -> Self:
        if self._screen is not None:
            self._screen.start()
        else:
            self._thread = Thread(self._remind, "streamjoin-progress")
            start([self._thread])
        return self

    def __exit__(self, *failure: object) -> None:
        self._over.set()
        if self._screen is not None:
            self._screen.stop()
        if self._thread is not None:
            await_end([self._thread])

    def show(self, stage: str, rows: list[tuple[str, str]], rate: float | None = None) -> None:
        """The current stage, its figures, and a small curve of the rate."""
        with self._lock:
            new = stage != self._stage
            if new:
                self._stage, self._since, self._named = stage, time.monotonic(), self._at_once
            self._rows = rows
            if rate is not None:
                self._rates.append(rate)
            if self._screen is None and self._at_once and (new or time.monotonic() - self._printed >= EVERY):
                self._print(self._line())

    def say(self, text: str) -> None:
        """A line of its own, above the block where there is one."""
        if self._screen is not None:
            self._screen.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def _remind(self) -> None:
        """Prints the name of a long stage if there is no terminal."""
        while not self._over.wait(NAP):
            with self._lock:
                now, text = time.monotonic(), f"{self._stage}: {time.monotonic() - self._since:.0f} s so far"
                if not self._named and now - self._since >= SOON:
                    self._named = True
                    self._print(self._stage)
                elif self._named and self._stage and now - self._printed >= REMIND:
                    self._print(text)

    def _print(self, text: str) -> None:
        self._printed = time.monotonic()
        print(text, file=sys.stderr, flush=True)

    def _line(self) -> str:
        return ": ".join(
            [self._stage, *(["   ".join(f"{name} {value}" for name, value in self._rows)] if self._rows else [])]
        )

    def _table(self) -> Any:
        from rich.spinner import Spinner
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        head = Text.assemble((self._title, "bold"), f"  {self._stage}  {time.monotonic() - self._since:.0f} s")
        table.add_row(Spinner("dots"), head)
        for name, value in self._rows:
            table.add_row("", Text(f"{name:<14} {value}", no_wrap=True, overflow="ellipsis"))
        if self._rows and len(self._rates) > 1:
            table.add_row("", Text(f"{'rate':<14} {sparkline(self._rates)}", no_wrap=True, overflow="crop"))
        return table


class _Patient(Block):
    """Names a stage only if it takes long."""

    _at_once = False


class Live(Block):
    """Of a pipeline: called with the stage and the figures so far, from the listener's thread and from the main one."""

    def __init__(
        self, title: str, tuples: int | None = None, also: Callable[[str, Figures], None] = lambda stage, figures: None
    ) -> None:
        super().__init__(title)
        self.tuples, self._also = tuples, also
        self._recent: deque[dict[str, Any]] = deque(maxlen=RECENT)
        self._warned = 0

    def __call__(self, stage: str, figures: Figures) -> None:
        latest, rate = figures.latest, None
        if latest and (not self._recent or self._recent[-1] is not latest):
            self._recent.append(latest)
            rate = 1_000 * (latest.get("rows_in") or 0) / (latest.get("batch_ms") or 1)
        self._also(stage, figures)
        while self._warned < len(figures.warnings):
            self._warned += 1
            self.say(f"streamjoin: {figures.warnings[self._warned - 1]}")
        self.show(stage, self.rows(figures) if latest else [], rate)

    def rows(self, figures: Figures) -> list[tuple[str, str]]:
        """What is shown: names and values."""
        latest, spent = figures.latest, sum(batch.get("batch_ms") or 0 for batch in self._recent) / 1_000
        taken, found = (sum(batch.get(name) or 0 for batch in self._recent) for name in ("rows_in", "results"))
        done = f" of {self.tuples:,}" if self.tuples else ""
        return [
            ("rows", f"{figures.rows_in:,}{done}"),
            ("rows/s", f"{taken / spent:,.0f}" if spent else "-"),
            ("results", f"{figures.results:,}"),
            ("results/s", f"{found / spent:,.0f}" if spent else "-"),
            ("watermark", str(latest.get("watermark") or "-")),
            ("state", f"{latest.get('state_rows') or 0:,} rows, {_bytes(latest.get('state_bytes') or 0)}"),
            ("late rows", f"{figures.late:,}"),
            *([("malformed rows", f"{figures.malformed:,}")] if figures.malformed else []),
            ("batch", f"{latest.get('batch', '-')} in {(latest.get('batch_ms') or 0) / 1_000:.2f} s"),
        ]


class LiveJoin(Block):
    """Of a join in this process: called with the stage, how far it is, and the join's figures."""

    def __init__(self, title: str, also: Callable[[str], None] = lambda stage: None) -> None:
        super().__init__(title)
        self._also = also
        self._before: dict[str, Any] = {"seconds": 0.0, "results": 0, "comparisons": 0, "pushed": 0}
        self._recent: dict[str, float] = {}

    def __call__(self, stage: str, done: float, stats: dict[str, Any] | None = None) -> None:
        self._also(stage)
        if stats is None:
            self.show(stage, [])
            return
        r, s, now = stats["r"], stats["s"], stats | {"pushed": stats["r"]["pushed"]}
        new = now["seconds"] - self._before["seconds"] >= BETWEEN or not self._recent
        if new:
            seconds = max(now["seconds"] - self._before["seconds"], 1e-9)
            self._recent = {name: (now[name] - value) / seconds for name, value in self._before.items()}
            self._before = {name: now[name] for name in self._before}
        rate = self._recent["pushed"]
        rows = [
            ("done", f"{done:.0%}"),
            ("tuples/s", f"{rate:,.0f} per stream"),
            ("comparisons/s", f"{self._recent['comparisons'] / 1e6:,.1f} M"),
            ("results", f"{stats['results']:,}, {self._recent['results']:,.0f} per second"),
            ("windows", f"{r['window']:,} | {s['window']:,}"),
            ("state", _bytes(sum(side["store_bytes"] + side["payload_bytes"] for side in (r, s)))),
            ("watermarks", f"{_moment(r['watermark'])} | {_moment(s['watermark'])}"),
            ("late", f"{r['late'] + s['late']:,}"),
        ]
        self.show(stage, rows, rate if new else None)


def sparkline(values: Iterable[float], encoding: str = "utf-8") -> str:
    """A curve in a line of text, in letters that an encoding has.

    >>> sparkline([0, 1, 2, 4]), sparkline([0, 1, 2, 4], "ascii")
    ('▁▃▅█', '_-=#')
    """
    known = list(values)
    most = max(known, default=0.0) or 1.0
    try:
        LEVELS.encode(encoding)
        levels = LEVELS
    except (UnicodeEncodeError, LookupError):
        levels = PLAIN
    return "".join(levels[round(value / most * (len(levels) - 1))] for value in known)


def _moment(microseconds: int | None) -> str:
    """A time of the papers' streams, which begin at midnight.

    >>> _moment(15_624_750), _moment(None)
    ('00:00:15.624', '-')
    """
    if microseconds is None:
        return "-"
    seconds, rest = divmod(microseconds // 1000, 1000)
    return f"{time.strftime('%H:%M:%S', time.gmtime(seconds))}.{rest:03}"


def _bytes(count: int) -> str:
    """A readable size.

    >>> _bytes(1536), _bytes(12)
    ('1.5 KiB', '12 B')
    """
    size, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
