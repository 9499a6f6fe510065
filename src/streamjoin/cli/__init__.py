"""The command line: thin commands over the library. Commands import heavy modules when they run."""

from streamjoin.cli.main import app, main

__all__ = ["app", "main"]
