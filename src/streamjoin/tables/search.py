"""The pairs of two sides in order: candidates by sweeps, a tree or tiles, then the exact test, on all cores."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamjoin.codegen import pairs as words
from streamjoin.codegen.pairs import TROUBLE_WORDS, PairProgram
from streamjoin.codegen.records import Array, address
from streamjoin.intake.prepare import overflow
from streamjoin.plan.shape import SCAN, TREE, Shape
from streamjoin.tables.crew import Crew
from streamjoin.tables.gather import Tuples
from streamjoin.tables.lanes import LANES
from streamjoin.tables.layout import Layout
from streamjoin.tables.sweep import Cursor, probe, scan

PAIRS = 1 << 16  # pairs of a thread until they are handed on: few enough to stay in its cache
TASKS = 24  # for every worker: who has finished takes another one
LEAST = 1 << 12  # tuples that are worth a task, or
WORTH = 1 << 15  # candidates
TILE = 1 << 11, 1 << 12  # tuples of r and of s that are compared with each other

Test = Any  # a program's test, from the address of a frame to the number of pairs
Found = Callable[[int, Array, Array], None]  # task, positions of r and s


@dataclass(frozen=True)
class Task:
    """Positions first..last-1 of one side, to be met with the other."""

    of_r: bool  # whose positions they are
    first: int
    last: int
    offset: int = 0
    strict: int = 0
    others: tuple[int, int] = (0, 0)  # of a tile


def tasks(shape: Shape, layout: Layout, points: tuple[bool, bool], crew: Crew) -> list[Task]:
    """The whole search in parts. `points`: whose intervals have no length on the axis that is swept."""
    if shape.kind == SCAN:
        return list(_tiles(len(layout.r.side), len(layout.s.side)))
    passes = [(True, 0)]
    if shape.kind != TREE and not points[1]:
        passes = [(False, 0)] if points[0] else [(True, 0), (False, 1)]
    rounds = [(of_r, strict, offset) for of_r, strict in passes for offset in layout.offsets]
    found = []
    for of_r, strict, offset in rounds:
        n = len((layout.r if of_r else layout.s).side)
        worth = max(n // LEAST, int(min(shape.candidates / len(rounds) / WORTH, n)))
        count = max(1, min(TASKS * crew.workers // len(rounds), worth)) if crew.workers > 1 else 1
        for k in range(count):
            found.append(Task(of_r, n * k // count, n * (k + 1) // count, offset if of_r else -offset, strict))
    return found


def _tiles(n_r: int, n_s: int) -> Iterator[Task]:
    for first in range(0, n_r, TILE[0]):
        for begin in range(0, n_s, TILE[1]):
            yield Task(True, first, min(first + TILE[0], n_r), others=(begin, min(begin + TILE[1], n_s)))


@dataclass(frozen=True)
class Work:
    """What is searched, and how candidates are tested."""

    program: PairProgram
    test: Test
    layout: Layout
    tuples: tuple[Tuples, Tuples]
    lower: int  # of the window, if it is the same for all: from where on, and how wide
    width: int


@dataclass
class Searcher:
    """One worker: its buffers, and the frame of the exact test."""

    work: Work
    found: Found
    frame: Array = field(init=False)
    comparisons: int = 0

    def __post_init__(self) -> None:
        r, s = self.work.tuples
        self._out = np.empty((2, PAIRS + 2 * LANES), np.uint32)
        self._trouble = np.zeros(TROUBLE_WORDS, np.int64)
        self._cursor = Cursor.new()
        self.frame = frame = np.zeros(words.TEST_COLUMNS + len(r.columns) + len(s.columns), np.int64)
        frame[words.TEST_TROUBLE], frame[words.ROOM] = address(self._trouble), PAIRS + LANES
        frame[words.OUT_R], frame[words.OUT_S] = (address(row) for row in self._out)
        frame[words.SINCE], frame[words.UNTIL] = address(r.window[0]), address(r.window[-1])
        frame[words.LOWER], frame[words.WIDTH] = self.work.lower, self.work.width
        frame[words.AT] = address(s.window[0])
        frame[words.TEST_COLUMNS :] = [address(column) for column in (*r.columns, *s.columns)]

    def run(self, number: int, task: Task) -> None:
        """All pairs of a task."""
        pairs, find = 0, self._meet if task.others != (0, 0) else self._sweep
        for pairs in find(task):
            if 2 * pairs > PAIRS:
                self._hand_on(number, pairs)
                self.frame[words.FIRST_PAIR] = pairs = 0
        self._hand_on(number, pairs)
        self.frame[words.FIRST_PAIR] = 0

    def _meet(self, task: Task) -> Iterator[int]:
        """All tuples of a tile with each other; yields how many pairs are in the buffer, again and again."""
        frame, (begin, end) = self.frame, task.others
        frame[words.FROM_R], frame[words.TO_R] = task.first, task.last
        frame[words.FROM_S], frame[words.TO_S] = begin, end
        while frame[words.FROM_R] < task.last:
            yield self._tested()
        self.comparisons += (task.last - task.first) * (end - begin)

    def _sweep(self, task: Task) -> Iterator[int]:
        """The same with candidates by sorted keys."""
        layout, frame, cursor, (out_r, out_s) = self.work.layout, self.frame, self._cursor, self._out
        own, other, out, out_others = layout.r, layout.s, out_r, out_s
        if not task.of_r:
            own, other, out, out_others = layout.s, layout.r, out_s, out_r
        cursor.position, cursor.last, cursor.inside, cursor.compared = task.first, task.last, -1, 0
        cursor.offset, cursor.strict, cursor.others = task.offset, task.strict, len(other.side)
        cursor.full, tree = PAIRS, layout.tree
        while cursor.position < task.last:
            cursor.pairs = frame[words.FIRST_PAIR]
            if tree is None:
                scan(own.starts, own.ends, other.starts, cursor, out, out_others)
            else:
                keys = own.starts, own.ends, other.starts
                probe(*keys, cursor, tree.values, tree.levels, tree.behind, tree.limits, out, out_others)
            frame[words.PAIRS_END] = cursor.pairs
            yield self._tested()
        self.comparisons += int(cursor.compared)

    def _tested(self) -> int:
        """Leaves the pairs that match in the buffer."""
        frame = self.frame
        frame[words.FIRST_PAIR] = pairs = int(self.work.test(address(frame)))
        if self._trouble[0]:
            code, i, j = self._trouble.tolist()
            program, r, s = self.work.program, *self.work.tuples
            pair = {
                "r": (program.stored["r"], tuple(column[i] for column in r.columns)),
                "s": (program.stored["s"], tuple(column[j] for column in s.columns)),
            }
            raise overflow(program, code, pair)
        return pairs

    def _hand_on(self, number: int, pairs: int) -> None:
        if pairs:
            self.found(number, self._out[0, :pairs], self._out[1, :pairs])


def search(work: Work, todo: list[Task], found: Found, crew: Crew) -> int:
    """Hands on all pairs, task by task; returns how many candidates there were."""
    rest = deque(enumerate(todo))

    def run() -> int:
        searcher = Searcher(work, found)
        while rest:
            try:
                number, task = rest.popleft()
            except IndexError:
                break
            searcher.run(number, task)
        return searcher.comparisons

    try:
        return sum(crew.each(run, [()] * min(crew.workers, max(len(todo), 1))))
    finally:
        rest.clear()  # whoever still works after an interruption finds nothing more to do
