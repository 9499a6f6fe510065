"""Column names and types given by hand, as text or in a file: `ts TIMESTAMP, x INT`, or Spark's JSON form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from streamjoin.errors import FileError, SchemaError

EXAMPLE = '"ts TIMESTAMP, x INT, y FLOAT"'
_LONGEST_NAME = 1_024


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
        raise SchemaError(f'{option} "{given}" is neither an existing file nor a schema such as {EXAMPLE}')
    if not text:
        raise SchemaError(f"{option} is empty; write a schema such as {EXAMPLE}")
    if text.startswith("{"):
        _from_json(option, text)
    return text


def schema_type(option: str, text: str) -> Any:
    """The schema as Spark's StructType. The text form is read by Spark, which must be running."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    if text.startswith("{"):
        return StructType.fromJson(_from_json(option, text))
    try:
        return StructType.fromDDL(text)
    except PySparkException as error:
        reason = str(error).strip().splitlines()[0]
        raise SchemaError(f'{option} "{text}" is not a schema such as {EXAMPLE}: {reason}') from error


def _from_json(option: str, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise SchemaError(f"{option} begins as JSON but is none: {error}") from error
    if not isinstance(found, dict) or not isinstance(found.get("fields"), list):
        raise SchemaError(f"{option} is JSON without a list of fields; write what df.schema.json() gives, or {EXAMPLE}")
    return found
