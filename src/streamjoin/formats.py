"""File formats and compressions: their names, their suffixes, their first bytes, and what Spark calls them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streamjoin.errors import either


@dataclass(frozen=True)
class FileFormat:
    """A format of tables in files."""

    name: str
    suffixes: tuple[str, ...]
    note: str = ""  # what else it is called
    magic: bytes = b""  # what files begin with
    title: str = ""  # and of whom that tells
    typed: bool = True  # files tell the types of their columns
    compressible: bool = False  # a compression may be around it; the others have their own
    spark: str = ""  # what Spark calls it, if it streams such files


FORMATS = {
    format.name: format
    for format in (
        FileFormat("parquet", ("parquet", "pq"), magic=b"PAR1", title="Parquet", spark="parquet"),
        FileFormat("arrow", ("arrow", "feather", "ipc"), "IPC file", magic=b"ARROW1", title="Arrow IPC"),
        FileFormat("arrows", ("arrows",), "IPC stream", compressible=True),
        FileFormat("csv", ("csv",), typed=False, compressible=True, spark="csv"),
        FileFormat("ndjson", ("ndjson", "jsonl", "json"), typed=False, compressible=True, spark="json"),
    )
}
COMPRESSIONS: dict[str, Any] = {"gz": "gzip", "zst": "zstd", "bz2": "bz2"}  # by suffix, as Arrow calls them
MAGIC = {
    **{format.magic: format.title for format in FORMATS.values() if format.magic},
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bz2",
}

SUFFIXES = {suffix: format for format in FORMATS.values() for suffix in format.suffixes}
ON_SPARK = {suffix: format.spark for suffix, format in SUFFIXES.items() if format.spark}

KNOWN = (
    ", ".join(f"{format.name} ({format.note})" if format.note else format.name for format in FORMATS.values())
    + ", or compressed as csv.gz, ndjson.zst"
)
BRIEFLY = (
    f"{either(FORMATS)}; {either(name for name, format in FORMATS.items() if format.compressible)} also compressed, "
    "as csv.gz"
)


@dataclass(frozen=True)
class Format:
    """How a file is laid out: the name of a format, and a compression around it or an empty string."""

    kind: str
    compression: Any = ""


def format_of(word: str) -> Format | None:
    """The format that a file name ends in, or that a flag names.

    >>> format_of("trades.csv.gz")
    Format(kind='csv', compression='gzip')
    >>> format_of("parquet")
    Format(kind='parquet', compression='')
    """
    suffix, around = split_suffix(word)
    format = SUFFIXES.get(suffix)
    if format is None or (around and not format.compressible):
        return None
    return Format(format.name, COMPRESSIONS.get(around, ""))


def split_suffix(name: str) -> tuple[str, str]:
    """The suffix that tells the format of a file, and that of the compression around it.

    >>> split_suffix("trades.csv.gz"), split_suffix("parquet")
    (('csv', 'gz'), ('parquet', ''))
    """
    *_, before, last = ["", *name.lower().split(".")]
    return (before, last) if last in COMPRESSIONS else (last, "")
