"""Machine code is kept under a digest of the sources that it depends on: all of them, wherever they lie."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import streamjoin
from streamjoin.codegen import jit as compiled
from streamjoin.codegen.cache import imported, load_module
from streamjoin.errors import FileError

ROOT = Path(streamjoin.__file__).parent
DECORATORS = {"njit", "inner", "on_demand"}
NAMED = re.compile(rf"@({'|'.join(sorted(DECORATORS))})\b")
MODULES = {
    ".".join(("streamjoin", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
}


def decorated(path: Path) -> bool:
    """Does the file have a function that is compiled?"""
    text = path.read_text()
    if not NAMED.search(text):  # most files: parsing all of them takes seconds, in each process of the suite
        return False
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    named = [d.func if isinstance(d, ast.Call) else d for function in functions for d in function.decorator_list]
    return any(isinstance(node, ast.Name) and node.id in DECORATORS for node in named)


@cache
def parsed_imports(name: str) -> set[str]:
    """The modules of the package that a module imports, as Python's own parser reads it."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[name].read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} has a relative import, which the digest would miss"
            found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found & set(MODULES)


COMPILED = [name for name, path in MODULES.items() if decorated(path)]


def test_there_are_compiled_modules() -> None:
    assert len(COMPILED) > 20


@pytest.mark.parametrize("name", COMPILED)
def test_the_digest_covers_all_that_a_kernel_depends_on(name: str) -> None:
    found = imported(f"import {name}")
    todo, wanted = {name}, set()
    while todo:
        one = todo.pop()
        wanted.add(one)
        todo |= parsed_imports(one) - wanted - {"streamjoin.codegen.cache"}
    assert found == wanted
    assert compiled.__name__ in found


def test_every_module_s_imports_are_read_as_python_reads_them() -> None:
    from streamjoin.codegen.cache import _imports

    for name in MODULES:
        assert parsed_imports(name) <= _imports(name), name


def test_every_compiled_module_uses_our_decorators() -> None:
    for name in COMPILED:
        names = {
            alias.name: node.module
            for node in ast.walk(ast.parse(MODULES[name].read_text()))
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        assert {names[word] for word in DECORATORS & set(names)} == {compiled.__name__}, name


@pytest.mark.parametrize(
    "text",
    [
        "from streamjoin.access.records import Stored",
        "from streamjoin.access import records",
        "from streamjoin.access import (  # why\n    tuples,\n    records,\n)",
        "import streamjoin.access.records",
        "import numpy, streamjoin.access.records as shared",
        "if True:\n    from streamjoin.access import records as shared",
    ],
)
def test_imports_in_every_spelling(text: str) -> None:
    assert "streamjoin.access.records" in imported(text)


def test_a_module_that_has_moved_is_missed() -> None:
    for text in ("from streamjoin.access.gone import njit", "import streamjoin.access.gone"):
        with pytest.raises(FileError, match=r"streamjoin\.access\.gone"):
            imported(text)
    assert imported("import numpy\nfrom streamjoiner import x") == set()


DIGESTS = """
from streamjoin.codegen.cache import imports_digest
for name in ("access.refine", "codegen.intrinsics", "spark.cell"):
    print(imports_digest(f"import streamjoin.{name}"))
"""


def digests(folder: Path) -> list[str]:
    code = f"import sys; sys.path.insert(0, {str(folder)!r})\n{DIGESTS}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder)
    return done.stdout.split()


def test_a_digest_follows_contents_and_not_places(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        shutil.copytree(ROOT, tmp_path / folder / "streamjoin", ignore=shutil.ignore_patterns("__pycache__"))
    before = digests(tmp_path / "one")
    assert digests(tmp_path / "two") == before and len(set(before)) == 3
    changed = tmp_path / "two" / "streamjoin" / "access" / "records.py"
    changed.write_text(changed.read_text() + "\nANOTHER = 1\n")
    refine, intrinsics, cell = digests(tmp_path / "two")
    assert refine != before[0] and intrinsics == before[1] and cell != before[2]


def test_the_same_text_is_the_same_module_and_shows_in_tracebacks() -> None:
    source = "def fail():\n    raise ValueError('here')  # the line\n"
    module = load_module(source)
    assert load_module(source) is module and load_module(source + "\n") is not module
    import traceback

    try:
        module.fail()
    except ValueError:
        assert "# the line" in traceback.format_exc()


def test_a_function_that_nobody_finds_by_name_is_not_kept() -> None:
    from numba.core.caching import NullCache

    module = load_module(
        "from streamjoin.codegen.jit import njit\n@njit(cache=True)\ndef f(x):\n    return x + ONE\n", {"ONE": 1}
    )
    assert isinstance(module.f._cache, NullCache) and module.f(1) == 2
