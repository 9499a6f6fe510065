"""The wheel in an empty environment of every Python that is found: what works without extras, and what names one.

It fetches packages, so it runs with the long version of the suite only: `make soak`, or `make pythons` by itself.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
VERSIONS = ("3.11", "3.12", "3.13")
WANTED = os.environ.get("HYPOTHESIS_PROFILE") == "soak" or bool(os.environ.get("STREAMJOIN_PYTHONS"))
pytestmark = pytest.mark.skipif(not WANTED, reason="fetches packages: make pythons")

PROGRAM = """
import pyarrow as pa
import streamjoin as sj

r = pa.table({"ts": [1, 2, 30], "x": [10, 20, 11]})
s = pa.table({"ts": [3, 4, 29], "y": [11, 19, 12]})
join = {"on": "abs(r.x - s.y) <= 1", "within": 5, "time": "ts"}
assert sj.join(r, s, **join).num_rows == 3
with sj.Join(r=r.schema, s=s.schema, **join) as live:
    live.push_r(r)
    live.push_s(s)
    assert live.to_arrow().num_rows == 3
assert "band" in str(sj.explain(r.schema, s.schema, **join))


def missing(extra, call):
    try:
        call()
    except Exception as error:
        assert extra in str(error), f"{type(error).__name__}: {error}"
    else:
        raise AssertionError(f"{extra} is installed")


def metrics():
    from streamjoin.metrics import collector

    collector(live)


def on_spark():
    from streamjoin.spark import join as spark_join

    spark_join(r, s, **join)


missing("streamjoin[watch]", lambda: sj.watch(live))
missing("streamjoin[watch]", metrics)
missing("streamjoin[opencl]", lambda: sj.Join(r=r.schema, s=s.schema, **join, algorithm="hells"))
missing("streamjoin[spark]", on_spark)
missing("pip install pandas", live.to_pandas)
missing("pip install polars", live.to_polars)
"""


def interpreter(version: str) -> str | None:
    """One on PATH that starts, or one of pyenv's."""
    candidates = [shutil.which(f"python{version}")]
    candidates += map(str, sorted(Path.home().glob(f".pyenv/versions/{version}*/bin/python")))
    for path in candidates:
        if path and subprocess.run([path, "--version"], capture_output=True).returncode == 0:
            return path
    return None


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    (made,) = folder.glob("*.whl")
    return made


@pytest.mark.parametrize("version", VERSIONS)
def test_a_wheel_without_extras(version: str, wheel: Path, tmp_path: Path) -> None:
    found = interpreter(version)
    if found is None:
        pytest.skip(f"no Python {version}")
    subprocess.run([found, "-m", "venv", str(tmp_path / "env")], check=True)
    python = str(tmp_path / "env" / "bin" / "python")
    fetched = subprocess.run([python, "-m", "pip", "install", "-q", str(wheel)], capture_output=True, text=True)
    if fetched.returncode and "Could not find a version" in fetched.stderr:
        pytest.skip("no package index can be reached")
    assert fetched.returncode == 0, fetched.stderr
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run([python, "-c", PROGRAM], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    for command, extra in (("demo", "streamjoin[spark]"), ("circuit build --on r.x=s.y", "streamjoin[fpga]")):
        program = str(tmp_path / "env" / "bin" / "streamjoin")
        said = subprocess.run([program, *command.split()], capture_output=True, text=True, cwd=tmp_path).stderr
        assert extra in said, f"{command}: {said}"
