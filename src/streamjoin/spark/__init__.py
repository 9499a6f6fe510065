"""Joins of Spark DataFrames on a cluster, with the same predicates, windows and kernels as in one process."""

from __future__ import annotations

from typing import Any

from streamjoin.keywords import takes
from streamjoin.options import Options


@takes(Options)
def join(df_r: Any, df_s: Any, options: Options) -> Any:
    """Joins two Spark DataFrames under a predicate and within a window; see `streamjoin.join`.

    {options}
    """
    try:
        from streamjoin.spark.dataframes import join_frames
    except ModuleNotFoundError as error:
        raise ImportError(
            f"joins of Spark DataFrames need {error.name}, which is not installed: pip install 'streamjoin[spark]'"
        ) from error

    return join_frames(df_r, df_s, options)
