"""The least that a stateful Python operator of Spark costs: it keeps one number per key and hands out nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle


class Nothing(StatefulProcessor):
    """Counts rows."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "n BIGINT")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        seen = self._count.get()
        self._count.update(((seen[0] if seen else 0) + sum(1 for _ in rows),))
        return iter(())

    def close(self) -> None:
        pass
