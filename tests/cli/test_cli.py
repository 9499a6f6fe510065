"""The command line: what it prints where, its exit codes, and that a failure leaves no output behind."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import streamjoin as sj
from streamjoin.cli import app, main
from streamjoin.errors import OptionError
from streamjoin.options import from_text

R = pa.table({"ts": [1, 2, 3, 10], "x": [1.0, 2.0, 3.0, 4.0], "name": ["a", "b", "c", "d"]})
S = pa.table({"ts": [1, 3, 30], "y": [1.5, 2.5, 4.0]})
ON = "r.x BETWEEN s.y - 1 AND s.y + 1"
PAIRS = [("a", 1.5), ("b", 1.5), ("b", 2.5), ("c", 2.5)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with the two inputs in it."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(R, "r.parquet")
    pq.write_table(S, "s.parquet")
    csv.write_csv(S, "s.csv")
    return tmp_path


def words(*more: str, left: str = "r.parquet", right: str = "s.parquet") -> list[str]:
    return ["join", "--left", left, "--right", right, "--on", ON, "--within", "2", "--time", "ts", *more]


# For processes of their own: they run in another folder and must find the same package.
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(Path(sj.__file__).parents[1]),
    "PYTHONDONTWRITEBYTECODE": "1",
}


def run(*more: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """The program in a process of its own."""
    command = [sys.executable, "-m", "streamjoin", *more]
    return subprocess.run(command, capture_output=True, timeout=120, env=ENVIRONMENT, **options)


def start(*command: str, cwd: Path) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE

    def take_signals() -> None:
        """A suite that a shell runs in the background hands on its deafness to Ctrl-C."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    return subprocess.Popen(
        [sys.executable, *command], stdout=pipe, stderr=pipe, cwd=cwd, env=ENVIRONMENT, preexec_fn=take_signals
    )


def pairs(table: pa.Table) -> list[tuple[str, float]]:
    return sorted(zip(table["name"].to_pylist(), table["y"].to_pylist(), strict=True))


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"r.parquet", "s.parquet", "s.csv"}


def test_join_writes_the_pairs(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(words("-o", "out.parquet")) == 0
    out = pq.read_table("out.parquet")
    assert pairs(out) == PAIRS
    assert out.column_names == ["ts_r", "x", "name", "ts_s", "y"]
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines()[-1].startswith("4 rows in ")
    assert names(folder) == {"out.parquet"}


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "arrows", "csv", "csv.gz", "ndjson", "ndjson.zst"])
def test_every_format_goes_in_and_out(suffix: str, folder: Path) -> None:
    assert main(words("-o", f"out.{suffix}")) == 0
    again = [
        "join",
        "--left",
        f"out.{suffix}",
        "--right",
        "s.parquet",
        "--on",
        "r.y = s.y",
        "--within",
        "100",
    ]
    assert main([*again, "--time-left", "ts_r", "--time-right", "ts", "-o", "again.parquet"]) == 0
    assert pq.read_table("again.parquet").num_rows == 4


def test_options_reach_the_join(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def fake(left: pa.Table, right: pa.Table, **request: Any) -> pa.Table:
        seen.update(request)
        return left

    monkeypatch.setattr(sj, "join", fake)
    more = ["--algorithm", "grid", "--access", "scan", "--ordered", "--time-right", "y"]
    more += ["--suffixes", "_l,_r", "--workers", "6", "--layout", "2x3", "--device", "1", "--memory", "parts"]
    more += ["--how", "left", "--take", "backward", "--select", "r.x"]
    assert main(words("-o", "out.parquet", *more)) == 0
    assert seen == {
        "on": ON,
        "within": 2,
        "time": ("ts", "y"),
        "algorithm": "grid",
        "workers": 6,
        "layout": (2, 3),
        "device": 1,
        "memory": "parts",
        "access": "scan",
        "ordered": True,
        "suffixes": ("_l", "_r"),
        "stats": {},
        "how": "left",
        "take": "backward",
        "aggregate": None,
        "select": "r.x",
    }
    assert main(words("-o", "out.parquet", "--suffixes", "none")) == 0
    assert seen["suffixes"] is None
    assert (seen["algorithm"], seen["workers"], seen["layout"]) == ("auto", "auto", "auto")


def test_stats_go_to_standard_error(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(words("-o", "out.parquet", "--stats")) == 0
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "left_rows" in printed.err
    assert "join_seconds" in printed.err
    assert "tuples_forwarded" not in printed.err


def test_stats_of_workers_are_a_table(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    request = words("-o", "out.parquet", "--access", "scan", "--stats")
    assert main([*request, "--algorithm", "grid", "--layout", "1x2"]) == 0
    assert pairs(pq.read_table("out.parquet")) == PAIRS
    plain, _, table = capfd.readouterr().err.rstrip("\n").partition("\n\n")
    assert "  workers          2\n" in plain
    assert "per_worker" not in plain
    header, *lines = table.split("\n")
    assert header.split()[:2] == ["worker", "turn"]
    assert [line.split()[:2] for line in lines] == [["0", "0,0"], ["1", "0,1"]]
    assert {len(line) for line in lines} == {len(header)}

    assert main([*request, "--algorithm", "low_latency", "--workers", "2", "--json"]) == 0
    assert pairs(pq.read_table("out.parquet")) == PAIRS
    stats = json.loads(capfd.readouterr().out)["stats"]
    assert stats["workers"] == len(stats["per_worker"]) == 2
    assert sum(worker["results"] for worker in stats["per_worker"]) == 4


def test_iso_times_in_csv_and_ndjson(folder: Path) -> None:
    Path("r.csv").write_text("ts,name,x\n2024-01-01T00:00:00Z,a,1\n2024-01-01T00:01:00.5Z,b,2\n")
    lines = [{"ts": "2024-01-01T00:00:01.5Z", "y": 1.0}, {"ts": "2024-01-01T02:01:00+02:00", "y": 2.0}]
    Path("s.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines))
    request = ["--on", "r.x = s.y", "--within", "2 seconds", "--time", "ts", "-o", "out.parquet"]
    assert main(["join", "--left", "r.csv", "--right", "s.ndjson", *request]) == 0
    out = pq.read_table("out.parquet")
    assert pairs(out) == [("a", 1.0), ("b", 2.0)]
    assert out["ts_s"].to_pylist()[0].tzinfo is not None


def test_explain_prints_a_plan_and_does_nothing(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(words("--explain")) == 0
    assert "x" in capfd.readouterr().out
    assert main(words("--explain", "--json", right="s.csv")) == 0
    assert isinstance(json.loads(capfd.readouterr().out), dict)
    assert main(words("--explain", "--algorithm", "grid", "--layout", "2x3")) == 0
    assert "grid, 6 workers, 2 x 3" in capfd.readouterr().out
    assert names(folder) == set()


def test_a_rate_asks_for_the_plan_of_live_streams(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def fake(*sides: Any, **request: Any) -> str:
        seen.append((*map(type, sides), request.get("rate")))
        return "a plan"

    monkeypatch.setattr(sj, "explain", fake)
    for rate in ([], ["--rate", "5000"], ["--rate", "1e3,3000"]):
        assert main(words("--explain", *rate)) == 0
    assert seen == [
        (pa.Table, pa.Table, None),
        (pa.Schema, pa.Schema, (5000, 5000)),
        (pa.Schema, pa.Schema, (1000, 3000)),
    ]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--left", "gone.parquet"], 'left input "gone.parquet" does not exist'),
        (["--right", "folder.csv"], 'right input "folder.csv" is a folder'),
        (["--right-format", "arrow"], "those of Parquet"),
        (["--left-format", "xml"], '"xml" is not a format'),
        (["--on", "r.nope = s.y"], "nope"),
        (["--on", "r.x +"], "predicate cannot be read"),
        (["--within", "last many"], "last r=500,s=1000"),
        (["--within", "-5 seconds"], "-5 seconds"),
        (["--time", "when"], "when"),
        (["--algorithm", "magic"], 'unknown algorithm "magic"; known: auto, kang, cell'),
        (["--algorithm", "hells", "--workers", "2"], 'algorithm="hells" is one device'),
        (["--algorithm", "kang", "--workers", "2"], "kang"),
        (["--workers", "0"], '--workers "0" is not a number of at least 1'),
        (["--workers", "many"], '--workers "many" is not a number of at least 1'),
        (["--layout", "2by3"], '--layout "2by3" is not rows x columns'),
        (["--layout", "2x0"], '--layout "2x0" is not rows x columns'),
        (["--algorithm", "cell", "--layout", "1x2"], 'is for algorithm="grid", not "cell"'),
        (["--algorithm", "grid", "--layout", "2x2", "--workers", "3"], "has 4 workers, not 3"),
        (["--algorithm", "cell", "--access", "hash"], 'does not go with algorithm="cell"'),
        (["--explain", "--rate", "fast"], '--rate "fast" is not tuples per second'),
        (["--explain", "--rate", "1,2,3"], '--rate "1,2,3" is not tuples per second'),
        (["--explain", "--rate", "0"], '--rate "0" is not tuples per second'),
        (["--suffixes", "one"], '--suffixes "one" is not two suffixes'),
        (["-o", "out.xyz"], 'output "out.xyz"'),
        (["-o", "no/out.csv"], "does not exist; create it"),
        (["-o", "folder.csv"], "is a folder"),
    ],
)
def test_refusals_are_one_message_and_exit_code_2(
    more: list[str], message: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("folder.csv").mkdir()
    assert main(words("-o", "out.parquet", *more)) == 2
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "\nstreamjoin: " in f"\n{printed.err}"  # what took long was named before
    assert message in printed.err
    assert "Traceback" not in printed.err
    assert names(folder) == {"folder.csv"}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "name the output with -o"),
        (["-o", "-", "--output-format", "csv", "--json"], "--json needs standard output"),
        (["-o", "x.csv", "--left", "-", "--right", "-"], "only one"),
        (["-o", "x.csv", "--rate", "5000"], "--rate is for --explain"),
    ],
)
def test_wrong_usage_is_exit_code_2(more: list[str], message: str, folder: Path) -> None:
    result = CliRunner().invoke(app, words(*more))
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


def test_the_time_column_must_be_named(folder: Path) -> None:
    request = ["join", "--left", "r.parquet", "--right", "s.parquet", "--on", ON, "--within", "2"]
    result = CliRunner().invoke(app, [*request, "--time-left", "ts", "-o", "out.csv"])
    assert result.exit_code == 2
    assert "--time-right" in result.stderr


def _versions(folder: Path, time: str, *more: str) -> list[str]:
    (folder / "events.csv").write_text("ts,x\n1,1\n5,2\n9,1\n")
    (folder / "versions.csv").write_text("since,until,x\n0,4,1\n4,8,2\n0,5,1\n")
    sides = ["--left", "events.csv", "--right", "versions.csv", "--time-left", "ts", "--time-right", time]
    return ["join", *sides, "--on", "r.x = s.x", "-o", "out.csv", *more]


@pytest.mark.parametrize("time", ["valid(since,until)", " valid( since , until, most = 5 ) "])
def test_a_side_may_be_valid_for_a_while(time: str, folder: Path) -> None:
    result = CliRunner().invoke(app, _versions(folder, time))
    assert result.exit_code == 0, result.output
    rows = (folder / "out.csv").read_text().splitlines()
    assert sorted(rows[1:]) == ["1,1,0,4,1", "1,1,0,5,1", "5,2,4,8,2"]


@pytest.mark.parametrize("time", ["valid(since)", "valid(since,until", "valid(since,until,3)"])
def test_a_misspelled_validity_is_refused_with_its_spelling(time: str, folder: Path) -> None:
    result = CliRunner().invoke(app, _versions(folder, time))
    assert result.exit_code == 2
    assert "valid(FROM,TO)" in result.output


def test_debug_shows_the_traceback(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for request in (["--debug", *words("-o", "out.xyz")], words("-o", "out.xyz", "--debug")):
        assert main(request) == 2
        assert "Traceback" in capfd.readouterr().err


def test_a_bug_is_exit_code_1(folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    def broken(*tables: pa.Table, **request: Any) -> pa.Table:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(sj, "join", broken)
    Path("out.parquet").write_text("old")
    assert main(words("-o", "out.parquet")) == 1
    assert "unexpected ZeroDivisionError: oops (run again with --debug" in capfd.readouterr().err
    assert Path("out.parquet").read_text() == "old"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("15 minutes", "15 minutes"),
        (" 1h30m ", "1h30m"),
        ("500", 500),
        ("-10min..5min", sj.interval("-10min", "5min")),
        ("-10..5", sj.interval(-10, 5)),
        ("(-10 min .. 5 min]", sj.interval("-10 min", "5 min", closed="right")),
        ("[0..+5)", sj.interval(0, 5, closed="left")),
        ("(1s..2s)", sj.interval("1s", "2s", closed="neither")),
        ("last 1000", sj.last(1000)),
        ("LAST r=500,s=1000", sj.last(r=500, s=1000)),
        ("last s=1, r = 2", sj.last(r=2, s=1)),
        ("tumbling 1 minute", sj.tumbling("1 minute")),
        ("tumbling 60", sj.tumbling(60)),
        ("tumbling 1000 rows", sj.tumbling(rows=1000)),
    ],
)
def test_windows_are_spelled_in_one_word(text: str, expected: Any) -> None:
    assert from_text("within", text) == expected


@pytest.mark.parametrize("text", ["", "..", "1..", "last", "last x", "last r=1", "last r=1,s=2,t=3", "tumbling"])
def test_an_unreadable_window_lists_the_spellings(text: str) -> None:
    with pytest.raises(OptionError, match="tumbling 1000 rows"):
        from_text("within", text)


@pytest.mark.parametrize("text", ["5..1", "last 0", "tumbling -1", "soon", "1 fortnight..2 fortnights", "2..x"])
def test_an_impossible_window_is_refused(text: str, folder: Path) -> None:
    assert main(words("-o", "out.csv", "--within", text)) == 2


def test_json_is_alone_on_standard_output(folder: Path) -> None:
    done = run(*words("-o", "out.csv", "--json", "--stats"), cwd=folder)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["rows"] == 4
    assert report["output"] == "out.csv"
    assert report["seconds"] > 0
    assert report["stats"]["left_rows"] == 4
    assert report["stats"]["access"] in ("scan", "band", "hash")
    assert report["stats"]["comparisons"] >= report["rows"]
    assert done.stderr == b""


def test_pipes(folder: Path) -> None:
    lines = b"".join(json.dumps(row).encode() + b"\n" for row in R.to_pylist())
    request = words("--left-format", "ndjson", "-o", "-", "--output-format", "arrows", left="-", right="s.csv")
    done = run(*request, cwd=folder, input=lines)
    assert done.returncode == 0, done.stderr
    assert pairs(ipc.open_stream(done.stdout).read_all()) == PAIRS


@pytest.mark.parametrize("format", ["parquet", "arrow", "csv", "csv.gz", "ndjson"])
def test_standard_output_takes_every_format(format: str, folder: Path) -> None:
    request = words("--right-format", "parquet", "-o", "-", "--output-format", format, right="-")
    done = run(*request, cwd=folder, input=Path("s.parquet").read_bytes())
    assert done.returncode == 0, done.stderr
    from streamjoin.cli.files import Source
    from streamjoin.formats import format_of

    Path(f"got.{format}").write_bytes(done.stdout)
    chosen = format_of(format)
    assert chosen is not None
    assert pairs(Source(f"got.{format}", "left", chosen).read("ts_r")) == PAIRS


def test_a_reader_that_leaves_causes_no_message(folder: Path) -> None:
    many = pa.table({"ts": [1] * 3000, "x": [1.0] * 3000, "name": ["a long name to fill the pipe"] * 3000})
    pq.write_table(many, "r.parquet")
    pq.write_table(many.select(["ts"]).append_column("y", many["x"]).slice(0, 100), "s.parquet")
    request = words("-o", "-", "--output-format", "csv")
    with start("-m", "streamjoin", *request, cwd=folder) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
    assert process.returncode == 1
    assert errors == b""


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv", "csv.gz", "ndjson"])
def test_a_full_disk_leaves_nothing_behind(suffix: str, folder: Path) -> None:
    noise = [os.urandom(8).hex() for _ in range(2_000)]
    pq.write_table(pa.table({"ts": [1] * 2_000, "x": [1.0] * 2_000, "name": noise}), "r.parquet")
    pq.write_table(pa.table({"ts": [1] * 20, "y": [1.0] * 20}), "s.parquet")
    Path(f"out.{suffix}").write_text("old")

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, 8_000))

    assert main(words("-o", "warm.arrow")) == 0  # so that no kernel has to be written under the limit
    Path("warm.arrow").unlink()
    done = run(*words("-o", f"out.{suffix}"), cwd=folder, preexec_fn=small_files)
    assert done.returncode == 2, done.stderr
    assert b"cannot be written: File too large" in done.stderr
    assert b"unchanged" in done.stderr
    assert names(folder) == {f"out.{suffix}"}
    assert Path(f"out.{suffix}").read_text() == "old"


SLOW_WRITE = """
import sys, time
import streamjoin as sj
from streamjoin.cli import codecs, main
sj.join = lambda left, right, **request: left
def slow(kind, table, sink, progress=None):
    sink.write(b"half")
    print("writing", flush=True)
    time.sleep(60)
check = codecs.write
codecs.write = lambda kind, table, *rest: (slow if table.num_rows else check)(kind, table, *rest)
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.usefixtures("hang_up")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_leaves_nothing_behind(number: signal.Signals, code: int, folder: Path) -> None:
    with start("-c", SLOW_WRITE, *words("-o", "out.parquet"), cwd=folder) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"writing\n"
        assert len(names(folder)) == 1
        time.sleep(0.1)
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == code
    assert b"Traceback" not in errors
    assert names(folder) == set()


def test_version_and_help() -> None:
    runner = CliRunner()
    assert runner.invoke(app, ["--version"]).stdout.startswith("streamjoin ")
    for command in (["join"], ["demo"], ["bench"], ["bench", "scan"], ["bench", "join"], ["doctor"]):
        result = runner.invoke(app, [*command, "--help"])
        assert result.exit_code == 0
        assert "Usage: " in result.stdout


def test_doctor_says_what_it_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STREAMJOIN_CACHE", str(tmp_path / "cache"))
    result = CliRunner().invoke(app, ["doctor", "--json"])
    assert result.exit_code == 0
    said = json.loads(result.stdout)
    assert {"python", "cores", "simd", "memory", "java", "spark", "opencl", "cache", "dependencies"} == set(said)
    assert said["cores"]["details"]["usable"] >= 1
    assert said["cores"]["details"]["comparisons_per_s"] is None  # it is not measured here
    assert said["simd"]["details"]["bits"] in (0, 128, 256, 512)
    assert said["cache"]["details"] == {
        "path": str(tmp_path / "cache"),
        "writable": True,
        "mode": "0700",
        "bytes": 0,
    }
    assert said["dependencies"]["details"]["numba"]


def test_doctor_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from streamjoin.cli import doctor

    monkeypatch.setattr(doctor, "_version", lambda package: None)
    (tmp_path / "file").touch()
    monkeypatch.setenv("STREAMJOIN_CACHE", str(tmp_path / "file" / "cache"))
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 1
    for advice in ("streamjoin[spark]", "streamjoin[opencl]", "STREAMJOIN_CACHE", "missing: numpy"):
        assert advice in result.stdout


def test_doctor_repeats_what_was_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from streamjoin.access.prices import Costs, Price
    from streamjoin.plan import costs
    from streamjoin.plan.costs import calibrated

    monkeypatch.setenv("STREAMJOIN_CACHE", str(tmp_path))
    monkeypatch.setattr(costs, "_measure", lambda: Costs(1e-10, 1e-9, Price(), Price()))
    calibrated()
    assert ", 10.0 G comparisons/s each by scan" in CliRunner().invoke(app, ["doctor"]).stdout


def test_demo_with_workers() -> None:
    request = ["demo", "--engine", "embedded", "--tuples", "2000", "--algorithm", "cell", "--workers", "2"]
    result = CliRunner().invoke(app, [*request, "--json"])
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert (said["algorithm"], said["workers"], said["verified"]) == ("cell", 2, True)
    assert said["results"] > 0
