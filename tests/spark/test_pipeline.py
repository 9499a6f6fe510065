"""Spark pipelines from end to end: files of every kind, the generator, a stop and a resumption, each verified."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

import streamjoin as sj
from profiles import soak_only
from streamjoin.cli import main
from streamjoin.errors import FileError, OptionError, PipelineError, SchemaError
from streamjoin.options import Options
from streamjoin.spark.dataframes import default_cells
from streamjoin.spark.pipeline.endpoints import sink, source
from streamjoin.spark.pipeline.pipeline import Figures, Request, check, run_in
from streamjoin.spark.pipeline.stop import Stop
from streamjoin.spark.settings import PARTITIONS

pytestmark = pytest.mark.spark

PATIENCE = 300.0  # seconds; a busy machine may stand still for a minute
START = 1_767_225_600_000_000  # 2026-01-01, in microseconds
ON = "r.x BETWEEN s.a - 10 AND s.a + 10"
R_TYPES = "ts TIMESTAMP, n BIGINT, x DOUBLE, name STRING"
S_TYPES = "ts TIMESTAMP, m BIGINT, a DOUBLE"


def tables(rows: int = 400) -> tuple[pa.Table, pa.Table]:
    """r and s over 40 seconds; n and m number their rows."""
    random = np.random.default_rng(7)
    stamps = [pa.array(START + np.arange(rows) * 100_000).cast(pa.timestamp("us", "UTC")) for _ in range(2)]
    x, a = (np.round(random.uniform(0, 1_000, rows), 3) for _ in range(2))
    number = np.arange(rows)
    names = pa.array([f'name "{i}", quoted' for i in number])
    return (
        pa.table({"ts": stamps[0], "n": number, "x": x, "name": names}),
        pa.table({"ts": stamps[1], "m": number, "a": a}),
    )


def expected(within: str = "5 seconds") -> list[tuple[int, int]]:
    found = sj.join(*tables(), on=ON, within=within, time="ts")
    return sorted(zip(found["n"].to_pylist(), found["m"].to_pylist(), strict=True))


def store(table: pa.Table, folder: Path, kind: str, pieces: int = 4, first: int = 0) -> None:
    """The table as several files of one kind, in the order of their modification times."""
    folder.mkdir(exist_ok=True)
    size = -(-table.num_rows // pieces)
    for number in range(pieces):
        piece = table.slice(number * size, size)
        path = folder / f"part-{first + number}.{kind}"
        if kind == "parquet":
            pq.write_table(piece, path)
        elif kind == "csv":
            csv.write_csv(piece, path)
        else:
            rows = piece.to_pylist()
            path.write_text("".join(json.dumps(row | {"ts": row["ts"].isoformat()}) + "\n" for row in rows))
        moment = time.time() - 1_000 + first + number
        os.utime(path, (moment, moment))


def request(folder: Path, left: Any, right: Any, **more: Any) -> Request:
    return Request(
        left=left,
        right=right,
        output=sink("--output", str(folder / "out"), None, {}),
        options=Options(on=ON, within="5 seconds", time="ts"),
        watermark=("10 seconds", "10 seconds"),
        checkpoint=str(folder / "checkpoint"),
        available_now=True,
        **more,
    )


def other(asked: Request, **options: Any) -> Request:
    """The same pipeline of another join."""
    return replace(asked, options=replace(asked.options, **options))


def run(spark: Any, asked: Request) -> dict[str, Any]:
    return run_in(spark, asked, Stop(), lambda stage, figures: None, Figures(), check(asked))


def pairs(spark: Any, folder: Path, format: str = "parquet") -> list[tuple[int, int]]:
    reader = spark.read.format(format).option("header", "true")
    found = reader.load(str(folder / "out")).selectExpr("CAST(n AS BIGINT)", "CAST(m AS BIGINT)").collect()
    return sorted((row[0], row[1]) for row in found)


def folder_of(option: str, folder: Path) -> Any:
    return source(option, str(folder), None, {}, None)


def one_file_at_a_time(option: str, folder: Path, schema: str | None = None) -> Any:
    return source(option, str(folder), None, {"maxFilesPerTrigger": "1"}, schema)


def test_another_kind_of_join(spark: Any, tmp_path: Path) -> None:
    """As --how left --select "r.n, s.m" asks for it: the pairs, and each r whose window has passed without one."""
    r, s = tables()
    store(r, tmp_path / "r", "parquet")
    store(s, tmp_path / "s", "parquet")
    left, right = one_file_at_a_time("--left", tmp_path / "r"), one_file_at_a_time("--right", tmp_path / "s")
    run(spark, other(request(tmp_path, left, right), how="left", select="r.n, s.m"))
    found = [(row["n"], row["m"]) for row in spark.read.parquet(str(tmp_path / "out")).collect()]
    assert sorted(pair for pair in found if pair[1] is not None) == expected()
    alone, matched = [n for n, m in found if m is None], {n for n, _ in expected()}
    assert alone
    assert len(set(alone)) == len(alone)
    assert not set(alone) & matched


def test_lifetimes_in_place_of_a_window(spark: Any, tmp_path: Path) -> None:
    """As --time-right "valid(ts,until,most=4 seconds)" asks for it; the watermark is on the first column."""
    r, s = tables()
    until = pc.add(s["ts"], pa.scalar(2_500, pa.duration("ms")))
    for side, table in (("r", r), ("s", s.append_column("until", until))):
        store(table, tmp_path / side, "parquet")
    left, right = one_file_at_a_time("--left", tmp_path / "r"), one_file_at_a_time("--right", tmp_path / "s")
    time = ("ts", sj.valid("ts", "until", most="4 seconds"))
    run(spark, other(request(tmp_path, left, right), within=None, time=time))
    later = sj.interval("-2500 ms", "0 s", closed="right")
    wanted = sj.join(r, s, on=ON, within=later, time="ts", select="r.n, s.m")
    assert pairs(spark, tmp_path) == sorted(zip(*wanted.to_pydict().values(), strict=True)) != []


def test_parquet_and_json_go_on_from_the_checkpoint(spark: Any, tmp_path: Path) -> None:
    """On the way the cluster becomes smaller, which would make other cells for a new pipeline."""
    r, s = tables()
    store(r.slice(0, 200), tmp_path / "r", "parquet", 2)
    store(s.slice(0, 200), tmp_path / "s", "json", 2)
    left = one_file_at_a_time("--left", tmp_path / "r")
    right = one_file_at_a_time("--right", tmp_path / "s", S_TYPES)
    asked = request(tmp_path, left, right, right_schema=S_TYPES)
    first = run(spark, asked)
    assert (first["finished"], first["resumed"], first["rows_in"], first["late"]) == (True, False, 400, 0)
    store(r.slice(200), tmp_path / "r", "parquet", 2, first=2)
    store(s.slice(200), tmp_path / "s", "json", 2, first=2)
    with pytest.raises(OptionError, match='belongs to a pipeline with --cells "2", not "1"'):
        check(other(asked, cells=1))
    partitions = spark.conf.get(PARTITIONS)
    spark.conf.set(PARTITIONS, "1")
    try:
        assert default_cells(spark, streaming=True) == 1
        second = run(spark, asked)
    finally:
        spark.conf.set(PARTITIONS, partitions)
    assert (second["resumed"], second["rows_in"]) == (True, 400)
    found = pairs(spark, tmp_path)
    assert found == expected()
    assert first["results"] + second["results"] == len(found)
    assert second["state_rows"] > 0 and second["watermark"].startswith("2026-01-01T00:00:")


def test_csv_tells_its_types_and_json_comes_out(spark: Any, tmp_path: Path) -> None:
    r, s = tables()
    store(r, tmp_path / "r", "csv")
    store(s, tmp_path / "s", "csv")
    with (tmp_path / "r" / "part-3.csv").open("a") as file:
        file.write(',1000,500.0,"has no time"\n')
    left, right = (folder_of(f"--{side}", tmp_path / name) for side, name in (("left", "r"), ("right", "s")))
    asked = request(tmp_path, left, right, malformed="drop")
    asked = replace(asked, output=sink("--output", str(tmp_path / "out"), "json", {}))
    run(spark, asked)
    assert pairs(spark, tmp_path, "json") == expected()
    names = {row[0] for row in spark.read.json(str(tmp_path / "out")).select("name").collect()}
    assert 'name "0", quoted' in names or len(names) > 100


def test_dropped_rows_are_counted(spark: Any, tmp_path: Path) -> None:
    """In CSV: a wrong number of fields, a text for a number, no time. In JSON: no object, half of one, a wrong type."""
    r, s = tables()
    store(r, tmp_path / "r", "csv")
    store(s, tmp_path / "s", "json")
    with (tmp_path / "r" / "part-1.csv").open("a") as file:
        file.write('2026-01-01 00:00:12Z,1\n2026-01-01 00:00:12Z,many,5.0,"x"\n,1000,500.0,"has no time"\n')
    with (tmp_path / "s" / "part-3.json").open("a") as file:
        file.write('oops\n{"ts": "2026-01-01T00:00:39Z", "m"\n{"ts": "2026-01-01T00:00:39Z", "m": 1, "a": "many"}\n')
    left = source("--left", str(tmp_path / "r"), None, {"maxFilesPerTrigger": "2"}, R_TYPES)
    right = source("--right", str(tmp_path / "s"), None, {"maxFilesPerTrigger": "2"}, S_TYPES)
    done = run(spark, request(tmp_path, left, right, malformed="drop", left_schema=R_TYPES, right_schema=S_TYPES))
    assert (done["malformed"], done["rows_in"], done["absent"]) == (6, 806, [])
    assert pairs(spark, tmp_path) == expected()


def test_json_that_does_not_fit_is_no_column(spark: Any, tmp_path: Path) -> None:
    """Where the columns are told by the files, Spark would add one for such text."""
    for side, table in zip("rs", tables(20), strict=True):
        store(table, tmp_path / side, "json", 1)
    with (tmp_path / "s" / "part-0.json").open("a") as file:
        file.write("oops\n")
    asked = request(tmp_path, folder_of("--left", tmp_path / "r"), folder_of("--right", tmp_path / "s"))
    with pytest.raises(FileError, match=r"--right .* cannot be read as json"):
        run(spark, asked)
    done = run(spark, replace(asked, malformed="drop"))
    assert (done["malformed"], done["rows_in"]) == (1, 41)
    assert spark.read.parquet(str(tmp_path / "out")).columns == ["n", "name", "ts_r", "x", "a", "m", "ts_s"]


def test_files_that_lost_a_column_are_told_and_counted(spark: Any, tmp_path: Path) -> None:
    r, s = tables()
    store(r.slice(0, 200), tmp_path / "r", "parquet", 2)
    store(r.slice(200).drop_columns("name"), tmp_path / "r", "parquet", 2, first=2)
    store(s.slice(0, 300), tmp_path / "s", "json", 3)
    store(s.slice(300).drop_columns("a"), tmp_path / "s", "json", 1, first=3)
    left = one_file_at_a_time("--left", tmp_path / "r", R_TYPES)
    right = one_file_at_a_time("--right", tmp_path / "s", S_TYPES)
    asked = request(tmp_path, left, right, left_schema=R_TYPES, right_schema=S_TYPES)
    figures = Figures()
    done = run_in(spark, asked, Stop(), lambda stage, figures: None, figures, check(asked))
    assert sorted(done["absent"], key=str) == [
        {"input": "--left", "column": "name", "files": 2, "rows": 200},
        {"input": "--right", "column": "a", "files": 1, "rows": 100},
    ]
    assert sorted(figures.warnings) == [
        f'--left: the file "{tmp_path}/r/part-2.parquet" has no column "name"; its 100 rows are null there',
        f'--right: the file "{tmp_path}/s/part-3.json" has no column "a"; its 100 rows are null there',
    ]
    assert pairs(spark, tmp_path) == [(n, m) for n, m in expected() if m < 300]


@pytest.mark.parametrize("columns", [["ts", "x", "n", "name"], ["ts", "n", "x"]], ids=["another order", "one less"])
@pytest.mark.parametrize("malformed", ["fail", "drop"])
def test_csv_with_other_columns_is_refused(spark: Any, tmp_path: Path, columns: list[str], malformed: str) -> None:
    r, s = tables(20)
    store(r.slice(0, 10), tmp_path / "r", "csv", 1)
    store(s, tmp_path / "s", "csv", 1)
    store(r.slice(10).select(columns), tmp_path / "r", "csv", 1, first=1)
    left = source("--left", str(tmp_path / "r"), None, {}, R_TYPES)
    asked = request(tmp_path, left, folder_of("--right", tmp_path / "s"), left_schema=R_TYPES, malformed=malformed)
    with pytest.raises(PipelineError, match=r"part-1.csv has other columns than its stream.*enforceSchema=true"):
        run(spark, asked)


def test_refusals_that_need_the_columns(spark: Any, tmp_path: Path) -> None:
    r, s = tables(10)
    store(r, tmp_path / "r", "parquet", 1)
    store(s, tmp_path / "s", "parquet", 1)
    asked = request(tmp_path, folder_of("--left", tmp_path / "r"), folder_of("--right", tmp_path / "s"))
    with pytest.raises(SchemaError, match='--left has no column "when" for --time'):
        run(spark, other(asked, time=("when", "ts")))
    with pytest.raises(SchemaError, match='the time column "n" is bigint; a stream needs a timestamp'):
        run(spark, other(asked, time=("n", "ts")))
    with pytest.raises(SchemaError, match=r"--left-schema .* is not a schema"):
        run(spark, replace(asked, left_schema="ts TIMESTAMPP"))
    with pytest.raises(SchemaError, match="nope"):
        run(spark, other(asked, on="r.nope = s.a"))
    (tmp_path / "s" / "part-0.parquet").write_text("no parquet")
    with pytest.raises(FileError, match=r"--right .* cannot be read as parquet"):
        run(spark, asked)


def test_json_values_that_do_not_fit(spark: Any) -> None:
    from pyspark.sql.types import StructType

    from streamjoin.spark.pipeline.sources import fitting, parsed

    columns = StructType.fromDDL("ts TIMESTAMP, x INT")
    good = '{"ts": "2026-01-01T00:00:00Z", "x": 1}', '{"ts": "2026-01-01T00:00:01Z"}'
    records = spark.createDataFrame([(text,) for text in (*good, "oops", '{"x": "many"}', "")], "value STRING")
    kept = fitting(parsed(records, columns, "drop"), "ts", "r")
    assert [row["x"] for row in kept.collect()] == [1, None]
    assert kept.columns == ["ts", "x"]
    assert parsed(records.limit(2), columns, "fail").count() == 2
    with pytest.raises(Exception, match="MALFORMED_RECORD"):
        parsed(records, columns, "fail").collect()


def test_the_console_needs_no_checkpoint(spark: Any, tmp_path: Path) -> None:
    word = "generate://papers?rate=100&tuples=300&batch=300&highest=10"
    asked = replace(
        request(tmp_path, source("--left", word, None, {}, None), source("--right", word, None, {}, None)),
        output=sink("--output", "console", None, {"numRows": "1"}),
        checkpoint=None,
    )
    done = run(spark, other(asked, on="r.x = s.a", within="1 second"))
    assert done["finished"] and done["results"] > 100 and done["rows_in"] == 600


def test_the_demo_verifies_itself(spark: Any) -> None:
    from streamjoin.bench.demo import run_verified

    stages: list[str] = []
    done = run_verified(spark, 3_000, 500, "3 seconds", lambda stage, figures: stages.append(stage), Stop())
    assert done["verified"] and done["results"] > 10 and done["late"] == 0 and done["batches"] >= 10
    assert stages[0] == "preparing the first batch" and stages[-1].startswith("verifying")


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(sj.__file__).parents[1]), "PYTHONDONTWRITEBYTECODE": "1"}


def command(folder: Path, *more: str) -> list[str]:
    word = "generate://papers?rate=4000&tuples=8000&batch=1000&pace=fast"
    request = ["join", "--engine", "spark", "--master", "local[2]", "--left", word, "--right", word]
    request += ["--on", "r.x BETWEEN s.a - 10 AND s.a + 10 AND r.y BETWEEN s.b - 1000 AND s.b + 1000"]
    request += ["--within", "1 second", "--time", "ts", "--watermark", "1 second"]
    request += ["-o", str(folder / "out"), "--checkpoint", str(folder / "checkpoint")]
    return [sys.executable, "-m", "streamjoin", *request, "--json", *more]


@soak_only  # attack/test_signals.py interrupts one in the suite
@pytest.mark.slow
def test_ctrl_c_stops_and_the_same_command_goes_on(tmp_path: Path, spark: Any) -> None:
    """The whole program: interrupted in the middle of an endless run, then brought to its end."""

    def take_signals() -> None:
        os.setsid()  # a terminal sends Ctrl-C to all processes of the program, not only to the first
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command(tmp_path, "--trigger", "1 second"), stdout=pipe, stderr=pipe, env=ENVIRONMENT, preexec_fn=take_signals
    )
    try:
        limit = time.monotonic() + PATIENCE
        while not (tmp_path / "checkpoint" / "commits" / "2").exists():
            assert process.poll() is None, process.communicate()[1].decode()
            assert time.monotonic() < limit
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)
        out, errors = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 130, errors.decode()
    assert b"Traceback" not in errors
    stopped = json.loads(out)
    assert not stopped["finished"] and stopped["batches"] >= 2

    done = subprocess.run(command(tmp_path, "--available-now"), capture_output=True, timeout=PATIENCE, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr.decode()
    said = json.loads(done.stdout)
    assert said["finished"] and said["resumed"]
    assert not [line for line in done.stderr.decode().splitlines() if "WARN" in line or "ERROR" in line]

    from streamjoin.papers import tuples

    columns = {"r": ("x", "y"), "s": ("a", "b")}
    sides = []
    for side, names in columns.items():
        ts, number, real = tuples(side, 0, 8_000, 4_000, start=START)
        sides.append(pa.table({"ts": pa.array(ts).cast(pa.timestamp("us", "UTC")), names[0]: number, names[1]: real}))
    on = "r.x BETWEEN s.a - 10 AND s.a + 10 AND r.y BETWEEN s.b - 1000 AND s.b + 1000"
    wanted = sj.join(*sides, on=on, within="1 second", time="ts")
    found = spark.read.parquet(str(tmp_path / "out")).select("ts_r", "ts_s").toArrow()

    def keys(table: pa.Table) -> list[tuple[int, int]]:
        at, other = (table[name].cast(pa.int64()).to_pylist() for name in ("ts_r", "ts_s"))
        return sorted(zip(at, other, strict=True))

    assert keys(found) == keys(wanted)
    assert len(keys(found)) > 500


def test_explain_tells_the_routing_and_starts_nothing(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("streamjoin.spark.pipeline.pipeline.session", lambda cluster: nullcontext(spark))
    for side, table in zip("rs", tables(), strict=True):
        store(table, tmp_path / side, "parquet")
    words = ["join", "--engine", "spark", "--left", str(tmp_path / "r"), "--right", str(tmp_path / "s"), "--on", ON]
    words += ["--within", "5 seconds", "--time", "ts", "--explain", "--cells", "8"]
    assert main([*words, "--json", "--rate", "100,300"]) == 0
    plan = json.loads(capfd.readouterr().out)
    assert (plan["routing"], plan["cells"], plan["bucket"]) == ("range", 8, 80.0)
    assert plan["state"]["rows"] > 2_000  # five seconds of both, and the copies
    assert main([*words, "-o", str(tmp_path / "out")]) == 0
    assert "needs rate=" in capfd.readouterr().out
    assert not (tmp_path / "out").exists() and not spark.streams.active
