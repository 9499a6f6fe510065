"""What a generated module puts in front of a kernel's text. Here: stand-ins, so that kernels read as plain Python."""

from __future__ import annotations

from typing import Any

from streamjoin.codegen.jit import njit

DIMS = 2  # of the boxes that a scan looks at
GUARDED = False  # is the predicate to be asked only about pairs in the window?
WIDE = False  # does no access path narrow the candidates down, so that ranges are long and matches few?


@njit
def probing_columns(address: Any) -> tuple[Any, ...]:
    """What the predicate reads of arrivals, from the address of their Column records."""
    return ()


@njit
def stored_columns(address: Any) -> tuple[Any, ...]:
    """The same of stored tuples."""
    return ()


@njit
def matches(p: Any, i: Any, w: Any, j: Any, fault: Any) -> bool:
    """The predicate on probing tuple i of columns p and stored tuple j of columns w."""
    return True


@njit
def fetch(w: Any, j: Any) -> None:
    """Asks for what the predicate reads of stored tuple j."""
