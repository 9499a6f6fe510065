"""Private folders, and files that appear whole: for whatever is executed, mapped or believed by a later process.

A folder is private if no other user can have put anything into it:

- It is no symbolic link, belongs to this user, and others may not write to it.
- Every parent belongs to root, to this user, or to the owner of streamjoin's own code, who can have anything executed
  as it is. Others may not write to it, unless it has the sticky bit: then they add names, but cannot take away ours.
- A symbolic link among the parents belongs to one of these three, and what it leads to is as safe.

Others may write if the mode lets everybody write, or the group, unless that is the owner's own: a group of the owner's
name with no other member, as on systems with umask 002. Access control lists show in the bits of the group.

We make folders with mode 0700 and files with 0600, and change no mode but that of an empty folder. A folder with
something in it that others may write to is refused: nobody knows who wrote that. Files count only if they are regular,
this user's, and not writable by others.

Parents are checked once per process. Everything below is reached through descriptors of folders, opened without
following links and closed again after each operation: a folder may be deleted at any time, and forks share nothing.

Whoever finds a folder not private, or cannot write to it, goes on without, with one warning; also where the user named
the folder, since one odd host should not end a pipeline (`streamjoin doctor` tells as well). No temporary folder takes
its place: what is kept serves other processes only, and Spark's workers end without a chance to remove one.
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
_UNFINISHED = re.compile(r"\..*\.[0-9a-f]{16}\.part")  # what `_replacing` leaves if the process is killed

_parents: dict[str, str] = {}  # checked ones: as they are named, and without links
_told: set[str] = set()  # folders that were warned of


class Private:
    """A folder for this user alone: `root`, and below it folders of ours. It is made by whoever writes first.

    `variable` lets the user name another one; `loss` is what it means to be without.
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
        """A descriptor of the folder. FileError: it is not private. FileNotFoundError: it is not there."""
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
        """A file of ours, to be read."""
        with self.opened() as folder:
            # Without O_NONBLOCK, a named pipe would have us wait for ever.
            handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        try:
            info = os.fstat(handle)
            if not stat.S_ISREG(info.st_mode):
                raise FileError(f'"{name}" in it is no regular file')
            _check_own(info, f'"{name}" in it')
            with os.fdopen(handle, "rb", closefd=False) as file:
                yield file
        finally:
            os.close(handle)

    def read(self, name: str, renew: float | None = None) -> bytes | None:
        """What a file of ours holds; None if there is none. One older than so many days is then as new for `sweep`."""
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
        """Writes a file, whole or not at all. An OSError tells why it cannot be."""
        try:
            self._write(name, parts, mode)
        except FileNotFoundError:  # somebody has just removed the folder
            self._write(name, parts, mode)

    def _write(self, name: str, parts: tuple[bytes, ...], mode: int) -> None:
        with self.opened(make=True) as folder:
            with suppress(OSError):
                os.rmdir(name, dir_fd=folder)  # an empty folder in the file's place is damage
            with _replacing(name, folder, mode) as file:
                for part in parts:
                    file.write(part)

    def keep(self, name: str, *parts: bytes) -> bool:
        """Writes a file that can be done without; says once if it cannot."""
        try:
            self.write(name, *parts)
        except OSError as error:
            self.tell(error)
            return False
        return True

    def lend(self) -> str | None:
        """The path, for a library that keeps files there by itself; None, said once, if the folder does not serve."""
        try:
            with self.opened(make=True):
                return self.path
        except OSError as error:
            self.tell(error)
            return None

    def remove(self, name: str) -> None:
        """Removes a file if it is there."""
        with suppress(OSError), self.opened() as folder:
            os.unlink(name, dir_fd=folder)

    def sweep(self, ours: re.Pattern[str], days: float) -> None:
        """Removes files with names of ours that did not change for so long, and what killed processes left behind."""
        before = time.time() - days * DAY
        with suppress(OSError), self.opened() as folder:
            for name in os.listdir(folder):
                if ours.fullmatch(name) or _UNFINISHED.fullmatch(name):
                    with suppress(OSError):  # others are sweeping as well
                        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
                        mine = stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid()
                        if mine and info.st_mtime < before:
                            os.unlink(name, dir_fd=folder)

    def tell(self, error: OSError) -> None:
        """Warns, once per process, that the folder does not serve."""
        if self.root not in _told:
            _told.add(self.root)
            warnings.warn(
                f"the folder {self.root} does not serve: {reason(error)}; {self.loss}. For another one, set "
                f"{self.variable} to a folder of your own that others may not write to",
                stacklevel=3,
            )


@contextmanager
def atomically(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file anywhere that appears under its name complete and on the disk, or not at all.

    What is written goes to a temporary file beside it, since only a rename within one file system is atomic.
    A symbolic link is followed and the mode of a file that is replaced is kept, as cp does.
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
    with suppress(OSError):  # the file is there; some folders cannot be opened or synchronised
        handle = os.open(os.path.dirname(real), os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def reason(error: OSError) -> str:
    """Why something failed, in the words of the system or in ours."""
    return error.strerror or str(error)


@contextmanager
def _replacing(
    path: str, folder: int | None, mode: int, settle: Callable[[int], None] | None = None
) -> Iterator[IO[bytes]]:
    """A new file beside `path` that takes its place at the end; after a failure there is nothing of it."""
    place, name = os.path.split(path)
    temporary = os.path.join(place, f".{name[:40]}.{secrets.token_hex(8)}.part")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode, dir_fd=folder)
        try:
            with os.fdopen(handle, "wb", closefd=False) as file:  # whoever writes may close it, as Arrow does
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
    place, name = os.path.split(root)
    for known in (True, False):
        if place not in _parents:
            _parents[place] = _walk(place, make)
        try:
            handle = _enter(os.path.join(_parents[place], name), None, make)
            break
        except FileNotFoundError:
            _parents.pop(place, None)  # perhaps the parents have gone since they were checked
            if not (known and make):
                raise
    try:
        _check_root(handle)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _enter(name: str, folder: int | None, make: bool) -> int:
    """Opens a folder, made first if it is missing."""
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
        shared = info.st_mode & stat.S_ISVTX  # on purpose
        if not shared and not os.listdir(handle):  # fresh, on a system that makes folders for everybody
            os.fchmod(handle, 0o700)
            if os.listdir(handle):
                raise FileError("somebody else has just written to it")
            info = os.fstat(handle)  # some file systems know no modes
    _check_own(info, "it")


def _check_own(info: os.stat_result, what: str) -> None:
    if info.st_uid != os.geteuid():
        raise FileError(f"{what} belongs to user {info.st_uid}, not to this one ({os.geteuid()})")
    if _others_may_write(info):
        raise FileError(
            f"others may write to {what} (mode {stat.S_IMODE(info.st_mode):04o}) and may have done so; delete it"
        )


def _walk(path: str, make: bool) -> str:
    """The path of a folder without links, if every step is safe; missing ones are made. No other user can change it."""
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
            raise FileError(f"{step} is no folder")
        _check_parent(step, info)
        at = step
    return at


def _steps(path: str) -> list[str]:
    """The names of a path, the last one first."""
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
    """Has the group the user's name and no other member? Where neither has a name, as in containers: their numbers?"""
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
    if not chosen and not os.path.isabs(os.path.expanduser("~")):  # a user without a home, as in containers
        chosen = os.path.join(tempfile.gettempdir(), f"streamjoin-cache-{os.geteuid()}")
    if not chosen:
        mac = sys.platform == "darwin"
        base = (not mac and os.environ.get("XDG_CACHE_HOME")) or ("~/Library/Caches" if mac else "~/.cache")
        chosen = os.path.join(base, "streamjoin")
    return Path(os.path.abspath(os.path.expanduser(chosen)))


def kept(*inside: str) -> Private:
    """The cache, this user's alone, or a folder in it."""
    loss = "every process compiles its kernels and measures their costs again"
    return Private(cache_folder(), *inside, variable="STREAMJOIN_CACHE", loss=loss)
