"""A cache that was cut short, emptied or overwritten is as good as missing; without one, joins go on."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamjoin
from streamjoin import folders
from streamjoin.access.prices import Costs, Price
from streamjoin.codegen import jit as compiled
from streamjoin.codegen.records import address
from streamjoin.plan import costs as costing
from streamjoin.threads.atomics import read_word

WORDS = np.arange(5)


def flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "emptied": lambda data: b"",
    "one byte": lambda data: data[:1],
    "the checksum alone": lambda data: data[:32],
    "cut in half": lambda data: data[: len(data) // 2],
    "the last byte is missing": lambda data: data[:-1],
    "longer": lambda data: data + b"\0",
    "nulls": lambda data: bytes(len(data)),
    "nulls from a block on": lambda data: data[:4096] + bytes(len(data) - 4096),
    "one bit of the checksum": lambda data: flip(data, 5),
    "one bit of the machine code": lambda data: flip(data, len(data) // 2),
    "text": lambda data: b"version = 1\n",
}


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache of its own."""
    monkeypatch.setenv("STREAMJOIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(folders, "_told", set())
    return tmp_path / "cache" / "kernels"


def load() -> int:
    """Calls a small kernel as a new process would, and says how many signatures came from the cache."""
    kernel: Any = compiled.njit(nogil=True, cache=True)(read_word.py_func)
    assert kernel(address(WORDS) + 24) == 3
    return sum(kernel.stats.cache_hits.values())


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_machine_code_is_compiled_again(kind: str, kernels: Path) -> None:
    assert (load(), load()) == (0, 1)
    (file,) = kernels.iterdir()
    file.write_bytes(DAMAGE[kind](file.read_bytes()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (load(), load()) == (0, 1)
    assert list(kernels.iterdir()) == [file]


def test_whole_but_unreadable_machine_code(kernels: Path) -> None:
    """The checksum fits, and what it belongs to is not what this version reads."""
    import hashlib
    import pickle

    load()
    (file,) = kernels.iterdir()
    for value in (b"", None, (1, 2), ((1, 2), 3), {"a": 1}):
        content = pickle.dumps(value) if value != b"" else b"no pickle"
        file.write_bytes(hashlib.sha256(content).digest() + content)
        assert (load(), load()) == (0, 1)


@pytest.mark.parametrize("full", [False, True])
def test_a_folder_in_the_place_of_a_file(full: bool, kernels: Path) -> None:
    load()
    (file,) = kernels.iterdir()
    file.unlink()
    file.mkdir()
    if full:
        (file / "something").touch()
    with pytest.warns(UserWarning, match="not a regular file"):
        assert load() == 0
    assert load() == (0 if full else 1)
    assert (file / "something").exists() is full


def test_a_file_in_the_place_of_the_folder(kernels: Path) -> None:
    kernels.parent.mkdir(mode=0o700)
    kernels.touch()
    with pytest.warns(UserWarning, match="STREAMJOIN_CACHE"):
        assert (load(), load()) == (0, 0)


def test_unused_machine_code_goes_and_used_code_stays(kernels: Path) -> None:
    load()
    (used,) = kernels.iterdir()
    unused = kernels / f"gone-{'0' * 32}.kernel"
    strange = kernels / "notes.txt"
    for path in (unused, strange):
        path.touch()
    days = {used: 20, unused: 40, strange: 40}
    for path, age in days.items():
        changed = path.stat().st_mtime - age * 86400
        os.utime(path, (changed, changed))
    before = used.stat().st_mtime
    assert load() == 1
    assert used.stat().st_mtime > before + 86400  # it was used: it stays for another month
    compiled._sweep.cache_clear()
    compiled._sweep(str(kernels))
    assert set(kernels.iterdir()) == {used, strange}


COSTS = Costs(1e-10, 1e-9, Price(0, 1e-7, 1e-7, 1e-8), Price(0, 1e-7, 1e-7, 1e-8))


DAMAGED_COSTS: dict[str, Callable[[bytes], bytes]] = {
    **{kind: DAMAGE[kind] for kind in ("emptied", "one byte", "cut in half", "longer", "nulls", "text")},
    "nested": lambda data: b'{"band": ' + b"[" * 100_000,
    "wrong types": lambda data: b'{"scan": [1], "exact": "1", "band": {"probe": null}, "hash": []}',
    "no number": lambda data: data.replace(b"1e-10", b"NaN"),
    "too much": lambda data: data.replace(b"1e-10", b"1e400"),
    "another name": lambda data: data.replace(b'"scan"', b'"scam"'),
}


@pytest.fixture
def measured(kernels: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How often was measured."""
    calls: list[int] = []

    def measure() -> Costs:
        calls.append(1)
        return COSTS

    monkeypatch.setattr(costing, "_measure", measure)
    costing._calibrated.cache_clear()
    yield calls
    costing._calibrated.cache_clear()


@pytest.mark.parametrize("kind", [*DAMAGED_COSTS, "a folder"])
def test_damaged_costs_are_measured_again(kind: str, kernels: Path, measured: list[int]) -> None:
    costing.calibrated()
    (file,) = kernels.parent.glob("costs-*.json")
    if kind == "a folder":
        file.unlink()
        file.mkdir()
    else:
        file.write_bytes(DAMAGED_COSTS[kind](file.read_bytes()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            costing._calibrated.cache_clear()  # the next process
            assert costing.calibrated() == COSTS
    assert len(measured) == 2


LIMITED = """
import resource, sys
import numpy as np
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
from streamjoin.codegen.records import address
from streamjoin.threads.atomics import read_word, write_word
words = np.arange(5)
write_word(address(words) + 24, 7)
print(int(read_word(address(words) + 24)))
"""


@pytest.mark.parametrize("limit", [0, 2000])
def test_a_file_size_limit_costs_only_the_cache(limit: int, tmp_path: Path) -> None:
    """As with a full disk: what cannot be kept is compiled and used all the same, and nothing half-written is left."""
    paths = os.pathsep.join([str(Path(streamjoin.__file__).parents[1]), *sys.path])
    environment = {**os.environ, "STREAMJOIN_CACHE": str(tmp_path / "cache"), "PYTHONPATH": paths}
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", LIMITED, str(limit)], env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.stdout == "7\n", done.stderr
        assert done.stderr.count("File too large") == 1 and done.stderr.count("STREAMJOIN_CACHE") == 1
        assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


def test_a_full_disk_while_an_output_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same writer serves outputs and checkpoints: the old content stays, nothing else does."""
    from streamjoin.spark.pipeline.checkpoint import remember

    remember(str(tmp_path), {"a": 1})

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(streamjoin.errors.FileError, match="No space left"):
        remember(str(tmp_path), {"a": 2})
    (note,) = tmp_path.iterdir()
    assert '"a": 1' in note.read_text()


def test_a_long_name_of_an_output(tmp_path: Path) -> None:
    path = tmp_path / ("ä" * 120 + ".parquet")
    with folders.atomically(path) as file:
        file.write(b"x")
    assert path.read_bytes() == b"x"


@pytest.mark.parametrize("kind", ["emptied", "one byte", "cut in half", "the last byte is missing", "longer", "nulls"])
def test_damaged_chunks_are_made_again(kind: str, tmp_path: Path) -> None:
    from cells import Cluster, expected, spec_of
    from streamjoin.spark.chunk_files import ChunkCache
    from streamjoin.testing import cases
    from streamjoin.testing.oracle import Interval

    rows = {side: cases.long_stream(side, 4, 40, 1, False) for side in "rs"}
    cluster = Cluster(spec_of("abs(r.x - s.a) <= 2", 50, cells=1), tmp_path)
    cluster.batch(rows["r"][:20], rows["s"][:20])
    files = list((tmp_path / "test").iterdir())
    for file in files:
        file.write_bytes(DAMAGE[kind](file.read_bytes()))
    cluster.cache = ChunkCache("test", tmp_path)
    cluster.batch(rows["r"][20:], rows["s"][20:])
    assert cluster.cache.misses == len(files) > 0
    assert sorted(cluster.pairs) == expected(cases.BY_NAME["band"], Interval(-50, 50), rows["r"], rows["s"])
