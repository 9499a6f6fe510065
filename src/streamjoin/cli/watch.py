"""`--watch` and `--record` of commands, and `streamjoin watch`, which shows a recording."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamjoin.errors import FileError
from streamjoin.words import RESULT

if TYPE_CHECKING:
    from streamjoin.monitor.run import Run

ANYWHERE = "127.0.0.1:0"  # what a bare --watch means: a free port of this machine
_ADDRESS = re.compile(r"\d+|localhost|.*[:.].*")

Address = Annotated[
    str | None,
    typer.Option(
        "--watch",
        metavar="[HOST:PORT]",
        help="Serve a live page of the run. Without an address: on a free port, for this machine only.",
        rich_help_panel=RESULT,
    ),
]
Recording = Annotated[
    str | None,
    typer.Option(
        "--record", metavar="FILE", help="Write every sample, for `streamjoin watch`.", rich_help_panel=RESULT
    ),
]


def with_addresses(words: list[str]) -> list[str]:
    """Gives every bare --watch an address, since options either take a value or do not.

    >>> with_addresses(["demo", "--watch", "--json"]), with_addresses(["bench", "--watch", "join"])
    (['demo', '--watch=127.0.0.1:0', '--json'], ['bench', '--watch=127.0.0.1:0', 'join'])
    >>> with_addresses(["demo", "--watch", "8080"])
    ['demo', '--watch', '8080']
    """
    following = [*words[1:], "--"]
    return [
        f"{word}={ANYWHERE}" if word == "--watch" and not _ADDRESS.fullmatch(after) else word
        for word, after in zip(words, following, strict=True)
    ]


class Watched:
    """A command that may be watched; without --watch and --record it does nothing."""

    def __init__(self, run: Run | None) -> None:
        self._run = run
        self._sampler: Any = None
        self.source = _Source()

    def note(self, text: str) -> None:
        """Says what is being done."""
        if self._run is not None:
            self._run.note(text)

    def tables(self, explain: Callable[[], object], rows: tuple[int, int]) -> None:
        """Shows the plan of a join of whole tables from now on; `finished` adds what it found."""
        if self._run is not None:
            from streamjoin.metrics import watchers
            from streamjoin.monitor.samples import of_tables

            self._run.describe(str(explain()), None)
            self._run.add(of_tables(rows))
            watchers.append(self.join)  # an algorithm with workers shows what these do

    def finished(self, rows: tuple[int, int], results: int, comparisons: int) -> None:
        """A join of whole tables has found its result."""
        if self._run is not None and self._sampler is None:
            from streamjoin.monitor.samples import of_tables

            self._run.add(of_tables(rows, results, comparisons))

    def join(self, join: Any) -> None:
        """Shows a live join from now on, instead of the one before."""
        if self._run is not None:
            from streamjoin.monitor.watch import Sampler

            self.close()
            self.source.stats = join.stats
            self._sampler = Sampler(join, self._run)

    def pipeline(self, stage: str, figures: Any) -> None:
        """Shows what a Spark pipeline has done so far."""
        if self._run is None:
            return
        from streamjoin.monitor.samples import of_pipeline
        from streamjoin.monitor.topology import cells

        self.source.stats = figures.stats
        if figures.explanation is not None and not self._run.plan:
            facts = figures.explanation.to_dict()
            copies = facts["replication"]["r"], facts["replication"]["s"]
            picture = cells(facts["routing"], facts["groups"], tuple(facts["grid"]), copies)
            self._run.describe(str(figures.explanation), picture)
        self._run.note(stage)
        self._run.add(of_pipeline(figures.stats()))

    def close(self) -> None:
        if self._sampler is not None:
            self._sampler.close()
            self._sampler = None


class _Source:
    """The source of /metrics: the join that is running at the moment."""

    def __init__(self) -> None:
        self.stats: Any = dict


@contextmanager
def watched(title: str, address: str | None, record: str | None) -> Iterator[Watched]:
    """Serves or records what happens inside."""
    if address is None and record is None:
        yield Watched(None)
        return
    from streamjoin.metrics import watchers
    from streamjoin.monitor.address import read_address
    from streamjoin.monitor.run import Run
    from streamjoin.monitor.server import Server
    from streamjoin.monitor.watch import open_recording

    run = Run(title, recording=None if record is None else open_recording(record))
    shown = Watched(run)
    server = None if address is None else Server(run, read_address(address), shown.source)
    if server is not None:
        print(f"watch it at {server.url}", file=sys.stderr, flush=True)
    try:
        yield shown
    except BaseException as error:
        run.end("the program was stopped" if isinstance(error, KeyboardInterrupt | SystemExit) else error)
        raise
    finally:
        shown.close()
        if shown.join in watchers:
            watchers.remove(shown.join)
        if server is not None:
            server.close()
        run.end()
        if run.recording is not None:
            run.recording.close()


def watch(
    recording: Annotated[Path, typer.Argument(help="A file that --record has written.")],
    address: Annotated[str, typer.Option("--at", metavar="HOST:PORT", help="Where to serve it.")] = ANYWHERE,
    speed: Annotated[float, typer.Option(min=0.01, help="How many times faster than the original.")] = 1.0,
) -> None:
    """Replays a recorded run on the live page, until Ctrl-C."""
    from streamjoin.monitor.address import read_address
    from streamjoin.monitor.run import Run, read_recording
    from streamjoin.monitor.server import Server
    from streamjoin.monitor.watch import replay

    if not recording.is_file():
        raise FileError(f"{recording} does not exist; make a recording with --record {recording}")
    for _ in read_recording(recording):  # refuses a file that is not a recording before a page is opened
        pass
    run = Run(recording.name)
    server = Server(run, read_address(address))
    print(f"watch it at {server.url}; Ctrl-C ends it", file=sys.stderr, flush=True)
    try:
        replay(recording, run, speed)
        while True:
            time.sleep(1.0)
    finally:
        server.close()
