"""The progress of both streams of a live join, and what follows from it."""

from __future__ import annotations

from streamjoin.engine import PerSide
from streamjoin.live.stream import Stream
from streamjoin.plan.plan import Plan
from streamjoin.results.stage import Snapshot
from streamjoin.windows import SINCE_EVER


class Progress:
    """The window's horizons, from the watermarks and counts of both sides."""

    def __init__(self, plan: Plan, streams: tuple[Stream, Stream], timely: bool) -> None:
        """`timely`: can tuples be late?"""
        self._window, self._streams, self.timely = plan.window, streams, timely

    def mark(self) -> int:
        """No tuple below this time follows on either side."""
        if not self.timely:
            return SINCE_EVER
        return min(stream.watermark.value for stream in self._streams)

    def horizons(self) -> PerSide:
        """By side: tuples below this `at` meet no further arrival."""
        return self._horizon(0), self._horizon(1)

    def _horizon(self, stored: int) -> int:
        side, window = 1 - stored, self._window
        stream = self._streams[side]
        at = stream.pushed if window.by_rows else stream.watermark.value
        opposite = self._streams[stored]
        return window.horizon(side, at, opposite.needed_from if window.carries else opposite.pushed)

    def snapshot(self, numbers: PerSide, ended: bool) -> Snapshot:
        """The input as it is now, with so many tuples that may match."""
        return Snapshot(numbers, self.mark(), self.horizons(), self.passed(), ended)

    def passed(self) -> PerSide:
        """By side: its tuples that are due below this wait no longer."""
        if self._window.by_rows:
            return self.horizons()
        return self._streams[1].watermark.value, self._streams[0].watermark.value
