"""Results of a live join as Python programs read them: in loops, in asynchronous loops, as whole tables."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from importlib import import_module
from typing import Any

import pyarrow as pa

from streamjoin.plan.explain import html_table
from streamjoin.results.output import Punctuation

WAIT = 0.05  # seconds that a loop waits for results before it looks whether the join has ended
NAPS = (0.0, 0.001, 0.01)  # seconds that an asynchronous loop sleeps between polls without results; the last repeats


class Reading(ABC):
    """A join whose results can be polled for."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The schema of the results."""

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Has close() completed?"""

    @abstractmethod
    def poll(self, timeout: float = 0.0) -> Iterator[pa.RecordBatch | Punctuation]:
        """The results that are ready."""

    @abstractmethod
    def stats(self) -> dict[str, Any]:
        """Metrics so far."""

    def _repr_html_(self) -> str:
        stats, state = self.stats(), "closed" if self.closed else "open"
        sides = {
            side: f"{stats[side]['pushed']:,} tuples pushed, {stats[side]['window']:,} in the window, "
            f"{stats[side]['late']:,} late"
            for side in "rs"
        }
        return html_table(
            {"join": f"{stats['algorithm']}, access by {stats['access']}, {state}"}
            | sides
            | {"results": f"{stats['results']:,}", "columns": ", ".join(self.schema.names)}
        )

    def __iter__(self) -> Iterator[pa.RecordBatch | Punctuation]:
        """All results, until another thread has closed the join and the last one was returned."""
        while True:
            over = self.closed  # read before the poll, which then finds everything that was ready at that time
            yield from self.poll(0.0 if over else WAIT)
            if over:
                return

    async def results(self) -> AsyncIterator[pa.RecordBatch | Punctuation]:
        """The same for `async for`. Other tasks run while there are no results; a cancelled loop loses none.

        >>> import asyncio, pyarrow as pa, streamjoin as sj
        >>> schema = pa.schema({"ts": pa.int64(), "x": pa.int32()})
        >>> async def main():
        ...     with sj.Join(r=schema, s=schema, on="abs(r.x - s.x) <= 10", within=60, time="ts") as join:
        ...         join.push_r({"ts": [1], "x": [5]})
        ...         join.push_s({"ts": [2], "x": [7]})
        ...     return [batch.num_rows async for batch in join.results()]
        >>> asyncio.run(main())
        [1]
        """
        idle = 0
        while True:
            over, found = self.closed, False
            for item in self.poll():
                found = True
                yield item
            if over:
                return
            idle = 0 if found else min(idle + 1, len(NAPS) - 1)
            await asyncio.sleep(NAPS[idle])

    def to_arrow(self) -> pa.Table:
        """All results that are ready, as one Arrow table."""
        batches = [item for item in self.poll() if not isinstance(item, Punctuation)]
        return pa.Table.from_batches(batches, self.schema)

    def to_pandas(self) -> Any:
        """All results that are ready, as a pandas DataFrame."""
        _installed("pandas", "to_pandas() needs pandas: pip install pandas")  # before results are taken
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """All results that are ready, as a Polars DataFrame."""
        pl = _installed("polars", "to_polars() needs Polars: pip install polars")
        return pl.from_arrow(self.to_arrow())


def _installed(name: str, otherwise: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(otherwise) from error
