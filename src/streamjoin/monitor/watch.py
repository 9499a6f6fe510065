"""`streamjoin.watch`: a page in the browser for a join that is running."""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from streamjoin.errors import FileError
from streamjoin.interrupts import Call, Thread, await_end, start
from streamjoin.monitor.address import Address, read_address
from streamjoin.monitor.run import RUNNING, Run, read_recording
from streamjoin.monitor.samples import of_join
from streamjoin.monitor.server import Server
from streamjoin.monitor.topology import drawn
from streamjoin.plan.explain import explained

if TYPE_CHECKING:
    from streamjoin.live.join import Join

EVERY = 0.5  # seconds between two samples


class Sampler:
    """Adds samples of a join to a run, from a thread of its own, until the join or the sampler ends."""

    def __init__(self, join: Join, run: Run, every: float = EVERY) -> None:
        self._join, self._run, self._every = join, run, every
        plan = join.plan
        words = str(explained(plan, lambda wanted: join.stats()["device"]))
        run.describe(words, drawn(plan.algorithm, plan.layout), plan.unit)
        self._over = False
        self._end = Call()
        self._thread = Thread(self._sample, "streamjoin-samples")
        start([self._thread])

    def _sample(self) -> None:
        join = self._join
        while not self._over and not join.closed and join.failure is None:
            self._run.add(of_join(join.stats()))
            self._end.wait(self._every)
        self._run.add(of_join(join.stats()))
        if join.failure is not None:
            self._run.end(join.failure)

    def close(self) -> None:
        """Takes a last sample and stops."""
        self._over = True
        self._end.ring()
        await_end([self._thread])


class Watch:
    """A join that is being watched. `url` is the page's address; `close`, or the end of a `with`, ends it."""

    def __init__(self, join: Join, address: Address, every: float, recording: TextIO | None) -> None:
        self.run = Run(f"{join.plan.algorithm}, access by {join.plan.access}", recording=recording)
        self._server = Server(self.run, address, join)
        self.url = self._server.url
        self._sampler = Sampler(join, self.run, every)

    def close(self) -> None:
        """Ends the page; the join continues."""
        self._sampler.close()
        self._server.close()
        if self.run.recording is not None:
            self.run.recording.close()

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _repr_html_(self) -> str:
        return f'<a href="{self.url}" target="_blank">{self.url}</a>'


def watch(join: Join, address: str = "", *, every: float = EVERY, record: str | Path | None = None) -> Watch:
    """Serves a page that shows a running join: rates, windows, latencies, workers and the plan.

    join      a `streamjoin.Join`
    address   "8080", "0.0.0.0:8080", or nothing for a free port on this machine alone; away from the loopback address
              the page's own address holds a random token
    every     seconds between two samples
    record    a file that gets every sample, for `streamjoin watch FILE`

    >>> import pyarrow as pa, streamjoin as sj
    >>> schema = pa.schema({"ts": pa.int64(), "x": pa.int32()})
    >>> with sj.Join(r=schema, s=schema, on="abs(r.x - s.x) <= 10", within=60, time="ts") as join:
    ...     with sj.watch(join) as page:
    ...         print(page.url.startswith("http://127.0.0.1:"))
    True
    """
    return Watch(join, read_address(address), every, None if record is None else open_recording(record))


def open_recording(path: str | Path) -> TextIO:
    """A new file for a recording."""
    try:
        return Path(path).open("w", encoding="utf-8")
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error.strerror}") from error


def replay(path: Path, run: Run, speed: float) -> None:
    """Adds the samples of a recording to a run at the original pace, or a multiple of it."""
    begun = None
    for line in read_recording(path):
        if "run" in line:
            run.title = f"{line['run'].get('title', '')} (recorded)"
            run.describe(line["run"].get("plan", ""), line["run"].get("topology"), line["run"].get("unit"))
        elif happened := line.get("sample") or line.get("note"):
            at = float(happened.get("at", 0.0)) / speed
            begun = time.monotonic() - at if begun is None else begun
            time.sleep(max(0.0, begun + at - time.monotonic()))
            if "note" in line:
                run.note(str(happened.get("text", "")))
            else:
                run.add(happened)
        if "end" in line:
            run.end(line["end"].get("message") or None)
    if run.state == RUNNING:
        run.end()
