"""Progress on standard error, where a person is looking at it, and nothing where nobody is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol


class Stage(Protocol):
    """Begins a stage of the work, of so many steps if known; what it returns counts the steps done."""

    def __call__(self, text: str, steps: int | None = None) -> Callable[[int], None]: ...


@contextmanager
def progress() -> Iterator[Stage]:
    if not sys.stderr.isatty():
        yield lambda text, steps=None: lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:

        def stage(text: str, steps: int | None = None) -> Callable[[int], None]:
            for earlier in bars.task_ids:
                bars.remove_task(earlier)
            task = bars.add_task(text, total=steps)
            return lambda done: bars.advance(task, done)

        yield stage
