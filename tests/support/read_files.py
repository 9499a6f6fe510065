"""Reads the files named on standard input and says what was read, a line of JSON each; it may die on any of them."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

from streamjoin.cli.files import Source, choose_format
from streamjoin.errors import FileError


def plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str) and len(value) > 10_000:
        return f"{value[0]}, {len(value)} characters" if value == value[0] * len(value) else "something else"
    return value if isinstance(value, str | int | float | bool | list | dict | None) else repr(value)


def outcome(name: str) -> dict[str, Any]:
    gaps: list[Any] = []
    try:
        format = choose_format(name, None, "left input", "--left-format")
        table = Source(name, "left", format).read("ts", gaps=gaps.append)
        rows = [{key: plain(value) for key, value in row.items()} for row in table.to_pylist()]
        return {"rows": rows, "types": {column.name: str(column.type) for column in table.schema}, "gaps": gaps}
    except FileError as error:
        return {"refused": str(error).replace(str(Path(name).parent) + "/", "")}
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(outcome(line.rstrip("\n"))), flush=True)
