"""Progress on standard error: of files, where a person is looking at it; of a pipeline, everywhere.

A pipeline shows a table that changes on a terminal, and a line now and then elsewhere.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from streamjoin.spark.pipeline.pipeline import Figures

EVERY = 5.0  # seconds between two lines where nobody watches
RECENT = 10  # batches that rates are taken over


class Stage(Protocol):
    """Begins a stage of the work, of so many steps if known; what it returns counts the steps done."""

    def __call__(self, text: str, steps: int | None = None) -> Callable[[int], None]: ...


@contextmanager
def progress(also: Callable[[str], None] = lambda text: None) -> Iterator[Stage]:
    """Shows stages on a terminal; `also` is told each of them everywhere."""
    if not sys.stderr.isatty():

        def note(text: str, steps: int | None = None) -> Callable[[int], None]:
            also(text)
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


class Live:
    """Called with the stage and the figures so far; from the listener's thread as well as from the main one."""

    def __init__(
        self,
        title: str,
        tuples: int | None = None,
        also: Callable[[str, Figures], None] = lambda stage, figures: None,
    ) -> None:
        self._title, self._tuples, self._also = title, tuples, also
        self._stage = ""
        self._recent: deque[dict[str, Any]] = deque(maxlen=RECENT)
        self._printed = 0.0
        self._warned = 0
        self._screen: Any = None
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live as Screen

            self._screen = Screen(console=Console(stderr=True), refresh_per_second=4, transient=True)

    def __enter__(self) -> Live:
        if self._screen is not None:
            self._screen.start()
        return self

    def __exit__(self, *failure: object) -> None:
        if self._screen is not None:
            self._screen.stop()

    def __call__(self, stage: str, figures: Figures) -> None:
        if figures.latest and (not self._recent or self._recent[-1] is not figures.latest):
            self._recent.append(figures.latest)
        self._also(stage, figures)
        self._warn(figures.warnings)
        new, self._stage = stage != self._stage, stage
        if self._screen is not None:
            self._screen.update(self._table(figures))
        elif new or time.monotonic() - self._printed >= EVERY:
            self._printed = time.monotonic()
            print(self._line(figures), file=sys.stderr, flush=True)

    def rows(self, figures: Figures) -> list[tuple[str, str]]:
        """What is shown: names and values."""
        latest, spent = figures.latest, sum(batch.get("batch_ms") or 0 for batch in self._recent) / 1_000
        taken, found = (sum(batch.get(name) or 0 for batch in self._recent) for name in ("rows_in", "results"))
        done = f" of {self._tuples:,}" if self._tuples else ""
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

    def _warn(self, warnings: list[str]) -> None:
        """Each warning once, above the table where there is one."""
        while self._warned < len(warnings):
            self._warned += 1
            text = f"streamjoin: {warnings[self._warned - 1]}"
            if self._screen is not None:
                self._screen.console.print(text, markup=False, highlight=False)
            else:
                print(text, file=sys.stderr, flush=True)

    def _line(self, figures: Figures) -> str:
        if not figures.latest:
            return self._stage
        return f"{self._stage}: " + "   ".join(f"{name} {value}" for name, value in self.rows(figures))

    def _table(self, figures: Figures) -> Any:
        from rich.spinner import Spinner
        from rich.table import Table

        table = Table.grid(padding=(0, 2))
        table.add_row(Spinner("dots"), f"[bold]{self._title}[/bold]  {self._stage}")
        for name, value in self.rows(figures) if figures.latest else ():
            table.add_row("", f"{name:<14} {value}")
        return table


def _bytes(count: int) -> str:
    """A size for people.

    >>> _bytes(1536), _bytes(12)
    ('1.5 KiB', '12 B')
    """
    size, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
