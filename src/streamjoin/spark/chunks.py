"""Chunks on this host: files with rows and their run, mapped into memory, shared by all Python workers.

The truth is in Spark's state store. A file is named by the digest of what the state store holds, so that a replay, an
older run or another query can never be mistaken; it appears under its name only when it is whole. Every file may be
deleted at any time: whoever misses one makes it again. Files that other code wrote, or that were written before the
host last started and may not have reached the disk, are as good as missing.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import shutil
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from streamjoin.core.compiled import PACKAGE
from streamjoin.core.kernels.layout import Array
from streamjoin.core.store.frozen import check
from streamjoin.spark.engine import Chunk
from streamjoin.spark.wire import pack, unpack

ALIGNED = 64
KEPT_DAYS = 3.0
MOST_MAPPED = 2048  # chunks that one process keeps mapped
SWEPT_SECONDS = 3600.0


def cache_root() -> Path:
    """The folder of all chunk files of this user on this host: in STREAMJOIN_CHUNKS, or in the temporary folder."""
    chosen = os.environ.get("STREAMJOIN_CHUNKS")
    return Path(chosen or tempfile.gettempdir()) / f"streamjoin-chunks-{os.getuid()}"


class ChunkCache:
    """The chunks of one query on this host."""

    def __init__(self, query: str, root: Path | None = None) -> None:
        self._folder = (root or cache_root()) / query
        self._mapped: OrderedDict[str, Chunk] = OrderedDict()
        self.hits = 0
        self.misses = 0
        self._swept = -math.inf
        self._usable = self._open()

    def _open(self) -> bool:
        """Makes the folder, or makes it again; without one, chunks are made from the state every time."""
        root = self._folder.parent
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            if root.stat().st_uid != os.getuid():
                return False
            self._folder.mkdir(mode=0o700, exist_ok=True)
            os.utime(self._folder)
        except FileNotFoundError:
            return True  # deleted just now, which anyone may do: the next chunk makes it again
        except OSError:
            return False
        if time.monotonic() - self._swept > SWEPT_SECONDS:
            self._swept = time.monotonic()
            _sweep(root)
        return True

    def get(self, name: str, make: Callable[[], Chunk]) -> Chunk:
        """The chunk of this name: mapped already, in a file, or made now."""
        found = self._mapped.get(name)
        if found is not None:
            self._mapped.move_to_end(name)
            self.hits += 1
            return found
        found = self._read(name)
        if found is None:
            self.misses += 1
            found = self.put(name, make())
        else:
            self.hits += 1
            self._keep(name, found)
        return found

    def put(self, name: str, chunk: Chunk) -> Chunk:
        """Writes a chunk for all workers of this host; what comes back lies in the file if that worked."""
        if not self._usable or not self._open():
            return chunk
        try:
            handle, temporary = tempfile.mkstemp(dir=self._folder, suffix=".tmp")
            try:
                with os.fdopen(handle, "wb") as file:
                    for part in _parts(chunk):
                        file.write(part)
                os.replace(temporary, self._folder / name)
            except BaseException:
                os.unlink(temporary)
                raise
        except OSError:
            return chunk
        found = self._read(name) or chunk
        self._keep(name, found)
        return found

    def drop(self, name: str) -> None:
        """Forgets a chunk that the state no longer has."""
        self._mapped.pop(name, None)
        if self._usable:
            (self._folder / name).unlink(missing_ok=True)

    def keep_only(self, family: str, names: set[str]) -> None:
        """Forgets which of a cell's chunks the state no longer has: another worker may have dropped their files."""
        for name in [name for name in self._mapped if name.startswith(family) and name not in names]:
            del self._mapped[name]

    def _keep(self, name: str, chunk: Chunk) -> None:
        self._mapped[name] = chunk
        while len(self._mapped) > MOST_MAPPED:
            self._mapped.popitem(last=False)

    def _read(self, name: str) -> Chunk | None:
        if not self._usable:
            return None
        try:
            with open(self._folder / name, "rb") as file:
                return _parse(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
        except (OSError, ValueError, KeyError, pa.ArrowInvalid):
            return None


@cache
def _magic() -> bytes:
    """What every file begins with: a digest of all code that decides how a chunk looks, and of the host's start."""
    sources = [path for folder in ("core", "spark") for path in sorted((PACKAGE / folder).rglob("*.py"))]
    code = hashlib.blake2b(b"\0".join(path.read_bytes() for path in sources), digest_size=8)
    try:
        started = Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        started = ""
    code.update(started.encode())
    return code.digest()


def _parts(chunk: Chunk) -> list[bytes]:
    """A chunk as the bytes of a file: magic, length of the header, header, then everything at aligned places."""
    pieces = [(name, np.ascontiguousarray(array)) for name, array in chunk.run.items()]
    rows = pack(chunk.rows)
    place, arrays = 0, []
    for name, array in pieces:
        arrays.append([name, array.dtype.str, list(array.shape), place])
        place = _aligned(place + array.nbytes)
    header = json.dumps({"arrays": arrays, "rows": [place, len(rows)]}).encode()
    magic = _magic()
    start = _aligned(len(magic) + 8 + len(header))
    out = [magic, start.to_bytes(8, "little"), header.ljust(start - len(magic) - 8)]
    for _, array in pieces:
        data = array.tobytes()
        out.append(data.ljust(_aligned(len(data)), b"\0"))
    return [*out, rows]


def _parse(mapped: mmap.mmap) -> Chunk:
    """The chunk in a file, without copying. Its pages are the process's own, so that kernels may have them."""
    magic = _magic()
    if mapped[: len(magic)] != magic:
        raise ValueError("no chunk of ours")
    start = int.from_bytes(mapped[len(magic) : len(magic) + 8], "little")
    header = json.loads(mapped[len(magic) + 8 : start])
    run: dict[str, Array] = {}
    for name, dtype, shape, place in header["arrays"]:
        count = int(np.prod(shape))
        run[name] = np.frombuffer(mapped, np.dtype(dtype), count, start + place).reshape(shape)
    place, length = header["rows"]
    if start + place + length != len(mapped) or not check(run):
        raise ValueError("not a whole chunk")
    return Chunk(unpack(pa.py_buffer(memoryview(mapped)[start + place :])), run)


def _aligned(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED


def _sweep(root: Path) -> None:
    """Removes what is days old: folders of queries that no longer run here; in the others, files that a killed worker
    left unfinished and chunks of cells that moved to another host. A chunk that is still needed costs one miss.
    """
    for folder in _older(root):
        shutil.rmtree(folder, ignore_errors=True)
    for file in [file for folder in root.glob("*/") for file in _older(folder)]:
        with suppress(OSError):
            file.unlink()


def _older(folder: Path) -> list[Path]:
    """What in a folder has not changed for days. Others may be deleting there."""
    out = []
    with suppress(OSError):
        for path in folder.iterdir():
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > KEPT_DAYS * 86400:
                    out.append(path)
    return out
