"""Tuples whose result is not known yet: until when each waits, and which of them are decided."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamjoin.codegen.records import Array
from streamjoin.windows import FOREVER

BLOCK = 1 << 10  # tuples for which the earliest end is kept
FAR = 4  # gap, in blocks, from which on due blocks are processed separately
NOTHING = np.zeros(0, np.int64)


class Soon:
    """Numbers of tuples in the order in which they are due: most of them sorted, the latest ones not yet."""

    def __init__(self) -> None:
        self._due, self._numbers = NOTHING, NOTHING
        self._fresh: list[tuple[Array, Array]] = []
        self._count = 0  # of what is fresh
        self._soonest = FOREVER  # nothing fresh is due below this

    def add(self, due: Array, numbers: Array) -> None:
        if len(due):
            self._fresh.append((due, numbers))
            self._count += len(due)
            self._soonest = min(self._soonest, int(due.min()))

    def some_below(self, passed: int) -> bool:
        """May something be due below this?"""
        return self._soonest < passed or bool(len(self._due) and self._due[0] < passed)

    def below(self, passed: int) -> tuple[Array, Array]:
        """Removes the tuples that are due below `passed`."""
        found = []
        if self._soonest < passed:
            due, numbers = (np.concatenate(parts) for parts in zip(*self._fresh, strict=True))
            now = due < passed
            found.append((due[now], numbers[now]))
            self._keep(due[~now], numbers[~now])
        if end := int(np.searchsorted(self._due, passed)):
            found.append((self._due[:end], self._numbers[:end]))
            self._due, self._numbers = self._due[end:], self._numbers[end:]
        if not found:
            return NOTHING, NOTHING
        due, numbers = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return due, numbers

    def _keep(self, due: Array, numbers: Array) -> None:
        """The rest of what is fresh; sorted with the others when it is worth it."""
        self._fresh, self._count, self._soonest = [], 0, FOREVER
        self.add(due, numbers)
        if self._count > max(BLOCK, len(self._due) // 4):
            due, numbers = np.concatenate([self._due, due]), np.concatenate([self._numbers, numbers])
            order = np.argsort(due, kind="stable")
            self._due, self._numbers = due[order], numbers[order]
            self._fresh, self._count, self._soonest = [], 0, FOREVER


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
        self._hastened = Soon()  # tuples that may be due before their block's earliest end
        self.first = 0  # number of the first tuple that is kept, which begins a block
        self.next = 0

    def __getitem__(self, name: str) -> Array:
        """A column, by position."""
        return self._columns[name]

    @property
    def held(self) -> int:
        """The number of open tuples without a partner."""
        return int(np.count_nonzero(self._columns["open"] & ~self._columns["met"]))

    def append(self, due: Array, time: Array, **more: Array) -> None:
        """Adds the next tuples."""
        if not len(due):
            return
        begin, end = self.next - self.first, self.next - self.first + len(due)
        self._make_room(end)
        for name, value in (("due", due), ("time", time), ("open", True), *more.items()):
            self._columns[name][begin:end] = value
        self.next += len(due)
        blocks = slice(begin // BLOCK, (end - 1) // BLOCK + 1)
        starts = np.maximum(np.arange(blocks.start, blocks.stop) * BLOCK, begin) - begin
        for known, values in ((self._low, due), (self._early, time)):
            np.minimum(known[blocks], np.minimum.reduceat(values, starts), out=known[blocks])
        self._left[blocks] += np.diff(starts, append=len(due))

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

    def meet(self, numbers: Array) -> None:
        """Tuples with these numbers have a partner."""
        self._columns["met"][numbers - self.first] = True

    def hasten(self, at: Array, due: Array) -> None:
        """Tuples at these positions are due earlier than was known. They are few, and lie in many blocks."""
        self._columns["due"][at] = due
        self._hastened.add(due, at + self.first)

    def due(self, passed: int) -> bool:
        """May one that is open be due below this?"""
        return bool(self._low.min() < passed) or self._hastened.some_below(passed)

    def decide(self, passed: int, below: int, ended: bool) -> Array:
        """The positions of tuples below a number that are due; of all open ones if the streams have ended."""
        early = self._decide_hastened(passed, below, ended)
        low = self._low[: -(-(self.next - self.first) // BLOCK)]
        blocks = np.flatnonzero(self._left[: len(low)] > 0) if ended else np.flatnonzero(low < passed)
        if not len(blocks):
            return early
        runs = np.split(blocks, np.flatnonzero(np.diff(blocks) > FAR) + 1)
        found = [self._decide(int(run[0]), int(run[-1]) + 1, passed, below, ended) for run in runs]
        return found[0] if len(found) == 1 and not len(early) else np.concatenate([early, *found])

    def _decide_hastened(self, passed: int, below: int, ended: bool) -> Array:
        """The same among those that were hastened; in the end all others come with them."""
        due, numbers = self._hastened.below(FOREVER if ended else passed)
        if ended or not len(numbers):
            return NOTHING
        early = numbers >= below
        if early.any():
            self._hastened.add(due[early], numbers[early])
            numbers = numbers[~early]
        at: Array = np.sort(numbers[numbers >= self.first]) - self.first
        at = at[self._columns["open"][at] & (np.diff(at, prepend=-1) > 0)]  # each of them once
        self._columns["open"][at] = False
        self._left -= np.bincount(at // BLOCK, minlength=len(self._left))
        return at

    def _decide(self, first: int, stop: int, passed: int, below: int, ended: bool) -> Array:
        """The same in neighbouring blocks."""
        begin, end = first * BLOCK, stop * BLOCK
        due, waiting = self._columns["due"][begin:end], self._columns["open"][begin:end]
        now = waiting.copy() if ended else waiting & (due < passed)
        now[max(below - self.first - begin, 0) :] = False
        waiting &= ~now
        part, starts = slice(first, stop), np.arange(0, end - begin, BLOCK)
        self._low[part] = np.minimum.reduceat(np.where(waiting, due, FOREVER), starts)
        self._left[part] = np.add.reduceat(waiting, starts, dtype=np.int64)
        return np.flatnonzero(now) + begin

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
        whole = (min(number, self.next) - self.first) // BLOCK
        waiting = np.flatnonzero(self._left[:whole])
        gone = int(waiting[0]) if len(waiting) else whole
        kept = -(-(self.next - self.first) // BLOCK) - gone
        if gone <= max(4, kept):
            return
        room = 2 * max(kept, 1)
        for name, old in self._columns.items():
            self._columns[name] = _longer(old[gone * BLOCK : (gone + kept) * BLOCK], room * BLOCK, self._fill[name])
        self._resize(slice(gone, gone + kept), room)
        self.first += gone * BLOCK

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._columns.values())


def _longer(old: Array, length: int, fill: Any) -> Array:
    new = np.full((length, *old.shape[1:]), fill, old.dtype)
    new[: len(old)] = old
    return new
