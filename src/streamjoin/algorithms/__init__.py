"""Who meets whom: one row for every algorithm, one paper per file. Reading the rows loads no compiler."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from types import ModuleType

INLINE, THREADS, DEVICE = "inline", "threads", "device"  # engines
DEALT, EVERYONE, SHARES = "dealt", "to everyone", "in shares"  # how a driver feeds its workers


@dataclass(frozen=True)
class Algorithm:
    """What the rest of the package knows of an algorithm."""

    name: str
    paper: str
    file: str  # in this folder
    engine: str = THREADS
    accesses: tuple[str, ...] = ("scan", "band", "hash")  # how its windows can be searched
    feed: str = DEALT
    rectangular: bool = False  # takes layout=
    scans: str = ""  # why its windows are scanned, if they can only be that

    @cached_property
    def protocol(self) -> ModuleType:
        """The compiled protocol."""
        return import_module(f"{__name__}.{self.file}")

    @property
    def shared(self) -> bool:
        """Does the driver alone know the windows, of which workers get shares?"""
        return self.feed == SHARES


ALGORITHMS = {
    row.name: row
    for row in (
        Algorithm("kang", "Kang et al., in all papers", "kang", INLINE),
        Algorithm(
            "cell",
            "CellJoin, as told in DP-Join 4.1",
            "celljoin",
            accesses=("scan",),
            feed=SHARES,
            scans='algorithm="cell" re-partitions windows for every arrival: they are scanned',
        ),
        Algorithm("biclique", "Join-biclique", "biclique", feed=EVERYONE),
        Algorithm("handshake", "Handshake join 3-4", "handshake", accesses=("scan", "sorted", "hash")),
        Algorithm("low_latency", "Low-latency handshake join 4-6", "low_latency"),
        Algorithm("grid", "DP-Join 4.3-4.4", "grid", rectangular=True),
        Algorithm(
            "hells",
            "HELLS-Join 4-5",
            "hells",
            DEVICE,
            accesses=("scan",),
            scans="a device compares an arrival with the whole window, 32 tuples per word of its bitmap",
        ),
    )
}
PARALLEL = tuple(row.name for row in ALGORITHMS.values() if row.engine == THREADS)
AUTO = "auto"
NAMES = (AUTO, *ALGORITHMS)  # what algorithm= takes
