"""The join algorithms: one row for each, one paper per file. Reading the rows loads no compiler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from streamjoin.algorithms.lockstep import chain_of, cores_for

if TYPE_CHECKING:
    from streamjoin.windows.window import Window

INLINE, THREADS, DEVICE, CIRCUIT = "inline", "threads", "device", "circuit"  # engines
DEALT, EVERYONE, SHARES = "dealt", "to everyone", "in shares"  # how a driver feeds its workers
NOBODY = -1  # no next node; the way of a node that keeps nothing of a side


@dataclass(frozen=True)
class Topology:
    """Which node sends to which. A neighbour or the driver fills the queues in front of a node, one per direction."""

    nodes: int
    entries: tuple[tuple[int, ...], tuple[int, ...]]  # by direction: nodes whose queue the driver fills
    next: tuple[tuple[int, int], ...]  # by node: the next one in each direction, or NOBODY
    ways: tuple[int, int]  # by side: the number of ways to which the stripes of the stream are dealt
    way: tuple[tuple[int, int], ...]  # by node: its own way, per side


def chain(rows: int, columns: int) -> Topology:
    """Nodes in a row, r from the left, s from the right."""
    workers = rows * columns
    following = tuple((k + 1 if k + 1 < workers else NOBODY, k - 1) for k in range(workers))
    return Topology(workers, ((0,), (workers - 1,)), following, (1, 1), ((0, 0),) * workers)


def homes(rows: int, columns: int) -> Topology:
    """A chain in which each node is the home of an equal share of both streams."""
    through, workers = chain(rows, columns), rows * columns
    return replace(through, ways=(workers, workers), way=tuple((k, k) for k in range(workers)))


def star(rows: int, columns: int) -> Topology:
    """The driver fills one queue of every worker."""
    everyone = tuple(range(rows * columns))
    return Topology(
        len(everyone), (everyone, ()), ((NOBODY, NOBODY),) * len(everyone), (1, 1), ((0, 0),) * len(everyone)
    )


def halves(rows: int, columns: int) -> Topology:
    """A star. The first half of the workers keeps r, the second keeps s; a single one keeps both."""
    plain = star(rows, columns)
    if plain.nodes == 1:
        return plain
    of_r, of_s = plain.nodes - plain.nodes // 2, plain.nodes // 2
    way = tuple((k, NOBODY) if k < of_r else (NOBODY, k - of_r) for k in range(plain.nodes))
    return replace(plain, ways=(of_r, of_s), way=way)


def rectangle(rows: int, columns: int) -> Topology:
    """Rows take r, columns take s. Workers are numbered row by row."""
    nodes = [(i, j) for i in range(rows) for j in range(columns)]
    following = tuple(
        (i * columns + j + 1 if j + 1 < columns else NOBODY, (i + 1) * columns + j if i + 1 < rows else NOBODY)
        for i, j in nodes
    )
    entries = (tuple(i * columns for i in range(rows)), tuple(range(columns)))
    return Topology(rows * columns, entries, following, (rows, columns), tuple(nodes))


@dataclass(frozen=True)
class Spread:
    """The load of one of many equal workers, in fractions of both streams: all that the model needs of an algorithm."""

    rate: tuple[float, float]  # of the arrivals of r and of s
    segment: tuple[float, float]  # of the windows of r and of s
    stored: float  # of the tuples it sees
    hops: tuple[int, int]  # workers that an r passes through, and an s
    ways: tuple[int, int] = (1, 1)  # to how many ways its r are dealt, and its s; a stripe comes as a whole


def crossing(rows: int, columns: int) -> Spread:
    """A row's share of r and a column's share of s, all of them stored."""
    share = 1 / rows, 1 / columns
    return Spread(share, share, 1.0, (columns, rows), (rows, columns))


def passing(stored: float | None) -> Callable[[int, int], Spread]:
    """All tuples pass; its window is an equal share. `stored`: part of them that it stores; None: each has one home."""

    def spread(rows: int, columns: int) -> Spread:
        workers = rows * columns
        share = 1 / workers
        return Spread((1.0, 1.0), (share, share), share if stored is None else stored, (workers, workers))

    return spread


def opposite(rows: int, columns: int) -> Spread:
    """The mean of both halves: it stores a share of one stream and probes with the other.

    >>> opposite(1, 4).rate, opposite(1, 4).segment, opposite(1, 4).stored
    ((0.5, 0.5), (0.5, 0.5), 0.5)
    """
    workers = rows * columns
    if workers == 1:
        return crossing(1, 1)
    return Spread((0.5, 0.5), (1 / (workers - workers // 2), 1 / (workers // 2)), 2 / workers, (1, 1))


@dataclass(frozen=True)
class Algorithm:
    """The description of an algorithm for the rest of the package."""

    name: str
    paper: str
    file: str  # in this folder
    # By rows and columns of the layout: one row, unless it takes layout=.
    topology: Callable[[int, int], Topology] = chain
    spread: Callable[[int, int], Spread] = crossing
    engine: str = THREADS
    accesses: tuple[str, ...] = ("scan", "hash", "tree", "band")  # how its windows can be searched
    feed: str = DEALT
    rectangular: bool = False  # takes layout=
    scans: str = ""  # why its windows are scanned, if they can only be that
    alone: tuple[str, str] | None = None  # it has one worker: the reason, and what is wrong with more
    shape: str = ""  # of its workers
    automatic: tuple[str, ...] = ()  # for windows that are scanned, or have an INDEX: may "auto" choose it?
    why_not: str = ""  # the reason if not
    pushed: bool = False  # tuples move on, and meet, only when later ones arrive
    divides: str = ""  # in words: how it divides windows, whatever the rates
    indexes: str = ""  # in words: how it uses indexes
    degree: Callable[[float, float], int] | None = None  # workers by the rows of both windows, whatever the rates
    serves: Callable[[Window, int], object] | None = None  # raises if this number of workers cannot serve a window

    @cached_property
    def protocol(self) -> ModuleType:
        """The compiled protocol."""
        return import_module(f"{__name__}.{self.file}")


SCAN, INDEX = "scan", "index"
ALGORITHMS = {
    row.name: row
    for row in (
        Algorithm(
            "kang",
            "Kang et al., in all papers",
            "kang",
            engine=INLINE,
            alone=("kang is one worker", 'is one worker, not {workers}; use "auto" or one of {parallel}'),
        ),
        Algorithm(
            "cell",
            "CellJoin, as told in DP-Join 4.1",
            "celljoin",
            star,
            passing(0.0),
            accesses=("scan",),
            feed=SHARES,
            scans='algorithm="cell" re-partitions windows for every arrival: they are scanned',
            why_not="one emitter sends every arrival to all workers",
        ),
        Algorithm(
            "biclique",
            "Join-biclique",
            "biclique",
            halves,
            opposite,
            feed=EVERYONE,
            shape="two halves of {workers}",
            automatic=(INDEX,),
            divides="enters every tuple into one index",
            indexes="enters a tuple into one index and probes half of them",
        ),
        Algorithm(
            "handshake",
            "Handshake join 3-4",
            "handshake",
            chain,
            passing(1.0),
            accesses=("scan", "sorted", "hash"),
            why_not="a result may take {bound}",
            pushed=True,
        ),
        Algorithm(
            "low_latency",
            "Low-latency handshake join 4-6",
            "low_latency",
            homes,
            passing(None),
            shape="a chain of {workers}",
            automatic=(SCAN, INDEX),
            divides="divides both windows evenly",
            indexes="probes all",
        ),
        Algorithm(
            "grid",
            "DP-Join 4.3-4.4",
            "grid",
            rectangle,
            crossing,
            rectangular=True,
            shape="a {rows} x {columns} grid",
            automatic=(SCAN, INDEX),
            indexes="keeps {entries:.1f} entries per tuple",
        ),
        Algorithm(
            "hells",
            "HELLS-Join 4-5",
            "hells",
            engine=DEVICE,
            accesses=("scan",),
            scans="a device compares an arrival with the whole window, 32 tuples per word of its bitmap",
            alone=(
                "hells compares on one device, which divides the work itself",
                "is one device, which workers={workers} cannot divide; leave workers= out",
            ),
        ),
        Algorithm(
            "lockstep",
            "Handshake join 6, on an FPGA",
            "lockstep",
            chain,
            passing(1.0),
            engine=CIRCUIT,
            accesses=("scan",),
            scans="a join core compares what enters it with every tuple of its segment, one per cycle",
            shape="a chain of {workers} join cores under one clock",
            pushed=True,
            degree=cores_for,
            serves=chain_of,
        ),
    )
}
PARALLEL = tuple(row.name for row in ALGORITHMS.values() if row.engine == THREADS)
SEQUENTIAL = next(row.name for row in ALGORITHMS.values() if row.engine == INLINE)
RECTANGULAR = next(row.name for row in ALGORITHMS.values() if row.rectangular)
AUTO = "auto"
NAMES = (AUTO, *ALGORITHMS)  # what algorithm= takes
