"""The benchmarks and the demo in miniature: they verify their results, and say so in the promised fields."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from streamjoin import papers as workload
from streamjoin.bench import one_core as bench
from streamjoin.cli.main import app
from streamjoin.errors import StreamjoinError

JOIN = {"rate_per_stream", "window_tuples", "access", "results_per_s", "verified", "machine"}


def figures(*command: str) -> dict[str, object]:
    result = CliRunner().invoke(app, [*command, "--json"])
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["verified"] is True
    return answer


def test_scan() -> None:
    answer = figures("bench", "scan", "--tuples", "20000", "--seconds", "0")
    assert {"comparisons_per_s", "pairs", "machine"} <= set(answer)
    assert answer["pairs"] > 0


@pytest.mark.parametrize(("access", "rate"), [("band", "5000"), ("scan", "1000"), ("hash", "5000")])
def test_join(access: str, rate: str) -> None:
    answer = figures("bench", "join", "--access", access, "--window", "20s", "--rate", rate, "--seconds", "0")
    assert set(answer) >= JOIN and answer["access"] == access
    assert answer["window_tuples"] >= 20 * int(rate)


def test_tables_agree_with_other_engines() -> None:
    pytest.importorskip("duckdb")
    pytest.importorskip("polars")
    answer = figures("bench", "tables", "--rows", "5000", "--rounds", "1")
    assert set(answer["peer_seconds"]) == {"duckdb", "polars"}


def test_demo() -> None:
    answer = figures("demo", "--engine", "embedded", "--tuples", "3000")
    assert answer["tuples_per_stream"] == 3000


def test_a_wrong_result_is_noticed() -> None:
    r, s = workload.Source("r", 1000), workload.Source("s", 1000)
    r.batch(100), s.batch(100_000)
    nothing = np.zeros(0, np.int64), np.zeros(0, np.int64)
    with pytest.raises(StreamjoinError, match="wrong result"):
        bench._check(nothing, r, s, range(100), 100_000, 10**9, equality=False)
