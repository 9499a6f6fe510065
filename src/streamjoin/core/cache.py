"""The folder of generated kernels: content-addressed modules, so that a second process starts warm.

Numba keeps machine code beside a module's file and forgets it when the file changes. A generated module is therefore
written once under the hash of its text and never touched again.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import sys
import tempfile
import threading
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

ONE_AT_A_TIME = threading.RLock()  # for modules that are half made, and for what is global in Numba


def cache_folder() -> Path:
    """The folder for generated code: STREAMJOIN_CACHE, or `streamjoin` in the user's cache folder.

    >>> cache_folder().is_absolute()
    True
    """
    chosen = os.environ.get("STREAMJOIN_CACHE")
    if chosen:
        return Path(chosen).expanduser().resolve()
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return (base / "streamjoin").resolve()


@lru_cache
def _usable(folder: Path) -> Path:
    """The folder, created for this user alone; what lies in it is executed, so nobody else may write there."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = folder.stat()
        if info.st_uid == os.getuid() and os.access(folder, os.W_OK):
            if info.st_mode & 0o077:
                folder.chmod(0o700)
            return folder
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="streamjoin-"))


def usable_folder() -> Path:
    """The folder for generated code, or another one for this process if it cannot be written to."""
    return _usable(cache_folder())


def load_module(source: str, inject: dict[str, Any] | None = None) -> ModuleType:
    """Imports generated source from the cache, writing it there first if it is new.

    A module that needs objects from this process, given in `inject`, is made in memory and not cached.
    """
    if inject:
        module = ModuleType("streamjoin_generated_in_memory")
        module.__dict__.update(inject)
        exec(compile(source.replace(", cache=True", ""), "<generated>", "exec"), module.__dict__)
        return module
    from streamjoin.core.compiled import sources_digest  # imports Numba

    identity = f"{source}\n{sources_digest()}\n{sys.version}\n{platform.machine()}"
    name = "streamjoin_generated_" + hashlib.sha256(identity.encode()).hexdigest()[:24]
    with ONE_AT_A_TIME:
        if name in sys.modules:
            return sys.modules[name]
        folder = usable_folder()
        path = folder / f"{name}.py"
        if not path.exists():
            handle, temporary = tempfile.mkstemp(dir=folder, suffix=".tmp")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(source)
            os.replace(temporary, path)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
        return module
