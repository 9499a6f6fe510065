"""Files: what is written is read back, what is damaged is explained, what fails leaves nothing behind."""

from __future__ import annotations

import datetime as dt
import gzip
import io
import json
import os
import stat
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamjoin.cli.files import Source, Target, choose_format
from streamjoin.errors import FileError
from streamjoin.folders import atomically
from streamjoin.formats import Format, format_of

UTC = dt.UTC
FLAT = pa.table(
    {
        "ts": pa.array([dt.datetime(2024, 1, 1, 12, 0, 0, 250_000), dt.datetime(2024, 1, 1, 13), None]),
        "aware": pa.array([dt.datetime(2024, 1, 1, tzinfo=UTC), None, dt.datetime(2024, 6, 1, tzinfo=UTC)]),
        "n": [1, -(2**63), None],
        "x": [0.1, float("inf"), None],
        "text": ['quote " and\nnewline', "", None],
        "flag": [True, None, False],
    }
)
RICH = FLAT.append_column("list", pa.array([[1, 2], None, []])).append_column(
    "struct", pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}])
)
BINARY = ("parquet", "arrow", "arrows", "arrows.gz", "arrows.zst")
TEXT = ("csv", "csv.gz", "csv.zst", "ndjson", "ndjson.gz", "jsonl.bz2")


def source(path: Path | str, side: str = "left", format: str | None = None) -> Source:
    return Source(str(path), side, choose_format(str(path), format, f"{side} input", f"--{side}-format"))


def target(path: Path | str, format: str | None = None) -> Target:
    return Target(str(path), choose_format(str(path), format, "output", "--output-format"))


def columns(table: pa.Table) -> dict[str, list[Any]]:
    return {name: table[name].to_pylist() for name in table.column_names}


@pytest.mark.parametrize("suffix", BINARY)
def test_binary_formats_keep_everything(suffix: str, tmp_path: Path) -> None:
    target(tmp_path / f"t.{suffix}").write(RICH)
    back = source(tmp_path / f"t.{suffix}").read("ts")
    assert columns(back) == columns(RICH)
    assert back.schema.field("aware").type == RICH.schema.field("aware").type


@pytest.mark.parametrize("suffix", TEXT)
def test_text_formats_keep_the_values(suffix: str, tmp_path: Path) -> None:
    table = RICH if "json" in suffix else FLAT
    target(tmp_path / f"t.{suffix}").write(table)
    assert columns(source(tmp_path / f"t.{suffix}").read("ts")) == columns(table)


@pytest.mark.parametrize("suffix", ["csv", "ndjson"])
def test_text_keeps_nan_apart_from_null(suffix: str, tmp_path: Path) -> None:
    target(tmp_path / f"t.{suffix}").write(pa.table({"n": [1, 2, 3], "x": [float("nan"), None, 1.5]}))
    assert str(source(tmp_path / f"t.{suffix}").read("")["x"].to_pylist()) == "[nan, None, 1.5]"


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "arrows"])
def test_an_empty_table_keeps_its_schema(suffix: str, tmp_path: Path) -> None:
    target(tmp_path / f"t.{suffix}").write(FLAT.slice(0, 0))
    assert source(tmp_path / f"t.{suffix}").read("ts").schema.names == FLAT.schema.names
    assert source(tmp_path / f"t.{suffix}").schema("ts").names == FLAT.schema.names


def test_ndjson_of_every_kind_of_value_is_json(tmp_path: Path) -> None:
    table = pa.table(
        {
            "decimal": pa.array([Decimal("12345678901234567.89")]),
            "date": [dt.date(2024, 2, 29)],
            "time": [dt.time(1, 2, 3)],
            "duration": pa.array([1500], pa.duration("us")),
            "bytes": [b"\xff\x00"],
            "berlin": pa.array([0], pa.timestamp("ms", "Europe/Berlin")),
            "ns": pa.array([1], pa.timestamp("ns")),
            'na"me': ["tab\t ünïcode \x00"],
            "nested": [{"when": dt.datetime(2024, 1, 1), "sums": [Decimal("1.10")], "raw": b"a"}],
        }
    )
    target(tmp_path / "t.ndjson").write(table)
    text = (tmp_path / "t.ndjson").read_text("utf-8")
    assert '"decimal":12345678901234567.89,' in text
    assert json.loads(text) == {
        "decimal": 12345678901234567.89,
        "date": "2024-02-29",
        "time": "01:02:03",
        "duration": 1500,
        "bytes": "/wA=",
        "berlin": "1970-01-01T00:00:00.000Z",
        "ns": "1970-01-01T00:00:00.000000001",
        'na"me': "tab\t ünïcode \x00",
        "nested": {"when": "2024-01-01T00:00:00", "sums": ["1.10"], "raw": "YQ=="},
    }


@pytest.mark.parametrize(
    ("written", "type"),
    [
        ("2024-01-01T10:00:00", None),
        ("2024-01-01 10:00:00.123456", None),
        ("2024-01-01T10:00:00.123456789", None),
        ("2024-01-01T10:00:00Z", "UTC"),
        ("2024-01-01T12:00:00.5+02:00", "UTC"),
        ("2024-01-01", None),
    ],
)
@pytest.mark.parametrize("suffix", ["csv", "ndjson"])
def test_iso_times_become_timestamps(written: str, type: str | None, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"t.{suffix}"
    row = json.dumps({"ts": written, "x": 1})
    path.write_text(f"ts,x\n{written},1\n" if suffix == "csv" else f'{{"ts": null, "x": 0}}\n{row}\n')
    read = source(path).read("ts").schema.field("ts").type
    assert pa.types.is_timestamp(read)
    assert read.tz == type
    moment = source(path).read("ts")["ts"].cast(pa.timestamp("ns", type)).cast(pa.int64()).to_pylist()[-1]
    assert moment // 10**9 == 1704067200 + (0 if written == "2024-01-01" else 36_000)


def test_a_type_that_changes_late_in_a_csv_is_seen(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("ts,x\n" + "1,1\n" * 600_000 + "2,1.5\n")
    assert source(tmp_path / "t.csv").read("ts").schema.field("x").type == pa.float64()


def test_words_for_null_in_csv(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('ts,x,land\n1,NA,NA\n2,2,""\n3,,\n')
    plain = source(tmp_path / "t.csv").read("ts")
    assert columns(plain) == {"ts": [1, 2, 3], "x": ["NA", "2", None], "land": ["NA", "", None]}
    assert source(tmp_path / "t.csv").read("ts", ("NA",))["x"].to_pylist() == [None, 2, None]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("a.parquet", Format("parquet")),
        ("a.b.PQ", Format("parquet")),
        ("a.feather", Format("arrow")),
        ("ndjson.gz", Format("ndjson", "gzip")),
        ("a.parquet.gz", None),
        ("a.arrow.gz", None),
        ("a.gz", None),
        ("a.xlsx", None),
        ("parquet.txt", None),
        ("", None),
    ],
)
def test_formats_by_name(word: str, expected: Format | None) -> None:
    assert format_of(word) == expected


def test_an_unknown_format_lists_the_known_ones() -> None:
    with pytest.raises(FileError, match=r'did you mean "parquet"\?.*ndjson'):
        choose_format("x", "parqet", "left input", "--left-format")
    with pytest.raises(FileError, match=r'left input "x\.dat".*--left-format'):
        choose_format("x.dat", None, "left input", "--left-format")


def damaged(suffix: str) -> bytes:
    """A good file of 10,000 rows, cut in the middle."""
    format = format_of(suffix)
    assert format is not None
    sink = io.BytesIO()
    sink.close = lambda: None  # type: ignore[method-assign]
    from streamjoin.cli import codecs

    codecs.write(format.kind, pa.table({"ts": range(10_000), "x": ["word"] * 10_000}), sink)
    data = sink.getvalue()
    data = gzip.compress(data) if format.compression else data
    return data[: len(data) // 2]


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "arrows", "arrows.gz", "csv.gz", "ndjson", "ndjson.gz"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_truncated_file_is_named(suffix: str, side: str, tmp_path: Path) -> None:
    path = tmp_path / f"cut.{suffix}"
    path.write_bytes(damaged(suffix))
    with pytest.raises(FileError, match=rf'the {side} input ".*cut\.{suffix}" cannot be read.*write it again'):
        source(path, side).read("ts")


@pytest.mark.parametrize("suffix", [*BINARY, *TEXT])
def test_an_empty_file_is_named(suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"t.{suffix}").touch()
    with pytest.raises(FileError, match=rf't\.{suffix}" is empty \(0 bytes\)'):
        source(tmp_path / f"t.{suffix}").read("ts")


def test_a_csv_with_too_few_fields_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("ts,x\n1,2\n3\n")
    with pytest.raises(FileError, match="line 3 has 1 field, and the header has 2"):
        source(tmp_path / "t.csv").read("ts")


def test_a_header_without_rows_is_explained(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("ts,x\n")
    with pytest.raises(FileError, match=r"has no rows.*Parquet or Arrow"):
        source(tmp_path / "t.csv").read("ts")
    (tmp_path / "t.ndjson").write_text("\n")
    with pytest.raises(FileError, match="has no rows"):
        source(tmp_path / "t.ndjson").read("ts")


@pytest.mark.parametrize(
    ("name", "data", "hint"),
    [
        ("t.parquet", b"ts,x\n1,2\n" * 10, "--left-format"),
        ("t.parquet", gzip.compress(b"ts\n1\n", mtime=0), "those of gzip"),
        ("t.csv.gz", b"ts,x\n1,2\n", "--left-format"),
        ("t.arrow", b"PAR1" + bytes(100), "those of Parquet"),
        ("t.ndjson", b'[{"ts": 1},\n{"ts": 2}]\n', "jq"),
        ("t.ndjson", b"ts,x\n1,2\n", "--left-format"),
        ("t.csv", b"PAR1\n\xff,\xfe,3\n", "those of Parquet"),
    ],
)
def test_the_wrong_format_is_guessed(name: str, data: bytes, hint: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(FileError, match=hint):
        source(tmp_path / name).read("ts")


def test_a_missing_file_a_folder_and_a_forbidden_file(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r'right input ".*no\.csv" does not exist'):
        source(tmp_path / "no.csv", "right").read("ts")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FileError, match="is a folder"):
        source(tmp_path / "folder.csv").read("ts")
    if os.getuid():
        (tmp_path / "secret.csv").write_text("ts\n1\n")
        (tmp_path / "secret.csv").chmod(0)
        with pytest.raises(FileError, match="permissions"):
            source(tmp_path / "secret.csv").read("ts")


def test_a_damaged_arrow_offset_is_refused(tmp_path: Path) -> None:
    target(tmp_path / "t.arrow").write(pa.table({"x": ["abc", "defg"]}))
    data = (tmp_path / "t.arrow").read_bytes()
    good = b"\x00\x00\x00\x00\x03\x00\x00\x00\x07\x00\x00\x00"
    assert data.count(good) == 1
    (tmp_path / "t.arrow").write_bytes(data.replace(good, good[:4] + b"\xff\xff\xff\x0f" + good[8:]))
    with pytest.raises(FileError, match="cannot be read as arrow"):
        source(tmp_path / "t.arrow").read("")


def test_what_a_format_cannot_hold_is_refused_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r'column "list" of type list.*cannot be written as csv'):
        target(tmp_path / "t.csv").check(RICH.schema)
    target(tmp_path / "t.csv").check(pa.schema([("v", pa.string_view())]))
    with pytest.raises(FileError, match="is a folder"):
        target(tmp_path, "csv").check()
    with pytest.raises(FileError, match="does not exist; create it"):
        target(tmp_path / "no" / "t.csv").check()


def test_views_are_written_as_csv(tmp_path: Path) -> None:
    target(tmp_path / "t.csv").write(pa.table({"v": pa.array(["a", None], pa.string_view())}))
    assert (tmp_path / "t.csv").read_text() == '"v"\n"a"\n\n'


@pytest.mark.parametrize("suffix", [*BINARY, *TEXT])
def test_a_table_of_many_chunks_and_dictionaries(suffix: str, tmp_path: Path) -> None:
    chunks = [pa.table({"n": [i], "word": pa.array([f"w{i % 7}"]).dictionary_encode()}) for i in range(200)]
    table = pa.concat_tables(chunks)
    written: list[int] = []
    target(tmp_path / f"t.{suffix}").write(table, written.append)
    assert sum(written) == 200
    assert columns(source(tmp_path / f"t.{suffix}").read("")) == columns(table)
    if suffix == "parquet":
        assert pq.ParquetFile(tmp_path / "t.parquet").num_row_groups == 1


def test_an_empty_csv_has_its_header(tmp_path: Path) -> None:
    target(tmp_path / "t.csv").write(FLAT.slice(0, 0).select(["ts", "n"]))
    assert (tmp_path / "t.csv").read_text() == '"ts","n"\n'


@pytest.mark.parametrize("failure", [OSError("disk"), KeyboardInterrupt(), SystemExit(143)])
def test_a_failure_leaves_the_old_file_and_nothing_else(failure: BaseException, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("old")

    def fail() -> None:
        with atomically(tmp_path / "out") as file:
            file.write(b"new" * 100_000)
            raise failure

    with pytest.raises(type(failure)):
        fail()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out").read_text() == "old"


def test_replacing_keeps_mode_and_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    with atomically(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o640


def test_a_new_file_has_the_usual_mode(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with atomically(tmp_path / "out") as file:
            file.write(b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o640


def test_a_device_is_written_in_place() -> None:
    target("/dev/null", "parquet").write(FLAT)
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_full_device_is_explained() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with pytest.raises(FileError, match='output "/dev/full" cannot be written: No space left on device'):
        target("/dev/full", "csv").write(FLAT)
