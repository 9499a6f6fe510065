"""What a first join of two tables calls: named before it begins, so that two cores compile it where it is missing."""

from __future__ import annotations

from streamjoin.codegen.jit import expect
from streamjoin.codegen.pairs import PairProgram
from streamjoin.tables.keys import end_keys, make_keys, widest
from streamjoin.tables.sort import sort_words
from streamjoin.tables.sweep import scan
from streamjoin.tables.take import take_values


def expect_kernels(program: PairProgram) -> None:
    """Names them in the order of their calls. The form of the exact test is not known yet: it is not among them."""
    bounds = (program.bounds(side).bounds for side in "rs")
    expect((*bounds, widest, make_keys, sort_words, end_keys, take_values, scan))
