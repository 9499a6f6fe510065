"""streamjoin: sliding-window joins of two streams under any predicate."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from streamjoin import errors
from streamjoin.kinds import CHOSEN
from streamjoin.predicate.operations import PUBLIC
from streamjoin.windows import KINDS

__version__ = "0.1.0"

if TYPE_CHECKING:
    from streamjoin.api import explain as explain
    from streamjoin.api import join as join
    from streamjoin.kinds import max_by as max_by
    from streamjoin.kinds import min_by as min_by
    from streamjoin.live.join import Join as Join
    from streamjoin.monitor.watch import watch as watch
    from streamjoin.plan.explain import Explanation as Explanation
    from streamjoin.predicate.expressions import cast as cast
    from streamjoin.predicate.expressions import div as div
    from streamjoin.predicate.expressions import lit as lit
    from streamjoin.predicate.expressions import r as r
    from streamjoin.predicate.expressions import s as s
    from streamjoin.predicate.expressions import when as when
    from streamjoin.results.output import Punctuation as Punctuation
    from streamjoin.windows.interval import interval as interval
    from streamjoin.windows.last import last as last
    from streamjoin.windows.tumbling import tumbling as tumbling
    from streamjoin.windows.valid import valid as valid

_EXPRESSIONS = ("r", "s", "when", "cast", "div", "lit", *PUBLIC)
_ERRORS = [
    name
    for name, found in vars(errors).items()
    if isinstance(found, type) and issubclass(found, errors.StreamjoinError)
]
_HOMES = {
    "join": "streamjoin.api",
    "Join": "streamjoin.live.join",
    "Punctuation": "streamjoin.results.output",
    "valid": "streamjoin.windows.valid",
    **dict.fromkeys(CHOSEN, "streamjoin.kinds"),
    "explain": "streamjoin.api",
    "Explanation": "streamjoin.plan.explain",
    "watch": "streamjoin.monitor.watch",
    **{name: kind.home for name, kind in KINDS.items()},
    **dict.fromkeys(_EXPRESSIONS, "streamjoin.predicate.expressions"),
    **dict.fromkeys(_ERRORS, "streamjoin.errors"),
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    """Imports what is asked for when it is asked for: `import streamjoin` itself must not cost a compiler's start."""
    if name not in _HOMES:
        raise AttributeError(f"module 'streamjoin' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
