"""File formats and compressions: their names, their suffixes, their first bytes, and what Spark calls them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from streamjoin.errors import either


@dataclass(frozen=True)
class OnSpark:
    """How Spark calls a format, and the options that it reads and writes such files with."""

    name: str
    options: dict[str, str] = field(default_factory=dict)  # for readers and writers
    streaming: dict[str, str] = field(default_factory=dict)  # for readers of streams besides
    inferring: dict[str, str] = field(default_factory=dict)  # for readers that find out the types of columns
    parses: bool = True  # rows are parsed from text: one may be malformed
    skips_malformed: bool = False  # a reader that finds out types can leave out malformed rows


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
    spark: OnSpark | None = None  # if Spark streams such files


_CSV = OnSpark(
    "csv",
    {"header": "true", "escape": '"'},  # a quote inside quotes is doubled, as everywhere but in Spark
    streaming={"enforceSchema": "false"},  # else columns are taken by position, whatever the header says
    inferring={"inferSchema": "true"},
)
_JSON = OnSpark("json", inferring={"inferTimestamp": "true"}, skips_malformed=True)

FORMATS = {
    format.name: format
    for format in (
        FileFormat(
            "parquet", ("parquet", "pq"), magic=b"PAR1", title="Parquet", spark=OnSpark("parquet", parses=False)
        ),
        FileFormat("arrow", ("arrow", "feather", "ipc"), "IPC file", magic=b"ARROW1", title="Arrow IPC"),
        FileFormat("arrows", ("arrows",), "IPC stream", compressible=True),
        FileFormat("csv", ("csv",), typed=False, compressible=True, spark=_CSV),
        FileFormat("ndjson", ("ndjson", "jsonl", "json"), typed=False, compressible=True, spark=_JSON),
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
ON_SPARK = {suffix: format.spark.name for suffix, format in SUFFIXES.items() if format.spark}
SPARK_FORMATS = {format.spark.name: format.spark for format in FORMATS.values() if format.spark}

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
