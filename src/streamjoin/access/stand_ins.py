"""What a generated module puts in front of a kernel's text. Here: stand-ins, so that kernels read as plain Python."""

from __future__ import annotations

from typing import Any

from streamjoin.codegen.jit import njit

DIMS = 2  # of the boxes that a scan looks at
GUARDED = False  # is the predicate to be asked only about pairs in the window?


@njit
def match(p: Any, i: Any, w: Any, j: Any, trouble: Any) -> bool:
    """The exact predicate on probing tuple i of columns p and stored tuple j of columns w."""
    return True


@njit
def fetch(w: Any, j: Any) -> None:
    """Asks for what the predicate reads of stored tuple j."""
