"""Kernels that call each other, compiled and loaded from files: the same results and the same exceptions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from streamjoin.codegen.cache import load_module

SOURCE = """
from streamjoin.codegen.jit import inner, njit, on_demand


@inner
def checked(x):
    if x < 0:
        raise ValueError("below zero")
    return min(x, 100)


@inner(forceinline=True)
def total(n):
    found = 0
    for i in range(n):
        found += checked(i)
    return found + checked(n)


@njit(nogil=True, cache=True)
def whole(n):
    return total(n) + checked(n + 1)


@on_demand(error_model="numpy")
def by_address(n):
    return total(n) + min(n, 5)
"""


def test_kernels_inside_of_kernels() -> None:
    module = load_module(SOURCE)
    assert module.whole(3) == 0 + 1 + 2 + 3 + 4 and module.by_address(3) == 0 + 1 + 2 + 3 + 3
    with pytest.raises(ValueError, match="below zero"):
        module.whole(-1)
    with pytest.raises(ValueError, match="below zero"):
        module.by_address(-1)


def told_twice(code: str, folder: Path) -> list[list[str]]:
    """What a process with an empty cache prints, and the next one."""
    env = {**os.environ, "STREAMJOIN_CACHE": str(folder)}
    run = [sys.executable, "-c", code]
    return [subprocess.run(run, env=env, capture_output=True, text=True, check=True).stdout.split() for _ in range(2)]


LOAD = "from streamjoin.codegen.cache import load_module\nfrom streamjoin.codegen.jit import NOTICE\n"


def test_another_process_gets_the_same_from_the_files(tmp_path: Path) -> None:
    code = f"""{LOAD}module = load_module({SOURCE!r})
try:
    module.whole(-1)
except ValueError as error:
    print(error, module.whole(3), NOTICE.compiled)
"""
    assert told_twice(code, tmp_path) == [["below", "zero", "10", "1"], ["below", "zero", "10", "0"]]


HASH = """
from streamjoin.codegen.jit import njit


@njit(cache=True)
def text_hash(n):
    return hash("a" * n)
"""


@pytest.mark.parametrize(("source", "call"), [(HASH, "text_hash(3)"), (SOURCE, "whole(3)")])
def test_numba_is_loaded_whole_only_where_machine_code_asks_for_it(tmp_path: Path, source: str, call: str) -> None:
    code = f"""import sys
{LOAD}module = load_module({source!r})
print(module.{call} != 0, NOTICE.compiled, "numba.cpython.hashing" in sys.modules)
"""
    needed = str(source is HASH)
    assert told_twice(code, tmp_path) == [["True", "1", "True"], ["True", "0", needed]]


LINKED = f"""{LOAD}import numba
from numba.core import entrypoints

whole = load_module({SOURCE!r}).whole
print(whole(3), NOTICE.compiled, entrypoints._already_initialized)
(compiled,) = whole.overloads.values()
print(compiled.library._shared_module is None)


@numba.njit
def twice(n):
    return 2 * whole(n)


print(twice(3))
try:
    twice(-1)
except ValueError as error:
    print(error)
"""


def test_what_others_link_is_read_when_one_of_them_does(tmp_path: Path) -> None:
    first, second = told_twice(LINKED, tmp_path)
    assert first == ["10", "1", "True", "False", "20", "below", "zero"]
    assert second == ["10", "0", "False", "True", "20", "below", "zero"], "nothing is compiled, linked or looked for"


RUNTIME = """
import sys

from numba.core.runtime import nrtdynmod
import numba, numpy
import streamjoin.codegen.jit as jit

making, made = nrtdynmod.create_nrt_module, []
nrtdynmod.create_nrt_module = lambda context: made.append(1) or making(context)


@jit.njit(cache=True)
def kept(n):
    return numpy.arange(n)[::2]


kept._cache = jit.KernelFiles(kept.py_func, "")  # as if it was in one of our modules


@numba.njit
def compiled_now(n):  # with the runtime's functions inside
    parts = [numpy.ones(k) for k in range(n)]
    return sum([part.sum() for part in parts])


array = kept(7)
print(array.sum(), compiled_now(4), len(made), sys.getrefcount(array))
"""


def test_the_runtime_is_loaded_from_a_file_too(tmp_path: Path) -> None:
    first, second = told_twice(RUNTIME, tmp_path)
    assert first == ["12", "6.0", "1", "2"]
    assert second == ["12", "6.0", "0", "2"]
    (file,) = tmp_path.glob("kernels/runtime-*.kernel")
    content = file.read_bytes()
    for damaged in (content[:50], content[:40] + b"x" + content[41:]):
        file.write_bytes(damaged)
        assert told_twice(RUNTIME, tmp_path) == [first, second], "it is made again"
