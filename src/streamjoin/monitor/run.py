"""A run that can be watched: its description, its samples so far, and how it ended.

One thread adds samples, any number of readers take them by number. Nothing here reaches back into the join.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from streamjoin.errors import FileError, cut

KEPT = 1_200  # samples that a page can still be shown when it is opened
RUNNING, ENDED, FAILED = "running", "ended", "failed"

Sample = dict[str, Any]  # see `streamjoin.monitor.samples`


@dataclass
class Run:
    """A description of a run."""

    title: str
    plan: str = ""  # in words
    topology: dict[str, Any] | None = None  # what is drawn; see `streamjoin.monitor.topology`
    unit: str | None = None  # of watermarks: "s", "ms", "us", "ns" since 1970; None if they are plain numbers or text
    state: str = RUNNING
    message: str = ""  # why it failed
    doing: str = ""  # what is being done
    recording: TextIO | None = None
    _samples: deque[tuple[int, Sample]] = field(default_factory=lambda: deque(maxlen=KEPT))
    _count: int = 0
    _part: int = -1  # of the run: a benchmark watches one join after the other
    _started: float = field(default_factory=time.monotonic)
    _since: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._record({"run": self.head()})

    def head(self) -> dict[str, Any]:
        """What a page shows in addition to the samples."""
        return {"title": self.title, "plan": self.plan, "topology": self.topology, "unit": self.unit}

    def describe(self, plan: str, topology: dict[str, Any] | None, unit: str | None = None) -> None:
        """Sets the plan, where it is known only after the start. Counters of later samples begin anew."""
        self.plan, self.topology, self.unit = plan, topology, unit
        self._part += 1
        self._record({"run": self.head()})

    def add(self, sample: Sample) -> None:
        """Takes a sample; `at` is the time since the start unless the sample has one."""
        if self.state != RUNNING:
            return
        sample = {"at": self._now(), "part": self._part, **sample}
        self._samples.append((self._count, sample))
        self._count += 1
        self._record({"sample": sample})

    def note(self, text: str) -> None:
        """Says what is being done."""
        if self.state == RUNNING and text != self.doing:
            self.doing, self._since = text, time.monotonic()
            self._record({"note": {"at": self._now(), "text": text}})

    def activity(self) -> dict[str, Any]:
        """What is being done, and for how many seconds."""
        return {"text": self.doing, "seconds": round(time.monotonic() - self._since, 1)}

    def _now(self) -> float:
        return round(time.monotonic() - self._started, 3)

    def end(self, error: BaseException | str | None = None) -> None:
        """Ends the run. Only the first call counts."""
        if self.state != RUNNING:
            return
        self.message = "" if error is None else str(error) or type(error).__name__
        self.state = ENDED if error is None else FAILED
        self._record({"end": self.outcome()})

    def outcome(self) -> dict[str, str]:
        return {"state": self.state, "message": self.message}

    def since(self, number: int) -> tuple[list[Sample], int]:
        """The samples from a number on that are still kept, and the number to ask for next."""
        kept = list(self._samples)
        following = kept[-1][0] + 1 if kept else number
        return [sample for k, sample in kept if k >= number], max(number, following)

    def _record(self, line: dict[str, Any]) -> None:
        if self.recording is not None:
            print(json.dumps(line, default=str), file=self.recording, flush=True)


def read_recording(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a recording: {"run": ...}, then {"sample": ...} and {"note": ...}, at last {"end": ...}."""
    with path.open(encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            try:
                line = json.loads(text)
            except ValueError:
                line = None
            if not isinstance(line, dict) or not line.keys() & {"run", "sample", "note", "end"}:
                raise FileError(
                    f"{path}, line {number}: {cut(text.strip())} is not a line of a recording; make one with --record"
                )
            yield line
