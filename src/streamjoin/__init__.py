"""streamjoin: sliding-window joins of two streams under any predicate."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from streamjoin.api import explain as explain
    from streamjoin.api import join as join
    from streamjoin.core.predicate.operators import (
        cast as cast,
    )
    from streamjoin.core.predicate.operators import (
        ceil as ceil,
    )
    from streamjoin.core.predicate.operators import (
        coalesce as coalesce,
    )
    from streamjoin.core.predicate.operators import (
        div as div,
    )
    from streamjoin.core.predicate.operators import (
        floor as floor,
    )
    from streamjoin.core.predicate.operators import (
        greatest as greatest,
    )
    from streamjoin.core.predicate.operators import (
        least as least,
    )
    from streamjoin.core.predicate.operators import (
        lit as lit,
    )
    from streamjoin.core.predicate.operators import (
        r as r,
    )
    from streamjoin.core.predicate.operators import (
        s as s,
    )
    from streamjoin.core.predicate.operators import (
        sqrt as sqrt,
    )
    from streamjoin.core.predicate.operators import (
        when as when,
    )
    from streamjoin.core.window import interval as interval
    from streamjoin.core.window import last as last
    from streamjoin.core.window import tumbling as tumbling
    from streamjoin.embedded.explain import Explanation as Explanation
    from streamjoin.embedded.join import Join as Join
    from streamjoin.embedded.output import Punctuation as Punctuation

_OPERATORS = ("r", "s", "least", "greatest", "floor", "ceil", "sqrt", "when", "cast", "div", "lit", "coalesce")
_ERRORS = (
    "StreamjoinError",
    "PredicateError",
    "SchemaError",
    "OptionError",
    "WindowError",
    "DataError",
    "LateError",
    "UnsupportedError",
    "ClosedError",
    "StateError",
    "DeviceError",
    "FileError",
    "PipelineError",
)
_HOMES = {
    "join": "streamjoin.api",
    "Join": "streamjoin.embedded.join",
    "Punctuation": "streamjoin.embedded.output",
    "explain": "streamjoin.api",
    "Explanation": "streamjoin.embedded.explain",
    **dict.fromkeys(("interval", "last", "tumbling"), "streamjoin.core.window"),
    **dict.fromkeys(_OPERATORS, "streamjoin.core.predicate.operators"),
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
