"""Tables in files: Parquet, Arrow IPC, CSV and newline-delimited JSON, read whole and written atomically."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from streamjoin.cli import codecs
from streamjoin.errors import FileError, suggest
from streamjoin.folders import atomically
from streamjoin.formats import FORMATS, KNOWN, MAGIC, SUFFIXES, Format, format_of

STANDARD = "-"

_UNREADABLE = (pa.ArrowException, OSError, ValueError)


def choose_format(name: str, asked: str | None, what: str, flag: str) -> Format:
    """The format of the flag, or else of the name's suffix."""
    format = format_of(asked if asked is not None else "" if name == STANDARD else Path(name).name)
    if format is not None:
        return format
    if asked is not None:
        raise FileError(f'{flag} "{asked}" is not a format, {suggest(asked, SUFFIXES)} Formats: {KNOWN}')
    where = f"{what} (standard stream)" if name == STANDARD else f'{what} "{name}"'
    raise FileError(f"the format of the {where} cannot be told from its name; give {flag}. Formats: {KNOWN}")


def choose_encoding(format: Format, asked: str | None, flag: str) -> str:
    """The encoding of the flag; empty for UTF-8."""
    if asked is None:
        return ""
    if FORMATS[format.kind].typed:
        raise FileError(f"{flag} is for csv and ndjson; {format.kind} is not text, leave it out")
    try:
        "x".encode(asked)
    except LookupError as error:
        raise FileError(f'{flag} "{asked}" is not an encoding; such are latin1, cp1252, utf-16') from error
    return asked


@dataclass(frozen=True)
class Source:
    """One input: a path or `-`, the side it stands for ("left" or "right"), its format, its encoding if not UTF-8."""

    name: str
    side: str
    format: Format
    encoding: str = ""

    def read(self, time: str, nulls: tuple[str, ...] = (), gaps: codecs.Gaps = lambda found: None) -> pa.Table:
        """The whole table. `time` names the column whose ISO timestamps must become timestamps."""
        with self._explained():
            stream = pa.BufferReader(self._decoded(self._bytes()))
            table = codecs.read(self.format.kind, stream, codecs.TextOptions(time, nulls), gaps)
        if not table.num_rows and not _typed(table.schema):
            raise FileError(
                f"{self} has no rows, and {self.format.kind} without rows has no column types; "
                "store a side that may be empty as Parquet or Arrow"
            )
        return table

    def schema(self, time: str, nulls: tuple[str, ...] = ()) -> pa.Schema:
        """The column names and types, without reading the rows where the format allows it."""
        plain = self.name != STANDARD and os.path.isfile(self.name) and os.path.getsize(self.name) > 0
        if not FORMATS[self.format.kind].typed or self.format.compression or not plain:
            return self.read(time, nulls).schema
        with self._explained():
            return codecs.read_schema(self.format.kind, pa.OSFile(self.name))

    def _bytes(self) -> pa.Buffer:
        """All bytes in memory: if a mapped file were truncated, the process would crash."""
        if self.name == STANDARD:
            return self._not_empty(_owned(sys.stdin.buffer.read()))
        with Path(self.name).open("rb") as file:
            before = os.fstat(file.fileno())
            if not stat.S_ISREG(before.st_mode) or not before.st_size:  # a pipe, /dev/stdin, <(...)
                return self._not_empty(_owned(file.read()))
            data = pa.allocate_buffer(before.st_size)
            count = file.readinto(memoryview(data).cast("B"))
            after = os.fstat(file.fileno())
        if (before.st_size, before.st_mtime_ns) != (count, after.st_mtime_ns) or before.st_size != after.st_size:
            raise FileError(
                f"{self} was changed while it was read; wait until it is complete, or have it written "
                "elsewhere and moved here"
            )
        return data

    def _not_empty(self, data: pa.Buffer) -> pa.Buffer:
        if not data.size:
            raise FileError(f"{self} is empty (0 bytes); check what wrote it")
        return data

    def _decoded(self, data: pa.Buffer) -> pa.Buffer:
        """The bytes without compression, in UTF-8 if they are text."""
        if self.format.compression:
            with pa.CompressedInputStream(pa.BufferReader(data), self.format.compression) as compressed:
                data = _owned(compressed.read())
        if self.encoding:
            try:
                data = _owned(data.to_pybytes().decode(self.encoding).encode())
            except UnicodeError as error:
                raise FileError(f"{self} is not {self.encoding}: {error}; check --{self.side}-encoding") from error
        return data

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turns whatever goes wrong in reading into an error that names the file, its side and a way out."""
        try:
            yield
        except (FileError, MemoryError):
            raise
        except FileNotFoundError as error:
            raise FileError(f"{self} does not exist; check the path (now in {Path.cwd()})") from error
        except PermissionError as error:
            raise FileError(f"{self} may not be read by this user; check its permissions") from error
        except IsADirectoryError as error:
            raise FileError(f"{self} is a folder; name one file in it") from error
        except _UNREADABLE as error:
            reason = " ".join(str(error).split()).rstrip(".")
            remedy = getattr(error, "remedy", "").format(side=self.side)
            kind = self.format.kind
            raise FileError(f"{self} cannot be read as {kind}: {reason}. {self._hint(remedy)}") from error

    def _hint(self, remedy: str) -> str:
        flag = f"--{self.side}-format"
        start = b""
        if self.name != STANDARD and os.path.isfile(self.name):  # what came through a pipe is gone
            with suppress(OSError), Path(self.name).open("rb") as file:
                start = file.read(16)
        expected = FORMATS[self.format.kind].title or self.format.compression
        for magic, found in MAGIC.items():
            if start.startswith(magic) and found != expected:
                return f"Its first bytes are those of {found}: name the right format with {flag}"
        if self.format.kind == "ndjson" and start.lstrip().startswith(b"["):
            return "It is one JSON array; one object per line is needed, as from: jq -c '.[]'"
        return remedy or f"It is damaged, cut short or of another format: write it again or name its format with {flag}"

    def __str__(self) -> str:
        return f"the {self.side} input " + ("(standard input)" if self.name == STANDARD else f'"{self.name}"')


def _owned(data: bytes) -> pa.Buffer:
    """The bytes in memory of Arrow's own.

    A thread of Arrow that lets go of a Python object while Python ends has the process aborted (apache/arrow#34314).
    """
    buffer = pa.allocate_buffer(len(data))
    if data:
        memoryview(buffer).cast("B")[:] = data
    return buffer


def _typed(schema: pa.Schema) -> bool:
    return any(not pa.types.is_null(column.type) for column in schema)


@dataclass(frozen=True)
class Target:
    """The output: a path or `-`, and its format."""

    name: str
    format: Format

    def check(self, *schemas: pa.Schema, inputs: tuple[Source, ...] = ()) -> None:
        """Fails before the join is run if the place or the format cannot take such rows."""
        if self.name != STANDARD:
            self._check_place(inputs)
        for column in (column for schema in schemas for column in schema):
            empty = pa.Table.from_batches([], pa.schema([column]))  # empty_table() would import pandas
            try:
                codecs.write(self.format.kind, empty, pa.BufferOutputStream())
            except _UNREADABLE as error:
                raise FileError(
                    f'column "{column.name}" of type {column.type} cannot be written as {self.format.kind}; '
                    "choose another output format (arrow takes every type) or leave the column out"
                ) from error

    def _check_place(self, inputs: tuple[Source, ...]) -> None:
        path = Path(os.path.realpath(self.name))  # a link is followed
        try:
            if path.is_dir():
                raise FileError(f'the output "{self.name}" is a folder; name a file in it')
            if not path.parent.is_dir():
                raise FileError(f'the folder of the output "{self.name}" does not exist; create it first')
            if path.exists() and not path.is_file():
                return  # a device or a named pipe
        except FileError:
            raise
        except OSError as error:
            raise FileError(f'the output "{self.name}" cannot be written: {error.strerror}; name another') from error
        for source in inputs:
            if source.name != STANDARD and os.path.realpath(source.name) == str(path):
                raise FileError(f'the output "{self.name}" is {source} too and would replace it; name another file')
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise FileError(f'the folder of the output "{self.name}" may not be written to; name another place with -o')

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
