"""How far a stream has come, and which of its tuples came too late."""

from __future__ import annotations

import numpy as np

from streamjoin.codegen.records import Array, Record, Word, address
from streamjoin.windows import FOREVER, SINCE_EVER
from streamjoin.windows.kernels import earliest, find_late


class Mark(Record):
    """How far a stream has come, for compiled code."""

    newest: Word  # the latest time so far
    promised: Word  # nothing below follows, says the user
    max_delay: Word


class Watermark:
    """The promise of one stream: no tuple below `value` will be joined any more."""

    def __init__(self, max_delay: int) -> None:
        self.record = Mark.new()
        self.address = address(self.record)
        self.record.newest = self.record.promised = SINCE_EVER
        self.record.max_delay = max_delay

    @property
    def newest(self) -> int:
        """The latest time so far."""
        return int(self.record.newest)

    @property
    def promised(self) -> int:
        """What the user has promised: nothing below follows."""
        return int(self.record.promised)

    @property
    def value(self) -> int:
        """The earliest time that is not late."""
        return int(earliest(self.record.newest, self.record.max_delay, self.record.promised))

    @property
    def told(self) -> int | None:
        """The same for people: None before the first tuple and after the end."""
        return self.value if SINCE_EVER < self.value < FOREVER else None

    def late(self, times: Array) -> Array | None:
        """Which of the next tuples, in the order in which they come, are late; None if none is. Moves no mark."""
        late, record = np.empty(len(times), np.bool_), self.record
        return late if find_late(times, record.newest, record.max_delay, record.promised, late) else None

    def advance(self, times: Array) -> None:
        """Takes note of tuples that have arrived."""
        if len(times):
            self.reach(int(times.max()))

    def reach(self, time: int) -> None:
        """A tuple of this time has arrived."""
        self.record.newest = max(self.newest, time)

    def promise(self, time: int) -> None:
        """Takes the user's word that nothing below `time` follows."""
        self.record.promised = max(self.promised, time)

    def finish(self) -> None:
        """The stream has ended."""
        self.record.promised = FOREVER
