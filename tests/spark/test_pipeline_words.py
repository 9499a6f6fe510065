"""The words of the Spark pipeline command: what is refused before Spark starts, and what becomes of the rest."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import streamjoin as sj
from streamjoin.cli import app, main
from streamjoin.errors import FileError, OptionError, PipelineError, SchemaError
from streamjoin.spark.pipeline.absent import Absent
from streamjoin.spark.pipeline.absent import _json as lacking
from streamjoin.spark.pipeline.checkpoint import NOTE, check_checkpoint, remember
from streamjoin.spark.pipeline.endpoints import Endpoint, check_reachable, pairs, schema_text, sink, source
from streamjoin.spark.pipeline.jvm import told
from streamjoin.spark.pipeline.pipeline import Figures, Request, check, explained
from streamjoin.spark.pipeline.stop import Stop, held

ROWS = pa.table({"ts": pa.array([1, 2], pa.timestamp("us", "UTC")), "x": [1.0, 2.0]})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for side in "rs":
        Path(side).mkdir()
        pq.write_table(ROWS, f"{side}/part.parquet")
    return tmp_path


def words(*more: str, left: str = "r", right: str = "s") -> list[str]:
    request = ["join", "--engine", "spark", "--left", left, "--right", right, "--on", "r.x = s.x", "--within", "2s"]
    return [*request, "--time", "ts", *more]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "name the output with -o"),
        (["-o", "out"], "name a folder with --checkpoint"),
        (["-o", "console", "--json"], "--json needs standard output"),
        (["-o", "out", "--checkpoint", "ck", "--algorithm", "grid"], "--algorithm is for --engine embedded"),
        (["-o", "out", "--checkpoint", "ck", "--stats"], "--stats is for --engine embedded"),
        (["-o", "out", "--checkpoint", "ck", "--watermark", "soon"], "--watermark"),
        (["-o", "out", "--checkpoint", "ck", "--watermark", "-1s"], "is negative"),
        (["-o", "out", "--checkpoint", "ck", "--watermark", "1s,2s,3s"], "left and right"),
        (["-o", "out", "--checkpoint", "ck", "--trigger", "often"], "--trigger"),
        (["-o", "out", "--checkpoint", "ck", "--trigger", "1s", "--available-now"], "leave out --trigger"),
        (["-o", "out", "--checkpoint", "ck", "--malformed", "ignore"], "--malformed"),
        (["-o", "out", "--checkpoint", "ck", "--conf", "a.b"], '--conf "a.b" is not KEY=VALUE'),
        (["-o", "out", "--checkpoint", "ck", "--left", "gone"], '--left "gone" does not exist'),
        (["-o", "out", "--checkpoint", "ck", "--left", "r/part.parquet"], "is one file; a stream is a folder"),
        (["-o", "out", "--checkpoint", "ck", "--left-format", "xml"], '--left-format "xml"'),
        (["-o", "out", "--checkpoint", "ck", "--left-schema", "gone.ddl"], "neither an existing file nor a schema"),
        (["-o", "out", "--checkpoint", "ck", "--left", "kafka://b:9092"], "names no topic"),
        (["-o", "out", "--checkpoint", "ck", "--left", "kafka://b/t"], "is not host:port"),
        (["-o", "out", "--checkpoint", "ck", "--left", "kafka://b:9092/t"], "give --left-schema"),
        (["-o", "out", "--checkpoint", "ck", "--left", "generate://papers?speed=3"], 'no setting "speed"'),
        (["-o", "out", "--checkpoint", "ck", "--left", "generate://papers?rate=0"], 'rate="0" is not a number'),
        (["-o", "out", "--checkpoint", "ck", "--left", "generate://other"], "knows one workload"),
        (["-o", "out", "--checkpoint", "ck", "--left", "generate://papers", "--available-now"], "would never end"),
        (["-o", "out", "--checkpoint", "ck", "--on", "r.x +"], "predicate cannot be read"),
        (["-o", "r/part.parquet", "--checkpoint", "ck"], "is a file; a stream is written into a folder"),
        (["-o", "out", "--checkpoint", "r"], "has other things in it"),
        (["-o", "out", "--checkpoint", "r/part.parquet"], "is a file; name a folder"),
        (["-o", "out", "--checkpoint", "ck", "--engine", "flink"], "neither embedded nor spark"),
    ],
)
def test_refusals_come_before_spark_and_name_the_option(
    more: list[str], message: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    name = "streamjoin.spark.pipeline.pipeline.session"
    monkeypatch.setattr(name, lambda *_: pytest.fail("Spark would have started"))
    assert main(words(*more)) == 2
    printed = capfd.readouterr()
    assert printed.out == ""
    assert message in " ".join(printed.err.split())
    assert "Traceback" not in printed.err
    assert {path.name for path in folder.iterdir()} == {"r", "s"}


DONE = {"finished": True, "results": 0, "rows_in": 0, "seconds": 0.0, "late": 0, "malformed": 0, "absent": []}


@pytest.fixture
def asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """The pipelines that would have run."""
    found: list[Request] = []

    def run(request: Request, *more: Any) -> dict[str, Any]:
        found.append(request)
        check(request)
        return DONE

    monkeypatch.setattr("streamjoin.spark.pipeline.pipeline.run", run)
    return found


def without_window(*more: str) -> list[str]:
    request = words("-o", "console", *more)
    del request[request.index("--within") : request.index("--within") + 2]
    return request


def test_streams_that_need_no_window(asked: list[Request], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(without_window("--take", "backward")) == 0
    assert asked[0].options.within is None and asked[0].words["--take"] == "backward"
    assert main(without_window("--time-right", "valid(ts,x,most=1 day)")) == 0
    assert asked[1].options.times == ("ts", sj.valid("ts", "x", most="1 day"))
    assert asked[1].words["--time-right"] == "valid(ts,x,most=1 day)"  # part of the checkpoint's note
    for more in ((), ("--take", "forward"), ("--how", "left")):
        capfd.readouterr()
        assert main(without_window(*more)) == 2
        assert "streams need a window; name it with --within" in " ".join(capfd.readouterr().err.split())
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [("how", "left"), ("take", "backward"), ("aggregate", "count(*) AS n"), ("select", "r.x")],
)
def test_a_checkpoint_belongs_to_one_kind(
    name: str, value: str, asked: list[Request], capfd: pytest.CaptureFixture[str]
) -> None:
    """Of an inner join its note says nothing, as before there were other kinds."""
    Path("ck/offsets").mkdir(parents=True)
    Path("ck/offsets/0").touch()
    to = ["-o", "out", "--checkpoint", "ck"]
    assert main(words(*to)) == 0
    known = {option: found for option, found in asked[0].words.items() if found is not None}
    assert known.keys() == {"--left", "--right", "--on", "--within", "--suffixes", "--access", "--output",
                            "--time-left", "--time-right"}  # fmt: skip
    remember("ck", known)
    assert main(words(*to)) == 0
    assert main(words(*to, f"--{name}", value)) == 2
    assert f'belongs to a pipeline with --{name} not given, not "{value}"' in " ".join(capfd.readouterr().err.split())


def test_options_of_spark_are_refused_elsewhere(folder: Path) -> None:
    request = words("-o", "out.parquet", "--checkpoint", "ck", "--engine", "embedded")
    result = CliRunner().invoke(app, request)
    assert result.exit_code == 2
    assert "--checkpoint is for --engine spark" in " ".join(result.stderr.split())


def test_a_missing_package_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    monkeypatch.setattr("streamjoin.spark.pipeline.session._installed", lambda name: name != "pyspark")
    assert main(words("-o", "out", "--checkpoint", "ck")) == 2
    assert "needs pyspark; install with: pip install 'streamjoin[spark]'" in capfd.readouterr().err


def test_formats_are_told_by_the_files(folder: Path) -> None:
    Path("c").mkdir()
    Path("c/one.csv.gz").touch()
    Path("c/_hidden.json").touch()
    assert source("--left", "c", None, {}, None).format == "csv"
    assert source("--left", "r", None, {}, None).format == "parquet"
    Path("c/two.json").touch()
    with pytest.raises(OptionError, match="files of csv and json; give --left-format"):
        source("--left", "c", None, {}, None)
    Path("empty").mkdir()
    with pytest.raises(OptionError, match="--left-format"):
        source("--left", "empty", None, {}, None)
    with pytest.raises(OptionError, match=r"no files yet.*give --left-schema"):
        source("--left", "empty", "csv", {}, None)
    assert source("--left", "empty", "csv", {}, "ts TIMESTAMP").format == "csv"


def test_the_ends_of_a_pipeline() -> None:
    topic = source("--left", "kafka://a:1,b:2/t", None, {"startingOffsets": "latest"}, "x INT")
    assert (topic.kind, topic.place, topic.topic) == ("kafka", "a:1,b:2", "t")
    assert topic.options == {"startingOffsets": "latest"}
    made = source("--right", "generate://papers?rate=50&seed=7", None, {}, None)
    assert (made.options["rate"], made.options["batch"], made.options["seed"]) == ("50", "50", "7")
    assert sink("-o", "console", None, {}).kind == sink("-o", "-", None, {}).kind == "console"
    assert sink("-o", "out.csv", None, {}).format == "csv"
    assert sink("-o", "anything", None, {}).format == "parquet"
    assert not sink("-o", "hdfs://host/out", None, {}).is_local
    with pytest.raises(OptionError, match="is a source"):
        sink("-o", "generate://papers", None, {})
    assert pairs("--conf", ["a=b=c"]) == {"a": "b=c"}


def test_a_broker_that_is_not_there() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(OptionError, match=f"--left: no Kafka broker answers at 127.0.0.1:{port}"):
        check_reachable(Endpoint("--left", "kafka", "json", f"127.0.0.1:{port}", "t"))


def test_schemas_come_from_text_or_file(tmp_path: Path) -> None:
    assert schema_text("--left-schema", " ts TIMESTAMP ") == "ts TIMESTAMP"
    (tmp_path / "schema").write_text("ts TIMESTAMP, x INT\n")
    assert schema_text("--left-schema", str(tmp_path / "schema")) == "ts TIMESTAMP, x INT"
    (tmp_path / "schema").write_text('{"type": "struct"}')
    with pytest.raises(SchemaError, match="without a list of fields"):
        schema_text("--left-schema", str(tmp_path / "schema"))
    for empty in ("", "  "):
        with pytest.raises(SchemaError, match="--left-schema is empty"):
            schema_text("--left-schema", empty)


def test_a_checkpoint_belongs_to_one_pipeline(tmp_path: Path) -> None:
    checkpoint, output = tmp_path / "ck", Endpoint("--output", "files", "parquet", str(tmp_path / "out"))
    request = {"--left": "a", "--on": "r.x = s.x", "--left-schema": None}
    assert check_checkpoint(str(checkpoint), request, output) is None
    remember(str(checkpoint), request)
    assert json.loads((checkpoint / NOTE).read_text()) == request
    assert check_checkpoint(str(checkpoint), {**request, "--left": "b"}, output) is None  # nothing was read yet
    (checkpoint / "offsets").mkdir()
    (checkpoint / "offsets" / "0").touch()
    assert check_checkpoint(str(checkpoint), request, output) == request
    assert check_checkpoint(str(checkpoint), {**request, "--cells": None}, output) == request
    with pytest.raises(OptionError, match='with --cells not given, not "4"'):
        check_checkpoint(str(checkpoint), {**request, "--cells": 4}, output)
    with pytest.raises(OptionError, match='belongs to a pipeline with --left "a", not "b"'):
        check_checkpoint(str(checkpoint), {**request, "--left": "b"}, output)
    with pytest.raises(OptionError, match='with --left-schema not given, not "x INT"'):
        check_checkpoint(str(checkpoint), {**request, "--left-schema": "x INT"}, output)
    (checkpoint / "commits").mkdir()
    (checkpoint / "commits" / "0").touch()
    with pytest.raises(OptionError, match="has produced results"):
        check_checkpoint(str(checkpoint), request, output)
    (tmp_path / "out" / "_spark_metadata").mkdir(parents=True)
    assert check_checkpoint(str(checkpoint), request, output) == request
    assert check_checkpoint(str(tmp_path / "new"), request, output) is None  # stopped before its first batch
    (tmp_path / "out" / "_spark_metadata" / "0").touch()
    with pytest.raises(OptionError, match="was written by a pipeline with another checkpoint"):
        check_checkpoint(str(tmp_path / "new"), request, output)
    with pytest.raises(FileError, match="has other things in it"):
        check_checkpoint(str(tmp_path / "out"), request, output)


def test_the_generator_is_a_function_of_the_number() -> None:
    from streamjoin.papers import tuples

    whole = tuples("r", 0, 20_000, 1_000)
    cuts = [tuples("r", a, b, 1_000) for a, b in ((0, 1), (1, 7_000), (7_000, 20_000))]
    for column, *parts in zip(whole, *cuts, strict=True):
        assert np.array_equal(column, np.concatenate(parts))
    times, integers, reals = whole
    assert times[0] == 0 and times[1_000] == 1_000_000
    assert integers.dtype == np.int32 and reals.dtype == np.float32
    assert integers.min() >= 1 and integers.max() <= 10_000 and abs(integers.mean() - 5_000) < 100
    assert reals.min() >= 1 and reals.max() <= 10_000 and abs(reals.mean() - 5_000) < 100
    assert abs(np.corrcoef(integers, reals)[0, 1]) < 0.05
    for other in (tuples("s", 0, 100, 1_000), tuples("r", 0, 100, 1_000, seed=1)):
        assert not np.array_equal(other[1], integers[:100])


def test_the_generator_keeps_its_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql.streaming.datasource import ReadMaxRows

    from streamjoin.spark.pipeline import generator

    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    options = {"side": "r", "rate": "1000", "tuples": "5000", "batch": "600"}
    reader = generator.PapersReader(options)
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(600)
    assert reader.latestOffset({"next": 1_000}, limit) == {"next": 1_000}  # resumed; the clock starts now
    now[0] = 100.5
    assert reader.latestOffset({"next": 1_000}, limit) == {"next": 1_500}
    now[0] = 110.0
    assert reader.latestOffset({"next": 1_500}, limit) == {"next": 2_100}
    reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset({"next": 4_900}, limit) == {"next": 5_000}
    assert reader.latestOffset({"next": 5_000}, limit) == {"next": 5_000}
    pieces: Any = generator.PapersReader({**options, "partitions": "3"}).partitions({"next": 10}, {"next": 20})
    assert [(piece.first, piece.end) for piece in pieces] == [(10, 13), (13, 16), (16, 20)]
    assert not reader.partitions({"next": 5}, {"next": 5})
    rows = pa.Table.from_batches(list(reader.read(pieces[0])))
    assert rows.num_rows == 3 and rows.column_names == ["ts", "x", "y"]


def test_figures_count_a_batch_once() -> None:
    figures = Figures()
    batch = {"batch": 0, "rows_in": 5, "results": 2, "late": 1, "comparisons": 9, "watermark": "w", "batch_ms": 3}
    for _ in range(2):
        figures.add(batch)
    figures.add({**batch, "batch": 1, "state_rows": 7})
    said = figures.summary()
    assert (said["batches"], said["rows_in"], said["results"], said["late"], said["comparisons"]) == (2, 10, 4, 2, 18)
    assert (said["watermark"], said["state_rows"]) == ("w", 7)


def test_progress_where_nobody_watches_is_lines(capfd: pytest.CaptureFixture[str]) -> None:
    from streamjoin.cli.progress import Live

    figures = Figures()
    with Live("title", tuples=20) as live:
        live("starting Spark", figures)
        figures.add({"batch": 0, "rows_in": 10, "results": 4, "late": 1, "batch_ms": 500, "state_bytes": 2048})
        figures.warnings.append("a file lacks a column")
        live("running", figures)
        live("running", figures)
        figures.add({"batch": 1, "malformed": 3})
        live("stopping", figures)
    first, warning, second, third = capfd.readouterr().err.splitlines()
    assert (first, warning) == ("starting Spark", "streamjoin: a file lacks a column")
    assert "malformed" not in second and "malformed rows 3" in third
    for part in ("rows 10 of 20", "rows/s 20", "results/s 8", "late rows 1", "2.0 KiB", "batch 0 in 0.50 s"):
        assert part in second


def test_the_first_signal_is_a_wish_and_the_second_an_order() -> None:
    stop = Stop()
    before = signal.getsignal(signal.SIGINT)
    with stop.listening():
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set() and stop.number == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_hang_up_stops_unless_it_was_ignored() -> None:
    for handler in (signal.SIG_DFL, signal.SIG_IGN):
        before = signal.signal(signal.SIGHUP, handler)
        try:
            stop = Stop()
            with stop.listening():
                signal.raise_signal(signal.SIGHUP)
            assert stop.is_set() == (handler == signal.SIG_DFL)
            assert signal.getsignal(signal.SIGHUP) == handler
        finally:
            signal.signal(signal.SIGHUP, before)
    stop = Stop()
    with stop.listening():
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(SystemExit) as ended:
            signal.raise_signal(signal.SIGTERM)
    assert ended.value.code == 143


def test_a_signal_is_held_back_to_the_end() -> None:
    done = []

    def work() -> None:
        with held():
            signal.raise_signal(signal.SIGINT)
            done.append("first")
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            done.append("second")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # Spark has one of its own
    try:
        with pytest.raises(KeyboardInterrupt):
            work()
        assert done == ["first", "second"]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("hang_up")
def test_a_terminal_that_was_closed_is_let_go() -> None:
    """Whoever wrote there would fail: the progress, the report, the log."""
    ours, theirs = os.openpty()
    kept = os.dup(2)
    os.dup2(theirs, 2)
    os.close(theirs)
    try:
        stop = Stop()
        with stop.listening():
            os.close(ours)
            with pytest.raises(OSError, match="Input/output error"):
                os.write(2, b"x")
            signal.raise_signal(signal.SIGHUP)
            assert os.write(2, b"x") == 1
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def test_how_java_ended_is_told() -> None:
    assert "killed by SIGKILL, as the kernel does when memory runs out" in told(-9)
    assert told(-6) == "the Java process of Spark was killed by SIGABRT"
    assert "ran out of memory; give it more (--conf spark.driver.memory=4g)" in told(52)


def test_absent_columns_of_files(tmp_path: Path) -> None:
    """By the log of a source, as Spark writes it: every tenth entry repeats those before it."""
    folder, log = tmp_path / "in", tmp_path / "sources" / "0"
    (folder / "day=1").mkdir(parents=True)
    log.mkdir(parents=True)
    pq.write_table(ROWS, folder / "whole.parquet")
    pq.write_table(ROWS.rename_columns(["TS", "X"]), folder / "day=1" / "a b.parquet")
    pq.write_table(ROWS.select(["ts"]), folder / "less.parquet")
    pq.write_table(ROWS.select(["ts"]).slice(0, 0), folder / "empty.parquet")
    names = ("whole", "day=1/a%20b", "less", "empty", "gone")
    entries = [
        json.dumps({"path": f"file://{folder}/{name}.parquet", "batchId": number})
        for number, name in zip((0, 8, 9, 9, 9), names, strict=True)
    ]
    (log / "8").write_text("v1\n" + entries[1])
    (log / "9.compact").write_text("\n".join(["v1", *entries]))
    end = Endpoint("--left", "files", "parquet", str(folder))
    absent = Absent(str(tmp_path), [end], [["ts", "x", "day"]], exact=False)
    batch = SimpleNamespace(startOffset='{"logOffset":7}', endOffset='{"logOffset":9}')
    assert [warning.partition(" has ")[2] for warning in absent.look([batch])] == [
        'no column "x"; its 2 rows are null there',
        'no column "day"; its 2 rows are null there',
    ]
    assert absent.summary()[0] == {"input": "--left", "column": "x", "files": 1, "rows": 2}


@pytest.mark.parametrize("suffix", ["json", "json.gz"])
def test_absent_keys_of_json(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    rows = [{"ts": 1}] * 200_000
    lines = [*map(json.dumps, rows), json.dumps({"ts": 2, "größe": 3}), json.dumps({"höhe": 3}, ensure_ascii=False)]
    with pa.output_stream(path) as file:
        file.write("\n".join(lines).encode())
    assert lacking(path, ["ts", "größe", "höhe"], True) == ([], 0)
    assert lacking(path, ["ts", "x"], True) == (["x"], 200_002)


def test_failures_are_told_in_one_line() -> None:
    ours = "[STREAM_FAILED] ...\n  File x\nstreamjoin.errors.DataError: a null time in r; drop it\n\n\tat org.apache"
    assert str(explained(Exception(ours))) == "a null time in r; drop it"
    theirs = explained(Exception("[STREAM_FAILED] Query failed\nCaused by: java.io.IOException: no space left\n\tat x"))
    assert isinstance(theirs, PipelineError)
    assert "java.io.IOException: no space left" in str(theirs)
    lost = explained(Exception("Python worker exited unexpectedly (crashed)\n\tat x"))
    assert "a Python worker of Spark was killed or crashed" in str(lost) and "local[2, 4]" in str(lost)
    wide = "org.apache.arrow.vector.util.OversizedAllocationException: Memory required for vector is (2147500000)"
    assert str(explained(Exception(wide))).endswith("--conf spark.sql.execution.arrow.maxBytesPerBatch=64m")


def test_figures_of_cells_are_combined_by_a_bitwise_or() -> None:
    """As Spark does it; Spark Connect hands the bytes over as text."""
    import base64

    from streamjoin.spark.cell import Tally
    from streamjoin.spark.metrics import MOST_CELLS, RECORD, pack_cell, unpack_cells

    tallies = [Tally(results=k, comparisons=2**40 + k, arrived=5, window_r=2**33, state_bytes=9) for k in range(3)]
    combined = bytearray(3 * RECORD.size)
    for k, tally in enumerate(tallies):
        for place, byte in enumerate(pack_cell(k, tally) or b""):
            combined[place] |= byte
    found = unpack_cells(bytes(combined))
    assert [cell["comparisons"] for cell in found] == [2**40, 2**40 + 1, 2**40 + 2]
    assert [cell["results"] for cell in found] == [0, 1, 2]
    assert found[2]["window_r"] == 2**32 - 1 and found[2]["window_s"] == 0  # as large as fits
    assert unpack_cells(base64.b64encode(bytes(combined)).decode()) == found
    assert unpack_cells(None) == [] and pack_cell(MOST_CELLS, tallies[0]) is None
