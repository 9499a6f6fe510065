"""The pairs of two sides in order: candidates by sweeps, a tree or tiles, then the exact test, on all cores."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamjoin.codegen import pairs as words
from streamjoin.codegen.pairs import FAULT_WORDS, PairProgram
from streamjoin.codegen.records import Array, address
from streamjoin.codegen.records import words as words_of
from streamjoin.intake.prepare import overflow
from streamjoin.tables import tasks
from streamjoin.tables.crew import Crew
from streamjoin.tables.gather import Tuples
from streamjoin.tables.lanes import LANES
from streamjoin.tables.layout import Layout, Sorted
from streamjoin.tables.sweep import Cursor, probe, ranges, scan
from streamjoin.tables.tasks import Task

LAST, OFFSET, STRICT, OTHERS, POSITION, INSIDE, COMPARED, FOUND, FULL = (
    Cursor.word(name)
    for name in ("last", "offset", "strict", "others", "position", "inside", "compared", "pairs", "full")
)
PAIRS = 1 << 16  # pairs of a thread until they are handed on, at least: few enough to stay in its cache
RANGES = 1 << 14  # of candidates that are found before they are tested
Test = Any  # a program's test, from the address of a frame to the number of pairs
Found = Callable[[int, Array, Array], None]  # task, positions of r and s


@dataclass(frozen=True)
class Work:
    """What is searched, and how candidates are tested."""

    program: PairProgram
    test: Test
    layout: Layout
    tuples: tuple[Tuples, Tuples]
    lower: int  # of the window, if it is the same for all: from where on, and how wide
    width: int


class Tester:
    """The exact test of one worker, and its frame."""

    def __init__(self, work: Work, room: int) -> None:
        r, s = work.tuples
        self.work, self.comparisons = work, 0
        self._room, self._out = room, np.empty((2, room), np.uint32)
        self._fault, cursors = np.zeros(FAULT_WORDS, np.int64), Cursor.array(1)
        self._cursor, self._words = cursors[0], words_of(cursors)
        self.frame = frame = np.zeros(words.TEST_COLUMNS + len(r.columns) + len(s.columns), np.int64)
        frame[words.TEST_FAULT], frame[words.ROOM] = address(self._fault), room
        frame[words.OUT_R], frame[words.OUT_S] = (address(row) for row in self._out)
        frame[words.SINCE], frame[words.UNTIL] = address(r.window[0]), address(r.window[-1])
        frame[words.LOWER], frame[words.WIDTH] = work.lower, work.width
        frame[words.AT] = address(s.window[0])
        frame[words.TEST_COLUMNS :] = [address(column) for column in (*r.columns, *s.columns)]
        self._address = address(frame)

    def _sides(self, task: Task) -> tuple[Sorted, Sorted]:
        """The side whose positions a task has, and the other one; the cursor is ready to pass over them."""
        layout, state = self.work.layout, self._words
        own, other = (layout.r, layout.s) if task.of_r else (layout.s, layout.r)
        state[LAST], state[STRICT], state[OTHERS], state[COMPARED] = task.last, task.strict, len(other.side), 0
        return own, other

    def _tested(self, test: Test) -> int:
        """What the test returns; raises if it found a fault."""
        found = int(test(self._address))
        if self._fault[0]:
            code, i, j = self._fault.tolist()
            program, r, s = self.work.program, *self.work.tuples
            pair = {
                "r": (program.stored["r"], tuple(column[i] for column in r.columns)),
                "s": (program.stored["s"], tuple(column[j] for column in s.columns)),
            }
            raise overflow(program, code, pair)
        return found


class Searcher(Tester):
    """A worker that passes on pairs."""

    def __init__(self, work: Work, found: Found) -> None:
        self._found = found
        self._full = max(PAIRS, 2 * tasks.TILE[1])  # half of it takes what one r finds in a tile
        super().__init__(work, self._full + LANES)

    def run(self, number: int, task: Task) -> int:
        """All pairs of a task; returns how many candidates there were."""
        self.comparisons = 0
        pairs, find = 0, self._meet if task.others != (0, 0) else self._sweep
        for pairs in find(task):
            if 2 * pairs > self._full:
                self._hand_on(number, pairs)
                self.frame[words.FIRST_PAIR] = pairs = 0
        self._hand_on(number, pairs)
        self.frame[words.FIRST_PAIR] = 0
        return self.comparisons

    def _meet(self, task: Task) -> Iterator[int]:
        """All tuples of a tile with each other; yields how many pairs are in the buffer, again and again."""
        frame, (begin, end) = self.frame, task.others
        frame[words.FROM_R], frame[words.TO_R] = task.first, task.last
        frame[words.FROM_S], frame[words.TO_S] = begin, end
        while frame[words.FROM_R] < task.last:
            yield self._matching()
        self.comparisons += (task.last - task.first) * (end - begin)

    def _sweep(self, task: Task) -> Iterator[int]:
        """The same with candidates by sorted keys."""
        frame, cursor, tree, (own, other) = self.frame, self._cursor, self.work.layout.tree, self._sides(task)
        state = self._words  # of the cursor
        out, out_others = self._out if task.of_r else self._out[::-1]
        state[FULL] = self._full
        for offset in task.offsets:
            state[POSITION], state[INSIDE], state[OFFSET] = task.first, -1, offset
            while state[POSITION] < task.last:
                state[FOUND] = frame[words.FIRST_PAIR]
                if tree is None:
                    scan(own.starts, own.ends, other.starts, cursor, out, out_others)
                else:
                    keys = own.starts, own.ends, other.starts
                    probe(*keys, cursor, tree.values, tree.levels, tree.behind, tree.limits, out, out_others)
                frame[words.PAIRS_END] = state[FOUND]
                yield self._matching()
        self.comparisons += state[COMPARED]

    def _matching(self) -> int:
        """Leaves the pairs that match in the buffer."""
        self.frame[words.FIRST_PAIR] = pairs = self._tested(self.work.test)
        return pairs

    def _hand_on(self, number: int, pairs: int) -> None:
        if pairs:
            self._found(number, self._out[0, :pairs], self._out[1, :pairs])


class Counter(Tester):
    """A worker that counts the partners of every r as it finds them: from ranges of the other side instead of pairs."""

    def __init__(self, work: Work, tests: Mapping[bool, Test], counts: Array) -> None:
        super().__init__(work, RANGES)
        self._tests = tests  # by whether tuples of r have ranges of s, or the other way round
        self.frame[words.COUNTS] = address(counts)

    def run(self, number: int, task: Task) -> int:
        """Adds up all partners of a task; returns how many candidates there were."""
        cursor, state = self._cursor, self._words
        if task.others != (0, 0):
            self._out[0], self._out[1] = task.others
            for first in range(task.first, task.last, RANGES):
                self._count(task, first, min(first + RANGES, task.last))
            return (task.last - task.first) * (task.others[1] - task.others[0])
        own, other = self._sides(task)
        for offset in task.offsets:
            state[LAST], state[POSITION], state[OFFSET] = task.last, task.first, offset
            while state[POSITION] < state[LAST]:
                first = state[POSITION]
                ranges(own.starts, own.ends, other.starts, cursor, *self._out)
                self._count(task, first, state[POSITION])
        return state[COMPARED]

    def _count(self, task: Task, first: int, last: int) -> None:
        self.frame[words.FROM_R], self.frame[words.TO_R] = first, last
        self._tested(self._tests[task.of_r])


def search(todo: list[Task], make: Callable[[], Searcher | Counter], crew: Crew) -> list[int]:
    """Runs all tasks with workers made by this function; returns the number of candidates of each task."""
    rest, compared = deque(enumerate(todo)), [0] * len(todo)

    def run() -> None:
        worker = make()
        try:
            while rest:
                try:
                    number, task = rest.popleft()
                except IndexError:
                    break
                compared[number] = worker.run(number, task)
        finally:
            rest.clear()  # after a failure, workers that are still running find no more tasks

    crew.each(run, [()] * min(crew.workers, max(len(todo), 1)))
    return compared
