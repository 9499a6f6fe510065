"""Text that Arrow would misread: rejected before it is parsed, or explained afterwards.

Arrow reads an unclosed quote to the end of the file, Latin-1 as bytes and integers of more than 64 bits as rounded
floats, and NDJSON that is nested deeply kills it. Each of these is an error here that says where it is.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from streamjoin.cli import text_kernels as kernel

DEEPEST = 64  # levels of NDJSON; Arrow's parser calls itself for each
LONGEST = (1 << 31) - 64  # bytes of a row; Arrow counts those of a block with 32 bits

_EXACT = float(1 << 53)  # up to here every integer is a float
_NONE = np.empty(0, np.int64)
_LINE_END = re.compile(rb"\r\n?|\n")
_WHITE = re.compile(r"[ \t\r\n]*")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_KINDS = {str: "text", int: "number", float: "number", bool: "boolean", list: "list", dict: "object"}

_DAMAGED = "It is damaged or cut short: write it again"
_QUOTES = 'Close it where the field ends; a quote inside quotes is written ""'
_ENCODING = "Name its encoding, as --{side}-encoding latin1, or convert it: iconv -f latin1 -t utf8"
_WIDE = "Name its encoding, --{side}-encoding utf-16"
_ROUNDED = "Store the column as text, or the file as Parquet or Arrow with decimals"


class TextError(ValueError):
    """Text that is not what its format says: what is wrong and where; the remedy has {side} to be filled in."""

    def __init__(self, what: str, remedy: str = _DAMAGED) -> None:
        super().__init__(what)
        self.remedy = remedy


def check_csv(data: memoryview) -> kernel.Look:
    """How the rows lie; a TextError if they are not sound."""
    _check_start(data)
    seen: kernel.Look = kernel.look_at_csv(np.frombuffer(data, np.uint8), -1)
    names = _header(data)
    if seen.fault == kernel.SOUND:
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise TextError(f'its header has the name "{twice}" more than once', "Rename all but one of them")
        return _of_fair_length(seen)
    where = f"line {seen.line}, field {seen.count}"
    if seen.line > 1 and seen.count <= len(names):
        where += f' (column "{names[seen.count - 1]}")'
    if seen.fault == kernel.NOT_UTF8:
        raise TextError(f"{where}: the byte 0x{data[seen.at]:02x} is not UTF-8", _ENCODING)
    if seen.fault == kernel.STRAY:
        raise TextError(f"{where}: there is a NUL byte outside quotes")
    if seen.fault == kernel.UNCLOSED:
        raise TextError(f"{where}: the quote that opens it is never closed", _QUOTES)
    if seen.fault == kernel.AFTER_QUOTE:
        raise TextError(f"{where}: its quotes are closed on line {seen.until}, and then it goes on", _QUOTES)
    raise TextError(
        f"line {seen.line} has {seen.count} field{'s' * (seen.count > 1)}, and the header has {len(names)}",
        "Complete that line or leave it out, and put what contains commas into quotes",
    )


def check_ndjson(data: memoryview) -> kernel.Look:
    """How the objects lie; a TextError if a parser should not see them."""
    _check_start(data)
    seen: kernel.Look = kernel.look_at_ndjson(np.frombuffer(data, np.uint8), DEEPEST, 0, _NONE, _NONE, _NONE)
    if seen.fault == kernel.SOUND:
        return _of_fair_length(seen)
    where = f"line {seen.line}, byte {seen.place}"
    if seen.fault == kernel.NOT_UTF8:
        raise TextError(f"{where}: 0x{data[seen.at]:02x} is not UTF-8", _ENCODING)
    if seen.fault == kernel.DEEP:
        raise TextError(
            f"line {seen.line}: lists and objects are nested {seen.count:,} deep, and {DEEPEST} are supported",
            "Flatten them, or store the deeper ones as text",
        )
    if seen.fault == kernel.UNFINISHED:
        raise TextError(f"{where}: the object that begins there does not end")
    if seen.fault == kernel.UNCLOSED:
        raise TextError(f"{where}: the text that begins there is not closed on its line")
    if seen.fault == kernel.STRAY:
        raise TextError(f"{where}: the byte 0x{data[seen.at]:02x} is not allowed there")
    raise TextError(
        f"{where}: an object should begin there",
        "One JSON object per line is needed; if it is of another format, name that with --{side}-format",
    )


def _check_start(data: memoryview) -> None:
    if data[:2].tobytes() in _UTF16:
        raise TextError("its first bytes are those of UTF-16", _WIDE)


def _of_fair_length(seen: kernel.Look) -> kernel.Look:
    if seen.longest > LONGEST:
        raise TextError(f"its longest row has {seen.longest:,} bytes, and {LONGEST:,} can be read", "Shorten it")
    return seen


def _header(data: memoryview) -> list[str]:
    """The names of the columns, as far as they can be read."""
    start = data[: 1 << 20].tobytes().lstrip(b"\r\n").decode("utf-8-sig", "replace")
    return next(csv.reader(start.lstrip("\r\n").splitlines(keepends=True)), [])


def incomplete(data: memoryview, names: list[str]) -> tuple[int, str]:
    """How many objects lack one of these keys, and what the first of them lacks."""
    seen = kernel.look_at_ndjson(np.frombuffer(data, np.uint8), DEEPEST, len(names), _NONE, _NONE, _NONE)
    if not seen.incomplete:
        return 0, ""
    begin, row = next(_objects(data, np.array([seen.first])))
    lacking = next(name for name in names if name not in json.loads(row))
    return seen.incomplete, f'the first is on line {_line(data, begin)} and lacks "{lacking}"'


def check_csv_numbers(data: memoryview, name: str, numbers: Any, texts: Callable[[], Any]) -> None:
    """A TextError if a column of floats has one that is not what was written, which `texts` returns."""
    rows = _large(numbers)
    for row, text in zip(rows.tolist(), texts().take(pa.array(rows)).to_pylist() if len(rows) else (), strict=True):
        if not _fits(text.strip()):
            line = kernel.look_at_csv(np.frombuffer(data, np.uint8), row + 1).line
            raise _misfit(line, name, text)


def check_ndjson_numbers(data: memoryview, table: pa.Table) -> None:
    """A TextError if the table has a float that is not what was written."""
    rows = np.unique(np.concatenate([_NONE, *map(_large, table.columns)]))
    read = json.JSONDecoder(parse_int=_Number, parse_float=_Number).decode
    for begin, text in _objects(data, rows):
        for name, value in read(text.decode()).items():
            for number in _rounded(value, table.schema.field(name).type):
                raise _misfit(_line(data, begin), name, number)


class _Number(str):
    """A number as it is written."""


def _large(column: Any) -> np.ndarray:
    """The rows with floats so large that an integer may have been rounded; of nested columns all rows or none."""
    if pa.types.is_floating(column.type):
        return np.flatnonzero(np.abs(column.to_numpy()) >= _EXACT)
    nested = any(len(_large(floats)) for floats in _floats(column))
    return np.arange(len(column) if nested else 0)


def _floats(column: Any) -> Iterator[Any]:
    """The columns of floats inside a column."""
    import pyarrow.compute as pc

    if pa.types.is_floating(column.type):
        yield column
    elif pa.types.is_struct(column.type):
        for field in column.flatten():
            yield from _floats(field)
    elif pa.types.is_list(column.type):
        yield from _floats(pc.list_flatten(column))


def _rounded(value: Any, kind: Any) -> Iterator[str]:
    """The numbers in a value that Arrow read as this type and that do not fit it."""
    if isinstance(value, _Number):
        if pa.types.is_floating(kind) and not _fits(value):
            yield value
    elif isinstance(value, list):
        for item in value:
            yield from _rounded(item, kind.value_type)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _rounded(item, kind.field(name).type)


def _fits(text: str) -> bool:
    """Is this a float, if a decimal one the nearest, if an integer the very same?

    >>> _fits("0.1"), _fits("1e300"), _fits("18446744073709551616"), _fits("18446744073709551617"), _fits("1e999")
    (True, True, True, False, False)
    """
    number = float(text)
    if math.isinf(number):
        return text.strip("+-")[:1] in "iI"
    return not _WHOLE.fullmatch(text) or abs(number) < _EXACT or int(text.lstrip("+-0")) == abs(number)


def _misfit(line: int, name: str, text: str) -> TextError:
    shown = text if len(text) <= 40 else f"{text[:20]}... ({len(text):,} characters)"
    return TextError(f'line {line} (column "{name}"): {shown} is not a number that 64 bits can hold', _ROUNDED)


def _objects(data: memoryview, rows: np.ndarray) -> Iterator[tuple[int, bytes]]:
    """Where the objects with these numbers begin, and their text."""
    begins, ends = np.zeros((2, len(rows)), np.int64)
    if len(rows):
        kernel.look_at_ndjson(np.frombuffer(data, np.uint8), DEEPEST, 0, rows, begins, ends)
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        yield begin, data[begin:end].tobytes()


def _line(data: memoryview, at: int) -> int:
    return 1 + sum(1 for _ in _LINE_END.finditer(data[:at]))


def explain_ndjson(data: memoryview) -> None:
    """A TextError that says more of what Arrow did not take, if it is found: Arrow's rows are those of a block."""
    text = data.tobytes().decode("utf-8-sig")
    read, kinds = json.JSONDecoder(object_pairs_hook=_object).raw_decode, dict[str, str]()

    def line() -> int:
        return 1 + sum(1 for _ in re.finditer(r"\r\n?|\n", text[:at]))

    at = _WHITE.match(text, 0).end()  # type: ignore[union-attr]
    while at < len(text):
        try:
            row, end = read(text, at)
            _check_kinds(row, "", kinds)
        except json.JSONDecodeError as error:
            where = error.pos - max(text.rfind("\n", 0, error.pos), text.rfind("\r", 0, error.pos))
            at = error.pos
            raise TextError(f"line {line()}, character {where}: {error.msg}") from error
        except TextError as error:
            raise TextError(f"line {line()}: {error}", error.remedy) from error
        at = _WHITE.match(text, end).end()  # type: ignore[union-attr]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        for word in (name, value):
            if isinstance(word, str) and _SURROGATE.search(word):
                raise TextError(f"{json.dumps(word)[:40]} has half a surrogate pair, which is not a character")
        if name in found:
            raise TextError(f'the key "{name}" is there twice', "Leave one of them out")
        if isinstance(value, float) and math.isinf(value):
            raise TextError(f'the number at "{name}" is too large for 64 bits', _ROUNDED)
        found[name] = value
    return found


def _check_kinds(value: Any, path: str, kinds: dict[str, str]) -> None:
    """A TextError if the value is of another kind than those before it."""
    if value is None:
        return
    kind = _KINDS[type(value)]
    before = kinds.setdefault(path, kind)
    if kind != before:
        raise TextError(f'column "{path}" has a {kind} here and a {before} in an earlier row', "Use one kind")
    if isinstance(value, dict):
        for name, item in value.items():
            _check_kinds(item, f"{path}.{name}" if path else name, kinds)
    elif isinstance(value, list):
        for item in value:
            _check_kinds(item, f"{path}[]", kinds)
