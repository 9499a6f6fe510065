"""Files that lack a column of their stream. Spark silently reads nulls there, so the pipeline checks the files.

After each micro-batch the driver looks at its new files, as the log of the source in the checkpoint names them: at the
footers of Parquet, and for the columns' names in the text of JSON, where most files are left after their first line. A
JSON file lacks a column if no object in it has that key, which may also mean that all its values were null. CSV needs
no look: Spark compares its headers with the columns. Files and checkpoints must be on the local file system.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from streamjoin.spark.metrics import JoinListener
from streamjoin.spark.pipeline.endpoints import Endpoint

_PIECE = 1 << 20  # bytes of JSON that are read at a time


class Absent:
    """The columns that files of the two sources lack, and how many rows that concerns."""

    def __init__(self, checkpoint: str, ends: Sequence[Endpoint], columns: Sequence[list[str]], exact: bool) -> None:
        self._logs = [Path(checkpoint) / "sources" / str(number) for number in range(len(ends))]
        self._ends, self._columns, self._exact = ends, columns, exact
        self._found: dict[tuple[str, str], dict[str, int]] = {}  # by option and column: files, rows

    def summary(self) -> list[dict[str, Any]]:
        return [{"input": key[0], "column": key[1], **counts} for key, counts in self._found.items()]

    def look(self, sources: Sequence[Any]) -> Iterator[str]:
        """Takes the files of one micro-batch; yields a warning for each column that was never absent before."""
        for log, end, columns, source in zip(self._logs, self._ends, self._columns, sources, strict=False):
            if not end.is_local or end.format not in _LACKING:
                continue
            for number in range(_offset(source.startOffset) + 1, _offset(source.endOffset) + 1):
                for path in _files(log, number):
                    with suppress(OSError, pa.ArrowException):  # it was moved away, or only Spark can read it
                        yield from self._take(path, end, columns)

    def _take(self, path: Path, end: Endpoint, columns: list[str]) -> Iterator[str]:
        inside = [name for name in columns if not any(part.startswith(f"{name}=") for part in path.parts)]
        lacking, rows = _LACKING[end.format](path, inside, self._exact)
        for column in lacking if rows else ():
            key = end.option, column
            if key not in self._found:
                yield f'{end.option}: the file "{path}" has no column "{column}"; its {rows:,} rows are null there'
            counts = self._found.setdefault(key, {"files": 0, "rows": 0})
            counts["files"] += 1
            counts["rows"] += rows


class Watch(JoinListener):
    """A listener of the pipeline's that also looks at the files of each micro-batch, once."""

    def __init__(
        self, on_progress: Callable[[dict[str, Any]], None], absent: Absent | None, warn: Callable[[str], None]
    ) -> None:
        super().__init__(on_progress)
        self._absent, self._warn = absent, warn
        self._last = -1

    def onQueryProgress(self, event: Any) -> None:
        if self._absent is not None and event.progress.batchId > self._last:
            self._last = event.progress.batchId
            with suppress(LookupError, TypeError, ValueError):  # a log of another Spark must not cost the figures
                for warning in self._absent.look(event.progress.sources):
                    self._warn(warning)
        super().onQueryProgress(event)


def _offset(text: str | None) -> int:
    """The last entry of a source's log.

    >>> _offset('{"logOffset":3}'), _offset(None)
    (3, -1)
    """
    found = json.loads(text) if text else None
    return int(found["logOffset"]) if isinstance(found, dict) else -1


def _files(log: Path, number: int) -> Iterator[Path]:
    """The files of one entry of a source's log, every tenth of which repeats all before it."""
    for path in (log / str(number), log / f"{number}.compact"):
        with suppress(FileNotFoundError):
            for line in path.read_text(encoding="utf-8").splitlines()[1:]:
                entry = json.loads(line)
                if entry["batchId"] == number:
                    yield Path(unquote(urlsplit(entry["path"]).path))
            return


def _parquet(path: Path, columns: list[str], exact: bool) -> tuple[list[str], int]:
    with pq.ParquetFile(path) as file:
        names = set(file.schema_arrow.names)
        if not exact:
            names = {name.lower() for name in names}
        return [name for name in columns if (name if exact else name.lower()) not in names], file.metadata.num_rows


def _json(path: Path, columns: list[str], exact: bool) -> tuple[list[str], int]:
    """By the text of the keys, as writers spell them; rows are lines."""
    forms = {name: {json.dumps(name, ensure_ascii=ascii).encode() for ascii in (True, False)} for name in columns}
    overlap = max((len(form) for several in forms.values() for form in several), default=0)
    rows, kept = 0, b""
    with pa.input_stream(str(path)) as stream:
        while piece := stream.read(_PIECE):
            text = kept + piece
            forms = {name: several for name, several in forms.items() if not any(form in text for form in several)}
            if not forms:
                return [], 0
            rows += piece.count(b"\n")
            kept = text[-overlap:]
    return list(forms), rows + (not kept.endswith(b"\n"))


_LACKING: dict[str, Callable[[Path, list[str], bool], tuple[Iterable[str], int]]] = {"parquet": _parquet, "json": _json}
