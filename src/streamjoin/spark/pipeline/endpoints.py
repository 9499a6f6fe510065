"""Where rows come from and where results go, as command-line words: folders, Kafka topics, the generator; schemas.

Nothing here needs Spark: whatever can be refused without it is refused before it starts.
"""

from __future__ import annotations

import glob
import json
import re
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from streamjoin.errors import FileError, OptionError, SchemaError, either, suggest
from streamjoin.formats import ON_SPARK, split_suffix

CONSOLE = "console"
CONNECT_SECONDS = 5.0
SCHEMA = '"ts TIMESTAMP, x INT, y FLOAT"'
_LONGEST_NAME = 1_024


@dataclass(frozen=True)
class Endpoint:
    """One end of a pipeline. `option` is how the command line calls it, for messages.

    kind       "files", "kafka", "generate" or "console"
    format     of files: "parquet", "csv" or "json"; of Kafka "json"
    place      a folder or glob, or a Kafka broker's host:port
    topic      of Kafka; of the generator the name of its workload
    options    for Spark's reader or writer, or the generator's settings
    """

    option: str
    kind: str
    format: str
    place: str
    topic: str = ""
    options: dict[str, str] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        return self.kind == "files" and not _has_scheme(self.place)


def source(option: str, word: str, format: str | None, options: dict[str, str], schema: str | None) -> Endpoint:
    """An input: a folder of Parquet, CSV or JSON files, kafka://host:port/topic, or generate://papers?rate=1000."""
    if word.startswith("kafka://"):
        end = _kafka(option, word, options)
        if schema is None:
            raise OptionError(
                f'{option} "{word}" carries JSON, which has no column types; give {option}-schema, as '
                f"{SCHEMA} or as the name of a file"
            )
        return end
    if word.startswith("generate://"):
        if schema is not None:
            raise OptionError(f"{option}-schema does not go with the generator, which has columns of its own")
        return _generator(option, word, options)
    if word == CONSOLE or word == "-":
        raise OptionError(f'{option} "{word}" is not a stream; name a folder, a Kafka topic or the generator')
    return _folder(option, word, format, options, schema)


def sink(option: str, word: str, format: str | None, options: dict[str, str]) -> Endpoint:
    """An output: a folder that becomes Parquet, CSV or JSON files, kafka://host:port/topic, or the console."""
    if word in (CONSOLE, "-"):
        return Endpoint(option, CONSOLE, CONSOLE, "", options=options)
    if word.startswith("kafka://"):
        return _kafka(option, word, options)
    if word.startswith("generate://"):
        raise OptionError(f'{option} "{word}" is a source; results go into a folder, a Kafka topic or to the console')
    chosen = _format(option, format) if format else _told(word) or "parquet"
    if not _has_scheme(word) and Path(word).is_file():
        raise FileError(f'{option} "{word}" is a file; a stream is written into a folder of files, name one')
    return Endpoint(option, "files", chosen, word, options=options)


def pairs(option: str, words: list[str]) -> dict[str, str]:
    """KEY=VALUE words as a dict.

    >>> pairs("--conf", ["spark.ui.enabled=true"])
    {'spark.ui.enabled': 'true'}
    """
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not key or not equals:
            raise OptionError(f'{option} "{word}" is not KEY=VALUE, such as {option} maxFilesPerTrigger=10')
        found[key.strip()] = value.strip()
    return found


def schema_text(option: str, given: str) -> str:
    """The schema itself: the content of the file if there is one of that name. Needs no Spark."""
    text = given.strip()
    try:
        is_file = len(text) < _LONGEST_NAME and Path(text).is_file()
    except (OSError, ValueError):
        is_file = False
    if is_file:
        try:
            text = Path(given.strip()).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise FileError(f'{option} "{given}" cannot be read: {error}') from error
    elif text and " " not in text and not text.startswith("{"):
        raise SchemaError(f'{option} "{given}" is neither an existing file nor a schema such as {SCHEMA}')
    if not text:
        raise SchemaError(f"{option} is empty; write a schema such as {SCHEMA}")
    if text.startswith("{"):
        schema_json(option, text)
    return text


def schema_json(option: str, text: str) -> dict[str, Any]:
    """A schema in the JSON form of Spark."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise SchemaError(f"{option} looks like JSON but cannot be parsed: {error}") from error
    if not isinstance(found, dict) or not isinstance(found.get("fields"), list):
        raise SchemaError(f"{option} is JSON without a list of fields; write what df.schema.json() gives, or {SCHEMA}")
    return found


def check_reachable(end: Endpoint) -> None:
    """Refuses an address where no Kafka broker listens: Spark would wait for minutes."""
    for address in end.place.split(",") if end.kind == "kafka" else ():
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
            return
        except OSError as error:
            reason = error
    if end.kind == "kafka":
        raise OptionError(
            f"{end.option}: no Kafka broker answers at {end.place} ({reason}); start it, or correct the address"
        )


def _kafka(option: str, word: str, options: dict[str, str]) -> Endpoint:
    rest = word.removeprefix("kafka://")
    brokers, _, topic = rest.partition("/")
    if not topic or not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", topic):
        raise OptionError(f'{option} "{word}" names no topic; write kafka://host:port/topic')
    for broker in brokers.split(","):
        host, _, port = broker.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
            raise OptionError(f'{option} "{word}": "{broker}" is not host:port, such as localhost:9092')
    return Endpoint(option, "kafka", "json", brokers, topic, options)


SETTINGS = {
    "rate": "1000",  # tuples per second of stream time
    "tuples": "",  # how many in all; none: it never ends
    "batch": "",  # the most in one micro-batch; by default those of one second of stream time
    "pace": "live",  # or fast: as quickly as they are taken
    "seed": "0",
    "highest": "10000",  # the largest value of the integer column
    "start": "2026-01-01T00:00:00Z",  # the time of the first tuple
    "partitions": "1",
}
_NUMBERS = ("rate", "tuples", "batch", "seed", "highest", "partitions")


def _generator(option: str, word: str, options: dict[str, str]) -> Endpoint:
    from datetime import datetime

    parts = urlsplit(word)
    if parts.netloc != "papers":
        raise OptionError(f'{option} "{word}": the generator knows one workload, write generate://papers?rate=1000')
    given = {**dict(parse_qsl(parts.query, keep_blank_values=True)), **options}
    for name, value in given.items():
        if name not in SETTINGS:
            raise OptionError(f'{option} "{word}" has no setting "{name}", {suggest(name, SETTINGS)}')
        if name in _NUMBERS and not re.fullmatch("[0-9]{1,15}" if name == "seed" else "[1-9][0-9]{0,14}", value):
            raise OptionError(f'{option} "{word}": {name}="{value}" is not a number of at least {int(name != "seed")}')
    if given.get("pace", "live") not in ("live", "fast"):
        raise OptionError(f'{option} "{word}": pace="{given["pace"]}" is neither live nor fast')
    settings = {**SETTINGS, **given}
    try:
        datetime.fromisoformat(settings["start"])
    except ValueError:
        raise OptionError(
            f'{option} "{word}": start="{settings["start"]}" is not a time, such as 2026-01-01T00:00:00Z'
        ) from None
    if int(settings["highest"]) > 2**31 - 1:
        raise OptionError(f'{option} "{word}": highest="{settings["highest"]}" does not fit a 32-bit integer')
    settings["batch"] = settings["batch"] or settings["rate"]
    return Endpoint(option, "generate", "", "", parts.netloc, settings)


def _folder(option: str, word: str, format: str | None, options: dict[str, str], schema: str | None) -> Endpoint:
    if _has_scheme(word):  # another file system: Spark finds out
        scheme = word.partition("://")[0]
        if scheme in ("http", "https", "ftp"):
            raise OptionError(
                f'{option} "{word}" is not a stream; name a folder, kafka://host:port/topic or generate://'
            )
        chosen = _format(option, format) if format else _told(word)
        if chosen is None:
            raise OptionError(f'{option} "{word}": its format cannot be told from its name; give {option}-format')
        return Endpoint(option, "files", chosen, word, options=options)
    path = Path(word)
    if path.is_file():
        raise FileError(
            f'{option} "{word}" is one file; a stream is a folder to which files are added. Name the folder '
            f'"{path.parent}" or a pattern, or leave out --engine spark'
        )
    present = _present(word)
    if not path.is_dir() and not present:
        raise FileError(f'{option} "{word}" does not exist; name a folder of files (now in {Path.cwd()})')
    if format:
        chosen = _format(option, format)
    else:
        kinds = sorted({_told(file.name) or "?" for file in present} or {_told(word) or "?"})
        if len(kinds) > 1 or kinds == ["?"]:
            what = "files of " + " and ".join(kinds) if len(kinds) > 1 else "no file whose name tells its format"
            known = either(dict.fromkeys(ON_SPARK.values()))
            raise OptionError(f'{option} "{word}" has {what}; give {option}-format {known}')
        chosen = kinds[0]
    if schema is None and not present:
        raise OptionError(
            f'{option} "{word}" has no files yet to infer the columns from; give {option}-schema, as '
            f"{SCHEMA} or as the name of a file"
        )
    return Endpoint(option, "files", chosen, word, options=options)


def _present(word: str) -> list[Path]:
    """The files that Spark would see there now: hidden ones and those of a sink's log are not among them."""
    path = Path(word)
    found = path.rglob("*") if path.is_dir() else map(Path, glob.glob(word))
    files = []
    for file in found:
        inside = file.relative_to(path).parts if path.is_dir() else (file.name,)
        if file.is_file() and not any(part[0] in "._" for part in inside):
            files.append(file)
    return files


def _format(option: str, word: str) -> str:
    if word not in ON_SPARK:
        raise OptionError(f'{option}-format "{word}" is not one that Spark streams, {suggest(word, ON_SPARK)}')
    return ON_SPARK[word]


def _told(name: str) -> str | None:
    """What Spark calls the format that a name ends in."""
    return ON_SPARK.get(split_suffix(name.rstrip("/"))[0])


def _has_scheme(word: str) -> bool:
    return re.match(r"[a-z][a-z0-9+.-]*://", word) is not None
