"""A plugin for pytest: whatever a failed test says, its report reaches the process that prints it."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """A report travels between processes as UTF-8: one lone surrogate in a message would end the whole run."""
    return _escaped((yield))


def _escaped(data: Any) -> Any:
    match data:
        case str():
            return data.encode(errors="backslashreplace").decode()
        case list() | tuple():
            return type(data)(map(_escaped, data))
        case dict():
            return {_escaped(key): _escaped(value) for key, value in data.items()}
    return data
