"""Functions that take the options of a join as keywords: for callers, for type checkers and for help()."""

from __future__ import annotations

import functools
import inspect
import textwrap
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from streamjoin.errors import suggest
from streamjoin.options import DECLARED, ENGINES, FORMER, Options

P = ParamSpec("P")
O = TypeVar("O", bound=Options)  # noqa: E741
T = TypeVar("T")

# What as-of joins of other libraries call it.
_AS_OF = 'take="backward", "forward" or "nearest"'
_KEY = 'the equality into the predicate, as in on="r.key = s.key"'
ELSEWHERE = {
    "tolerance": 'it as the window, as in within=sj.interval("-2 s", "0 s")',
    "strategy": _AS_OF,
    "direction": _AS_OF,
    "by": _KEY,
    "left_by": _KEY,
    "right_by": _KEY,
    "by_left": _KEY,
    "by_right": _KEY,
    "allow_exact_matches": 'the window without zero, as in within=sj.interval("-2 s", "0 s", closed="left")',
    "left_on": 'time=("r_ts", "s_ts")',
    "right_on": 'time=("r_ts", "s_ts")',
}


def takes(declared: Callable[P, O]) -> Callable[[Callable[[Any, Any, O], T]], Callable[Concatenate[Any, Any, P], T]]:
    """Gives a function of two tables the options as keywords: for callers, for type checkers and for help()."""

    def decorate(function: Callable[[Any, Any, O], T]) -> Callable[Concatenate[Any, Any, P], T]:
        return _taking(function, declared, 2)

    return decorate


def constructed(declared: Callable[P, O]) -> Callable[[Callable[[Any, O], None]], Callable[Concatenate[Any, P], None]]:
    """The same for a constructor."""

    def decorate(function: Callable[[Any, O], None]) -> Callable[Concatenate[Any, P], None]:
        return _taking(function, declared, 1)

    return decorate


def _taking(function: Callable[..., Any], declared: Callable[..., Any], positional: int) -> Callable[..., Any]:
    """Calls a function whose last parameter is an Options with its words instead."""
    first = list(inspect.signature(function).parameters.values())[:positional]
    own = inspect.signature(declared).parameters.values()
    signature = inspect.Signature([*first, *own])
    known = [*(parameter.name for parameter in first), *(parameter.name for parameter in own)]

    @functools.wraps(function)
    def call(*arguments: Any, **given: Any) -> Any:
        for name, now in FORMER.items():
            if name in given:
                given[now] = given.pop(name)
        for name in given:
            if name not in known:
                hint = f"write {ELSEWHERE[name]}" if name in ELSEWHERE else suggest(name, known)
                raise TypeError(f"{function.__name__}() has no option {name}; {hint}")
        found = signature.bind(*arguments, **given).arguments
        return function(*(found.pop(parameter.name) for parameter in first), declared(**found))

    call.__signature__ = signature  # type: ignore[attr-defined]
    call.__doc__ = inspect.cleandoc(function.__doc__ or "").replace("{options}", described())
    return call


def described() -> str:
    """What every option means and which joins have it, for docstrings."""
    lines = []
    for name, declared in DECLARED.items():
        engines = declared.metadata["engines"]
        where = "" if len(engines) == len(ENGINES) else f" ({', '.join(engines)})"
        values = ", ".join(f'"{value}"' for value in declared.metadata["values"])
        takes = declared.metadata["takes"] or values
        text = textwrap.wrap(declared.metadata["doc"] + (f": {takes}" if takes else "") + where, 94)
        lines += [f"{name if k == 0 else '':<14}{line}" for k, line in enumerate(text)]
    return "\n".join(lines)
