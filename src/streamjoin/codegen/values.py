"""What emitted code computes: a value and its flags, and the writer of statements that both halves of `emit` share."""

from __future__ import annotations

import hashlib
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

from streamjoin.predicate.tree import Node
from streamjoin.predicate.types import Type

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
INLINE = 64  # flags whose text is longer get a variable: text in text in text would double each time


@dataclass(frozen=True)
class Value:
    """A computed node: names of variables (or short expressions) in the emitted code."""

    code: str
    null: str | None = None
    bad: str | None = None
    low: int = INT64_MIN  # of integers: what values are possible
    high: int = INT64_MAX
    constant: bool = False
    up: str | None = None  # where bad: whether the true result lies above; known for a single operation only


@dataclass(frozen=True)
class Slot:
    """Where a column is found: expressions for its value, its validity if it may be null, a digest's second half."""

    code: str
    valid: str | None = None
    second: str | None = None


def digest(value: str | bytes) -> tuple[int, int]:
    """A string as a 128-bit name in two signed halves: it stands for the string in comparisons."""
    data = value.encode() if isinstance(value, str) else value
    high, low = struct.unpack("<qq", hashlib.blake2b(data, digest_size=16).digest())
    return high, low


class Writer(ABC):
    """Collects statements. What a node means is told by those who derive from it."""

    def __init__(self, indent: str) -> None:
        self.lines: list[str] = []
        self._indent = indent
        self._names: dict[str, str] = {}

    @abstractmethod
    def value(self, node: Node) -> Value:
        """The node's value, emitting what computes it."""

    def set(self, code: str) -> str:
        """The variable holding the value of an expression: the same one for the same expression."""
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
        """Null and bad of what is computed from all of them."""
        if len(values) == 1:
            return values[0].null, values[0].bad
        return self.any(value.null for value in values), self.any(value.bad for value in values)


def derived(a: Value, code: str, low: int = INT64_MIN, high: int = INT64_MAX) -> Value:
    """Another value with the same flags. Which way it was out of range does not carry over."""
    return Value(code, a.null, a.bad, low, high)


def range_of(t: Type) -> tuple[int, int]:
    """The integers that a type's values are stored as."""
    if t.kind == "int":
        return -(2 ** (t.bits - 1)), 2 ** (t.bits - 1) - 1
    if t.kind == "date":
        return -(2**31), 2**31 - 1
    if t.kind == "decimal" and t.precision <= 18:
        return -(10**t.precision) + 1, 10**t.precision - 1
    if t.kind == "bool":
        return 0, 1
    return INT64_MIN, INT64_MAX


def either(flags: Iterable[str | None]) -> str | None:
    """Any of the flags; None if there are none."""
    present = list(dict.fromkeys(flag for flag in flags if flag is not None))
    return f"({' | '.join(f'({flag})' for flag in present)})" if present else None
