"""The pairs of two sides in order: candidates by sweeps, a tree or tiles, then the exact test, on all cores."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamjoin.codegen import pairs as words
from streamjoin.codegen.pairs import FULL, TROUBLE_WORDS, PairProgram
from streamjoin.codegen.records import Array, address
from streamjoin.intake.prepare import overflow
from streamjoin.plan.shape import SCAN, TREE, Shape
from streamjoin.tables.crew import Crew
from streamjoin.tables.gather import Tuples
from streamjoin.tables.layout import Layout
from streamjoin.tables.sweep import COMPARED, INSIDE, POSITION, probe, scan

RANGES = 1 << 14  # candidates' ranges between two tests
PAIRS = 1 << 17  # pairs of a thread until they are handed on
TASKS = 24  # for every worker: who has finished takes another one
LEAST = 1 << 12  # tuples that are worth a task
TILE = 1 << 11, 1 << 12  # tuples of r and of s that are compared with each other

Test = Any  # a program's test, from the address of a frame to FULL or DONE
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
        count = max(1, min(TASKS * crew.workers // len(rounds), n // LEAST)) if crew.workers > 1 else 1
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
    width: int  # of the window, if it is the same for all


@dataclass
class Searcher:
    """One worker: its buffers, and the frame of the exact test."""

    work: Work
    found: Found
    frame: Array = field(init=False)
    comparisons: int = 0

    def __post_init__(self) -> None:
        r, s = self.work.tuples
        self._ranges = np.empty((3, RANGES), np.uint32)
        self._out = np.empty((2, PAIRS), np.uint32)
        self._trouble = np.zeros(TROUBLE_WORDS, np.int64)
        self._places = np.empty(RANGES, np.int64)
        self._cursor = np.zeros(3, np.int64)
        self.frame = frame = np.zeros(words.TEST_COLUMNS + len(r.columns) + len(s.columns), np.int64)
        frame[words.TEST_TROUBLE], frame[words.ROOM] = address(self._trouble), PAIRS
        frame[words.STAYS], frame[words.FROM], frame[words.LENGTH] = (address(row) for row in self._ranges)
        frame[words.OUT_R], frame[words.OUT_S] = (address(row) for row in self._out)
        frame[words.SINCE], frame[words.UNTIL] = address(r.window[0]), address(r.window[-1])
        frame[words.WIDTH], frame[words.AT] = self.work.width, address(s.window[0])
        frame[words.TEST_COLUMNS :] = [address(column) for column in (*r.columns, *s.columns)]

    def run(self, number: int, task: Task) -> None:
        """All pairs of a task."""
        self.frame[words.OF_R] = int(task.of_r)
        for count in self._candidates(task):
            self._test(number, count)
        self._hand_on(number)

    def _candidates(self, task: Task) -> Iterator[int]:
        """Fills the ranges, again and again; yields how many there are."""
        stays, begin, length = self._ranges
        if task.others != (0, 0):
            count = task.last - task.first
            stays[:count] = np.arange(task.first, task.last)
            begin[:count], length[:count] = task.others[0], task.others[1] - task.others[0]
            self.comparisons += count * (task.others[1] - task.others[0])
            yield count
            return
        r, s, tree, cursor = self.work.layout.r, self.work.layout.s, self.work.layout.tree, self._cursor
        own, other = (r, s) if task.of_r else (s, r)
        cursor[POSITION], cursor[INSIDE], cursor[COMPARED] = task.first, -1, 0
        while cursor[POSITION] < task.last:
            if tree is not None:
                yield probe(
                    own.starts, own.ends, tree.limits, task.last, other.starts, tree.values, tree.levels, cursor,
                    self._places, stays, begin, length,
                )  # fmt: skip
            else:
                yield scan(
                    own.starts,
                    own.ends,
                    task.last,
                    other.starts,
                    task.offset,
                    task.strict,
                    cursor,
                    stays,
                    begin,
                    length,
                )
        self.comparisons += int(cursor[COMPARED])

    def _test(self, number: int, count: int) -> None:
        frame = self.frame
        frame[words.COUNT] = count
        while self.work.test(address(frame)) == FULL:
            self._hand_on(number)
        if self._trouble[0]:
            code, i, j = self._trouble.tolist()
            program, r, s = self.work.program, *self.work.tuples
            pair = {
                "r": (program.stored["r"], tuple(column[i] for column in r.columns)),
                "s": (program.stored["s"], tuple(column[j] for column in s.columns)),
            }
            raise overflow(program, code, pair)

    def _hand_on(self, number: int) -> None:
        count = int(self.frame[words.FOUND])
        if count:
            self.found(number, self._out[0, :count], self._out[1, :count])
            self.frame[words.FOUND] = 0


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
