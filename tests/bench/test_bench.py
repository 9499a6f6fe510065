"""The benchmarks and the demo in miniature: they verify their results, and say so in the promised fields."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest
from typer.testing import CliRunner

from profiles import soak_only
from streamjoin import metrics
from streamjoin import papers as workload
from streamjoin.bench import check, harness, push_bench, rows_bench, table_kinds, tables_bench
from streamjoin.bench import one_core as bench
from streamjoin.bench.contestant import fingerprint, prepare
from streamjoin.bench.jobs import JOBS
from streamjoin.bench.yardsticks import PEERS
from streamjoin.cli.main import app
from streamjoin.errors import OptionError, StreamjoinError
from streamjoin.monitor.run import read_recording

JOIN = {"rate_per_stream", "window_tuples", "access", "results_per_s", "verified", "machine"}


def figures(*command: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, [*command, "--json"])
    assert result.exit_code == 0, result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    assert answer["verified"] is True
    return answer


def test_a_benchmark_says_at_once_that_it_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamjoin.bench.one_core.scan", lambda **sizes: {"verified": True})
    result = CliRunner().invoke(app, ["bench", "scan"])
    assert result.stderr.endswith("bench scan: figures follow when its results are verified\n")
    assert result.stdout.split() == ["verified", "True"]
    assert "figures follow" not in CliRunner().invoke(app, ["bench", "scan", "--help"]).output


def test_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    joins: list[Any] = []
    monkeypatch.setattr(metrics, "watchers", [joins.append])
    answer = figures("bench", "scan", "--tuples", "20000", "--seconds", "0")
    counted = joins[0].stats()  # what the live page shows
    assert counted["r"]["pushed"] > 0 and counted["s"]["pushed"] == 20_000
    assert {"comparisons_per_s", "pairs", "machine"} <= set(answer)
    assert answer["pairs"] > 0


@pytest.mark.parametrize(("access", "rate"), [("band", "5000"), ("scan", "1000"), ("hash", "5000")])
def test_join(access: str, rate: str) -> None:
    answer = figures("bench", "join", "--access", access, "--window", "20s", "--rate", rate, "--seconds", "0")
    assert set(answer) >= JOIN and answer["access"] == access
    assert answer["window_tuples"] >= 20 * int(rate)


def test_rows_beside_pairs() -> None:
    answer = figures("bench", "join", "--rows", "--window", "20s", "--rate", "5000", "--seconds", "0")
    assert {"rate_per_stream", "pairs_rate_per_stream", "ratio_to_pairs", "machine"} <= set(answer)


def test_rows_with_wrong_values_are_noticed() -> None:
    sources = [workload.Source(name, 1000) for name in "rs"]
    join = rows_bench._Rows(bench.Workload(workload.BAND, "20s", 1000, 500, workload.HIGHEST), "band", sources)
    found = join.round(500)
    join.join.close()
    rows_bench._check(found, sources, range(20_000, 20_500), 20 * 10**6, workload.BAND)
    table = pa.Table.from_batches(found)
    shifted = table.set_column(table.schema.get_field_index("b"), "b", pa.compute.add(table["b"], np.float32(1)))
    with pytest.raises(StreamjoinError, match="wrong result"):
        rows_bench._check(shifted.to_batches(), sources, range(20_000, 20_500), 20 * 10**6, workload.BAND)


RUN = {"job", "rows", "engine", "seconds", "first_seconds", "cpu_seconds", "peak_mb", "rows_out", "same"}


@pytest.fixture
def peers() -> None:
    pytest.importorskip("duckdb")
    pytest.importorskip("polars")


@pytest.mark.usefixtures("peers")
def test_kinds_of_joins_agree_with_each_other() -> None:
    answer = figures("bench", "tables", "--how", "all", "--job", "equi", "--rows", "2000", "--rounds", "1")
    kinds = {run["kind"]: run["rows_out"] for run in answer["runs"] if run["job"] == "equi"}
    assert kinds["left"] == kinds["inner"] + kinds["anti"] and kinds["semi"] + kinds["anti"] == 2000
    assert {run["kind"] for run in answer["runs"] if run["job"] == "asof"} == {"streamjoin", "polars", "duckdb"}


def test_kinds_without_an_equality_agree_with_other_engines() -> None:
    pytest.importorskip("duckdb")
    options = ["bench", "tables", "--how", "peers", "--rows", "1500", "--rounds", "1"]
    answer = figures(*options, "--job", "ineq,ineq_correlated,overlap")
    found = {(run["job"], run["kind"]) for run in answer["runs"]}
    kinds = ("left", "full", "semi", "anti", "count")
    wanted = {(f"{job} {kind}", engine) for job in ("ineq", "ineq_correlated", "overlap") for kind in kinds
              for engine in ("streamjoin", "duckdb")}  # fmt: skip
    assert wanted <= found
    assert all(run["rows_out"] > 0 for run in answer["runs"] if not run["job"].endswith("anti"))
    with pytest.raises(OptionError, match="peers do overlap, overlap_tail, ineq, ineq_correlated, ineq_anti"):
        table_kinds.kinds(["equi"], ["peers"], 100, 1)


@pytest.mark.usefixtures("peers")
def test_tables_agree_with_other_engines() -> None:
    answer = figures("bench", "tables", "--rows", "5000", "--rounds", "1", "--engines", "duckdb,polars")
    assert set(answer["peer_seconds"]) == {"duckdb", "polars"}
    assert {run["engine"] for run in answer["runs"]} == {"streamjoin", "duckdb", "polars"}
    assert all(set(run) == RUN and run["same"] and run["peak_mb"] > 0 for run in answer["runs"])
    assert set(answer["ratios"]["band2d"]) == {"duckdb", "polars"}


@pytest.mark.usefixtures("peers")
@pytest.mark.parametrize("name", JOBS)
def test_every_job_is_phrased_rightly_for_every_engine(name: str) -> None:
    job = JOBS[name]
    inputs = job.inputs(3000)
    able = [engine for engine, peer in PEERS.items() if peer.takes(job) and engine != "chdb"]
    engines = [engine for engine in ("streamjoin", *able) if find_spec(engine)]
    found = {engine: fingerprint(prepare(engine, job, inputs)()) for engine in engines}
    assert len(set(found.values())) == 1, found
    assert found["streamjoin"][0] > 0


def test_a_first_call_imports_none_of_our_modules() -> None:
    """As other engines' modules are, ours are imported before the clock starts."""
    code = """import sys
from streamjoin.bench.contestant import OURS, prepare
from streamjoin.bench.jobs import JOBS
run = prepare(OURS, JOBS["equi"], JOBS["equi"].inputs(1000))
before = set(sys.modules)
assert run().num_rows
print([name for name in set(sys.modules) - before if name.startswith(("streamjoin.", "sqlglot"))])
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_every_result_row_counts_in_a_fingerprint() -> None:
    job = JOBS["overlap"]
    table = prepare("streamjoin", job, job.inputs(500))()
    for k, name in enumerate(table.column_names):
        changed = table.column(name).to_numpy().copy()
        changed[7] += 1
        assert fingerprint(table.set_column(k, name, pa.array(changed))) != fingerprint(table)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--job", "band3d"), "band2d, band1d"),
        (("--engines", "oracle"), "duckdb, polars"),
    ],
)
def test_unknown_names_list_the_known_ones(words: tuple[str, str], told: str) -> None:
    result = CliRunner().invoke(app, ["bench", "tables", "--rows", "10", *words])
    assert isinstance(result.exception, OptionError) and told in str(result.exception)


def test_a_missing_peer_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables_bench, "find_spec", lambda name: None)
    with pytest.raises(OptionError, match=r"chdb is not installed; .*pip install 'streamjoin\[peers\]'"):
        tables_bench.chosen_engines(["chdb"])


def test_engines_that_disagree_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(tables_bench.Contestant):
        def call(self) -> dict[str, Any]:
            return super().call() | {"fingerprint": [1, id(self)]}

    pytest.importorskip("duckdb")
    monkeypatch.setattr(tables_bench, "Contestant", Wrong)
    with pytest.raises(StreamjoinError, match="disagree about equi"):
        tables_bench.tables(["equi"], rows=100, rounds=1, engines=["duckdb"])


def test_a_call_that_takes_too_long_is_given_up() -> None:
    pytest.importorskip("duckdb")
    with (
        pytest.raises(tables_bench.TimeLimitError, match="duckdb with equi took more than"),
        tables_bench.Contestant("equi", 100, "duckdb", limit=1e-4),
    ):
        pass


def test_an_engine_that_takes_too_long_has_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(tables_bench.Contestant):
        def call(self) -> dict[str, Any]:
            if self.what.startswith("streamjoin"):
                raise tables_bench.TimeLimitError(self.what)
            return super().call()

    pytest.importorskip("duckdb")
    monkeypatch.setattr(tables_bench, "Contestant", Slow)
    ours, peer = tables_bench.tables(["equi"], rows=100, rounds=2, engines=["duckdb"])["runs"]
    assert ours["seconds"] is None and ours["same"] is None
    assert peer["seconds"] > 0 and peer["same"] is None


def test_push_in_miniature(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push_bench, "WINDOWS", {2000: 400})
    answer = figures("bench", "push", "--windows", "2000", "--pushes", "70", "--rounds", "1")
    runs = [(run["rows"], run["pushed_as"]) for run in answer["runs"]]
    assert runs == [(1, "batch"), (1, "tuples"), (64, "batch"), (64, "tuples"), (1024, "batch")]
    assert all(run["verified"] and run["push_us"] > 0 and run["results_per_row"] > 5 for run in answer["runs"])
    assert answer["paced"]["p50_us"] <= answer["paced"]["p99_us"] and answer["idle_poll_us"] > 0


def test_results_of_pushes_that_are_missing_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push_bench, "WINDOWS", {2000: 400})
    filled = push_bench.Filled(2000, 30, 1, "kang", 1)
    filled.unpaced()
    filled._found.pop()
    with pytest.raises(StreamjoinError, match="wrong result"):
        filled.close()


def test_windows_are_filled_for_an_algorithm_whose_tuples_meet_late() -> None:
    filled = harness.Harness(harness.Case("handshake", 2, "scan", "5 seconds", 400))
    filled.run(0.0)
    filled.close()
    assert filled.filled == 2000 and filled.results > 0


@soak_only  # it compiles everything, twice
def test_cold_in_miniature() -> None:
    answer = figures("bench", "cold", "--joins", "join")
    by_step = {run["step"]: run for run in answer["runs"]}
    assert by_step["empty cache"]["compiled"] > by_step["new predicate"]["compiled"] > 0
    assert by_step["second process"]["compiled"] == 0


@pytest.mark.slow
@pytest.mark.usefixtures("peers")
def test_watching_in_miniature() -> None:
    words = ("--window", "2 seconds", "--rate", "4000", "--rounds", "2", "--seconds", "0.1")
    answer = figures("bench", "watch", *words)
    assert {"slower_by", "cpu_beside", "rate_per_stream"} <= set(answer) and len(answer["quartiles"]) == 3


def test_a_benchmark_can_be_watched(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    figures("bench", "--record", str(path), "join", "--window", "20s", "--rate", "1000", "--seconds", "0")
    samples = [line["sample"] for line in read_recording(path) if "sample" in line]
    last = samples[-1]
    assert last["r"]["tuples"] == last["s"]["tuples"] >= last["r"]["window"] > 0
    assert last["workers"][0]["comparisons"] == last["comparisons"] > 0


def test_check_names_what_fell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "ROWS", 500)
    file = tmp_path / "recorded.json"
    words = ["bench", "check", "--file", str(file), "--job", "equi", "--rounds", "1", "--engines", "duckdb", "--json"]
    assert CliRunner().invoke(app, [*words, "--record"]).exit_code == 0
    kept = json.loads(file.read_text())
    assert set(kept["ratios"]["equi"]) == {"duckdb"} and kept["rows"] == 500
    measured = tables_bench.tables(["equi"], 500, 1, ["duckdb"])
    monkeypatch.setattr(check, "tables", lambda *words, **more: measured)
    for factor, fell in ((1e-3, []), (1e3, ["equi"])):
        changed = kept | {"ratios": {"equi": {"duckdb": kept["ratios"]["equi"]["duckdb"] * factor}}}
        file.write_text(json.dumps(changed))
        result = CliRunner().invoke(app, words)
        assert [fall["job"] for fall in json.loads(result.stdout)["fallen"]] == fell
        assert result.exit_code == len(fell)


def test_demo() -> None:
    answer = figures("demo", "--engine", "embedded", "--tuples", "3000")
    assert answer["tuples_per_stream"] == 3000


def test_a_wrong_result_is_noticed() -> None:
    r, s = workload.Source("r", 1000), workload.Source("s", 1000)
    r.batch(100), s.batch(100_000)
    nothing = np.zeros(0, np.int64)
    with pytest.raises(StreamjoinError, match="wrong result"):
        harness.check(nothing, nothing, [r, s], range(100), 10**9, equality=False)
