"""Predicates on all pairs of two small tables: many at once, in one generated module. For checking, not for joining."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from streamjoin.core.analysis import analyse
from streamjoin.core.cache import load_module
from streamjoin.core.codegen import CACHED, HEAD, INLINE, Program
from streamjoin.core.columns import physical_columns
from streamjoin.core.intake import overflow
from streamjoin.core.kernels.layout import TROUBLE_FIELDS, Array
from streamjoin.core.predicate.resolve import resolve
from streamjoin.core.tree import Node, to_sql

_EVALUATE = """
{cached}
def evaluate_{k}(entry_r, keep_r, lo_r, hi_r, key_r, entry_s, keep_s, lo_s, hi_s, key_s, r, s, origin, truth, trouble):
    prepare_r_{k}(entry_r, len(keep_r), origin, keep_r, lo_r, hi_r, key_r, trouble)
    prepare_s_{k}(entry_s, len(keep_s), origin, keep_s, lo_s, hi_s, key_s, trouble)
    for i in range(len(keep_r)):
        for j in range(len(keep_s)):
            if keep_r[i] and keep_s[j]:
                truth[i, j] = match_{k}(r, i, s, j, trouble)

"""


def evaluate_all(
    trees: list[Node], schema_r: pa.Schema, schema_s: pa.Schema, table_r: pa.Table, table_s: pa.Table
) -> list[Array]:
    """The truth of every predicate for every pair of rows, as boolean matrices (rows of r by rows of s).

    Raises DataError if a predicate overflows for some pair, as a join would; AssertionError if a pair matches whose
    boxes or keys deny it, since then some access path would miss it.
    """
    programs = [Program(analyse(resolve(tree, schema_r, schema_s))) for tree in trees]
    source = HEAD
    for k, program in enumerate(programs):
        source += program.match_text("r").replace("def match(", f"def match_{k}(")
        for side in "rs":
            text = program.prepare_text(side).replace(CACHED, INLINE)
            source += text.replace("def prepare(", f"def prepare_{side}_{k}(")
        source += _EVALUATE.format(cached=CACHED, k=k)
    module = load_module(source)
    tables = {"r": table_r, "s": table_s}
    return [_truth(program, getattr(module, f"evaluate_{k}"), tables) for k, program in enumerate(programs)]


def _truth(program: Program, evaluate: Callable[..., None], tables: dict[str, pa.Table]) -> Array:
    dims = len(program.dimensions)
    arguments, stored, prepared = [], {}, {}
    for side, table in tables.items():
        n = table.num_rows
        keep, key = np.zeros(n, np.bool_), np.zeros(n, np.uint32)
        lo, hi = np.zeros((dims, n), np.float32), np.zeros((dims, n), np.float32)
        entry = physical_columns(table, program.entry[side], side)
        stored[side] = physical_columns(table, program.stored[side], side)
        prepared[side] = (lo, hi, key)
        arguments += [entry or (keep,), keep, lo, hi, key]
    truth = np.zeros((tables["r"].num_rows, tables["s"].num_rows), np.bool_)
    trouble = np.zeros(TROUBLE_FIELDS, np.int64)
    evaluate(*arguments, stored["r"], stored["s"], np.zeros(dims), truth, trouble)
    if trouble[0]:
        rows = dict(zip("rs", trouble[1:], strict=True))
        found = {s: (program.stored[s], tuple(column[rows[s]] for column in stored[s])) for s in "rs"}
        raise overflow(program, int(trouble[0]), found)
    (lo_r, hi_r, key_r), (lo_s, hi_s, key_s) = prepared["r"], prepared["s"]
    touch = ((lo_r[:, :, None] <= hi_s[:, None, :]) & (lo_s[:, None, :] <= hi_r[:, :, None])).all(axis=0)
    touch &= key_r[:, None] == key_s[None, :]
    assert not (truth & ~touch).any(), f"boxes or keys deny a match of {to_sql(program.analysis.tree)}"
    return truth
