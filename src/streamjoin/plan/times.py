"""The time columns of a join: their names, their common unit, and lifetimes in place of times."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from streamjoin.errors import SchemaError, WindowError, cut, shown, suggest
from streamjoin.predicate.tree import SIDES, Node
from streamjoin.windows.duration import needs_nanoseconds, ticks
from streamjoin.windows.valid import HIDDEN, Moment, Valid, ValidWindow, conditions

Named = tuple[str | Valid, str | Valid]


@dataclass(frozen=True)
class Lifetimes:
    """When the tuples of both sides are valid. One side may have points in time."""

    r: Valid | Moment
    s: Valid | Moment
    unit: str
    most: tuple[int | None, int | None]  # the longest validity, in ticks; None if nothing limits it

    def window(self) -> ValidWindow:
        """The window on streams: how far apart tuples that meet may begin."""
        for life, most in zip(self.sides, self.most, strict=True):
            if isinstance(life, Valid) and most is None:
                raise WindowError(
                    f"{life} on streams must say how long a tuple is valid at most, or it would be kept forever; "
                    f'give most=, as in sj.valid("{life.since}", "{life.until}", most="1 day")'
                )
        r, s = (most or 0 for most in self.most)
        return ValidWindow(-s, r, self.unit, self.r, self.s)

    @property
    def sides(self) -> tuple[Valid | Moment, Valid | Moment]:
        return self.r, self.s

    def conditions(self) -> list[Node]:
        """The conditions under which two tuples meet, over the hidden columns."""
        return conditions(self.r, self.s)

    def extended(self, schemas: dict[str, pa.Schema]) -> dict[str, pa.Schema]:
        """The schemas with the hidden columns."""
        found = {}
        for (side, schema), life in zip(schemas.items(), self.sides, strict=True):
            found[side] = schema
            for name in life.columns:
                found[side] = found[side].append(pa.field(name, pa.int64()))
        return found


def lifetimes(
    names: Named | None, schemas: dict[str, pa.Schema], within: object, max_delay: object
) -> Lifetimes | None:
    """When tuples are valid, if a side has columns that say so."""
    if names is None or not any(isinstance(name, Valid) for name in names):
        return None
    if within is not None:
        raise WindowError("within= does not go with valid(): when a tuple is valid is its window; leave within out")
    sides = [name if isinstance(name, Valid) else Moment(name) for name in names]
    for side, life in zip(SIDES, sides, strict=True):
        taken = [name for name in HIDDEN if name in schemas[side].names]
        if taken:
            raise SchemaError(f'{side} has a column named "{taken[0]}", a name that valid() needs; rename it')
        for name in life.columns.values():
            _check(side, name, schemas)
    fine = needs_nanoseconds(max_delay, *(life.most for life in sides))
    first = next(iter(sides[0].columns.values()))
    units = []
    for which, other in enumerate(sides[::-1]):
        for name in other.columns.values():
            pair = (first, name) if which == 0 else (name, next(iter(sides[1].columns.values())))
            units.append(time_unit({"r": pair[0], "s": pair[1]}, schemas, fine))
    unit = "ns" if "ns" in units else str(units[0])
    return Lifetimes(sides[0], sides[1], unit, (_most(sides[0], unit), _most(sides[1], unit)))


def _most(life: Valid | Moment, unit: str) -> int | None:
    """The longest validity of tuples, in ticks."""
    if life.most is None:
        return None
    most = ticks(life.most, unit, "most")
    if most < 0:
        raise WindowError(f"most={shown(life.most)} is negative; it says how long a tuple is valid at most")
    return most


def time_names(names: Named | None, schemas: dict[str, pa.Schema]) -> dict[str, str | None]:
    """The time column of each side; none where tuples are valid for a while."""
    if names is None or any(isinstance(name, Valid) for name in names):
        return {"r": None, "s": None}
    found: dict[str, str | None] = {}
    for side, name in zip(SIDES, names, strict=True):
        assert isinstance(name, str)
        _check(side, name, schemas)
        found[side] = name
    return found


def _check(side: str, name: str, schemas: dict[str, pa.Schema]) -> None:
    if name not in schemas[side].names:
        hint = suggest(name, schemas[side].names)
        raise SchemaError(f'{side} has no column "{cut(name)}" to take the time from; {hint}')


def time_unit(times: dict[str, str | None], schemas: dict[str, pa.Schema], fine: bool) -> str | None:
    """The common unit of both time columns; the finer one where they differ."""
    kinds = {}
    for side in SIDES:
        name = times[side]
        if name is None:
            return None
        t = schemas[side].field(name).type
        if pa.types.is_integer(t):
            kinds[side] = ("integer", "int")
        elif pa.types.is_timestamp(t):
            kinds[side] = ("aware timestamp" if t.tz else "naive timestamp", "ns" if t.unit == "ns" else "us")
        elif pa.types.is_date(t):
            kinds[side] = ("naive timestamp", "us")
        else:
            raise SchemaError(
                f"{side}.{cut(name)} has type {cut(str(t))}; a time column is an integer or a timestamp: "
                "convert it before joining"
            )
    (kind_r, unit_r), (kind_s, unit_s) = kinds["r"], kinds["s"]
    if kind_r != kind_s:
        remedy = (
            "give both a time zone, or none"
            if "timestamp" in kind_r and "timestamp" in kind_s
            else "make both integers of one unit, or both timestamps"
        )
        raise SchemaError(
            f"time columns differ in kind: r.{times['r']} is {_article(kind_r)} "
            f"({schemas['r'].field(times['r']).type}), s.{times['s']} is {_article(kind_s)} "
            f"({schemas['s'].field(times['s']).type}); {remedy}"
        )
    if unit_r == "int":
        return "int"
    return "ns" if "ns" in (unit_r, unit_s) or fine else "us"


def _article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
