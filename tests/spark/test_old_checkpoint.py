"""A checkpoint of every format goes on with nothing lost or doubled."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import old_checkpoint
from feeds import Feed
from old_checkpoint import BEFORE, KINDS, WINDOW
from streamjoin.testing import oracle

pytestmark = pytest.mark.spark


FAR = 10**6  # a row of each side at this time closes all windows


@pytest.mark.parametrize("form", KINDS)
def test_an_old_checkpoint_goes_on(spark: Any, tmp_path: Path, form: str) -> None:
    feed, kind, given = Feed(spark, tmp_path), KINDS[form], old_checkpoint.rows_of(form)
    old_checkpoint.unpack(tmp_path, form)
    before = rows(feed)
    old_checkpoint.feed(feed, form, BEFORE, len(given["r"]))
    feed.add(*([{**given[side][0], f"{side}id": FAR, "t": FAR}] for side in "rs"))
    old_checkpoint.run(feed, form)

    def expected(stop: int) -> Counter[Any]:
        arrivals = oracle.arrivals_of_tables(given["r"][:stop], given["s"][:stop], ("t", "t"))
        found = kind.results(arrivals, old_checkpoint.case_of(form), WINDOW, ("t", "t"))
        return Counter((one.row("r", "rid"), one.row("s", "sid")) for one in found)

    if kind.take == "all":
        assert pairs(before) == pairs(expected(BEFORE))
    assert before <= rows(feed), "nothing that had come out is contradicted"
    assert rows(feed) == expected(len(given["r"]))
    assert rows(feed).total() > before.total()
    if form == "4":
        assert pairs(before), "what could be chosen early has been"


def pairs(found: Counter[Any]) -> Counter[Any]:
    return Counter({key: n for key, n in found.items() if key[1] is not None})


def rows(feed: Feed) -> Counter[Any]:
    """What has come out, but for the row that closes all windows."""
    found = feed.spark.read.parquet(str(feed.folder / "out")).select("rid", "sid").collect()
    return Counter((row.rid, row.sid) for row in found if row.rid != FAR)
