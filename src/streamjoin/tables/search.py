"""The pairs of two sides in order: candidates by sweeps, a tree or tiles, then the exact test, on all cores."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
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
from streamjoin.tables.layout import Layout
from streamjoin.tables.sweep import Cursor, probe, scan
from streamjoin.tables.tasks import Task

LAST, OFFSET, STRICT, OTHERS, POSITION, INSIDE, COMPARED, FOUND, FULL = (
    Cursor.word(name)
    for name in ("last", "offset", "strict", "others", "position", "inside", "compared", "pairs", "full")
)
PAIRS = 1 << 16  # pairs of a thread until they are handed on, at least: few enough to stay in its cache
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


@dataclass
class Searcher:
    """One worker: its buffers, and the frame of the exact test."""

    work: Work
    found: Found
    frame: Array = field(init=False)
    comparisons: int = 0

    def __post_init__(self) -> None:
        r, s = self.work.tuples
        self._full = max(PAIRS, 2 * tasks.TILE[1])  # half of it takes what one r finds in a tile
        self._out = np.empty((2, self._full + 2 * LANES), np.uint32)
        self._fault = np.zeros(FAULT_WORDS, np.int64)
        cursors = Cursor.array(1)
        self._cursor, self._words = cursors[0], words_of(cursors)
        self.frame = frame = np.zeros(words.TEST_COLUMNS + len(r.columns) + len(s.columns), np.int64)
        frame[words.TEST_FAULT], frame[words.ROOM] = address(self._fault), self._full + LANES
        frame[words.OUT_R], frame[words.OUT_S] = (address(row) for row in self._out)
        frame[words.SINCE], frame[words.UNTIL] = address(r.window[0]), address(r.window[-1])
        frame[words.LOWER], frame[words.WIDTH] = self.work.lower, self.work.width
        frame[words.AT] = address(s.window[0])
        frame[words.TEST_COLUMNS :] = [address(column) for column in (*r.columns, *s.columns)]
        self._address = address(frame)

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
            yield self._tested()
        self.comparisons += (task.last - task.first) * (end - begin)

    def _sweep(self, task: Task) -> Iterator[int]:
        """The same with candidates by sorted keys."""
        layout, frame, cursor, (out_r, out_s) = self.work.layout, self.frame, self._cursor, self._out
        state = self._words  # of the cursor
        own, other, out, out_others = layout.r, layout.s, out_r, out_s
        if not task.of_r:
            own, other, out, out_others = layout.s, layout.r, out_s, out_r
        state[LAST], state[STRICT], state[OTHERS], state[COMPARED] = task.last, task.strict, len(other.side), 0
        state[FULL], tree = self._full, layout.tree
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
                yield self._tested()
        self.comparisons += state[COMPARED]

    def _tested(self) -> int:
        """Leaves the pairs that match in the buffer."""
        frame = self.frame
        frame[words.FIRST_PAIR] = pairs = int(self.work.test(self._address))
        if self._fault[0]:
            code, i, j = self._fault.tolist()
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


def search(work: Work, todo: list[Task], found: Found, crew: Crew) -> list[int]:
    """Hands on all pairs, task by task; returns how many candidates each of the tasks had."""
    rest, compared = deque(enumerate(todo)), [0] * len(todo)

    def run() -> None:
        searcher = Searcher(work, found)
        try:
            while rest:
                try:
                    number, task = rest.popleft()
                except IndexError:
                    break
                compared[number] = searcher.run(number, task)
        finally:
            rest.clear()  # whoever still works after a failure finds nothing more to do

    crew.each(run, [()] * min(crew.workers, max(len(todo), 1)))
    return compared
