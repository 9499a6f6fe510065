"""The command line: thin commands over the library. What is heavy is imported inside the commands."""

from streamjoin.cli.main import app, main

__all__ = ["app", "main"]
