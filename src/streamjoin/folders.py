"""Private folders and atomic file replacement, for what a later process executes, maps or trusts.

A folder is private if no other user can have written to it:

- It is not a symbolic link, this user owns it, and others may not write to it.
- Root, this user, or the owner of streamjoin's code owns every parent. (The owner of the code can run anything anyway.)
  Others may not write to a parent, unless it has the sticky bit: then they can add names but not remove ours.
- One of these three owns every symbolic link among the parents, and the same rules hold for its target.

Others may write if the mode allows it for everybody, or for a group that is not the owner's own. The owner's own group
has the owner's name and no other member, as on systems with umask 002. Access control lists show in the group bits.

We create folders with mode 0700 and files with 0600. We change a mode only on an empty folder. If others may write to a
folder that is not empty, we refuse it: its content may come from anybody. A file counts only if it is a regular file,
this user owns it, and others may not write to it.

Parents are checked once per process. Everything below is opened relative to folder descriptors, without following
links. Descriptors are closed after each operation: a folder may be deleted at any time, and forks share nothing.

If a folder is not private or not writable, the process warns once and continues without it. That holds for a folder
that the user named, too: one misconfigured host should not end a pipeline. `streamjoin doctor` reports it as well. A
temporary folder is no replacement: the files serve other processes, and Spark's workers could not remove it.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import IO

from streamjoin.errors import FileError

DAY = 86400
MOST_LINKS = 40  # as Linux has it
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_UNFINISHED = re.compile(r"\..*\.[0-9a-f]{16}\.part")  # left by `_replacing` in a killed process

_parents: dict[str, str] = {}  # checked parents: path as given, path without links
_told: set[str] = set()  # folders that a warning was issued for


class Private:
    """A folder for this user alone: `root`, and our folders below it. The first write creates it.

    `variable` is the environment variable that names another folder. `loss` says what is lost without it.
    """

    def __init__(self, root: str | os.PathLike[str], *inside: str, variable: str, loss: str) -> None:
        self.root = os.path.abspath(root)
        self.inside = inside
        self.variable = variable
        self.loss = loss

    @property
    def path(self) -> str:
        return os.path.join(self.root, *self.inside)

    def __truediv__(self, name: str) -> Private:
        return Private(self.root, *self.inside, name, variable=self.variable, loss=self.loss)

    @contextmanager
    def opened(self, make: bool = False) -> Iterator[int]:
        """A descriptor of the folder. FileError: it is not private. FileNotFoundError: it does not exist."""
        handle = _open_root(self.root, make)
        try:
            for name in self.inside:
                inner = _enter(name, handle, make)
                os.close(handle)
                handle = inner
                _check_own(os.fstat(handle), name)
            yield handle
        finally:
            os.close(handle)

    @contextmanager
    def file(self, name: str) -> Iterator[IO[bytes]]:
        """Opens one of our files for reading."""
        with self.opened() as folder:
            # Without O_NONBLOCK, opening a named pipe would block forever.
            handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        try:
            info = os.fstat(handle)
            if not stat.S_ISREG(info.st_mode):
                raise FileError(f'"{name}" in it is not a regular file')
            _check_own(info, f'"{name}" in it')
            with os.fdopen(handle, "rb", closefd=False) as file:
                yield file
        finally:
            os.close(handle)

    def read(self, name: str, renew: float | None = None) -> bytes | None:
        """The content of one of our files; None if there is none. Renews its time if it is older than `renew` days."""
        try:
            with self.file(name) as file:
                if renew is not None and time.time() - os.fstat(file.fileno()).st_mtime > renew * DAY:
                    with suppress(OSError):
                        os.utime(file.fileno())
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            self.tell(error)
            return None

    def write(self, name: str, *parts: bytes, mode: int = 0o600) -> None:
        """Writes a file atomically. Raises OSError if that fails."""
        try:
            self._write(name, parts, mode)
        except FileNotFoundError:  # another process has just removed the folder
            self._write(name, parts, mode)

    def _write(self, name: str, parts: tuple[bytes, ...], mode: int) -> None:
        with self.opened(make=True) as folder:
            with suppress(OSError):
                os.rmdir(name, dir_fd=folder)  # an empty folder at the file's path is damage
            with _replacing(name, folder, mode) as file:
                for part in parts:
                    file.write(part)

    def keep(self, name: str, *parts: bytes) -> bool:
        """Writes an optional file; warns once if that fails."""
        try:
            self.write(name, *parts)
        except OSError as error:
            self.tell(error)
            return False
        return True

    def lend(self) -> str | None:
        """The path, for a library that manages its own files; None, after one warning, if the folder cannot be used."""
        try:
            with self.opened(make=True):
                return self.path
        except OSError as error:
            self.tell(error)
            return None

    def remove(self, name: str) -> None:
        """Removes a file if it exists."""
        with suppress(OSError), self.opened() as folder:
            os.unlink(name, dir_fd=folder)

    def sweep(self, ours: re.Pattern[str], days: float) -> None:
        """Removes our files that have not changed for `days` days, and what killed processes left behind."""
        before = time.time() - days * DAY
        with suppress(OSError), self.opened() as folder:
            for name in os.listdir(folder):
                if ours.fullmatch(name) or _UNFINISHED.fullmatch(name):
                    with suppress(OSError):  # other processes sweep, too
                        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
                        mine = stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid()
                        if mine and info.st_mtime < before:
                            os.unlink(name, dir_fd=folder)

    def tell(self, error: OSError) -> None:
        """Warns, once per process, that the folder cannot be used."""
        if self.root not in _told:
            _told.add(self.root)
            warnings.warn(
                f"the folder {self.root} cannot be used: {reason(error)}; {self.loss}. To use another folder, set "
                f"{self.variable} to one that you own and that others may not write to",
                stacklevel=3,
            )


@contextmanager
def atomically(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Replaces a file atomically: it appears under its name complete and on disk, or not at all.

    The content goes to a temporary file beside it, because a rename is atomic only within one file system.
    Like cp, it follows a symbolic link and keeps the mode of the file that it replaces.
    """
    real = os.path.realpath(path)
    try:
        kept = stat.S_IMODE(os.stat(real).st_mode)
    except FileNotFoundError:
        kept = None

    def settle(handle: int) -> None:
        if kept is not None:
            os.fchmod(handle, kept)
        os.fsync(handle)

    with _replacing(real, None, 0o666 if kept is None else 0o600, settle) as file:
        yield file
    with suppress(OSError):  # the file is in place; some folders cannot be opened or synchronised
        handle = os.open(os.path.dirname(real), os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def reason(error: OSError) -> str:
    """The reason of an error: the system's text, or our own."""
    return error.strerror or str(error)


@contextmanager
def _replacing(
    path: str, folder: int | None, mode: int, settle: Callable[[int], None] | None = None
) -> Iterator[IO[bytes]]:
    """A new file beside `path` that replaces it at the end. After a failure it is removed."""
    parent, name = os.path.split(path)
    temporary = os.path.join(parent, f".{name[:40]}.{secrets.token_hex(8)}.part")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode, dir_fd=folder)
        try:
            with os.fdopen(handle, "wb", closefd=False) as file:  # the writer may close it, as Arrow does
                yield file
            if settle is not None:
                settle(handle)
        finally:
            os.close(handle)
        os.replace(temporary, path, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _open_root(root: str, make: bool) -> int:
    parent, name = os.path.split(root)
    for known in (True, False):
        if parent not in _parents:
            _parents[parent] = _walk(parent, make)
        try:
            handle = _enter(os.path.join(_parents[parent], name), None, make)
            break
        except FileNotFoundError:
            _parents.pop(parent, None)  # the parents may have been deleted since the check
            if not (known and make):
                raise
    try:
        _check_root(handle)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _enter(name: str, folder: int | None, make: bool) -> int:
    """Opens a folder; creates it first if `make` is set and it is missing."""
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=folder)
        return os.open(name, _FOLDER, dir_fd=folder)
    except OSError as error:
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise FileError(f"{name} is a symbolic link; name the folder that it points to") from error
        raise


def _check_root(handle: int) -> None:
    info = os.fstat(handle)
    if info.st_uid == os.geteuid() and _others_may_write(info):
        shared = info.st_mode & stat.S_ISVTX  # shared on purpose
        if not shared and not os.listdir(handle):  # just created, under a permissive umask
            os.fchmod(handle, 0o700)
            if os.listdir(handle):
                raise FileError("another user has just written to it")
            info = os.fstat(handle)  # some file systems have no modes
    _check_own(info, "it")


def _check_own(info: os.stat_result, what: str) -> None:
    if info.st_uid != os.geteuid():
        raise FileError(f"{what} belongs to user {info.st_uid}, not to this one ({os.geteuid()})")
    if _others_may_write(info):
        raise FileError(
            f"others may write to {what} (mode {stat.S_IMODE(info.st_mode):04o}) and may have done so; delete it"
        )


def _walk(path: str, make: bool) -> str:
    """Resolves the links of a path, checks every step, and creates missing folders if `make` is set."""
    at, todo, links = "/", _steps(path), 0
    _check_parent(at, os.lstat(at))
    while todo:
        name = todo.pop()
        if name == "..":
            at = os.path.dirname(at)
            continue
        step = os.path.join(at, name)
        try:
            info = os.lstat(step)
        except FileNotFoundError:
            if not make:
                raise
            with suppress(FileExistsError):
                os.mkdir(step, 0o700)
            info = os.lstat(step)
        if stat.S_ISLNK(info.st_mode):
            _check_owner(step, info)
            target = os.readlink(step)
            links += 1
            if links > MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            at = "/" if target.startswith("/") else at
            todo += _steps(target)
            continue
        if not stat.S_ISDIR(info.st_mode):
            raise FileError(f"{step} is not a folder")
        _check_parent(step, info)
        at = step
    return at


def _steps(path: str) -> list[str]:
    """The components of a path, last one first."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def _check_parent(step: str, info: os.stat_result) -> None:
    _check_owner(step, info)
    if _others_may_write(info) and not info.st_mode & stat.S_ISVTX:
        raise FileError(f"others may write to its parent {step} (mode {stat.S_IMODE(info.st_mode):04o})")


def _check_owner(step: str, info: os.stat_result) -> None:
    if info.st_uid not in (0, os.geteuid(), _owner_of_the_code()):
        raise FileError(f"its parent {step} belongs to user {info.st_uid}")


@lru_cache
def _owner_of_the_code() -> int:
    try:
        return os.stat(__file__).st_uid
    except OSError:  # imported from an archive
        return 0


def _others_may_write(info: os.stat_result) -> bool:
    if info.st_mode & stat.S_IWOTH:
        return True
    return bool(info.st_mode & stat.S_IWGRP) and not _own_group(info.st_uid, info.st_gid)


@lru_cache
def _own_group(user: int, group: int) -> bool:
    """Does the group have the user's name and no other member? Without names, as in containers: equal numbers?"""
    import grp
    import pwd

    try:
        name = pwd.getpwuid(user).pw_name
    except KeyError:
        name = None
    try:
        entry = grp.getgrgid(group)
    except KeyError:
        return name is None and user == group
    return entry.gr_name == name and set(entry.gr_mem) <= {name}


def cache_folder() -> Path:
    """The folder for machine code: STREAMJOIN_CACHE, or `streamjoin` in the user's cache folder.

    >>> cache_folder().is_absolute()
    True
    """
    chosen = os.environ.get("STREAMJOIN_CACHE")
    if not chosen and not os.path.isabs(os.path.expanduser("~")):  # no home folder, as in containers
        chosen = os.path.join(tempfile.gettempdir(), f"streamjoin-cache-{os.geteuid()}")
    if not chosen:
        mac = sys.platform == "darwin"
        base = (not mac and os.environ.get("XDG_CACHE_HOME")) or ("~/Library/Caches" if mac else "~/.cache")
        chosen = os.path.join(base, "streamjoin")
    return Path(os.path.abspath(os.path.expanduser(chosen)))


def kept(*inside: str) -> Private:
    """This user's private cache, or a folder in it."""
    loss = "every process compiles its kernels and measures their costs again"
    return Private(cache_folder(), *inside, variable="STREAMJOIN_CACHE", loss=loss)
