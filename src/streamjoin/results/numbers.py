"""Numbers of tuples in results: of those that take part in the join, of nobody, and of those that stand aside.

Tuples that cannot match anything, by themselves, do not take part in the join. If they come out nevertheless, they have
numbers of their own, which count down in results.
"""

from __future__ import annotations

from typing import TypeVar

from streamjoin.codegen.records import Array

NOBODY = -1  # the partner that is missing

Numbers = TypeVar("Numbers", int, Array)


def aside(numbers: Numbers) -> Numbers:
    """The number that stands in results for a tuple that stands aside, and back.

    >>> aside(0), aside(7), aside(aside(7))
    (-2, -9, 7)
    """
    return NOBODY - 1 - numbers
