"""Generated modules: digests of their sources, by which their machine code is kept.

A generated module is made from its text in memory; nothing is imported from a file that somebody may have changed. Its
name is a digest of the text and of everything that the text imports from this package. `codegen/jit.py` keeps machine
code under this name, so it always belongs to exactly these sources.
"""

from __future__ import annotations

import hashlib
import linecache
import platform
import re
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from streamjoin.errors import FileError
from streamjoin.interrupts import Section

ONE_AT_A_TIME = Section()  # so that no thread sees an incomplete module
GENERATED = "streamjoin_generated_"
PACKAGE = __name__.partition(".")[0]
_IMPORT = re.compile(
    rf"^[ \t]*(?:from +({PACKAGE}\b[\w.]*) +import +(\([^)]*\)|.*)|import +(.*\b{PACKAGE}\b.*))", re.MULTILINE
)
_WORD = re.compile(r"[\w.]+")


def load_module(source: str, inject: dict[str, Any] | None = None) -> ModuleType:
    """The module of a generated text: the same module for the same text.

    A module that needs objects of this process, given in `inject`, is created each time; its machine code is not kept.
    """
    if inject:
        module = ModuleType(f"{GENERATED}in_memory")
        module.__dict__.update(inject)
        exec(compile(source, "<generated>", "exec"), module.__dict__)
        return module
    identity = f"{source}\n{imports_digest(source)}\n{sys.implementation.cache_tag}\n{platform.machine()}"
    name = GENERATED + hashlib.sha256(identity.encode()).hexdigest()[:24]
    found: ModuleType = ONE_AT_A_TIME.run(_loaded, name, source)
    return found


def _loaded(name: str, source: str) -> ModuleType:
    if name in sys.modules:
        return sys.modules[name]
    module = ModuleType(name)
    file = f"<{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)  # for tracebacks
    try:
        sys.modules[name] = module
        exec(compile(source, file, "exec"), module.__dict__)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def imports_digest(text: str) -> str:
    """A digest of all modules of this package that a text imports, directly or indirectly.

    Machine code contains constants and functions of other modules. It is out of date when any of them changes.
    """
    parts = [f"{name} {_digest(name)}" for name in sorted(imported(text))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def imported(text: str) -> set[str]:
    """The modules of this package that a text imports, directly or indirectly.

    Without this module, which decides where machine code is kept, not what it contains.

    >>> sorted(imported("from streamjoin.folders import Private"))
    ['streamjoin.errors', 'streamjoin.folders']
    """
    found: set[str] = set()
    todo = set(_named(text))
    while todo:
        name = todo.pop()
        found.add(name)
        todo |= _imports(name) - found - {__name__}
    return found


@cache
def _imports(name: str) -> frozenset[str]:
    return _named(_source(name) or "")


@cache
def _digest(name: str) -> str:
    return hashlib.sha256((_source(name) or "").encode()).hexdigest()


def _named(text: str) -> frozenset[str]:
    """The modules named by the import statements of a text. (Parsing the kernels would take a tenth of a second.)"""
    found = []
    for base, names, modules in _IMPORT.findall(text):
        if modules:
            some = [name for name in _WORD.findall(modules) if name.partition(".")[0] == PACKAGE]
        else:
            some = [base, *(f"{base}.{name}" for name in _WORD.findall(names) if not _is_file(base))]
        there = [name for name in some if _source(name) is not None]
        if some and not there:
            raise FileError(
                f"the source of {some[0]} was not found; without it, machine code that is out of date cannot be "
                "recognised. Install the package with its .py files"
            )
        found += there
    return frozenset(found)


def _path(name: str) -> Path:
    return Path(sys.modules[PACKAGE].__path__[0], *name.split(".")[1:])


@cache
def _is_file(name: str) -> bool:
    """Is it a module, not a package?"""
    return _path(name).with_suffix(".py").is_file()


@cache
def _source(name: str) -> str | None:
    """The text of a module of this package, None if there is no such module."""
    path = _path(name)
    for file in (path / "__init__.py", path.with_suffix(".py")):
        try:
            return file.read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            pass
    return None
