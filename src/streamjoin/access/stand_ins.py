"""Stand-ins for what a generated module puts in front of a kernel's text, so that kernels are plain Python."""

from __future__ import annotations

from typing import Any

from streamjoin.codegen.jit import njit

DIMS = 2  # of the boxes that a scan looks at
GUARDED = False  # may the predicate be evaluated only for pairs in the window?
WIDE = False  # are ranges long with few matches, because no access path narrows the candidates?


@njit
def probing_columns(address: Any) -> tuple[Any, ...]:
    """The columns that the predicate reads of arrivals, from the address of their Column records."""
    return ()


@njit
def stored_columns(address: Any) -> tuple[Any, ...]:
    """The same for stored tuples."""
    return ()


@njit
def matches(p: Any, i: Any, w: Any, j: Any, fault: Any) -> bool:
    """The predicate on probing tuple i of columns p and stored tuple j of columns w."""
    return True


@njit
def fetch(w: Any, j: Any) -> None:
    """Prefetches the columns of stored tuple j."""
