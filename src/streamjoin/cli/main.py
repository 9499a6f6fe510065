"""The `streamjoin` program: its commands, and how failures become messages and exit codes."""

from __future__ import annotations

import gc
import signal
import sys
import traceback
from importlib import metadata
from typing import Annotated

import typer

from streamjoin.cli import bench, circuit, demo, doctor, join, warm, watch
from streamjoin.cli.parameters import Grouped
from streamjoin.cli.streams import standard_streams, unwritten
from streamjoin.errors import PipelineError, StreamjoinError
from streamjoin.exits import DONE, FAILED, REFUSED, signalled

_UNWRITTEN = "standard output cannot be written, the rest is done"

app = typer.Typer(
    help="Joins two streams or tables under any predicate within a sliding window.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("join", cls=Grouped)(join.join)
app.command("demo")(demo.demo)
app.add_typer(bench.app, name="bench")
app.add_typer(circuit.app, name="circuit")
app.command("doctor")(doctor.doctor)
app.command("warm")(warm.warm)
app.command("watch")(watch.watch)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"streamjoin {version()}")
        raise typer.Exit()


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of a failure.")] = False,
) -> None:
    pass


def version() -> str:
    try:
        return metadata.version("streamjoin")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def main(arguments: list[str] | None = None) -> int:
    """Runs the program and returns its exit code; 2 says that the request or its input was refused."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words  # accepted before and after the command's name
    with standard_streams():
        previous = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
        for number in previous:
            if previous[number] is not signal.SIG_IGN:  # as nohup has it
                signal.signal(number, _terminate)
        # Importing a compiler makes many permanent objects; collecting garbage among them takes a tenth of a short
        # run.
        gc.set_threshold(100_000)
        try:
            code = _run([word for word in words if word != "--debug"], debug)
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
        lost = unwritten()
        if lost and not code:
            return _report(f"{_UNWRITTEN}: {lost}", REFUSED, debug)
        return code if lost is None else code or FAILED


def _run(words: list[str], debug: bool) -> int:
    try:
        app(args=watch.with_addresses(words), prog_name="streamjoin")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        return _report("interrupted", signalled(signal.SIGINT), debug)
    except PipelineError as error:
        return _report(str(error), FAILED, debug)
    except StreamjoinError as error:
        return _report(str(error), REFUSED, debug)
    except MemoryError:
        return _report("out of memory; join smaller files, or narrow the window", FAILED, debug)
    except Exception as error:
        if isinstance(error, OSError) and (lost := unwritten()) is not None:
            return _report(f"{_UNWRITTEN}: {lost}", REFUSED, debug) if lost else FAILED
        kind = type(error).__name__
        return _report(f"unexpected {kind}: {error} (run again with --debug to see where)", FAILED, debug)
    return DONE


def _terminate(number: int, frame: object) -> None:
    """Lets a program that is terminated, or loses its terminal, remove its temporary file."""
    raise SystemExit(signalled(number))


def _report(message: str, code: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    print(f"streamjoin: {message}", file=sys.stderr)
    return code
