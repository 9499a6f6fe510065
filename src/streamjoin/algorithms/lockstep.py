"""Handshake join in lock step: join cores in a chain under one clock, and the numbers that follow from its shape.

       ┌────────┐ ─▶ ┌────────┐ ─▶ ┌────────┐
 r ──▶ │ core 0 │    │ core 1 │    │ core n │ ◀── s       both streams move in the same step
       └────────┘ ◀─ └────────┘ ◀─ └────────┘
           ▽ results     ▽             ▽  ──▶ FIFOs, merging network ──▶ one result per cycle

Teubner and Mueller, SIGMOD 2011, section 6, and appendix A of the report. A step moves a stream by one tuple through
all cores at once; a core compares the tuple that entered it with its segment of the other stream, one comparison per
cycle and scanner. The rule that no pair is missed or met twice: *r moves first*. The r that enters a core is compared
with the segment of s as it was before the step, the s that enters with the segment of r as it is after it.
docs/algorithms/lockstep.md argues it.

`circuit/cycles.py` computes what happens in every cycle, `circuit/chain.py` is the same as hardware.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from streamjoin.errors import OptionError, WindowError

if TYPE_CHECKING:
    from streamjoin.windows.window import Window

SEGMENT = 8  # tuples of each stream per core, as in the paper's figure 18
MOST_CORES = 512
MOST_ROWS = 4096  # of a window: more than the cores of any current mid-sized chip hold
FAN = 4  # fan-out of the tree that starts all cores, fan-in of the tree of their throttle signals
SHORTEST_STEP = 3  # cycles: a tuple must have left a core before the next one leaves it
FETCH = 1  # cycles from a segment's address to its tuple
ENTER = 1  # cycles from the predicate's answer to the FIFO
NETWORKS = {"tree": (2, 2), "paper": (8, 16)}  # of the merging network: inputs of a merger, entries of its FIFO


def levels(count: int) -> int:
    """The depth of a tree of registers from one point to `count` points, in which each register feeds FAN others.

    >>> [levels(n) for n in (1, 4, 5, 16, 64, 200)]
    [0, 1, 2, 2, 3, 4]
    """
    depth, reached = 0, 1
    while reached < count:
        depth, reached = depth + 1, reached * FAN
    return depth


def cores_for(rows_r: float, rows_s: float) -> int:
    """The default number of cores for windows of these numbers of rows: one for eight tuples, as in the paper."""
    return max(1, min(-(-int(max(rows_r, rows_s)) // SEGMENT), int(min(rows_r, rows_s)), MOST_CORES))


@dataclass(frozen=True)
class Chain:
    """The shape of a chain, from which circuit, model and proof derive their numbers.

    >>> chain = Chain(cores=4, rows=(32, 32), stages=1)
    >>> chain.segments(0), chain.step(True, True), chain.margin(0), chain.depth
    ((8, 8, 8, 8), 8, 15, 32)
    """

    cores: int
    rows: tuple[int, int]  # of the windows of r and of s
    scanners: int = 2  # per core
    stages: int = 1  # cycles that the predicate takes
    network: str = "tree"
    entries: int = 0  # of a result FIFO; 0: as many as the margin wants
    expedited: bool = False  # every tuple visits all cores at once and stays at its home (low-latency handshake join)
    spare: int = 0  # added to the margin: for proofs that it cannot be smaller

    def segments(self, side: int) -> tuple[int, ...]:
        """By core: tuples of a side's window that it holds."""
        rows, n = self.rows[side], self.cores
        return tuple(-(-(rows - k) // n) for k in range(n))

    @cached_property
    def longest(self) -> tuple[int, int]:
        """The longest segment of r, and of s."""
        return self.segments(0)[0], self.segments(1)[0]

    def step(self, of_r: bool, of_s: bool) -> int:
        """Cycles from one step to the next, by the streams that move in it. The longest segments determine it."""
        if self.scanners == 2:
            return max(SHORTEST_STEP, *self.longest)
        return max(SHORTEST_STEP, of_r * self.longest[1] + of_s * self.longest[0])

    @property
    def down(self) -> int:
        """Cycles from the admission of a step to its start in all cores."""
        return max(1, levels(self.cores))

    @property
    def up(self) -> int:
        """Cycles from a core's throttle register to the admission."""
        return levels(self.cores)

    @property
    def leaves(self) -> int:
        """Result FIFOs: one per scanner."""
        return self.cores * self.scanners

    def scan(self, leaf: int) -> int:
        """The most results that one step puts into a FIFO."""
        r, s = self.longest
        return r + s if self.scanners == 1 else (s, r)[leaf % 2]

    def margin(self, leaf: int) -> int:
        """Free entries that a FIFO must have when a step is admitted, so that no result is ever lost.

        The admission knows the fill level of a FIFO as it was `blind` cycles before the step's first result. In the
        meantime, steps that were admitted earlier may add results: `scan` in each `step`, the newest one just before.
        Then the results of the step itself follow. With a smaller margin, `circuit/proof.py` finds a lost result.
        """
        scan, step = self.scan(leaf), self.step(True, True)
        whole, rest = divmod(self.blind, step)
        return scan + whole * scan + max(0, rest - (step - scan)) + self.spare

    @property
    def found_after(self) -> int:
        """Cycles from the address of a tuple to the write of its result into the FIFO."""
        return FETCH + self.stages + ENTER

    @property
    def blind(self) -> int:
        """Cycles: throttle register, its path up, the path of the start, the core's start, the first comparison."""
        return 1 + self.up + self.down + 1 + self.found_after

    @cached_property
    def depth(self) -> int:
        """Entries of a result FIFO: room for the margin and a step's results, as a power of two."""
        if self.entries:
            return self.entries
        return 1 << (max(self.margin(leaf) + self.scan(leaf) for leaf in (0, self.leaves - 1)) - 1).bit_length()

    @property
    def fan_in(self) -> int:
        return NETWORKS[self.network][0]

    @property
    def merger(self) -> int:
        """Entries of a merger's FIFO."""
        return NETWORKS[self.network][1]

    @cached_property
    def mergers(self) -> tuple[tuple[int, ...], ...]:
        """The merging network: the inputs of every merger, each a FIFO by number; leaves first, the root last."""
        found: list[tuple[int, ...]] = []
        row = list(range(self.leaves))
        while len(row) > 1:
            groups = [tuple(row[k : k + self.fan_in]) for k in range(0, len(row), self.fan_in)]
            row = []
            for group in groups:
                if len(group) == 1:  # nothing to merge with: it continues on the next level
                    row.append(group[0])
                else:
                    row.append(self.leaves + len(found))
                    found.append(group)
        return tuple(found)

    @property
    def bottleneck(self) -> float:
        """The selectivity from which the network, at one result per cycle, limits the chain."""
        return min(1.0, self.step(True, True) / sum(self.rows))


def chain_of(window: Window, cores: int) -> Chain:
    """The chain for a window. It is no longer than the smaller side's window: a core holds a tuple of each side."""
    retention = window.retention
    if not (window.by_rows and window.by_arrival) or retention is None:
        raise WindowError(
            f'the windows of algorithm="lockstep" are shift registers, within=sj.last(n), not {window.describe()}; use '
            'algorithm="handshake" for it'
        )
    rows = int(retention.r), int(retention.s)
    for side, count in zip("rs", rows, strict=True):
        if count > MOST_ROWS:
            raise WindowError(
                f"a window of the last {count:,} rows of {side} exceeds the {MOST_ROWS:,} rows that a chain of "
                'algorithm="lockstep" can hold on a chip; use algorithm="handshake" for it'
            )
    if cores > MOST_CORES:
        raise OptionError(f'workers={cores} is more than the {MOST_CORES} join cores of algorithm="lockstep"')
    return Chain(min(cores, *rows), rows)
