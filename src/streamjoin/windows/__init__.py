"""Which pairs lie in a window: one row for every kind, one file per kind. Reading the rows loads no compiler.

Every window becomes a range on the other side. `at` of a tuple is its time, or its position in its stream. A probing
tuple meets stored ones with since <= at <= until, both inclusive. What lies below the smallest `since` that can still
come has expired.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamjoin.windows.window import Asked

FOREVER = 2**63 - 1
SINCE_EVER = -(2**63)
LONGEST = 1_000  # characters of a window in text, far below the digits that Python refuses to read as a number


@dataclass(frozen=True)
class Kind:
    """A kind of window: `name` is that of its file, of the function that makes one, and its first word in text."""

    name: str
    spelling: str  # how one is written in text

    @property
    def home(self) -> str:
        return f"{__name__}.{self.name}"

    @property
    def module(self) -> ModuleType:
        return import_module(self.home)


INTERVAL = Kind(
    "interval",
    '"15 minutes" or "1h30m" (at most that far apart), 500 (the same for integer time columns), '
    '"-10min..5min" (where s.time - r.time lies; "(-10min..5min]" leaves the lower bound out)',
)
KINDS = {
    kind.name: kind
    for kind in (
        INTERVAL,
        Kind("last", '"last 1000", "last r=500,s=1000" (rows)'),
        Kind("tumbling", '"tumbling 1 minute", "tumbling 1000 rows"'),
    )
}
SPELLINGS = ", ".join(kind.spelling for kind in KINDS.values())


def spelled(text: str) -> Any:
    """The value for `within=` that a text stands for; a ValueError if it is no window.

    >>> spelled("500"), spelled("15 minutes"), spelled("last 10")
    (500, '15 minutes', Last(r=10, s=10))
    """
    first, _, rest = text.strip().partition(" ")
    kind = KINDS.get(first.lower())
    found = None
    if len(text) <= LONGEST:
        found = INTERVAL.module.spelled(text.strip()) if kind is None else kind.module.spelled(rest.strip())
    if found is None:
        raise ValueError(f"not a window; write {SPELLINGS}")
    return found


def asked(within: Any) -> Asked:
    """What `within=` asks for: a window as its function makes it, a length, the window around a tuple, or none.

    >>> asked("15 minutes").window("us").describe()
    '-15m <= s.time - r.time <= 15m'
    """
    from streamjoin.windows.every import Every
    from streamjoin.windows.interval import Around
    from streamjoin.windows.window import Asked

    if within is None:
        return Every()
    return within if isinstance(within, Asked) else Around(within)
