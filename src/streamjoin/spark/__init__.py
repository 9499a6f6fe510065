"""Joins on a cluster: the same predicate, window and kernels as elsewhere, over Spark DataFrames."""

from __future__ import annotations

from typing import Any


def join(
    df_r: Any,
    df_s: Any,
    *,
    on: Any,
    within: Any,
    time: Any,
    how: str = "inner",
    access: str = "auto",
    cells: int | None = None,
    split: int | None = None,
    bucket: float | None = None,
    expected_rate: Any = None,
    suffixes: Any = ("_r", "_s"),
    result_time: str | None = None,
) -> Any:
    """Joins two Spark DataFrames under a predicate and within a window; see `streamjoin.join`.

    cells          how many parts the work is cut into; docs/spark.md has the default; fixed by a stream's first start
    split          into how many cells a single key or bucket is cut, so that a hot one is not left to one core;
                   1 saves the replication where the values are known to be even
    bucket         the width of a range bucket on the first band; by default four times the width of the band
    expected_rate  tuples per second, one number or one per side: shapes the grid, and `explain` estimates the state
    result_time    the name of an extra column, max(r.time, s.time), which carries the watermark further downstream
    """
    from streamjoin.spark.dataframes import join_frames

    return join_frames(
        df_r,
        df_s,
        on=on,
        within=within,
        time=time,
        how=how,
        access=access,
        cells=cells,
        split=split,
        bucket=bucket,
        expected_rate=expected_rate,
        suffixes=suffixes,
        result_time=result_time,
    )
