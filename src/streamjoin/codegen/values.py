"""Values of emitted code and their flags, and the writer of statements that `emit` and `emit_numbers` share."""

from __future__ import annotations

import hashlib
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

from streamjoin.predicate.tree import Node
from streamjoin.predicate.types import range_of as range_of

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
INLINE = 64  # flags with longer text get a variable; nested text would double at each level


@dataclass(frozen=True)
class Value:
    """A computed node: names of variables (or short expressions) in the emitted code."""

    code: str
    null: str | None = None
    bad: str | None = None
    low: int = INT64_MIN  # of integers: the range of possible values
    high: int = INT64_MAX
    constant: bool = False
    up: str | None = None  # if bad: whether the true result lies above the range; known for a single operation only


@dataclass(frozen=True)
class Slot:
    """Expressions for a column: its value, its validity if it may be null, the second half of a digest."""

    code: str
    valid: str | None = None
    second: str | None = None


def digest(value: str | bytes) -> tuple[int, int]:
    """A 128-bit digest in two signed halves, which stands for a string in comparisons."""
    data = value.encode() if isinstance(value, str) else value
    high, low = struct.unpack("<qq", hashlib.blake2b(data, digest_size=16).digest())
    return high, low


class Writer(ABC):
    """Collects statements. Subclasses define the meaning of nodes."""

    def __init__(self, indent: str) -> None:
        self.lines: list[str] = []
        self._indent = indent
        self._names: dict[str, str] = {}

    @abstractmethod
    def value(self, node: Node) -> Value:
        """The node's value; emits the statements that compute it."""

    def set(self, code: str) -> str:
        """The variable with the value of an expression: the same variable for the same expression."""
        if code not in self._names:
            name = f"v{len(self._names) + 1}"
            self._names[code] = name
            self.lines.append(f"{self._indent}{name} = {code}")
        return self._names[code]

    def any(self, flags: Iterable[str | None]) -> str | None:
        """Any of the flags, as a short expression; None if there are none."""
        code = either(flags)
        return self.set(code) if code is not None and len(code) > INLINE else code

    def flags(self, *values: Value) -> tuple[str | None, str | None]:
        """The flags null and bad of a value that is computed from these."""
        if len(values) == 1:
            return values[0].null, values[0].bad
        return self.any(value.null for value in values), self.any(value.bad for value in values)


def derived(a: Value, code: str, low: int = INT64_MIN, high: int = INT64_MAX) -> Value:
    """Another value with the same flags. The direction in which it was out of range is lost."""
    return Value(code, a.null, a.bad, low, high)


def either(flags: Iterable[str | None]) -> str | None:
    """Any of the flags; None if there are none."""
    present = list(dict.fromkeys(flag for flag in flags if flag is not None))
    return f"({' | '.join(f'({flag})' for flag in present)})" if present else None
