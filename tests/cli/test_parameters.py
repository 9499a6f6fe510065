"""The command line's parameters: all of them under headings, and those of a join as `Options` declares them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from streamjoin.cli import app
from streamjoin.cli.parameters import default
from streamjoin.formats import SUFFIXES
from streamjoin.options import DECLARED, WORDS, from_text
from streamjoin.words import GROUPS

JOIN = typer.main.get_command(app).commands["join"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", WORDS)
def test_a_default_is_read_as_what_it_is(name: str) -> None:
    text = default(name)
    if isinstance(text, str):
        assert from_text(name, text) == DECLARED[name].default


def test_every_parameter_has_a_heading_and_a_text() -> None:
    for parameter in JOIN.params:
        assert parameter.rich_help_panel in GROUPS, parameter.name
        assert parameter.help.endswith("."), parameter.name


def test_help_has_the_headings_in_their_order() -> None:
    shown = CliRunner().invoke(app, ["join", "--help"]).stdout
    assert re.findall(r"(?m)^([A-Z][\w ]*):$", shown) == [*GROUPS, "Options"]
    for parameter in JOIN.params:
        assert f"{parameter.opts[0]} " in shown


def test_the_page_names_every_parameter_and_format() -> None:
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    for parameter in JOIN.params:
        assert re.search(rf"{parameter.opts[0]}\b", page), parameter.name
    for suffix in SUFFIXES:
        assert f"`{suffix}`" in page


@pytest.mark.parametrize("name", DECLARED)
def test_every_option_says_what_it_means(name: str) -> None:
    assert DECLARED[name].metadata["doc"]
