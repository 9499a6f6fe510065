"""How far a stream has come, and which of its tuples came too late."""

from __future__ import annotations

import numpy as np

from streamjoin.codegen.records import Array
from streamjoin.windows import FOREVER, SINCE_EVER
from streamjoin.windows.kernels import earliest, find_late


class Watermark:
    """The promise of one stream: no tuple below `value` will be joined any more."""

    def __init__(self, max_delay: int) -> None:
        self.max_delay = max_delay
        self.newest = SINCE_EVER
        self.promised = SINCE_EVER

    @property
    def value(self) -> int:
        """The earliest time that is not late."""
        return int(earliest(self.newest, self.max_delay, self.promised))

    @property
    def told(self) -> int | None:
        """The same for people: None before the first tuple and after the end."""
        return self.value if SINCE_EVER < self.value < FOREVER else None

    def late(self, times: Array) -> Array | None:
        """Which of the next tuples, in the order in which they come, are late; None if none is. Moves no mark."""
        late = np.empty(len(times), np.bool_)
        return late if find_late(times, self.newest, self.max_delay, self.promised, late) else None

    def advance(self, times: Array) -> None:
        """Takes note of tuples that have arrived."""
        if len(times):
            self.newest = max(self.newest, int(times.max()))

    def promise(self, time: int) -> None:
        """Takes the user's word that nothing below `time` follows."""
        self.promised = max(self.promised, time)

    def finish(self) -> None:
        """The stream has ended."""
        self.promised = FOREVER
