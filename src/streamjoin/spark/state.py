"""What a cell keeps in Spark's state store: a manifest and its chunks.

A checkpoint outlives the code that wrote it. So what is written is spelt out here, apart from names and texts that may
change, under a format's number; tests/data has a checkpoint of every format, which the suite resumes. Joins that hand
out pairs alone keep to the format that they have always had.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Protocol

from streamjoin.errors import StateError
from streamjoin.windows import SINCE_EVER

PAIRS, DECIDING, CHOOSING = 2, 3, 4  # formats: pairs alone; decisions about tuples; choices that are made early
RESUMED = {str(CHOOSING): str(DECIDING)}  # the format in which earlier versions kept the same
ENTRY = ("side", "number", "rows", "first", "last", "size", "weight", "name")
MORE = {str(PAIRS): (), str(DECIDING): ("met",), str(CHOOSING): ("soonest",)}  # of an entry, by format


class State(Protocol):
    """Where a cell keeps its chunks and its manifest: Spark's state store, or a dict in tests."""

    def manifest(self) -> bytes | None: ...
    def save(self, manifest: bytes) -> None: ...
    def get(self, number: int) -> bytes: ...
    def put(self, number: int, data: bytes) -> None: ...
    def remove(self, number: int) -> None: ...


@dataclass
class Entry:
    """A chunk in the state."""

    side: str
    number: int
    rows: int
    first: int  # smallest and largest time, in ticks
    last: int
    size: int  # bytes in the state
    weight: int  # and before they were compressed
    name: str  # of the file in the cache, by the digest of those bytes and of what else decides how it looks
    met: int = 0  # rows that have a partner; which, is in the state beside the chunk, unless it is none or all
    soonest: int | None = None  # no row that waits is due below this; the state has beside the chunk when each is due

    @property
    def values(self) -> tuple[str | int, ...]:
        """In the order of ENTRY."""
        return self.side, self.number, self.rows, self.first, self.last, self.size, self.weight, self.name


@dataclass
class Manifest:
    """What a cell knows about its state."""

    signature: dict[str, str]
    cleared: int = SINCE_EVER  # tuples below this time have met a window that was already cut: they are late
    next: int = 0
    origins: list[float | None] = field(default_factory=list)
    widths: dict[str, list[float | None]] = field(default_factory=dict)  # by side: how wide its boxes are
    entries: list[Entry] = field(default_factory=list)
    timer: int = 0  # when Spark visits the cell again, in milliseconds, if nothing comes before; 0: not at all
    versions: int = 0  # rows of s that were needed when their versions were last looked through, if there is no window

    @classmethod
    def read(cls, data: bytes, signature: dict[str, str]) -> Manifest:
        """What was written, if it belongs to the join with this signature."""
        found = json.loads(data)
        check_signature(found["signature"], signature)
        return cls(
            signature,
            found["cleared"],
            found["next"],
            found["origins"],
            found["reach"],
            [_entry(entry) for entry in found["entries"]],
            found.get("timer", 0),
            found.get("versions", 0),
        )

    def write(self) -> bytes:
        form = self.signature["format"]
        found = {
            "signature": self.signature,
            "cleared": self.cleared,
            "next": self.next,
            "origins": self.origins,
            "reach": self.widths,
            "entries": [
                dict(zip(ENTRY, entry.values, strict=True)) | {name: getattr(entry, name) for name in MORE[form]}
                for entry in self.entries
            ],
        }
        if form != str(PAIRS):
            found["timer"] = self.timer
        if self.versions:
            found["versions"] = self.versions
        return json.dumps(found).encode()


def _entry(found: dict[str, Any]) -> Entry:
    entry = Entry(*(found[name] for name in ENTRY))
    entry.met, entry.soonest = found.get("met", 0), found.get("soonest")
    return entry


def noted_at(number: int) -> int:
    """Where the state has the notes about the rows of a chunk; -1 is the manifest."""
    return -2 - number


def check_signature(kept: dict[str, str], now: dict[str, str]) -> None:
    """Refuses state that another join has left."""
    for what in now:
        if kept.get(what) != now[what] and not (what == "format" and RESUMED.get(now[what]) == kept[what]):
            raise StateError(
                f"the checkpoint belongs to another join: its {what} was {kept.get(what)!r} and is now {now[what]!r}; "
                "start with a new checkpoint folder, or restore the former join "
                "(for the routing: give the former cells=, split= and bucket=)"
            )
