"""The server behind the live page: what it hands out, to whom, and what it refuses."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv

import streamjoin as sj
from streamjoin.algorithms import ALGORITHMS
from streamjoin.cli.watch import watched
from streamjoin.errors import FileError, OptionError
from streamjoin.metrics import Totals, collector, table, watchers
from streamjoin.monitor.address import Address, read_address
from streamjoin.monitor.run import ENDED, FAILED, KEPT, RUNNING, Run, read_recording
from streamjoin.monitor.samples import of_join, of_pipeline
from streamjoin.monitor.server import Server
from streamjoin.monitor.topology import DRIVER, cells, drawn
from streamjoin.monitor.watch import replay

SCHEMA = pa.schema({"ts": pa.int64(), "x": pa.int32()})


def join(**options: Any) -> sj.Join:
    options = {"within": 60} | options
    return sj.Join(r=SCHEMA, s=SCHEMA, on="abs(r.x - s.x) <= 10", time="ts", **options)


def get(url: str, host: str | None = None) -> tuple[int, str, Any]:
    request = urllib.request.Request(url, headers={} if host is None else {"Host": host})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), error.headers


def events(text: str) -> Iterator[tuple[str, Any]]:
    for block in text.strip().split("\n\n"):
        name, data = block.split("\n")
        yield name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


@pytest.fixture
def served() -> Iterator[tuple[Run, Server]]:
    run = Run("a run", "its plan")
    server = Server(run, Address())
    yield run, server
    server.close()


def test_a_join_is_shown_from_its_start_to_its_end() -> None:
    with join() as live:
        page = sj.watch(live, every=0.01)
        live.push_r({"ts": [1, 2], "x": [5, 100]})
        live.push_s({"ts": [3], "x": [7]})
        status, text, _ = get(f"{page.url}metrics")
        assert status == 200
        assert 'streamjoin_side_pushed_tuples_total{side="r"} 2.0' in text
        assert "streamjoin_join_results_pairs_total 1.0" in text
    page._sampler._thread.join(20)
    page.run.end()
    seen = list(events(get(f"{page.url}events")[1]))
    page.close()
    assert [name for name, _ in seen] == ["run", "samples", "end"]
    head, samples, end = (data for _, data in seen)
    assert "band" in head["plan"] and head["topology"]["shape"] == "one"
    last = samples[-1]
    assert (last["r"]["tuples"], last["s"]["tuples"], last["results"]) == (2, 1, 1)
    assert end == {"state": ENDED, "message": ""}


def test_the_error_that_stops_a_join_is_shown() -> None:
    live = join(late="error")
    with sj.watch(live, every=0.01) as page:
        live._engine.fail(ValueError("the disk is on fire"))
        page._sampler._thread.join(20)
        assert (page.run.state, page.run.message) == (FAILED, "the disk is on fire")
    with pytest.raises(ValueError, match="on fire"):
        live.close()


def test_a_wrong_token_is_refused() -> None:
    run = Run("a run")
    server = Server(run, Address("0.0.0.0"))
    try:
        token = server.url.rstrip("/").rpartition("/")[2]
        assert len(token) >= 20
        base = f"http://127.0.0.1:{server.port}"
        assert get(f"{base}/{token}/")[0] == 200
        for path in ("", "events", "metrics", "page.js", "x" * len(token), f"{token[:-1]}/", f"{token}x/events"):
            status, text, _ = get(f"{base}/{path}")
            assert status == 403 and "whole address" in text
    finally:
        server.close()


def test_other_names_of_this_machine_are_refused(served: tuple[Run, Server]) -> None:
    """A page elsewhere whose name leads to 127.0.0.1 could read figures otherwise."""
    _, server = served
    assert get(server.url, f"evil.example:{server.port}")[0] == 403
    for name in ("localhost", "127.0.0.1"):
        assert get(server.url, f"{name}:{server.port}")[0] == 200


def test_the_page_loads_nothing_from_elsewhere(served: tuple[Run, Server]) -> None:
    _, server = served
    status, text, headers = get(server.url)
    assert status == 200 and "http://" not in text and "https://" not in text
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert get(f"{server.url}page.js")[0] == get(f"{server.url}page.css")[0] == get(f"{server.url}plotly.js")[0] == 200
    assert get(f"{server.url}../../etc/passwd")[0] == get(f"{server.url}run.py")[0] == 404


def test_nothing_can_be_changed(served: tuple[Run, Server]) -> None:
    _, server = served
    for method in ("POST", "PUT", "DELETE"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(server.url, method=method, data=b"x"), timeout=20)
        assert refused.value.code == 405


def test_a_taken_port_is_named(served: tuple[Run, Server]) -> None:
    _, server = served
    with pytest.raises(OptionError, match=f"127.0.0.1:{server.port}.*name another port"):
        Server(Run("another"), Address(port=server.port))


@pytest.mark.parametrize("text", ["a:b", "127.0.0.1:99999", "[::1]:x"])
def test_an_address_that_is_none(text: str) -> None:
    with pytest.raises(OptionError, match="is not an address; write a port"):
        read_address(text)


def test_old_samples_go_and_readers_catch_up() -> None:
    run = Run("long")
    for k in range(KEPT + 10):
        run.add({"results": k})
    samples, following = run.since(0)
    assert len(samples) == KEPT and samples[0]["results"] == 10
    assert run.since(following) == ([], following)
    run.add({"results": -1})
    assert [sample["results"] for sample in run.since(following)[0]] == [-1]


def test_a_recording_is_replayed(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with join() as live, sj.watch(live, every=0.01, record=path) as page:
        live.push_r({"ts": [1], "x": [5]})
        live.push_s({"ts": [3], "x": [7]})
    kinds = [next(iter(line)) for line in read_recording(path)]
    assert kinds[:2] == ["run", "run"] and kinds[-1] == "end" and "sample" in kinds
    again = Run("again")
    replay(path, again, speed=1000.0)
    samples = again.since(0)[0]
    assert samples == page.run.since(0)[0] and samples[-1]["results"] == 1
    assert again.state == ENDED and again.plan == page.run.plan


def test_what_is_being_done_is_told(served: tuple[Run, Server], tmp_path: Path) -> None:
    """Notes are no samples; and figures of one join are not compared with those of the next."""
    run, server = served
    run.note("reading")
    run.describe("one plan", None)
    run.add({"results": 5})
    run.note("joining")
    run.describe("another plan", None)
    run.add({"results": 1})
    run.end()
    seen = list(events(get(f"{server.url}events")[1]))
    assert [name for name, _ in seen] == ["run", "note", "samples", "end"]
    assert seen[1][1]["text"] == "joining" and 0 <= seen[1][1]["seconds"] < 20
    assert [(sample["results"], sample["part"]) for sample in seen[2][1]] == [(5, 0), (1, 1)]
    path = tmp_path / "run.jsonl"
    with path.open("w") as file:
        kept = Run("kept", recording=file)
        kept.note("joining")
        kept.end("it stops")
    again = Run("again")
    replay(path, again, speed=1000.0)
    assert (again.doing, again.state, again.message) == ("joining", FAILED, "it stops")


@pytest.mark.parametrize("algorithm", ["auto", "grid"])
def test_a_join_of_files_is_shown(algorithm: str, tmp_path: Path) -> None:
    """Its plan, its rows, its results; and workers where it has them."""
    from streamjoin.cli.main import main

    rows = pa.table({"ts": list(range(500)), "x": [k % 50 for k in range(500)]}, schema=SCHEMA)
    csv.write_csv(rows, tmp_path / "t.csv")
    words = ["--left", "t.csv", "--right", "t.csv", "--time", "ts", "--on", "abs(r.x - s.x) <= 1", "--within", "20"]
    words = [str(tmp_path / word) if word == "t.csv" else word for word in words]
    words += ["-o", str(tmp_path / "out.csv"), "--record", str(tmp_path / "run.jsonl"), "--algorithm", algorithm]
    assert main(["join", *words, *(["--workers", "2"] if algorithm == "grid" else [])]) == 0
    lines = list(read_recording(tmp_path / "run.jsonl"))
    found = len((tmp_path / "out.csv").read_text().splitlines()) - 1
    heads = [line["run"] for line in lines if "run" in line]
    samples = [line["sample"] for line in lines if "sample" in line]
    notes = [line["note"]["text"] for line in lines if "note" in line]
    assert ("estimated" in heads[1]["plan"]) == (algorithm == "auto")
    assert samples[0]["rows_r"] == samples[0]["rows_s"] == 500
    assert samples[-1]["results"] == found > 0 and f"writing {found:,} rows" in notes
    if algorithm == "grid":
        assert heads[-1]["topology"]["shape"] == "grid" and len(samples[-1]["workers"]) == 2
        assert samples[-1]["r"]["tuples"] == samples[-1]["s"]["tuples"] == 500
    else:
        assert heads[-1]["topology"] is None
    assert lines[-1] == {"end": {"state": ENDED, "message": ""}}
    assert not watchers


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (SystemExit(143), "the program was stopped"),
        (KeyboardInterrupt(), "the program was stopped"),
        (ValueError("no"), "no"),
    ],
)
def test_what_ends_a_command_is_shown(error: BaseException, message: str, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with pytest.raises(type(error)), watched("a command", None, str(path)):
        raise error
    assert list(read_recording(path))[-1] == {"end": {"state": FAILED, "message": message}}


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text('{"run": {}}\n{"other": 1}\n')
    with pytest.raises(FileError, match="line 2"):
        list(read_recording(path))


def test_a_run_without_an_end_is_ended_by_its_replay(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text('{"run": {"title": "cut off"}}\n{"sample": {"at": 0.0}}\n')
    run = Run("again")
    assert run.state == RUNNING
    replay(path, run, speed=1.0)
    assert run.state == ENDED


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_can_be_drawn(name: str) -> None:
    one = ALGORITHMS[name].alone is not None
    picture = drawn(name, (1, 1) if one else (1, 4) if not ALGORITHMS[name].rectangular else (2, 2))
    places = [(node["x"], node["y"]) for node in picture["nodes"]]
    assert len(set(places)) == len(places) == (1 if one else 4)
    known = {DRIVER, *(node["id"] for node in picture["nodes"])}
    assert all({arrow["from"], arrow["to"]} <= known for arrow in picture["arrows"])


def test_cells_are_drawn_once_each() -> None:
    picture = cells("hash", 5, (2, 3), (3.0, 2.0))
    places = {(node["x"], node["y"]) for node in picture["nodes"]}
    assert len(places) == len(picture["nodes"]) == 30
    reached = {side: {arrow["to"] for arrow in picture["arrows"] if arrow["side"] == side} for side in "rs"}
    assert reached["r"] == reached["s"] == set(range(30))


def test_metrics_of_a_spark_driver() -> None:
    from prometheus_client import CollectorRegistry, generate_latest

    totals = Totals()
    registry = CollectorRegistry()
    registry.register(collector(totals))
    totals.add({"batch": 0, "rows_in": 10, "results": 3, "batch_ms": 1500, "watermark": "2024-01-01"})
    cell = {"window_r": 2, "window_s": 3, "arrived": 5, "results": 1, "comparisons": 9, "state_bytes": 80}
    totals.add({"batch": 1, "by_cell": [cell, cell]})
    totals.add({"batch": 2, "batch_ms": 1500, "by_cell": [cell, cell | {"window_r": 4}]})
    text = generate_latest(registry).decode()
    assert 'streamjoin_cell_comparisons_pairs_total{cell="1"} 18.0' in text
    assert 'streamjoin_cell_window_tuples{cell="1",side="r"} 4.0' in text
    workers = of_pipeline(totals.stats())["workers"]
    assert [worker["arrived"] for worker in workers] == [10, 10] and workers[1]["r"] == 4
    assert "streamjoin_pipeline_rows_in_total 10.0" in text
    assert "streamjoin_pipeline_batch_seconds 1.5" in text


def test_queries_of_one_driver_are_counted_each() -> None:
    """Each has a micro-batch 0; only a repeated report is left out."""
    totals = Totals()
    for query in ("a", "b", "a"):
        totals.add({"query": query, "batch": 0, "rows_in": 10, "results": 3})
    assert (totals.batches, totals.rows_in, totals.results) == (2, 20, 6)
    assert totals.knows("b", 0) and not totals.knows("b", 1)


ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("name", ["kang", "grid", "lockstep"])
def test_every_metric_is_documented(name: str) -> None:
    """What Prometheus gets is what the table of metrics has, by the conventions: unit last, _total for counters."""
    from prometheus_client import CollectorRegistry, generate_latest

    window: Any = sj.last(10) if name == "lockstep" else 60
    workers = {} if name == "kang" else {"workers": 2}
    with join(within=window, algorithm=name, **workers) as live:
        registry = CollectorRegistry()
        registry.register(collector(live))
        live.push_r({"ts": [1], "x": [5]})
        live.push_s({"ts": [3], "x": [7]})
        text = generate_latest(registry).decode()
    kinds = dict(re.findall(r"# TYPE (streamjoin_\w+) (\w+)", text))
    assert kinds and kinds.keys() <= set(re.findall(r"streamjoin_\w+", table()))
    assert all(metric.endswith("_total") == (kind == "counter") for metric, kind in kinds.items())
    # As promtool check metrics has it: quantiles are those of summaries, and no unit is abbreviated.
    summaries = {metric for metric, kind in kinds.items() if kind == "summary"}
    assert set(re.findall(r"(\w+)\{[^}]*quantile=", text)) == summaries
    assert summaries or name != "kang"  # workers hand results out a little later
    assert not {"s", "ms", "us", "ns", "b", "kb"} & {part for metric in kinds for part in metric.split("_")}
    helps = dict(re.findall(r"# HELP (\w+) (.+)", text))
    assert helps["streamjoin_join_results_pairs_total"] == "pairs found so far" and kinds.keys() == helps.keys()
    assert ("streamjoin_worker_utilisation_ratio" in kinds) == (name == "lockstep")


def test_rows_without_a_partner_are_counted_and_shown() -> None:
    """What waits is shown as well: a quiet stream holds it back."""
    from prometheus_client import CollectorRegistry, generate_latest

    with join(how="left") as live:
        registry = CollectorRegistry()
        registry.register(collector(live))
        live.push_r({"ts": [1, 100], "x": [5, 5]})
        live.advance(s=90)
        text = generate_latest(registry).decode()
        sample = of_join(live.stats())
    assert "streamjoin_join_unmatched_rows_total 1.0" in text and "streamjoin_join_held_back_tuples 1.0" in text
    assert (sample["unmatched"], sample["held_back"]) == (1, 1)
    with join() as inner:
        assert not {"unmatched", "held_back"} & of_join(inner.stats()).keys()


def test_the_documentation_lists_every_metric() -> None:
    listed = table() in (ROOT / "docs/watching.md").read_text(encoding="utf-8")
    assert listed, "write it anew with: python tests/support/metrics_page.py"


def test_the_dashboard_asks_for_metrics_that_exist() -> None:
    text = (ROOT / "examples/grafana-dashboard.json").read_text(encoding="utf-8")
    asked = {target["expr"] for panel in json.loads(text)["panels"] for target in panel["targets"]}
    names = {name for expression in asked for name in re.findall(r"streamjoin_\w+", expression)}
    assert names and names <= set(re.findall(r"streamjoin_\w+", table()))
