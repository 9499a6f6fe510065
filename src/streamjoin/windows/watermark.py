"""The progress of a stream's time, and which of its tuples are late."""

from __future__ import annotations

import numpy as np

from streamjoin.codegen.records import Array, Record, Word, address, words
from streamjoin.windows import FOREVER, SINCE_EVER
from streamjoin.windows.kernels import earliest, find_late


class Mark(Record):
    """The progress of a stream's time, for compiled code."""

    newest: Word  # the latest time so far
    promised: Word  # the user's promise: nothing below this time follows
    max_delay: Word


NEWEST, PROMISED, MAX_DELAY = (Mark.word(name) for name in ("newest", "promised", "max_delay"))


class Watermark:
    """The promise of one stream: no tuple below `value` will be joined any more."""

    def __init__(self, max_delay: int) -> None:
        record = Mark.array(1)
        self.address, self._words = address(record), words(record)
        self._words[NEWEST], self._words[PROMISED], self._words[MAX_DELAY] = SINCE_EVER, SINCE_EVER, max_delay

    @property
    def newest(self) -> int:
        """The latest time so far."""
        return self._words[NEWEST]

    @property
    def promised(self) -> int:
        """The user's promise: nothing below this time follows."""
        return self._words[PROMISED]

    @property
    def value(self) -> int:
        """The earliest time that is not late."""
        known = self._words
        found: int = earliest.py_func(known[NEWEST], known[MAX_DELAY], known[PROMISED])  # asked for in every push
        return found

    @property
    def told(self) -> int | None:
        """The same as it is shown: None before the first tuple and after the end."""
        return self.value if SINCE_EVER < self.value < FOREVER else None

    def late(self, times: Array) -> Array | None:
        """Which of the next tuples, in order of arrival, are late; None if none is. Changes nothing."""
        late, known = np.empty(len(times), np.bool_), self._words
        return late if find_late(times, known[NEWEST], known[MAX_DELAY], known[PROMISED], late) else None

    def advance(self, times: Array) -> None:
        """Tuples have arrived at these times."""
        if len(times):
            self.advance_to(int(times.max()))

    def advance_to(self, time: int) -> None:
        """A tuple of this time has arrived."""
        self._words[NEWEST] = max(self.newest, time)

    def promise(self, time: int) -> None:
        """The user promises that nothing below `time` follows."""
        self._words[PROMISED] = max(self.promised, time)

    def finish(self) -> None:
        """The stream has ended."""
        self._words[PROMISED] = FOREVER
