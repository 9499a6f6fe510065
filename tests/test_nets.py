"""Nets under every change: what callers, scripts and checkpoints rely on is what it was. See nets.py."""

from __future__ import annotations

import json
from typing import Any

import pytest

import nets

GOLDEN: dict[str, Any] = json.loads(nets.GOLDEN.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def now() -> dict[str, Any]:
    return nets.observed()


@pytest.mark.parametrize("what", ["signatures", "manifest", "explain"])
def test_it_is_what_it_was(now: dict[str, Any], what: str) -> None:
    assert now[what] == GOLDEN[what]


def test_no_public_name_is_gone(now: dict[str, Any]) -> None:
    assert set(GOLDEN["public"]) <= set(now["public"])


@pytest.mark.parametrize("name", GOLDEN["parameters"])
def test_no_parameter_is_gone_and_no_default_has_changed(now: dict[str, Any], name: str) -> None:
    assert GOLDEN["parameters"][name].items() <= now["parameters"][name].items()


@pytest.mark.parametrize("command", GOLDEN["json"])
def test_no_field_of_json_is_gone(now: dict[str, Any], command: str) -> None:
    assert set(GOLDEN["json"][command]) <= set(now["json"][command])


def test_no_option_of_the_command_line_is_gone(now: dict[str, Any]) -> None:
    def check(before: dict[str, Any], after: dict[str, Any]) -> None:
        assert set(before["options"]) <= set(after["options"])
        for name, below in before["commands"].items():
            check(below, after["commands"][name])

    check(GOLDEN["commands"], now["commands"])
