"""A checkpoint of the format before goes on with nothing lost or doubled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import old_checkpoint
from feeds import Feed
from old_checkpoint import BEFORE, CASE, ROWS, WINDOW
from streamjoin.testing import oracle

pytestmark = pytest.mark.spark


def test_an_old_checkpoint_goes_on(spark: Any, tmp_path: Path) -> None:
    feed = Feed(spark, tmp_path)
    old_checkpoint.unpack(tmp_path)
    before = feed.pairs()
    old_checkpoint.feed(feed, BEFORE, len(ROWS["r"]))
    old_checkpoint.run(feed)

    def expected(stop: int) -> list[tuple[int, int]]:
        arrivals = oracle.arrivals_of_tables(ROWS["r"][:stop], ROWS["s"][:stop], ("t", "t"))
        return sorted(oracle.pairs(arrivals, CASE.holds, WINDOW, ("t", "t")))

    assert before == expected(BEFORE)
    assert feed.pairs() == expected(len(ROWS["r"]))
    assert len(feed.pairs()) > len(before)
