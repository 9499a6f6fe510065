"""What is wrong with a result: rows against the oracle's, order, punctuations, and moments. Each fault is an
AssertionError that says which rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import pyarrow as pa

from streamjoin.testing.kinds import Kind
from streamjoin.testing.results import Result

Key: TypeAlias = tuple[int | None, ...]  # (rid, sid), or (rid,) where a row has nothing of s
Out: TypeAlias = Any  # an Arrow table or batch


def _sorted(keys: Iterable[Key]) -> list[Key]:
    return sorted(keys, key=lambda key: [(i is None, i or 0) for i in key])


def key_of(found: Result, kind: Kind) -> Key:
    rid = found.row("r", "rid")
    return (rid,) if kind.of_r_alone else (rid, found.row("s", "sid"))


def keys(found: Iterable[Result], kind: Kind) -> list[Key]:
    """The keys of the oracle's rows, sorted."""
    return _sorted(key_of(one, kind) for one in found)


def keys_of(out: Out, kind: Kind) -> list[Key]:
    """The keys of a result's rows, in its order."""
    names = ["rid"] if kind.of_r_alone else ["rid", "sid"]
    return list(zip(*(out[name].to_pylist() for name in names), strict=True))


def batches(out: Sequence[Any]) -> list[Any]:
    """What came out, without punctuations."""
    return [item for item in out if isinstance(item, (pa.RecordBatch, pa.Table))]


def same_keys(found: Sequence[Key], expected: Sequence[Key]) -> None:
    """The same rows, each exactly once."""
    faults = {
        "missing": set(expected) - set(found),
        "wrong": set(found) - set(expected),
        "more than once": {key for key, n in Counter(found).items() if n > 1},
    }
    said = "; ".join(f"{fault} {_sorted(which)}" for fault, which in faults.items() if which)
    assert not said, f"rows (rid, sid): {said}"


def same(out: Sequence[Out], found: Sequence[Result], kind: Kind) -> None:
    """The same rows, each exactly once, with the right aggregates."""
    same_keys([key for part in out for key in keys_of(part, kind)], keys(found, kind))
    values = {key_of(one, kind): one.values for one in found}
    for name, one in kind.aggregate:
        for part in out:
            assert part[name].type == one.type, f"{name} = {one} is {part[name].type}, not {one.type}"
            for key, got in zip(keys_of(part, kind), part[name].to_pylist(), strict=True):
                assert alike(got, values[key][name]), f"{name} = {one} of {key}: {got}, not {values[key][name]}"


def alike(a: Any, b: Any) -> bool:
    """Equal; floats up to the rounding of a short sum, and NaN like NaN."""
    if a is None or b is None or not isinstance(a, float):
        return (a is None) == (b is None) and bool(a == b)
    b = float(b)
    return math.isnan(a) == math.isnan(b) and (math.isnan(a) or math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-12))


def times(found: Iterable[Result], kind: Kind) -> dict[Key, float]:
    """The time of every row."""
    return {key_of(one, kind): one.time for one in found}


def _times_of(out: Out, known: Mapping[Key, float] | None) -> list[float]:
    """The times of a result's rows: looked up, or those of pairs."""
    if known is not None:
        return [known[key] for key in zip(*(out[n].to_pylist() for n in _names(known)), strict=True)]
    return [max(pair) for pair in zip(out["t_r"].to_pylist(), out["t_s"].to_pylist(), strict=True)]


def _names(known: Mapping[Key, float]) -> list[str]:
    return ["rid", "sid"][: len(next(iter(known), (0, 0)))]


def order(out: Sequence[Out], known: Mapping[Key, float] | None = None) -> None:
    """No result is older than one before it. `known` has the times; without it all rows are pairs."""
    found = [time for part in out if part.num_rows for time in _times_of(part, known)]
    assert all(a <= b for a, b in pairwise(found)), f"times of the results, in order: {found}"


def punctuations(out: Sequence[Any], known: Mapping[Key, float] | None = None) -> None:
    """Punctuations rise, and every result after one has its time or a later one."""
    promised = None
    for item in out:
        if isinstance(item, (pa.RecordBatch, pa.Table)):
            below = (
                [t for t in _times_of(item, known) if promised is not None and t < promised] if item.num_rows else []
            )
            assert not below, f"a result below {promised}: {below}"
        else:
            assert promised is None or item.time > promised, f"punctuation {item.time} after {promised}"
            promised = item.time
