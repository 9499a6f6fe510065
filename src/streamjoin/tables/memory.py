"""Memory for whole tables, from Arrow's pool, which keeps what was given back: no new pages for the next array."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamjoin.codegen.records import Array

SMALL = 1 << 16  # bytes that NumPy allocates as quickly


def room(n: int, dtype: npt.DTypeLike = np.float64) -> Array:
    """An uninitialised array of this many values.

    >>> room(3, np.uint32).dtype, len(room(100_000))
    (dtype('uint32'), 100000)
    """
    kind: np.dtype[Any] = np.dtype(dtype)
    if n * kind.itemsize < SMALL:
        return np.empty(n, kind)
    return np.frombuffer(pa.allocate_buffer(n * kind.itemsize), kind)
