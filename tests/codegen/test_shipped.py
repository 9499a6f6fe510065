"""Machine code that comes with the package is used where the processor can run it, and compiling is told."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from numba.core.registry import cpu_target

from streamjoin.codegen import jit, kernel_files, notice
from streamjoin.codegen.cache import load_module
from streamjoin.warm import steps, warm

KERNEL = "from streamjoin.codegen.jit import njit\n\n\n@njit(cache=True)\ndef twice(x):\n    return 2 * x\n"
HOST = cpu_target.target_context.codegen().magic_tuple()

pytestmark = pytest.mark.skipif(kernel_files.portable(HOST) is None, reason="shipped code needs a processor with AVX2")


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the kernel compiled as for a wheel; the cache is empty."""
    code = f"from streamjoin.codegen.cache import load_module\nassert load_module({KERNEL!r}).twice(4) == 8"
    target = {
        "NUMBA_CPU_NAME": kernel_files.PORTABLE,
        "NUMBA_CPU_FEATURES": "",
        "STREAMJOIN_CACHE": str(tmp_path / "made"),
    }
    subprocess.run([sys.executable, "-c", code], env={**os.environ, **target}, check=True)
    shutil.copytree(tmp_path / "made" / "kernels", tmp_path / "shipped")
    monkeypatch.setattr(kernel_files, "SHIPPED", tmp_path / "shipped")
    monkeypatch.setenv("STREAMJOIN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "shipped"


def load() -> bool:
    """Calls the kernel as a new process would. Was its machine code there?"""
    module = load_module(KERNEL)
    kernel: Any = jit.njit(cache=True)(module.twice.py_func)
    assert kernel(4) == 8
    return bool(kernel.stats.cache_hits)


def test_shipped_code_is_loaded_and_not_copied(shipped: Path, tmp_path: Path) -> None:
    assert load()
    assert not (tmp_path / "cache").exists()


def test_damaged_shipped_code_is_compiled_here(shipped: Path) -> None:
    (file,) = shipped.glob("twice-*")
    file.write_bytes(file.read_bytes()[:-1])
    assert (load(), load()) == (False, True)


def test_shipped_code_needs_its_instructions() -> None:
    triple, name, features = HOST
    assert kernel_files.portable(HOST) == (triple, "x86-64-v3", "")
    assert kernel_files.portable((triple, name, features.replace("+avx2", "-avx2"))) is None
    assert kernel_files.portable(("aarch64-apple-darwin", "apple-m1", "+neon")) is None


def test_compiling_is_told_after_a_second_and_then_every_five(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    moments = iter([100.0, 100.5, 101.2, 103.0, 106.3])
    monkeypatch.setattr(time, "monotonic", lambda: next(moments))
    caplog.set_level("INFO", "streamjoin")
    told = notice.Notice()
    for _ in range(5):
        told.compiling("f")
    assert [record.message.partition(";")[0] for record in caplog.records] == [
        "compiling kernels that this machine has not seen yet: 3 so far, 1 s",
        "compiling kernels that this machine has not seen yet: 5 so far, 6 s",
    ]


def test_a_second_warming_finds_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMJOIN_CACHE", str(tmp_path / "cache"))
    some = [step for step in steps() if step[0] == "tables, equality"]
    told: list[tuple[str, int, int]] = []
    assert warm(some, lambda *what: told.append(what)) > 0
    assert warm(some, lambda *what: None) == 0
    assert told == [("tables, equality", 1, 1)]


def test_warming_takes_every_algorithm_and_access_path() -> None:
    from streamjoin.algorithms import ALGORITHMS

    names = {name for name, _ in steps()}
    assert {
        f"{row.name}, {access}" for row in ALGORITHMS.values() for access in row.accesses if row.name != "hells"
    } <= names
