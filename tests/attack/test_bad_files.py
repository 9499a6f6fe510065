"""Files that are damaged, hostile or merely odd: read right, or refused with the place and the remedy; never a crash.

Files are read in a process of its own, so that a parser that dies is one failed test.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import read_files
import streamjoin as sj
from profiles import SOAK
from streamjoin.cli import main
from streamjoin.cli.files import Source, choose_format
from streamjoin.errors import FileError

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(sj.__file__).parents[1])}
READER = Path(read_files.__file__)


def outcomes(folder: Path, files: dict[str, bytes]) -> dict[str, dict[str, Any]]:
    """What came of each file. After a crash another process goes on with the next one."""
    for name, data in files.items():
        (folder / name).write_bytes(data)
    found: dict[str, dict[str, Any]] = {}
    while len(found) < len(files):
        names = list(files)[len(found) :]
        done = subprocess.run(
            [sys.executable, str(READER)],
            input="".join(f"{folder / name}\n" for name in names),
            capture_output=True,
            text=True,
            env=ENVIRONMENT,
            timeout=300,
        )
        found.update(zip(names, map(json.loads, done.stdout.splitlines()), strict=False))
        if done.returncode:
            next_name = list(files)[len(found)] if len(found) < len(files) else "the end"
            found[next_name] = {"died": f"{done.returncode} {done.stderr[-300:]}"}
    return found


def deep(levels: int) -> bytes:
    return b'{"ts": 1}\n{"ts": 2, "a": ' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}\n"


def arrow_stream(batches: int) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("ts", pa.int64())])) as writer:
        for k in range(batches):
            writer.write_batch(pa.record_batch({"ts": [k]}))
    return bytes(sink.getvalue().to_pybytes())


BIG = "9" * 400

# By file name: the content, and either the words of the refusal or the rows.
CASES: dict[str, tuple[bytes, str | list[dict[str, Any]]]] = {
    # NDJSON
    "deep.ndjson": (deep(100_000), r"line 2: lists and objects are nested 100,000 deep, and 64 are supported"),
    "deeper.ndjson": (b'{"a":' * 1_000_000, r"line 1: .* nested 1,000,000 deep"),
    "deep65.ndjson": (deep(65), "line 2: .* nested 65 deep"),
    "deep_in_text.ndjson": (
        b'{"ts": 1, "a": "' + b'[{\\"' * 1_000 + b'"}\n',
        [{"ts": 1, "a": '[{"' * 1_000}],
    ),
    "long.ndjson": (
        b'{"ts": 1, "a": "' + b"x" * (40 << 20) + b'"}\n{"ts": 2, "a": "y"}\n',
        [{"ts": 1, "a": f"x, {40 << 20} characters"}, {"ts": 2, "a": "y"}],
    ),
    "latin.ndjson": (b'{"ts": 1, "a": "M\xfcller"}\n', r"line 1, byte 18: 0xfc is not UTF-8.*--left-encoding latin1"),
    "latin_key.ndjson": (b'{"ts": 1}\n{"ts": 1, "M\xfc": 1}\n', "line 2, byte 13: 0xfc is not UTF-8"),
    "overlong.ndjson": (b'{"ts": 1, "a": "\xc0\xaf"}\n', "0xc0 is not UTF-8"),
    "surrogate_bytes.ndjson": (b'{"ts": 1, "a": "\xed\xa0\x80"}\n', "0xed is not UTF-8"),
    "utf8.ndjson": ('{"ts": 1, "ä": "ü€😀\U0010ffff"}\n'.encode(), [{"ts": 1, "ä": "ü€😀\U0010ffff"}]),
    "utf16.ndjson": ('{"ts": 1}\n'.encode("utf-16"), "those of UTF-16.*--left-encoding utf-16"),
    "nul.ndjson": (b'{"ts": 1, "a": "x\x00y"}\n', "line 1, byte 18: the byte 0x00 is not allowed there"),
    "nul_tail.ndjson": (b'{"ts": 1}\n' + bytes(4096), "line 2, byte 1: the byte 0x00 is not allowed there"),
    "nul_escaped.ndjson": (b'{"ts": 1, "a": "x\\u0000y"}\n', [{"ts": 1, "a": "x\0y"}]),
    "control.ndjson": (b'{"ts": 1, "a": "x\x01"}\n', "the byte 0x01 is not allowed"),
    "surrogate.ndjson": (b'{"ts": 1}\n{"ts": 1, "a": "\\ud800"}\n', r"line 2: .*half a surrogate pair"),
    "surrogates.ndjson": (b'{"ts": 1, "a": "\\ud83d\\ude00"}\n', [{"ts": 1, "a": "😀"}]),
    "twice.ndjson": (b'{"ts": 1}\n{"ts": 2, "ts": 3}\n', 'line 2: the key "ts" is there twice'),
    "twice_escaped.ndjson": (b'{"ts": 1, "t\\u0073": 5}\n', 'line 1: the key "ts" is there twice'),
    "integer.ndjson": (
        b'{"ts": 1, "a": 18446744073709551617}\n',
        r'line 1 \(column "a"\): 18446744073709551617 is not',
    ),
    "integer_exact.ndjson": (b'{"ts": 1, "a": 18446744073709551616}\n', [{"ts": 1, "a": 2.0**64}]),
    "integer_edge.ndjson": (b'{"ts": 9223372036854775807}\n', [{"ts": 2**63 - 1}]),
    "integer_among_floats.ndjson": (
        b'{"ts": 9007199254740993, "a": 1.5}\n{"ts": 2, "a": 9007199254740993}\n',
        r'line 2 \(column "a"\): 9007199254740993 is not',
    ),
    "integer_inside.ndjson": (
        b'{"ts": 1, "a": {"b": [0.5]}}\n{"ts": 2, "a": {"b": [9007199254740993]}}\n',
        r'line 2 \(column "a"\): 9007199254740993 is not',
    ),
    "float.ndjson": (b'{"ts": 1, "a": 1e999}\n', "too large for 64 bits"),
    "digits.ndjson": (f'{{"ts": 1, "a": {BIG}}}\n'.encode(), r"9\.\.\. \(400 characters\) is not"),
    "digits_point.ndjson": (f'{{"ts": 1, "a": {BIG}.5}}\n'.encode(), r"9\.\.\. \(402 characters\) is not"),
    "infinity.ndjson": (
        b'{"ts": 1, "a": -Infinity}\n{"ts": 2, "a": NaN}\n',
        [{"ts": 1, "a": "-inf"}, {"ts": 2, "a": "nan"}],
    ),
    "cut.ndjson": (b'{"ts": 1, "a": 1}\n{"ts": 2, "a"', "line 2, byte 1: the object that begins there does not end"),
    "cut_text.ndjson": (
        b'{"ts": 1, "a": "x"}\n{"ts": 2, "a": "y',
        "line 2, byte 16: the text that begins there is not closed",
    ),
    "no_newline.ndjson": (b'{"ts": 1}\n{"ts": 12}', [{"ts": 1}, {"ts": 12}]),
    "mark.ndjson": (b'\xef\xbb\xbf{"ts": 1}\n', [{"ts": 1}]),
    "array.ndjson": (b'[{"ts": 1}, {"ts": 2}]\n', r"one object per line.*jq -c '\.\[\]'"),
    "null_line.ndjson": (b'{"ts": 1}\nnull\n{"ts": 2}\n', "line 2, byte 1: an object should begin there"),
    "commas.ndjson": (b'{"ts": 1},\n{"ts": 2}\n', "line 1, byte 10: an object should begin there"),
    "crlf.ndjson": (b'{"ts": 1}\r\n{"ts": 2}\r\n', [{"ts": 1}, {"ts": 2}]),
    "cr.ndjson": (b'{"ts": 1}\r{"ts": 2}\r', [{"ts": 1}, {"ts": 2}]),
    "blank_lines.ndjson": (b'\n{"ts": 1}\n\n \t\n{"ts": 2}\n\n', [{"ts": 1}, {"ts": 2}]),
    "over_lines.ndjson": (b'{\n"ts": 1\n}\n' * 3, [{"ts": 1}] * 3),
    "kinds.ndjson": (b'{"ts": 1, "a": 1}\n{"ts": 2, "a": "x"}\n', 'line 2: column "a" has a text here and a number'),
    "kinds_inside.ndjson": (b'{"a": {"b": 1}}\n{"a": {"b": []}}\n', r'line 2: column "a\.b" has a list here'),
    "syntax.ndjson": (b'{"ts": 1}\n{"ts": 01}\n', "line 2, character 9: Expecting ',' delimiter"),
    "zone_inside.ndjson": (
        b'{"ts": 1, "a": {"t": "2024-01-01T00:00:00+02:00"}}\n',
        [{"ts": 1, "a": {"t": "2024-01-01T00:00:00+02:00"}}],
    ),
    "empty.ndjson": (b"", "is empty"),
    "nothing.ndjson": (b"\n\n", "has no rows"),
    # CSV
    "latin.csv": (
        b"ts,name\n1,x\n2,M\xfcller\n",
        r'line 3, field 2 \(column "name"\): the byte 0xfc is not UTF-8.*iconv',
    ),
    "latin_quoted.csv": (b'ts,name\n1,"M\xfcller"\n', "line 2, field 2 .*0xfc is not UTF-8"),
    "latin_header.csv": (b"ts,M\xfc\n1,2\n", "line 1, field 2: the byte 0xfc is not UTF-8"),
    "utf16.csv": ("ts,a\n1,2\n".encode("utf-16"), "--left-encoding utf-16"),
    "unclosed.csv": (
        b'ts,a\n1,x\n2,"y\n3,z\n4,w\n',
        r'line 3, field 2 \(column "a"\): the quote that opens it is never',
    ),
    "unclosed_then_other.csv": (
        b'ts,a\n1,"x\n2,y\n3,"z"\n',
        "line 2, field 2 .*: its quotes are closed on line 4, and then",
    ),
    "unclosed_at_end.csv": (b'ts,a\n1,x\n2,"', "line 3, field 2 .*never closed"),
    "inner_quotes.csv": (b'ts,a\n1,"say "hi" to"\n', "line 2, field 2 .*its quotes are closed on line 2"),
    "quotes.csv": (b'ts,a\n1,"say ""hi"""\n2,"x\ny,z"\n', [{"ts": 1, "a": 'say "hi"'}, {"ts": 2, "a": "x\ny,z"}]),
    "inches.csv": (b'ts,a\n1,5" pipe\n2,6"\n', [{"ts": 1, "a": '5" pipe'}, {"ts": 2, "a": '6"'}]),
    "few.csv": (b'ts,a\n1,"x\ny"\n2\n3,z\n', "line 4 has 1 field, and the header has 2"),
    "many.csv": (b"ts,a\n1,x\n2,y,z\n", "line 3 has 3 fields, and the header has 2"),
    "nul.csv": (b"ts,a\n1,x\n" + bytes(512), r'line 3, field 1 \(column "ts"\): there is a NUL byte'),
    "nul_quoted.csv": (b'ts,a\n1,"x\0y"\n', [{"ts": 1, "a": "x\0y"}]),
    "mark.csv": (b'\xef\xbb\xbf"ts",a\n1,2\n', [{"ts": 1, "a": 2}]),
    "crlf.csv": (b'ts,a\r\n1,"x\r\ny"\r\n\r\n2,z\r\n', [{"ts": 1, "a": "x\r\ny"}, {"ts": 2, "a": "z"}]),
    "cr.csv": (b"ts,a\r1,x\r2,y\r", [{"ts": 1, "a": "x"}, {"ts": 2, "a": "y"}]),
    "header.csv": (b"ts,a\n", "has no rows"),
    "header_only.csv": (b"ts,a", "has no rows"),
    "same_names.csv": (b"ts,a,a\n1,2,3\n", 'the name "a" more than once'),
    "no_name.csv": (b"ts,,b\n1,2,3\n", [{"ts": 1, "": 2, "b": 3}]),
    "long.csv": (
        b'ts,a\n1,"' + b"x" * (5 << 20) + b'"\n2,y\n',
        [{"ts": 1, "a": f"x, {5 << 20} characters"}, {"ts": 2, "a": "y"}],
    ),
    "integer.csv": (b'ts,a\n1,"2"\n\n2,18446744073709551617\n', r'line 4 \(column "a"\): 18446744073709551617 is not'),
    "integer_exact.csv": (b"ts,a\n1,18446744073709551616\n", [{"ts": 1, "a": 2.0**64}]),
    "integer_among_floats.csv": (
        b"ts,a\n1,1.5\n2,-9007199254740993\n",
        r'line 3 \(column "a"\): -9007199254740993 is not',
    ),
    "float.csv": (b"ts,a\n1,1.5\n2,1e999\n", r'line 3 \(column "a"\): 1e999 is not'),
    "infinity.csv": (
        b"ts,a\n1,inf\n2,-inf\n3,nan\n",
        [{"ts": 1, "a": "inf"}, {"ts": 2, "a": "-inf"}, {"ts": 3, "a": "nan"}],
    ),
    "members.csv.gz": (gzip.compress(b"ts,a\n1,2\n") + gzip.compress(b"3,4\n"), [{"ts": 1, "a": 2}, {"ts": 3, "a": 4}]),
    "junk.csv.gz": (gzip.compress(b"ts,a\n1,2\n") + b"junk" * 9, "cannot be read as csv: zlib inflate failed"),
    "cut.csv.gz": (gzip.compress(b"ts,a\n" + b"1,2\n" * 999)[:-6], "Truncated"),
    # Parquet and Arrow
    "magic.parquet": (b"PAR1" + bytes(100) + b"PAR1", "cannot be read as parquet"),
    "length.parquet": (b"PAR1" + b"\xff" * 8 + b"\xff\xff\xff\x7fPAR1", "cannot be read as parquet"),
    "text.parquet": (b"ts,a\n1,2\n" * 9, "--left-format"),
    "magic.arrow": (b"ARROW1\0\0" + b"\xff" * 64 + b"ARROW1", "cannot be read as arrow"),
    "stream.arrows": (b"\xff\xff\xff\xff\xff\xff\xff\x7f" + bytes(64), "cannot be read as arrows"),
    "empty.arrow": (b"", "is empty"),
    "whole.arrows": (arrow_stream(2), [{"ts": 0}, {"ts": 1}]),
    "padded.arrows": (arrow_stream(2) + bytes(56), [{"ts": 0}, {"ts": 1}]),
    "cut_between_batches.arrows": (arrow_stream(2)[:-8], "the end-of-stream marker is missing"),
    "two_streams.arrows": (arrow_stream(2) + arrow_stream(2), "something follows the end of the stream at byte"),
}


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return outcomes(tmp_path_factory.mktemp("files"), {name: data for name, (data, _) in CASES.items()})


@pytest.mark.parametrize("name", CASES)
def test_a_bad_file_is_read_right_or_refused(name: str, read: dict[str, dict[str, Any]]) -> None:
    expected, found = CASES[name][1], read[name]
    if isinstance(expected, list):
        assert found.get("rows") == expected, str(found)[:500]
    else:
        assert re.search(rf'the left input "{re.escape(name)}" .*{expected}', found.get("refused", "")), str(found)[
            :500
        ]


def test_lost_columns_are_counted(tmp_path: Path) -> None:
    files = {
        "some.ndjson": b'{"ts": 1, "a": 1}\n{"ts": 2, "a": null}\n{"ts": 3}\n{"a": {"b": 1}}\n'.replace(
            b'{"b": 1}', b"4"
        ),
        "none.ndjson": b'{"ts": 1, "a": null}\n{"ts": 2, "a": {"b": 1}}\n{"a": {}, "ts": 3}\n',
    }
    found = outcomes(tmp_path, files)
    assert found["some.ndjson"]["gaps"] == [[2, 'the first is on line 3 and lacks "a"']]
    assert found["none.ndjson"]["gaps"] == []


# Damage at random: what is not refused must be what another reader sees.


def damaged(texts: list[bytes], bytes_: bytes, count: int) -> Iterable[bytes]:
    choose = random.Random(14)
    for _ in range(count):
        data = bytearray(choose.choice(texts))
        for _ in range(choose.randint(1, 3)):
            at, byte = choose.randrange(len(data)), choose.choice(bytes_)
            if choose.random() < 0.3:
                del data[at]
            elif choose.random() < 0.5:
                data[at] = byte
            else:
                data.insert(at, byte)
        yield bytes(data)


def with_json(data: bytes) -> list[dict[str, Any]]:
    """The rows as Python's reader sees them."""
    text, at, rows = data.decode("utf-8-sig"), 0, []
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        row, at = json.JSONDecoder().raw_decode(text, at)
        rows.append(row)
    return rows


def with_csv(data: bytes) -> list[dict[str, Any]]:
    lines = re.findall("[^\r\n]*(?:\r\n|\r|\n|$)", data.decode("utf-8-sig"))
    header, *rows = [row for row in csv.reader(lines) if row]
    return [dict(zip(header, row, strict=True)) for row in rows]


def nulls_left_out(value: Any) -> Any:
    """Arrow has null for what is missing, and the empty text of CSV is null without quotes."""
    if isinstance(value, dict):
        return {key: nulls_left_out(item) for key, item in value.items() if item is not None and item != ""}
    return [nulls_left_out(item) for item in value] if isinstance(value, list) else value


NDJSON = [
    b'{"ts": 1, "a": "x\\"[{", "b": [{"c": 1}, {}]}\n{"ts": 2, "a": "\xc3\xbc"}\n',
    b'\xef\xbb\xbf{"ts": 9007199254740993, "b": 0.5}\r\n{"ts": 3, "b": 2}\r\n',
]
CSV = [b'ts,a\nx,"y ""z"", w"\n\xc3\xbc,\nq,"r\r\ns"\n', b'\xef\xbb\xbfts,"a"\r\nx,y\r\n\r\nz,w"v\r\n']


@pytest.mark.parametrize(
    ("suffix", "texts", "bytes_", "reader"),
    [
        ("ndjson", NDJSON, b'{}[],:"\\ \n\r01.9eaun\x00\xff\xc3', with_json),
        ("csv", CSV, b'",\n\rxy\x00\xff\xc3 ', with_csv),
    ],
)
def test_damage_at_random(
    suffix: str, texts: list[bytes], bytes_: bytes, reader: Callable[[bytes], list[dict[str, Any]]], tmp_path: Path
) -> None:
    cases = dict.fromkeys(damaged(texts, bytes_, 20_000 if SOAK else 500))
    files = {f"{k}.{suffix}": data for k, data in enumerate(cases)}
    taken = 0
    for name, found in outcomes(tmp_path, files).items():
        assert "rows" in found or "refused" in found, (files[name], found)
        if "rows" in found:
            taken += 1
            assert nulls_left_out(found["rows"]) == nulls_left_out(reader(files[name])), files[name]
    assert taken > len(files) / 20


@pytest.mark.parametrize("kind", ["parquet", "arrow", "arrows"])
def test_damage_to_binary_files(kind: str, tmp_path: Path) -> None:
    """Flipped values have no checksum in Arrow's formats and cannot be told; but no damage may kill the process."""
    from streamjoin.cli import codecs

    rows = range(200)
    columns = {"ts": rows, "a": [f"w{k % 7}" for k in rows], "b": [[k, None] for k in rows], "c": [{"x": 0.5}] * 200}
    sink = pa.BufferOutputStream()
    codecs.write(kind, pa.table(columns), sink)
    cases = damaged([sink.getvalue().to_pybytes()], bytes(range(256)), 2_000 if SOAK else 100)
    for name, found in outcomes(tmp_path, {f"{k}.{kind}": data for k, data in enumerate(cases)}).items():
        assert "rows" in found or "refused" in found, (name, found)


# Inputs that are no plain files, or change under our hands.


def source(path: Path | str, encoding: str = "", format: str | None = None) -> Source:
    return Source(str(path), "left", choose_format(str(path), format, "left input", "--left-format"), encoding)


def test_a_pipe_and_no_file_at_all(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    with subprocess.Popen(["sh", "-c", f"printf 'ts,a\\n1,2\\n' > {tmp_path / 'pipe.csv'}"]):
        assert source(tmp_path / "pipe.csv").read("ts").to_pylist() == [{"ts": 1, "a": 2}]
    with pytest.raises(FileError, match=r'"/dev/null" is empty \(0 bytes\)'):
        source("/dev/null", format="csv").read("ts")
    with pytest.raises(FileError, match="is a folder; name one file in it"):
        source(tmp_path, format="parquet").read("ts")
    with pytest.raises(FileError, match="File name too long"):
        source("x" * 300 + ".csv").read("ts")


@pytest.mark.parametrize("change", ["cut", "longer", "rewritten"])
def test_a_file_that_changes_while_it_is_read(change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"ts,a\n" + b"1,2\n" * 1_000)
    fstat, calls = os.fstat, []

    def during(number: int) -> os.stat_result:
        """Another process comes in after the first look at the file."""
        seen = fstat(number)
        calls.append(number)
        if len(calls) == 1 and change == "cut":
            os.truncate(path, 100)
        elif len(calls) == 1:
            with path.open("ab" if change == "longer" else "r+b") as file:
                file.write(b"9,9\n")
            os.utime(path, ns=(0, 0))
        return seen

    monkeypatch.setattr(os, "fstat", during)
    with pytest.raises(FileError, match=r't\.csv" was changed while it was read'):
        source(path).read("ts")


def test_text_in_another_encoding(tmp_path: Path) -> None:
    for name, data in (("t.csv", "ts,ä\n1,Müller\n"), ("t.ndjson", '{"ts": 1, "ä": "Müller"}\n')):
        for encoding in ("latin1", "cp1252", "utf-16"):
            (tmp_path / name).write_bytes(data.encode(encoding))
            assert source(tmp_path / name, encoding).read("ts").to_pylist() == [{"ts": 1, "ä": "Müller"}]
    (tmp_path / "t.csv").write_bytes(b"ts,a\n1,\x81\n")
    with pytest.raises(FileError, match=r"is not cp1252: .*0x81.*check --left-encoding"):
        source(tmp_path / "t.csv", "cp1252").read("ts")


# The program as a whole, in a process of its own.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "r.csv").write_text("ts,x\n1,1\n2,2\n")
    (tmp_path / "s.ndjson").write_text('{"ts": 1, "y": 1, "z": 5}\n{"ts": 2, "y": 2}\n')
    return tmp_path


JOIN = "join --left r.csv --right s.ndjson --time ts --within 2 --on r.x=s.y"
RESULT = '"ts_r","x","ts_s","y","z"\n1,1,1,1,5\n2,2,2,2,\n'


def shell(folder: Path, words: str, after: str = "") -> tuple[int, str, str]:
    """The program under a shell that closes or redirects its streams: exit code, standard output and error."""
    command = f"{sys.executable} -m streamjoin {words} {after}"
    done = subprocess.run(
        ["sh", "-c", command], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=300
    )
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("streams", ["2>&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_closed_streams_do_not_end_the_join(streams: str, folder: Path) -> None:
    assert shell(folder, f"{JOIN} -o out.csv", streams)[0] == 0
    assert (folder / "out.csv").read_text() == RESULT, "no message may get into it"
    assert {path.name for path in folder.iterdir()} == {"r.csv", "s.ndjson", "out.csv"}


@pytest.mark.parametrize(
    ("words", "streams", "code", "message"),
    [
        (f"{JOIN} -o out.csv --json", ">&-", 2, "standard output cannot be written, the rest is done: it is closed"),
        (f"{JOIN} -o out.csv --json", ">/dev/full 2>&-", 2, ""),
        (f"{JOIN} -o - --output-format csv", ">&-", 2, "the output standard output cannot be written"),
        ("doctor", ">/dev/full", 2, "the rest is done: No space left on device"),
        ("--version", ">&-", 2, "it is closed"),
        ("join --nonsense", "2>/dev/full", 2, ""),
        ("demo --engine embedded --tuples 500 --json", "2>&-", 0, ""),
        ("bench scan --tuples 1000 --seconds 0 --json", "2>/dev/full >/dev/full", 2, ""),
    ],
)
def test_output_that_cannot_be_written(words: str, streams: str, code: int, message: str, folder: Path) -> None:
    found, _, errors = shell(folder, words, streams)
    assert (found, message in errors) == (code, True), errors
    if "-o out.csv" in words:
        assert (folder / "out.csv").read_text() == RESULT


def test_a_reader_that_leaves(folder: Path) -> None:
    command = f"{{ {sys.executable} -m streamjoin {JOIN} -o out.csv --json; echo $? >code; }} 2>errors | true"
    subprocess.run(["sh", "-c", command], cwd=folder, env=ENVIRONMENT, timeout=300, check=True)
    assert (folder / "code").read_text() == "1\n"
    assert (folder / "out.csv").read_text() == RESULT
    assert "lacks a column" in (folder / "errors").read_text()
    assert "streamjoin:" not in (folder / "errors").read_text()


def test_a_closed_standard_input_is_an_empty_one(folder: Path) -> None:
    code, _, errors = shell(folder, JOIN.replace("r.csv", "- --left-format csv") + " -o out.csv", "<&-")
    assert code == 2
    assert "the left input (standard input) is empty" in errors
    assert not (folder / "out.csv").exists()


def test_lost_columns_are_said_once_and_counted(folder: Path) -> None:
    code, output, errors = shell(folder, f"{JOIN} -o out.csv --json")
    assert code == 0
    stats = json.loads(output)["stats"]
    assert (stats["left_incomplete"], stats["right_incomplete"]) == (0, 1)
    assert errors.splitlines() == [
        'the right input "s.ndjson": 1 row lacks a column that others have, which is null there; '
        'the first is on line 2 and lacks "z"'
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-o s.ndjson", 'the output "s.ndjson" is the right input "s.ndjson" too'),
        ("-o link.csv", 'the output "link.csv" is the left input "r.csv" too'),
        (f"-o {'x' * 300}.csv", "File name too long"),
        ("-o .", "cannot be told from its name"),
        ("-o . --output-format csv", 'the output "." is a folder'),
        ("-o r.csv/out.csv", "does not exist"),
        ("-o out.csv --left-encoding latin-99", '--left-encoding "latin-99" is not an encoding'),
        ("-o out.csv --right-encoding hex", '--right-encoding "hex" is not an encoding'),
        ("-o out.csv --left-format parquet --left-encoding latin1", "--left-encoding is for csv and ndjson"),
        ("-o out.csv --malformed drop", "--malformed is for --engine spark"),
    ],
)
def test_refusals(
    words: str, message: str, folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "link.csv").symlink_to("r.csv")
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    monkeypatch.chdir(folder)
    assert main([*JOIN.split(), *words.split()]) == 2
    assert message in capfd.readouterr().err
    assert before == {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
