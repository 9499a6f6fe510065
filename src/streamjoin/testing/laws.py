"""Laws that hold between kinds of joins, whatever the tables: checks for a function like `streamjoin.join`.

Each takes such a function, called with two tables and options, and a `TableJoin` whose own kind does not matter. They
need no oracle, so they judge large tables as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from streamjoin.testing.cases import swapped, within
from streamjoin.testing.conformance import TableJoin
from streamjoin.testing.kinds import COUNTED, INNER, Kind
from streamjoin.testing.verdict import Key, keys_of

Joining = Callable[..., pa.Table]


def _keys(joining: Joining, join: TableJoin, kind: Kind) -> Counter[Key]:
    asked = replace(join, kind=kind)
    return Counter(keys_of(joining(asked.r, asked.s, **asked.options), kind))


def left_is_inner_and_anti(joining: Joining, join: TableJoin) -> None:
    """left = inner, and anti with nulls."""
    alone = Counter({(rid, None): n for (rid,), n in _keys(joining, join, Kind("anti")).items()})
    assert _keys(joining, join, Kind("left")) == _keys(joining, join, INNER) + alone


def full_is_left_and_right(joining: Joining, join: TableJoin) -> None:
    """full = what left or right have: the pairs, which both have, and the unmatched of each."""
    assert _keys(joining, join, Kind("full")) == _keys(joining, join, Kind("left")) | _keys(
        joining, join, Kind("right")
    )


def semi_and_anti_are_r(joining: Joining, join: TableJoin) -> None:
    """Every r is in one of semi and anti, once; in semi if it has a pair."""
    semi, anti = (_keys(joining, join, Kind(how)) for how in ("semi", "anti"))
    assert semi + anti == Counter((row["rid"],) for row in join.rows_r)
    assert set(semi) == {(rid,) for rid, _ in _keys(joining, join, INNER)}


def left_mirrors_right(joining: Joining, join: TableJoin) -> None:
    """left of (r, s) = right of (s, r), with the predicate and the window turned round."""
    left = replace(join, kind=Kind("left"))
    turned: dict[str, Any] = {"on": swapped(join.case).on, "time": "t", "how": "right"}
    if (window := within(join.window.mirrored())) is not None:  # type: ignore[union-attr]  # no bounds from the row
        turned["within"] = window
    out = joining(join.s, join.r, **turned)
    assert Counter(keys_of(out, INNER)) == Counter(keys_of(joining(left.r, left.s, **left.options), INNER))


def count_is_group_by(joining: Joining, join: TableJoin) -> None:
    """count(*) per r = the pairs, grouped by r."""
    counted = replace(join, kind=COUNTED)
    out = joining(counted.r, counted.s, **counted.options)
    pairs = Counter(rid for rid, _ in _keys(joining, join, INNER).elements())
    expected = {row["rid"]: pairs[row["rid"]] for row in join.rows_r}
    assert dict(zip(out["rid"].to_pylist(), out["n"].to_pylist(), strict=True)) == expected
    assert out.num_rows == len(join.rows_r)


def take_is_among_all(joining: Joining, join: TableJoin, take: Any) -> None:
    """Every pair that is taken is a pair, at most k of an r, and an r with pairs has one unless take looks one way."""
    pairs, taken = _keys(joining, join, INNER), _keys(joining, join, Kind("inner", take))
    assert taken <= pairs
    k = getattr(take, "k", 1)
    assert all(n <= k for n in Counter(rid for rid, _ in taken).values())
    if take not in ("backward", "forward"):
        assert {rid for rid, _ in taken} == {rid for rid, _ in pairs}


LAWS = [left_is_inner_and_anti, full_is_left_and_right, semi_and_anti_are_r, left_mirrors_right, count_is_group_by]
