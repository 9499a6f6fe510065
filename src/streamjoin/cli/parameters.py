"""The options of a join as parameters of commands: names, texts, defaults and values are those of `Options`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from streamjoin.errors import either
from streamjoin.options import DECLARED, SPARK, WORDS, from_text
from streamjoin.words import GROUPS, ON_SPARK

EMBEDDED, PIPELINE = "embedded", "spark"  # --engine
_REQUIRED = [name for name in WORDS if DECLARED[name].default is MISSING]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")]
OF_FILES = ("null", "stats", "left_encoding", "right_encoding")  # what else a pipeline does not have


class Grouped(TyperCommand):
    """A command whose --help has its options under their headings."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        rest = "Options"
        listed: dict[str, list[tuple[str, str]]] = {group: [] for group in (*GROUPS, rest)}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                listed[getattr(parameter, "rich_help_panel", None) or rest].append(record)
        for group, records in listed.items():
            if records:
                with formatter.section(group):
                    formatter.write_dl(records)


def described(name: str) -> Any:
    """What Typer knows of an option."""
    word, known = WORDS[name], DECLARED[name].metadata
    values = word.spelled or (either(known["values"]) if known["values"] else known["takes"])
    text = known["doc"] + (f": {values}" if values else "")
    names = [f"--{name}"]  # without it, a flag would have a --no-flag beside it
    return typer.Option(*names, help=f"{text[0].upper()}{text[1:]}.", metavar=word.metavar, rich_help_panel=word.group)


def default(name: str) -> Any:
    """The default of an option, as a word."""
    value = DECLARED[name].default
    return ",".join(value) if isinstance(value, tuple) else value


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command one parameter for every option that the command line has, those first that must be given.

    It gets their values as its last parameter, a dict; the words themselves are in the context.
    """
    *own, _ = inspect.signature(command, eval_str=True).parameters.values()
    shown = [*map(_parameter, _REQUIRED), *own, *(_parameter(name) for name in WORDS if name not in _REQUIRED)]
    shown = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in shown]

    @functools.wraps(command)
    def call(**words: Any) -> None:
        asked = {name: words.pop(name) for name in WORDS}
        for name, text in asked.items():
            if isinstance(text, str):
                asked[name] = from_text(name, text)
        command(**words, options=asked)

    call.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return call


def _parameter(name: str) -> inspect.Parameter:
    """An option as Typer takes it from a function's signature."""
    begins = inspect.Parameter.empty if name in _REQUIRED else default(name)
    kind: Any = bool if begins is False else str if begins is not None else str | None
    annotation = Annotated[kind, described(name)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=begins, annotation=annotation)


def check_engine(context: typer.Context, engine: str) -> None:
    """Refuses an unknown engine, and options that belong to the other one."""
    if engine not in (EMBEDDED, PIPELINE):
        raise typer.BadParameter(f'--engine "{engine}" is neither {EMBEDDED} nor {PIPELINE}')
    for parameter in context.command.params:
        name = str(parameter.name)
        only = _engine_of(name, getattr(parameter, "rich_help_panel", None))
        given = context.get_parameter_source(name)
        if only not in (None, engine) and given is not None and given.name == "COMMANDLINE":
            raise typer.BadParameter(f"{parameter.opts[0]} is for --engine {only}; leave it out or add --engine {only}")


def _engine_of(name: str, group: str | None) -> str | None:
    """The only engine that has an option, if there is one."""
    if group == ON_SPARK:
        return PIPELINE
    lacking = name in WORDS and SPARK not in DECLARED[name].metadata["engines"]
    return EMBEDDED if lacking or name in OF_FILES else None
