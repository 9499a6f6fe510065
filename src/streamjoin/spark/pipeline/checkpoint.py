"""What a checkpoint belongs to: a note beside Spark's own files, so that no other pipeline continues it by mistake.

Spark counts sources and remembers offsets, not names: with another folder it would go on in the middle of it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from streamjoin.errors import FileError, OptionError
from streamjoin.folders import atomically
from streamjoin.spark.pipeline.endpoints import Endpoint

NOTE = "streamjoin-pipeline.json"
SETTLED = ("--cells", "--rate")  # left open, they are those of the run before, whatever the cluster is now


def check_checkpoint(folder: str, words: dict[str, Any], output: Endpoint) -> dict[str, Any] | None:
    """The note of the run that resumes here, None if there is none. Refuses another pipeline's, and a wrong output."""
    path = Path(folder)
    if path.is_file():
        raise FileError(f'--checkpoint "{folder}" is a file; name a folder')
    begun = (path / "offsets").is_dir() and any((path / "offsets").iterdir())
    note, before = path / NOTE, {}
    if begun and note.exists():
        try:
            before = json.loads(note.read_text(encoding="utf-8"))
            if not isinstance(before, dict):
                raise ValueError("it holds no JSON object")
        except (OSError, ValueError, RecursionError) as error:
            raise FileError(f'--checkpoint "{folder}": its note {NOTE} cannot be read: {error}') from error
        for option, value in words.items():
            if before.get(option) != value and not (value is None and option in SETTLED):
                raise OptionError(
                    f'--checkpoint "{folder}" belongs to a pipeline with {option} {_shown(before.get(option))}, not '
                    f"{_shown(value)}; repeat that to resume, or name a new folder to start over"
                )
    elif not begun and path.is_dir() and any(path.iterdir()) and not note.exists():
        raise FileError(f'--checkpoint "{folder}" has other things in it; name an empty or a new folder')
    if output.is_local:
        log = Path(output.place) / "_spark_metadata"  # made before the first batch, which may never have come
        committed = (path / "commits").is_dir() and any((path / "commits").iterdir())
        if not begun and log.is_dir() and any(log.iterdir()):
            raise OptionError(
                f'{output.option} "{output.place}" was written by a pipeline with another checkpoint; name that one to '
                "resume, or another output (Spark would silently leave out the first batches)"
            )
        if committed and not log.is_dir():
            raise OptionError(
                f'--checkpoint "{folder}" has produced results that are not in {output.option} "{output.place}"; '
                "name the output of that pipeline, or a new checkpoint"
            )
    return before if begun else None


def remember(folder: str, words: dict[str, Any]) -> None:
    """Writes the note, whole and on the disk, or not at all."""
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with atomically(path / NOTE) as file:
            file.write(json.dumps(words, indent=1).encode())
    except OSError as error:
        raise FileError(f'--checkpoint "{folder}" cannot be written: {error.strerror}; name another folder') from error


def _shown(value: Any) -> str:
    return "not given" if value is None else f'"{value}"'
