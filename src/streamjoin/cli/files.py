"""Tables in files: Parquet, Arrow IPC, CSV and newline-delimited JSON, read whole and written atomically."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from streamjoin.cli import codecs
from streamjoin.errors import FileError, suggest
from streamjoin.folders import atomically

STANDARD = "-"

KINDS = {
    "parquet": "parquet",
    "pq": "parquet",
    "arrow": "arrow",
    "feather": "arrow",
    "ipc": "arrow",
    "arrows": "arrows",
    "csv": "csv",
    "ndjson": "ndjson",
    "jsonl": "ndjson",
    "json": "ndjson",
}
COMPRESSIONS: dict[str, Any] = {"gz": "gzip", "zst": "zstd", "bz2": "bz2"}
FORMATS = "parquet, arrow (IPC file), arrows (IPC stream), csv, ndjson, or compressed as csv.gz, ndjson.zst"

_MAGIC = {
    b"PAR1": "Parquet",
    b"ARROW1": "Arrow IPC",
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bz2",
}
_UNREADABLE = (pa.ArrowException, OSError, ValueError)


@dataclass(frozen=True)
class Format:
    """How a file is laid out: a key of `codecs`, and a compression around it or an empty string."""

    kind: str
    compression: Any = ""


def format_of(word: str) -> Format | None:
    """The format that a file name ends in, or that a flag names.

    >>> format_of("trades.csv.gz")
    Format(kind='csv', compression='gzip')
    >>> format_of("parquet")
    Format(kind='parquet', compression='')
    """
    *_, before, last = ["", *word.lower().split(".")]
    compression = COMPRESSIONS.get(last, "")
    kind = KINDS.get(before if compression else last, "")
    if not kind or (compression and kind in ("parquet", "arrow")):
        return None
    return Format(kind, compression)


def choose_format(name: str, asked: str | None, what: str, flag: str) -> Format:
    """The format asked for by flag, or else told by the name's suffix."""
    format = format_of(asked if asked is not None else "" if name == STANDARD else Path(name).name)
    if format is not None:
        return format
    if asked is not None:
        raise FileError(f'{flag} "{asked}" is not a format, {suggest(asked, KINDS)} Formats: {FORMATS}')
    where = f"{what} (standard stream)" if name == STANDARD else f'{what} "{name}"'
    raise FileError(f"the format of the {where} is not told by its name; give {flag}. Formats: {FORMATS}")


@dataclass(frozen=True)
class Source:
    """One input: a path or `-`, the side it stands for ("left" or "right"), and its format."""

    name: str
    side: str
    format: Format

    def read(self, time: str, nulls: tuple[str, ...] = ()) -> pa.Table:
        """The whole table. `time` names the column whose ISO timestamps must become timestamps."""
        with self._explained():
            table = codecs.read(self.format.kind, self._open(), codecs.TextOptions(time, nulls))
        if not table.num_rows and not _typed(table.schema):
            raise FileError(
                f"{self} has no rows, and {self.format.kind} without rows tells no column types; "
                "store a side that may be empty as Parquet or Arrow"
            )
        return table

    def schema(self, time: str, nulls: tuple[str, ...] = ()) -> pa.Schema:
        """The column names and types, without reading the rows where the format allows it."""
        if self.format.kind not in codecs.SELF_DESCRIBING or self.format.compression:
            return self.read(time, nulls).schema
        with self._explained():
            return codecs.read_schema(self.format.kind, self._open())

    def _open(self) -> Any:
        """The bytes, addressable at random: mapped if they lie in a plain file, in memory otherwise."""
        if self.name == STANDARD:
            stream: Any = pa.BufferReader(sys.stdin.buffer.read())
        elif Path(self.name).is_file():
            stream = pa.memory_map(self.name) if Path(self.name).stat().st_size else pa.BufferReader(b"")
        else:
            with Path(self.name).open("rb") as file:  # a pipe, /dev/stdin, <(...)
                stream = pa.BufferReader(file.read())
        if stream.size() == 0:
            raise FileError(f"{self} is empty (0 bytes); check what wrote it")
        if self.format.compression:
            with pa.CompressedInputStream(stream, self.format.compression) as compressed:
                return pa.BufferReader(compressed.read())
        return stream

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turns whatever goes wrong in reading into an error that names the file, its side and a way out."""
        try:
            yield
        except FileError:
            raise
        except FileNotFoundError as error:
            raise FileError(f"{self} does not exist; check the path (now in {Path.cwd()})") from error
        except PermissionError as error:
            raise FileError(f"{self} may not be read by this user; check its permissions") from error
        except IsADirectoryError as error:
            raise FileError(f"{self} is a folder; name one file in it") from error
        except _UNREADABLE as error:
            reason = " ".join(str(error).split()).rstrip(".")
            kind = self.format.kind
            raise FileError(f"{self} cannot be read as {kind}: {reason}. {self._hint()}") from error

    def _hint(self) -> str:
        flag = f"--{self.side}-format"
        start = b""
        if self.name != STANDARD and Path(self.name).is_file():  # what came through a pipe is gone
            with Path(self.name).open("rb") as file:
                start = file.read(16)
        expected = {"parquet": "Parquet", "arrow": "Arrow IPC"}.get(self.format.kind, self.format.compression)
        for magic, found in _MAGIC.items():
            if start.startswith(magic) and found != expected:
                return f"Its first bytes are those of {found}: name the right format with {flag}"
        if self.format.kind == "ndjson" and start.lstrip().startswith(b"["):
            return "It is one JSON array; one object per line is needed, as from: jq -c '.[]'"
        return f"It is damaged, cut short or of another format: write it again or name its format with {flag}"

    def __str__(self) -> str:
        return f"the {self.side} input " + ("(standard input)" if self.name == STANDARD else f'"{self.name}"')


def _typed(schema: pa.Schema) -> bool:
    return any(not pa.types.is_null(column.type) for column in schema)


@dataclass(frozen=True)
class Target:
    """The output: a path or `-`, and its format."""

    name: str
    format: Format

    def check(self, *schemas: pa.Schema) -> None:
        """Fails before the join is run if the place or the format cannot take such rows."""
        if self.name != STANDARD:
            path = Path(self.name)
            if path.is_dir():
                raise FileError(f'the output "{self.name}" is a folder; name a file in it')
            if not path.absolute().parent.is_dir():
                raise FileError(f'the folder of the output "{self.name}" does not exist; create it first')
        for column in (column for schema in schemas for column in schema):
            empty = pa.Table.from_batches([], pa.schema([column]))  # empty_table() would import pandas
            try:
                codecs.write(self.format.kind, empty, pa.BufferOutputStream())
            except _UNREADABLE as error:
                raise FileError(
                    f'column "{column.name}" of type {column.type} cannot be written as {self.format.kind}; '
                    "choose another output format (arrow takes every type) or leave the column out"
                ) from error

    def write(self, table: pa.Table, progress: Callable[[int], None] = lambda rows: None) -> None:
        """Writes all rows, or leaves nothing behind under the final name."""
        try:
            with self._opened() as file:
                sink: Any = pa.PythonFile(file, mode="w")
                if self.format.compression:
                    sink = pa.CompressedOutputStream(sink, self.format.compression)
                with sink:
                    codecs.write(self.format.kind, table, sink, progress)
        except BrokenPipeError:
            raise  # the reader has left, as with `| head`: no failure to explain
        except (pa.ArrowInvalid, OSError) as error:
            where = "standard output" if self.name == STANDARD else f'"{self.name}"'
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            left = "" if self.name == STANDARD else " What stood under that name before is unchanged."
            raise FileError(
                f"the output {where} cannot be written: {reason}.{left} Free some space, check the folder's "
                "permissions, or name another place with -o"
            ) from error

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        if self.name == STANDARD:
            yield _Stream(sys.stdout.buffer)
            sys.stdout.buffer.flush()
        elif Path(self.name).exists() and not Path(self.name).is_file():  # a device or a named pipe
            with Path(self.name).open("wb") as file:
                yield _Stream(file)
        else:
            with atomically(Path(self.name)) as file:
                yield file


class _Stream:
    """Counts what goes through, since a pipe cannot say where it stands and the formats want to know."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._written = 0
        self.closed = False

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self._file.write(view)
        self._written += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        return self._written

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.flush()
        self.closed = True
