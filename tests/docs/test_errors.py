"""docs/errors.md quotes messages as they are raised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import streamjoin as sj

PAGE = (Path(__file__).parent.parent.parent / "docs" / "errors.md").read_text(encoding="utf-8")
R = pa.table({"ts": [1, 2], "price": [1.0, 2.0], "qty": [1, 2], "sym": ["a", "b"]})
S = pa.table({"ts": [1, 2], "bid": [1.0, 2.0], "size": [1, 2], "sym": ["a", "b"]})
TIMED: dict[str, Any] = {"within": 2, "time": "ts"}
JOINS: tuple[dict[str, Any], ...] = (
    {"on": "r.prcie = s.bid"},
    {"on": lambda r, s: r.prcie < s.bid},
    {"within": 2, "time": "tss"},
    {"on": "trades.price = s.bid"},
    {"on": "sym = 1"},
    {"on": "r.sym = s.size"},
    {"on": "r.sym < s.sym"},
    {"on": "r.price + s.bid"},
    {"within": 2, "time": ("price", "ts")},
    {"on": "r.qty = 9223372036854775808"},
    {"on": "r.price > s.bid > 3"},
    {"on": "SELECT * FROM r"},
    {"on": ""},
    {"on": lambda r: True},
    {"how": "cross"},
    {"tolerance": 2},
    {"suffixes": None},
    {"within": -5, "time": "ts"},
    {"within": "1 month", "time": "ts"},
    {"algorithm": "kung", **TIMED},
    {"algorithm": "kang", "workers": 2, **TIMED},
    {"algorithm": "handshake", "layout": (2, 3), **TIMED},
    {"algorithm": "grid", "layout": (2, 3), "workers": 4, **TIMED},
    {"algorithm": "grid", "layout": "2x3", **TIMED},
)
LIVE: tuple[dict[str, Any], ...] = (
    {"overload": "drop"},
    {"late": "maybe"},
    {"rate": 0},
    {"batch": 0},
    {"workers": 0},
    {"algorithm": "handshake", "access": "band"},
)


def quoted(error: BaseException) -> bool:
    return f"{type(error).__name__}: {error}".replace("|", "\\|") in PAGE


@pytest.mark.parametrize("options", JOINS, ids=range(len(JOINS)))  # a function's text has its address
def test_joins_of_tables(options: dict[str, Any]) -> None:
    with pytest.raises((sj.StreamjoinError, TypeError)) as raised:
        sj.join(R, S, **({"on": "r.qty = s.size"} | options))
    assert quoted(raised.value), raised.value


@pytest.mark.parametrize("options", LIVE, ids=str)
def test_live_joins(options: dict[str, Any]) -> None:
    with pytest.raises(sj.StreamjoinError) as raised:
        sj.Join(r=R.schema, s=S.schema, on="r.qty = s.size", **TIMED, **options)
    assert quoted(raised.value), raised.value
