"""The one call that joins whatever it is given."""

from __future__ import annotations

from typing import Any


def join(
    left: Any,
    right: Any,
    *,
    on: Any,
    within: Any,
    time: Any = None,
    how: str = "inner",
    algorithm: str = "auto",
    access: str = "auto",
    workers: int | str = "auto",
    layout: Any = "auto",
    ordered: bool = False,
    suffixes: Any = ("_r", "_s"),
    stats: dict[str, Any] | None = None,
) -> Any:
    """Joins two tables under a predicate and within a window; the result is a table of the same kind.

    left, right   Arrow tables or record batches, pandas or Polars DataFrames: r and s in the predicate
    on            the predicate: SQL text, an expression of streamjoin.r and streamjoin.s, or a function of two tuples
    within        the window: "15 minutes", an integer, interval(), last() or tumbling()
    time          the time column, or one of each side
    algorithm     "auto": the tables as a whole, on one core; a parallel algorithm ("cell", "biclique", "handshake",
                  "low_latency", "grid") with so many workers takes their rows as a stream
    ordered       results by time, which is the later one of the pair's two
    suffixes      for column names that both sides have; None makes them an error
    stats         a dict to be filled with what was done: algorithm, access, comparisons

    >>> import pyarrow as pa, streamjoin as sj
    >>> trades = pa.table({"ts": [1, 2, 30], "price": [10.0, 20.0, 10.2]})
    >>> quotes = pa.table({"ts": [3, 4], "bid": [9.9, 19.0], "ask": [10.1, 21.0]})
    >>> sj.join(trades, quotes, on="r.price BETWEEN s.bid AND s.ask", within=10, time="ts", ordered=True).to_pylist()
    [{'ts_r': 1, 'price': 10.0, 'ts_s': 3, 'bid': 9.9, 'ask': 10.1}, \
{'ts_r': 2, 'price': 20.0, 'ts_s': 4, 'bid': 19.0, 'ask': 21.0}]
    """
    from streamjoin.embedded.tables import join_tables

    return join_tables(
        left,
        right,
        on=on,
        within=within,
        time=time,
        how=how,
        algorithm=algorithm,
        access=access,
        workers=workers,
        layout=layout,
        ordered=ordered,
        suffixes=suffixes,
        stats=stats,
    )
