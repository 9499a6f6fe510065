"""A user's program under `mypy --strict`: what is right has no errors, and what is wrong has one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PROGRAM = """
import asyncio

import pandas as pd
import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]

import streamjoin as sj
from streamjoin import r, s

schema = pa.schema({"ts": pa.int64(), "x": pa.int32()})


def tables(a: pa.Table, b: pd.DataFrame, c: pl.DataFrame) -> int:
    rows: pa.Table = sj.join(a, a, on="abs(r.x - s.x) <= 1", within=10, time="ts")
    frame: pd.DataFrame = b.pipe(sj.join, b, on=(r.x == s.x), within="2 seconds", time=("ts", "ts"), how="left")
    other: pl.DataFrame = sj.join(c, c, on="r.x = s.x", within=sj.interval("-1 s", "0 s"), time="ts", take="backward")
    return int(rows.num_rows) + len(frame) + other.height


def plan() -> str:
    found = sj.explain(schema, schema, on="r.x = s.x", within=60, time="ts", rate=1000)
    return f"{found} {found.to_dict()['access']}"


async def live() -> int:
    count = 0
    with sj.Join(r=schema, s=schema, on="r.x = s.x", within=60, time="ts", ordered=True, workers=2) as join:
        join.push_r({"ts": [1], "x": [5]})
        join.push_row("s", (2, 5))
        join.advance(r=100, s=100)
        for batch in join.poll(timeout=0.1):
            if isinstance(batch, pa.RecordBatch):
                count += batch.num_rows
        with sj.watch(join, record="run.jsonl") as page:
            print(page.url)
    async for item in join.results():
        print(item)
    join.to_pandas()
    print(join.stats()["results"])
    return count


print(asyncio.run(live()))
sj.join(1, 2, on="r.x = s.x", wthin=60, time="ts")  # type: ignore[call-arg]
sj.join(1, 2, within=60, time="ts")  # type: ignore[call-arg]
sj.join(1, 2, on="r.x = s.x", within=60, how=3)  # type: ignore[arg-type]
sj.Join(r=schema, s=schema, on="r.x = s.x", within=60, algorithm=7)  # type: ignore[arg-type]
"""


def test_a_users_program_is_typed(tmp_path: Path) -> None:
    """Errors that are not there are found, too: --strict names every `type: ignore` that ignores nothing."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    words = ["--strict", f"--cache-dir={ROOT / '.mypy_cache' / 'user'}", "--config-file=", str(program)]
    # As installed: the package is found by its py.typed, and its own settings do not apply.
    environment = {name: value for name, value in os.environ.items() if name != "MYPYPATH"}
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *words], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
