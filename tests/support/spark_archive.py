"""Spark's Java classes in one file: a Java that maps it starts a Spark in half the time.

    python spark_archive.py       runs a small join of streams, and keeps the classes that it loaded

The first run of the suite has it made beside its first tests. Where a Java cannot make or use it, it does without.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

PATH = Path(__file__).resolve().parents[2] / ".cache" / f"spark-{version('pyspark')}.jsa"
VARIABLE = "SPARK_SUBMIT_OPTS"  # options for the driver's Java
QUIET = "-Xlog:disable"  # no word if the file is missing, or was made by another Java


def use() -> None:
    """Has every Spark that this process starts use the archive, once it is there."""
    os.environ.setdefault(VARIABLE, f"{QUIET} -XX:SharedArchiveFile={PATH}")


def make() -> Callable[[], None]:
    """Starts making it, unless it is there. Returns what breaks it off."""
    if PATH.exists():
        return lambda: None
    quiet = subprocess.DEVNULL
    maker = subprocess.Popen([sys.executable, __file__], stdin=quiet, stdout=quiet, stderr=quiet)
    return maker.terminate


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and the folder goes
    PATH.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=PATH.parent) as name:
        folder = Path(name)
        made = folder / PATH.name
        os.environ[VARIABLE] = f"{QUIET} -XX:ArchiveClassesAtExit={made}"
        import spark_victim
        from feeds import Folders
        from streamjoin.testing import cases

        rows = [cases.long_stream(side, 21, 32, 1, True) for side in "rs"]
        streams = Folders(folder / "run")
        for here in (slice(0, 16), slice(16, 32)):
            streams.add(*(side[here] for side in rows))
        (folder / "run" / "last").touch()
        spark = spark_victim.session("local[2]", None)
        java = spark.sparkContext._gateway.proc
        spark_victim.main(folder / "run", spark, tables=False, kinds=[])
        java.stdin.close()
        java.wait()
        if made.exists():
            made.replace(PATH)


if __name__ == "__main__":
    main()
