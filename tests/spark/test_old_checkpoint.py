"""A checkpoint of every format goes on with nothing lost or doubled."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import old_checkpoint
from feeds import Feed
from old_checkpoint import BEFORE, CASE, HOWS, ROWS, WINDOW
from streamjoin.testing import oracle
from streamjoin.testing.results import results

pytestmark = pytest.mark.spark


FAR = 10**6  # a row of each side at this time closes all windows


@pytest.mark.parametrize("number", HOWS)
def test_an_old_checkpoint_goes_on(spark: Any, tmp_path: Path, number: int) -> None:
    feed = Feed(spark, tmp_path)
    old_checkpoint.unpack(tmp_path, number)
    before = rows(feed)
    old_checkpoint.feed(feed, BEFORE, len(ROWS["r"]))
    feed.add(*([{**ROWS[side][0], f"{side}id": FAR, "t": FAR}] for side in "rs"))
    old_checkpoint.run(feed, number)

    def expected(stop: int) -> Counter[Any]:
        arrivals = oracle.arrivals_of_tables(ROWS["r"][:stop], ROWS["s"][:stop], ("t", "t"))
        found = results(arrivals, CASE.holds, WINDOW, ("t", "t"), how=HOWS[number])
        return Counter((one.row("r", "rid"), one.row("s", "sid")) for one in found)

    pairs = Counter({key: n for key, n in before.items() if key[1] is not None})
    assert pairs == Counter({key: n for key, n in expected(BEFORE).items() if key[1] is not None})
    assert before <= rows(feed), "nothing that had come out is contradicted"
    assert rows(feed) == expected(len(ROWS["r"]))
    assert rows(feed).total() > before.total()


def rows(feed: Feed) -> Counter[Any]:
    """What has come out, but for the row that closes all windows."""
    found = feed.spark.read.parquet(str(feed.folder / "out")).select("rid", "sid").collect()
    return Counter((row.rid, row.sid) for row in found if row.rid != FAR)
