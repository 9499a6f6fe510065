"""Chunks on this host: files with rows and their run, mapped into memory, shared by all Python workers.

The truth is in Spark's state store. A file is named by the digest of what the state store holds, so that a replay, an
older run or another query can never be mistaken; it appears under its name only when it is whole. Every file may be
deleted at any time: a missing one is made again. Files that other code wrote, or that were written before the
host last started and may not have reached the disk, are as good as missing. The folder is private (`folders.py`); where
it cannot be, chunks are made from the state every time.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import re
import stat
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from streamjoin.access.frozen import check
from streamjoin.codegen.cache import imports_digest
from streamjoin.codegen.records import Array
from streamjoin.folders import DAY, Private
from streamjoin.spark.cell_kernels import Chunk
from streamjoin.spark.wire import pack, unpack

ALIGNED = 64
KEPT_DAYS = 3.0
MOST_MAPPED = 2048  # chunks that one process keeps mapped
SWEPT_SECONDS = 3600.0
NAMES = re.compile(r"[0-9a-f]+-[0-9]+-[0-9a-f]{32}|tmp[0-9a-z_]{8}\.tmp")  # the latter by earlier versions, unfinished


def cache_root() -> Path:
    """The folder of all chunk files of this user on this host: in STREAMJOIN_CHUNKS, or in the temporary folder."""
    chosen = os.environ.get("STREAMJOIN_CHUNKS")
    return Path(chosen or tempfile.gettempdir()) / f"streamjoin-chunks-{os.geteuid()}"


class ChunkCache:
    """The chunks of one query on this host."""

    def __init__(self, query: str, root: Path | None = None) -> None:
        self._root = Private(
            root or cache_root(), variable="STREAMJOIN_CHUNKS", loss="windows are read from Spark's state every time"
        )
        self._folder = self._root / query
        self._mapped: OrderedDict[str, Chunk] = OrderedDict()
        self.hits = 0
        self.misses = 0
        self._swept = -math.inf
        self._usable = self._in_use()

    def _in_use(self) -> bool:
        """Creates the folder if it is missing, and marks it as used; from time to time old files are removed."""
        try:
            with self._folder.opened(make=True) as handle:
                os.utime(handle)
        except FileNotFoundError:
            return True  # it has just been deleted, which is allowed: the next chunk creates it again
        except OSError as error:
            self._folder.tell(error)
            return False
        if time.monotonic() - self._swept > SWEPT_SECONDS:
            self._swept = time.monotonic()
            _sweep(self._root)
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
        """Writes a chunk for all workers of this host. If that succeeds, the returned chunk is mapped from the file."""
        if not self._usable or not self._in_use() or not self._folder.keep(name, *_parts(chunk)):
            return chunk
        found = self._read(name) or chunk
        self._keep(name, found)
        return found

    def drop(self, name: str) -> None:
        """Forgets a chunk that the state no longer has."""
        self._mapped.pop(name, None)
        if self._usable:
            self._folder.remove(name)

    def keep_only(self, family: str, names: set[str]) -> None:
        """Drops entries of chunks that the cell's state no longer has: another worker may have dropped their files."""
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
            with self._folder.file(name) as file:
                return _parse(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
        except Exception:  # missing, damaged or not ours: in each case it is made again
            return None


@cache
def _magic() -> bytes:
    """The first bytes of every file: a digest of all code that determines a chunk's layout, and of the host's start."""
    code = hashlib.blake2b(imports_digest("from streamjoin.spark.cell import Cell").encode(), digest_size=8)
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


def _sweep(root: Private) -> None:
    """Removes what is days old: folders of queries that no longer run here; in the others, files that a killed worker
    left unfinished and chunks of cells that moved to another host. A chunk that is still needed costs one miss.

    Only files with names that we give, by descriptors and following no link; folders only once they are empty.
    """
    before = time.time() - KEPT_DAYS * DAY
    with suppress(OSError), root.opened() as folder:
        for query in os.listdir(folder):
            with suppress(OSError):
                info = os.stat(query, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISDIR(info.st_mode):
                    (root / query).sweep(NAMES, KEPT_DAYS)
                    if info.st_mtime < before:
                        os.rmdir(query, dir_fd=folder)
