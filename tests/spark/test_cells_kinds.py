"""Kinds of joins in the cells of the Spark engine, without Spark: against the oracle, whatever cells and batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cells import Cluster, spec_of
from streamjoin.testing import cases, verdict
from streamjoin.testing.kinds import AGGREGATES, BY_TIME, BY_VALUE, HOWS, Kind
from streamjoin.testing.oracle import Row
from streamjoin.testing.strategies import stream, time_windows

CASES = [cases.BY_NAME[name] for name in ("band", "equality_band", "nulls")]
GROUPS = {"hows": HOWS, "by_time": BY_TIME, "by_value": BY_VALUE, "aggregates": AGGREGATES}
END = 10**6


def clusters(case: cases.Case, window: Any, kind: Kind, folder: Path | None, **options: Any) -> list[Cluster]:
    """The operators of a join: one, or two where each decides about one side."""
    spec = spec_of(case.on, cases.within(window), **kind.options, **options)
    return [Cluster(part, folder and folder / str(k)) for k, part in enumerate(spec.parts)]


def unique(rows: list[Row]) -> list[Row]:
    """Rows of different times: ties are decided by the content here, and by arrival in the oracle."""
    return list({row["t"]: row for row in rows}.values())


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@given(data=st.data())
@settings(max_examples=15)
def test_cells_do_as_the_oracle(case: cases.Case, group: str, data: st.DataObject, tmp_path_factory: Any) -> None:
    kind, window = data.draw(st.sampled_from(GROUPS[group])), data.draw(time_windows)
    options = {"cells": data.draw(st.sampled_from([1, 2, 6])), "split": data.draw(st.sampled_from([None, 1, 2]))}
    found = clusters(case, window, kind, tmp_path_factory.mktemp("chunks"), **options)
    r, s = unique(data.draw(stream("r"))), unique(data.draw(stream("s")))
    merged = sorted([(row["t"], "r", row) for row in r] + [(row["t"], "s", row) for row in s], key=lambda e: e[:2])
    for size in [*data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=6)), len(merged)]:
        part, merged = merged[:size], merged[size:]
        for cluster in found:
            cluster.batch(*([row for _, side, row in part if side == which] for which in "rs"))
            if data.draw(st.booleans()):
                cluster.time_passes()
    arrivals = [("r", row) for row in r] + [("s", row) for row in s]
    for cluster in found:
        cluster.newest = {"r": END, "s": END}  # the streams go on, and far beyond
        cluster.time_passes()
        assert cluster.late == 0
        assert cluster.state_rows == 0
    expected = kind.results(arrivals, case, window, ("t", "t"))
    verdict.same([table for cluster in found for table in cluster.out], expected, kind)
