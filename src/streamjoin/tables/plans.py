"""Plans of earlier joins: making a plan takes longer than joining a few thousand rows.

A plan is kept if all that it was made from can be told apart by value: schemas with their metadata, and options that
are texts, numbers, and lists or dicts of these. Functions and expressions are planned anew each time.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa

from streamjoin.algorithms import AUTO, SEQUENTIAL
from streamjoin.machine import usable_cores
from streamjoin.options import DECLARED, TABLES, Options
from streamjoin.plan.plan import Plan, make_plan

KEPT = 64  # plans, the most recently used ones
PLAIN = (str, int, float, bool, timedelta, type(None))
NOT_OF_THE_PLAN = ("stats", "ordered", "analyze")

_kept: dict[Any, Plan] = {}  # the latest last; every step on it is atomic, and a race costs one plan


def plan_of(r: pa.Schema, s: pa.Schema, options: Options) -> Plan:
    """The plan of a join of two tables, from the cache or new."""
    try:
        key = (_bytes(r), _bytes(s), usable_cores(), *_words(options))
    except TypeError:
        return make_plan(r, s, options.for_engine(TABLES), static=True)
    found = _kept.pop(key, None)
    if found is None:
        found = make_plan(r, s, options.for_engine(TABLES), static=True)
    _kept[key] = found
    for oldest in list(_kept)[:-KEPT]:
        _kept.pop(oldest, None)
    return found


def _bytes(schema: pa.Schema) -> bytes:
    """A schema with its metadata: Arrow calls two equal that differ in it."""
    return bytes(schema.serialize())


def _words(options: Options) -> list[Any]:
    """All options that are set; a TypeError if one of them is not known by its value."""
    if options.algorithm not in (AUTO, SEQUENTIAL):
        raise TypeError("an algorithm of the papers may depend on devices")
    return [
        (name, _plain(getattr(options, name)))
        for name in DECLARED
        if name not in NOT_OF_THE_PLAN and options.is_set(name)
    ] + [_plain(options.on)]


def _plain(value: Any) -> Any:
    """A value that is a key, and equal to no value of another type: True is no 1.

    >>> _plain({"n": ["count(*)", 1]}) == _plain({"n": ["count(*)", 1]}) != _plain({"n": ["count(*)", True]})
    True
    """
    if type(value) in PLAIN:
        return type(value), value
    if type(value) in (tuple, list):
        return type(value), *map(_plain, value)
    if type(value) is dict:
        return dict, *((_plain(name), _plain(part)) for name, part in value.items())
    raise TypeError(f"{type(value)} has no value")
