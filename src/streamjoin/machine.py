"""The cores of this machine, in an order in which neighbours are close to each other."""

from __future__ import annotations

import os
from pathlib import Path

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
