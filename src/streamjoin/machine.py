"""This machine: its cores and their topology, and what benchmarks say of it."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

TOPOLOGY = "/sys/devices/system/cpu/cpu{}/topology/{}"


def usable_cores() -> int:
    """How many cores this process may use.

    >>> usable_cores() >= 1
    True
    """
    return len(_allowed())


def _allowed() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def along_topology() -> list[int]:
    """The usable cores, socket by socket; the second threads of cores come after all first ones."""
    seen: dict[tuple[int, int], int] = {}
    order = []
    for cpu in _allowed():
        place = (_read(cpu, "physical_package_id"), _read(cpu, "core_id"))
        nth = seen.get(place, 0)
        seen[place] = nth + 1
        order.append((nth, *place, cpu))
    return [cpu for *_, cpu in sorted(order)]


def _read(cpu: int, name: str) -> int:
    try:
        return int(Path(TOPOLOGY.format(cpu, name)).read_text())
    except (OSError, ValueError):
        return cpu if name == "core_id" else 0


def pin(core: int) -> None:
    """Keeps the calling thread on a core, where the system can do that."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})


def machine() -> dict[str, Any]:
    """Processor, cores and versions, to be printed with every figure."""
    import llvmlite
    import numba
    import numpy as np

    return {
        "cpu": processor(),
        "cores": usable_cores(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
    }


def processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "Model"))]
    return names[0] if names else platform.processor() or platform.machine()
