"""Numba's decorators, with machine code kept in a folder of its own for every state of the sources.

Numba looks only at the file of a function to tell whether its machine code is out of date. Ours call each other across
files, so code from before an upgrade would be taken for good. Here the folder's name is a digest of all sources that
are compiled; what belongs to other versions is left alone for a while and then removed.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numba
from numba.core import config

from streamjoin.core.cache import ONE_AT_A_TIME, usable_folder

PACKAGE = Path(__file__).resolve().parent.parent
COMPILED = ("core/kernels/*.py", "algorithms/*.py", "embedded/loop.py", "embedded/ends.py")
PREFIX = "kernels-"
KEPT_DAYS = 30


@lru_cache
def sources_digest() -> str:
    """A digest of everything that is compiled, but for what is generated."""
    paths = [path for pattern in COMPILED for path in sorted(PACKAGE.glob(pattern))]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in paths)).hexdigest()[:16]


@lru_cache
def _folder() -> str:
    folder = usable_folder() / f"{PREFIX}{sources_digest()}"
    if not folder.exists():
        folder.mkdir(mode=0o700, exist_ok=True)
        for other in folder.parent.glob(f"{PREFIX}*"):
            if time.time() - other.stat().st_mtime > KEPT_DAYS * 86400:
                shutil.rmtree(other, ignore_errors=True)
    return str(folder)


def _in_folder(decorate: Callable[..., Any], function: Callable[..., Any]) -> Any:
    settings: Any = config
    with ONE_AT_A_TIME:
        before, settings.CACHE_DIR = settings.CACHE_DIR, _folder()
        try:
            return decorate(function)
        finally:
            settings.CACHE_DIR = before


def njit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`numba.njit`."""
    if function is not None:
        return _in_folder(numba.njit, function)
    return lambda function: _in_folder(numba.njit(**options), function)


def inner(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """A part of other kernels, never called from Python: that makes it quicker to compile."""
    decorate = njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)
    return decorate if function is None else decorate(function)


class OnDemand:
    """A function with an address, compiled when somebody asks for it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @cached_property
    def _compiled(self) -> Any:
        written = Path(self._function.__code__.co_filename).exists()  # else it was made in memory
        return _in_folder(numba.cfunc("int64(int64)", cache=written), self._function)

    @property
    def address(self) -> int:
        return int(self._compiled.address)


def on_demand(function: Callable[..., Any]) -> OnDemand:
    """Makes a function from word to word callable by address, for other compiled code; see `atomics.call`."""
    return OnDemand(function)
