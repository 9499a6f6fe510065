"""Tuples whose result is not known yet: until when each waits, and which of them are decided."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamjoin.codegen.records import Array, address, words
from streamjoin.results.undecided_kernels import Entry, Waitlist, append, decide
from streamjoin.windows import FOREVER

BLOCK = 1 << 10  # tuples for which the earliest end is kept
ROOM = 1 << 12  # tuples that are decided by one call of compiled code
NOTHING = np.zeros(0, np.int64)
FIRST, NEXT, SOONEST, HASTENED, COUNT, ENDS, TIMES, PASSED, BELOW, ENDED = (
    Waitlist.word(name)
    for name in ("first", "next", "soonest", "hastened", "count", "ends", "times", "passed", "below", "ended")
)


class Undecided:
    """Tuples of one stream by number: when each is due (what the input must have passed), the time of its result.

    There may be further columns by number, for the stage. Decided tuples are dropped block by block. Positions count
    from tuple `first` on. A tuple is open until it is decided.
    """

    def __init__(self, **more: tuple[Any, Any]) -> None:
        """`more`: further columns, by name: type and first value."""
        own: dict[str, tuple[Any, Any]] = {
            "due": (np.int64, FOREVER),
            "time": (np.int64, FOREVER),
            "open": (np.bool_, False),
            "met": (np.bool_, False),
        }
        self._fill = {name: value for name, (_, value) in (own | more).items()}
        types = {name: dtype for name, (dtype, _) in (own | more).items()}
        self._columns = {name: np.full(BLOCK, self._fill[name], dtype) for name, dtype in types.items()}
        self._low = np.full(1, FOREVER)  # by block: no open tuple is due below this
        self._early = np.full(1, FOREVER)  # by block: no open tuple has a time below this
        self._left = np.zeros(1, np.int64)  # by block: how many are open
        self._heap = Entry.array(0)  # tuples that may be due before their block's earliest end
        self._found = np.empty(ROOM, np.int64)
        records = Waitlist.array(1)
        self._record, self._words, self.address = records[0], words(records), address(records)
        self._record.block, self._words[SOONEST] = BLOCK, FOREVER
        self._record.found, self._record.room = address(self._found), ROOM
        self._append, self._decide = append.compiled, decide.compiled
        self._moved()

    def _moved(self) -> None:
        """Compiled code must know where the arrays are."""
        columns, record = self._columns, self._record
        record.due, record.time, record.open = (address(columns[name]) for name in ("due", "time", "open"))
        record.low, record.early, record.left = address(self._low), address(self._early), address(self._left)

    def __getitem__(self, name: str) -> Array:
        """A column, by position."""
        return self._columns[name]

    @property
    def first(self) -> int:
        """The number of the first tuple that is kept, which begins a block."""
        return self._words[FIRST]

    @property
    def next(self) -> int:
        return self._words[NEXT]

    @property
    def held(self) -> int:
        """The number of open tuples without a partner."""
        return int(np.count_nonzero(self._columns["open"] & ~self._columns["met"]))

    def append(self, due: Array, time: Array, **more: Array) -> None:
        """Adds the next tuples."""
        count, known = len(due), self._words
        if not count:
            return
        begin = known[NEXT] - known[FIRST]
        self._make_room(begin + count)
        for name, value in more.items():
            self._columns[name][begin : begin + count] = value
        due, time = np.ascontiguousarray(due, np.int64), np.ascontiguousarray(time, np.int64)
        known[COUNT], known[ENDS], known[TIMES] = count, address(due), address(time)
        self._append(self.address)

    def _make_room(self, end: int) -> None:
        room = len(self._low) * BLOCK
        if end <= room:
            return
        blocks = 2 * (-(-end // BLOCK))
        for name, old in self._columns.items():
            self._columns[name] = _longer(old, blocks * BLOCK, self._fill[name])
        self._resize(slice(None), blocks)

    def _resize(self, kept: slice, blocks: int) -> None:
        self._low = _longer(self._low[kept], blocks, FOREVER)
        self._early = _longer(self._early[kept], blocks, FOREVER)
        self._left = _longer(self._left[kept], blocks, 0)
        self._moved()

    def meet(self, numbers: Array) -> None:
        """Tuples with these numbers have a partner."""
        self._columns["met"][numbers - self.first] = True

    def expect(self, count: int) -> None:
        """Makes room for so many tuples to be hastened."""
        used = self._words[HASTENED]
        if used + count > len(self._heap):
            heap = Entry.array(2 * (used + count))
            heap[:used] = self._heap[:used]
            self._heap, self._record.heap = heap, address(heap)

    def due(self, passed: int) -> bool:
        """May one that is open be due below this?"""
        return self._words[SOONEST] < passed

    def decide(self, passed: int, below: int, ended: bool) -> Array:
        """The positions of tuples below a number that are due; of all open ones if the streams have ended."""
        known = self._words
        known[PASSED], known[BELOW], known[ENDED] = passed, below, ended
        found = []
        while count := self._decide(self.address):
            found.append(self._found[:count].copy())
            if count < ROOM:
                break
        return np.concatenate(found) if len(found) > 1 else found[0] if found else NOTHING

    def earliest(self) -> int:
        """The smallest time among open tuples without a partner."""
        while True:
            block = int(np.argmin(self._early))
            part = slice(block * BLOCK, (block + 1) * BLOCK)
            alone = self._columns["open"][part] & ~self._columns["met"][part]
            known = int(np.min(self._columns["time"][part], where=alone, initial=FOREVER))
            if known <= self._early[block]:
                return known
            self._early[block] = known

    def forget(self, number: int) -> None:
        """Decided tuples below a number are needed no more."""
        whole, blocks = (min(number, self.next) - self.first) // BLOCK, -(-(self.next - self.first) // BLOCK)
        if whole <= max(4, blocks - whole):  # too few, even if all of them are decided
            return
        waiting = np.flatnonzero(self._left[:whole])
        gone = int(waiting[0]) if len(waiting) else whole
        kept = blocks - gone
        if gone <= max(4, kept):
            return
        room = 2 * max(kept, 1)
        for name, old in self._columns.items():
            self._columns[name] = _longer(old[gone * BLOCK : (gone + kept) * BLOCK], room * BLOCK, self._fill[name])
        self._words[FIRST] += gone * BLOCK
        self._resize(slice(gone, gone + kept), room)


def _longer(old: Array, length: int, fill: Any) -> Array:
    new = np.full((length, *old.shape[1:]), fill, old.dtype)
    new[: len(old)] = old
    return new
