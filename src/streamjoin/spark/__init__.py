"""Joins on a cluster: the same predicate, window and kernels as elsewhere, over Spark DataFrames."""

from __future__ import annotations

from typing import Any

from streamjoin.options import Options, takes


@takes(Options)
def join(df_r: Any, df_s: Any, options: Options) -> Any:
    """Joins two Spark DataFrames under a predicate and within a window; see `streamjoin.join`.

    cells          how many parts the work is cut into; docs/spark.md has the default; fixed by a stream's first start
    split          into how many cells a single key or bucket is cut, so that a hot one is not left to one core;
                   1 saves the replication where the values are known to be even
    bucket         the width of a range bucket on the first band; by default four times the width of the band
    rate           tuples per second, one number or one per side: shapes the grid, and `explain` estimates the state
    result_time    the name of an extra column, max(r.time, s.time), which carries the watermark further downstream
    """
    from streamjoin.spark.dataframes import join_frames

    return join_frames(df_r, df_s, options)
