"""Checkpoints as an earlier version left them, in tests/data: two micro-batches of a join.

State of format 2 is that of an inner join, of format 3 that of a left join. Choices by time had format 3, too, before
they were made early, which is format 4.

Made by `python tests/support/old_checkpoint.py 4`, and not made again: a new format gets a new file beside it. Spark
notes absolute paths; in the archive they begin with ROOT, and the checksums that would tell are left out.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import streamjoin as sj
from feeds import Feed, seconds
from streamjoin.testing import cases, oracle
from streamjoin.testing.kinds import INNER, Kind

NEAREST = Kind("left", "nearest")
KINDS = {"2": INNER, "3": Kind("left"), "3-nearest": NEAREST, "4": NEAREST}  # by format
ROOT = "/@root@"
CASE = cases.BY_NAME["band_2d"]
WINDOW = oracle.Interval(-5, 9)
ROWS = {side: cases.long_stream(side, 17, 160, 1, True) for side in "rs"}
APART = {
    side: list({row["t"]: row for row in cases.long_stream(side, 23, 500, 1, True)}.values())[:160] for side in "rs"
}
STEP, BEFORE = 40, 80  # rows of a micro-batch, and of those behind the checkpoint


def rows_of(form: str) -> dict[str, list[oracle.Row]]:
    """Of both sides; of different times where ties would be decided, which the oracle does by arrival."""
    return APART if KINDS[form] == NEAREST else ROWS


def case_of(form: str) -> cases.Case:
    return cases.BY_NAME["band"] if KINDS[form] == NEAREST else CASE


def feed(target: Feed, form: str, start: int, stop: int) -> None:
    """Adds the rows start..stop-1 of both sides, a file per micro-batch."""
    target.files = start // STEP
    rows = rows_of(form)
    for k in range(start, stop, STEP):
        target.add(rows["r"][k : k + STEP], rows["s"][k : k + STEP])


def archive_of(form: str) -> Path:
    """The checkpoint of a format."""
    return Path(__file__).parents[1] / "data" / f"checkpoint-format-{form}.tar.gz"


def run(target: Feed, form: str) -> None:
    """Joins whatever is new and stops."""
    on, kind = case_of(form).on, KINDS[form].options
    frame = sj.join(target.read("r"), target.read("s"), on=on, within=seconds(WINDOW), time="t", cells=2, **kind)
    failure = target.run(frame).exception()
    if failure is not None:
        raise failure


def unpack(folder: Path, form: str) -> None:
    """The checkpoint of a format and the results so far, with paths below this folder."""
    with tarfile.open(archive_of(form)) as archive:
        archive.extractall(folder, filter="data")
    _exchange(folder, ROOT, str(folder))


def make(spark: Any, form: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        target = Feed(spark, folder)
        feed(target, form, 0, BEFORE)
        run(target, form)
        for path in folder.rglob(".*.crc"):
            path.unlink()
        _exchange(folder, str(folder), ROOT)
        with tarfile.open(archive_of(form), "w:gz") as archive:
            for part in ("checkpoint", "out"):
                archive.add(folder / part, part, filter=_anonymous)


def _exchange(folder: Path, before: str, after: str) -> None:
    """In Spark's logs, which are text."""
    logs = ("checkpoint/sources/*/*", "checkpoint/state/*/_metadata/v2/*", "out/_spark_metadata/*")
    for log in (path for pattern in logs for path in folder.glob(pattern)):
        if log.is_file():
            log.write_text(log.read_text(encoding="utf-8").replace(before, after), encoding="utf-8")


def _anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    return info


if __name__ == "__main__":
    from sessions import SETTINGS, prepare

    prepare()
    from pyspark.sql import SparkSession

    from streamjoin.spark.settings import recommended

    builder = SparkSession.builder.master("local[2]").config(map=SETTINGS).config(map=recommended(cores=2))
    made = archive_of(sys.argv[1])
    if made.exists():
        sys.exit(f"{made.name} is there already; a format is written once")
    make(builder.getOrCreate(), sys.argv[1])
    print(f"{made.name}: {made.stat().st_size} bytes", file=sys.stderr)
